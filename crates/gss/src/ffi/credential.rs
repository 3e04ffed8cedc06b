//! Credentials from a credential store, which names the keytab and the cache instead of the
//! environment.

use std::ffi::CString;
use std::ptr;

use super::name::Name;
use super::raw;
use super::status::check;
use crate::error::{GssError, Status, major};

/// What a credential is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// To accept contexts.
    Accept,
    /// To initiate contexts.
    Initiate,
}

/// The pairs of a credential store: `keytab`, `ccache`, `client_keytab`, `rcache`.
#[derive(Default)]
pub struct Store(Vec<(CString, CString)>);

impl Store {
    /// Adds a pair.
    ///
    /// # Errors
    /// `Other` when the value has a NUL byte, which no file name can have.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self, GssError> {
        let text = |s: &str| {
            CString::new(s).map_err(|_| {
                let text = format!("a NUL byte in {s:?}");
                GssError::Other(Status { major: major::FAILURE, minor: 0, text })
            })
        };
        self.0.push((text(key)?, text(value)?));
        Ok(self)
    }
}

/// A credential the library has made; released with it.
pub struct Cred(pub(super) raw::CredId);

// SAFETY: MIT's credentials carry a mutex of their own and no thread-local state: any thread may
// use one.
unsafe impl Send for Cred {}

impl Cred {
    /// Acquires a credential of the Kerberos mechanism; without a name any that the store has.
    pub fn acquire(name: Option<&Name>, usage: Usage, store: &Store) -> Result<Self, GssError> {
        let pairs: Vec<raw::KeyValue> =
            store.0.iter().map(|(k, v)| raw::KeyValue { key: k.as_ptr(), value: v.as_ptr() }).collect();
        let set =
            raw::KeyValueSet { count: u32::try_from(pairs.len()).unwrap_or(0), elements: pairs.as_ptr() };
        let usage = if usage == Usage::Accept { raw::C_ACCEPT } else { raw::C_INITIATE };
        let name = name.map_or(ptr::null_mut(), |n| n.0);
        let mut cred = ptr::null_mut();
        let mut minor = 0;
        // SAFETY: the set, its pairs and their strings live until the call returns and are copied
        // by it; the mechanism set points to a static of the library; outputs are live locals or
        // null where allowed.
        let major = unsafe {
            let mechs = raw::OidSetDesc { count: 1, elements: raw::gss_mech_krb5 };
            raw::gss_acquire_cred_from(
                &raw mut minor,
                name,
                raw::C_INDEFINITE,
                &raw const mechs,
                usage,
                if pairs.is_empty() { ptr::null() } else { &raw const set },
                &raw mut cred,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(major, minor)?;
        Ok(Self(cred))
    }
}

impl Drop for Cred {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credential came from the library and is released once; null is allowed.
        unsafe { raw::gss_release_cred(&raw mut minor, &raw mut self.0) };
    }
}
