//! Loads a library and finds its functions.

/// The reason why a library of Ceph cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LibraryError {
    /// The dynamic loader does not find the library, or one that it depends on.
    #[error(
        "{file} cannot be loaded ({reason}); exports and clusters over Ceph need it: install the package {package} (Debian and RPM have it)"
    )]
    Missing {
        /// The file name of the library.
        file: &'static str,
        /// The package that contains it.
        package: &'static str,
        /// The message of the loader.
        reason: String,
    },
    /// The library lacks a function that is required.
    #[error(
        "{file} lacks the function {symbol}; version {needed} or later is required: upgrade the package {package}"
    )]
    Symbol {
        /// The file name of the library.
        file: &'static str,
        /// The package that contains it.
        package: &'static str,
        /// The function that it lacks.
        symbol: &'static str,
        /// The first version that is supported.
        needed: u32,
    },
    /// The library says that its version is too old.
    #[error("{file} is of version {version}; {needed} or later is required: upgrade the package {package}")]
    TooOld {
        /// The file name of the library.
        file: &'static str,
        /// The package that contains it.
        package: &'static str,
        /// The version of the library.
        version: String,
        /// The first version that is supported.
        needed: u32,
    },
}

/// Declares a table of the functions of a library, and how to load it.
///
/// `required` functions are in every supported version; `optional` ones are `None` where the
/// library lacks them.
macro_rules! library {
    (
        $(#[$about:meta])* struct $name:ident { file: $file:literal, package: $package:literal, needed: $needed:literal }
        required { $(fn $required:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }
        optional { $(fn $optional:ident($($more:ty),* $(,)?) $(-> $returned:ty)?;)* }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $name {
            $(pub(crate) $required: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(crate) $optional: Option<unsafe extern "C" fn($($more),*) $(-> $returned)?>,)*
        }

        #[allow(dead_code, reason = "not every library tells its version")]
        impl $name {
            pub(crate) const FILE: &'static str = $file;
            pub(crate) const PACKAGE: &'static str = $package;
            /// The first version that is supported.
            pub(crate) const NEEDED: u32 = $needed;

            /// Loads the library for the rest of the process' life.
            pub(crate) fn find() -> Result<Self, $crate::LibraryError> {
                let missing = |error: libloading::Error| {
                    let reason = error.to_string();
                    $crate::LibraryError::Missing { file: $file, package: $package, reason }
                };
                // SAFETY: the file is a library of the system, which trusts its initialisers.
                let library = unsafe { libloading::Library::new($file) }.map_err(missing)?;
                let table = Self {
                    $(
                        // SAFETY: the declaration is that of the library's header.
                        $required: *unsafe { library.get(stringify!($required)) }.map_err(|_| {
                            let symbol = stringify!($required);
                            $crate::LibraryError::Symbol { file: $file, package: $package, symbol, needed: $needed }
                        })?,
                    )*
                    $(
                        // SAFETY: the declaration is that of the library's header.
                        $optional: unsafe { library.get(stringify!($optional)) }.ok().map(|found| *found),
                    )*
                };
                // Its threads and the pointers above live on.
                std::mem::forget(library);
                Ok(table)
            }
        }
    };
}
pub(crate) use library;
