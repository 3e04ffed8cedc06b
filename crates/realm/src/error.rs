//! The errors of a realm and their remedies.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A failure to create, open or remove a realm.
#[derive(Debug, thiserror::Error)]
pub enum RealmError {
    /// A program of MIT Kerberos is not installed.
    #[error("{tool} is not installed: apt install {package}")]
    Missing {
        /// The name of the program.
        tool: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// Another user could read or replace the realm's keys.
    #[error("no realm here: {0}")]
    NotPrivate(private::PrivateError),
    /// The folder contains other files.
    #[error("{} exists and is no realm of ours: give a new or an empty folder", .0.display())]
    Foreign(PathBuf),
    /// The folder already contains a realm.
    #[error("{} is a realm already: `orthrus realm down` removes it", .0.display())]
    Exists(PathBuf),
    /// The folder contains no realm.
    #[error("{} is no realm: it has no file {}", .0.display(), crate::MARKER)]
    NotARealm(PathBuf),
    /// The value of an option is not allowed.
    #[error("{what} {value:?}: {rule}")]
    Option {
        /// The name of the option.
        what: &'static str,
        /// The value that was given.
        value: String,
        /// The rule for valid values.
        rule: &'static str,
    },
    /// The requested address is in use, or no free port was found.
    #[error("no KDC can listen on {address}: {why}")]
    Listen {
        /// The address of the KDC.
        address: SocketAddr,
        /// The reason that the system or the KDC reports.
        why: String,
    },
    /// A program of MIT Kerberos failed.
    #[error("{tool} failed: {output}")]
    Tool {
        /// The name of the program.
        tool: &'static str,
        /// The end of its output.
        output: String,
    },
    /// Reading or writing a file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

// The message has that of the cause, so the cause is no source of its own.
impl From<private::PrivateError> for RealmError {
    fn from(error: private::PrivateError) -> Self {
        Self::NotPrivate(error)
    }
}

impl RealmError {
    /// Adds the path to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_private_is_named_once() {
        let error = RealmError::from(private::PrivateError::Link("/x".into()));
        assert!(error.to_string().contains("/x") && std::error::Error::source(&error).is_none());
    }
}
