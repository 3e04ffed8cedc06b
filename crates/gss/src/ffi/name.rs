//! Names of principals in the library.

use std::ptr;

use super::raw;
use super::status::{Owned, check};
use crate::error::{GssError, Status, major};

/// A name of the library, released on drop.
pub(crate) struct GssName(pub(super) raw::NameId);

// SAFETY: an MIT name is written only during its creation; the library locks its later caching.
unsafe impl Send for GssName {}

impl GssName {
    /// Imports `service@host` (RFC 2743 section 4.1).
    pub(crate) fn service(target: &str) -> Result<Self, GssError> {
        // SAFETY: reads a static of the library that is set at load time.
        Self::import(target.as_bytes(), unsafe { raw::GSS_C_NT_HOSTBASED_SERVICE })
    }

    /// Imports a Kerberos principal, `alice@EXAMPLE.ORG`, with `\` as escape (RFC 1964 section
    /// 2.1.1).
    pub(crate) fn principal(text: &str) -> Result<Self, GssError> {
        // SAFETY: reads a static of the library that is set at load time.
        Self::import(text.as_bytes(), unsafe { raw::gss_nt_krb5_name })
    }

    fn import(text: &[u8], kind: raw::Oid) -> Result<Self, GssError> {
        let buffer = raw::Buffer::lend(text);
        let mut name = ptr::null_mut();
        let mut minor = 0;
        // SAFETY: `buffer` lends bytes for the call, which copies them; the other pointers are live
        // locals.
        let major = unsafe { raw::gss_import_name(&raw mut minor, &raw const buffer, kind, &raw mut name) };
        check(major, minor)?;
        Ok(Self(name))
    }

    /// Returns an attribute that the KDC vouches for (RFC 6680 section 7.5); `None` if the name has
    /// none of this kind.
    pub(crate) fn attribute(&self, attribute: &str) -> Option<Vec<u8>> {
        let attribute = raw::Buffer::lend(attribute.as_bytes());
        let (mut value, mut display_value) = (Owned::new(), Owned::new());
        let (mut minor, mut authenticated, mut complete, mut more) = (0, 0, 0, -1);
        // SAFETY: the name is live; `attribute` lends bytes for the call; the outputs are live
        // locals that own what the library allocates.
        let major = unsafe {
            raw::gss_get_name_attribute(
                &raw mut minor,
                self.0,
                &raw const attribute,
                &raw mut authenticated,
                &raw mut complete,
                &raw mut value.0,
                &raw mut display_value.0,
                &raw mut more,
            )
        };
        check(major, minor).ok().filter(|()| authenticated != 0).map(|()| value.as_slice().to_vec())
    }

    /// Returns the principal as text, with its realm.
    ///
    /// # Errors
    /// `Other` for a name that is not UTF-8: a replacement could be the name of another principal.
    pub(crate) fn display(&self) -> Result<String, GssError> {
        let mut text = Owned::new();
        let mut minor = 0;
        // SAFETY: the name is live; `text` owns the memory that the library allocates.
        let major =
            unsafe { raw::gss_display_name(&raw mut minor, self.0, &raw mut text.0, ptr::null_mut()) };
        check(major, minor)?;
        String::from_utf8(text.as_slice().to_vec()).map_err(|_| {
            let text = "the name of the principal is not UTF-8".to_owned();
            GssError::Other(Status { major: major::BAD_NAME, minor: 0, text })
        })
    }
}

impl Drop for GssName {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name came from the library and is released once; null is allowed.
        unsafe { raw::gss_release_name(&raw mut minor, &raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_principals_never_have_one_name() {
        let display = |text: &[u8]| {
            // SAFETY: reads a static of the library that is set at load time.
            GssName::import(text, unsafe { raw::gss_nt_krb5_name })?.display()
        };
        assert_eq!(display("zo\u{eb}@REALM".as_bytes()).unwrap(), "zo\u{eb}@REALM");
        for odd in [&b"zo\xeb@REALM"[..], b"zo\xe8@REALM"] {
            assert!(matches!(display(odd), Err(GssError::Other(_))), "{odd:?}");
        }
    }
}
