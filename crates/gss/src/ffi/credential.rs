//! Credentials from a credential store, which names keytab and cache explicitly, not by the
//! environment.

use std::ffi::{CStr, CString};
use std::ptr;

use super::name::GssName;
use super::raw;
use super::status::check;
use crate::error::{GssError, Status, major};

/// The purpose of a credential.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// For accepting contexts, with a keytab.
    Accept,
    /// For initiating contexts, with a ticket.
    Initiate,
}

/// The key-value pairs of a credential store: `keytab`, `ccache`, `client_keytab`, `rcache`.
#[derive(Default)]
pub(crate) struct Store(Vec<(CString, CString)>);

impl Store {
    /// Adds a pair to the store.
    ///
    /// # Errors
    /// `Other` if the value has a NUL byte, which no file name can have.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Result<Self, GssError> {
        let text = |s: &str| {
            CString::new(s).map_err(|_| {
                let text = format!("a NUL byte in {s:?}");
                GssError::Other(Status { major: major::FAILURE, minor: 0, text })
            })
        };
        self.0.push((text(key)?, text(value)?));
        Ok(self)
    }

    fn pairs(&self) -> Vec<raw::KeyValue> {
        self.0.iter().map(|(k, v)| raw::KeyValue { key: k.as_ptr(), value: v.as_ptr() }).collect()
    }

    /// Returns the set of pairs in the form of the library, for as long as `pairs` lives.
    fn set(pairs: &[raw::KeyValue]) -> raw::KeyValueSet {
        raw::KeyValueSet { count: u32::try_from(pairs.len()).unwrap_or(0), elements: pairs.as_ptr() }
    }
}

/// A credential of the library, released on drop.
pub(crate) struct Cred(pub(super) raw::CredId);

// SAFETY: MIT's credentials have their own mutex and no thread-local state, so any thread may use
// one.
unsafe impl Send for Cred {}

impl Cred {
    /// Writes the tickets of the credential to a store, and replaces those that it has.
    pub(crate) fn store_into(&self, store: &Store) -> Result<(), GssError> {
        let pairs = store.pairs();
        let set = Store::set(&pairs);
        let mut minor = 0;
        // SAFETY: the credential is live; the set, its pairs and their strings live until the call
        // returns; unwanted outputs are null.
        let major = unsafe {
            raw::gss_store_cred_into(
                &raw mut minor,
                self.0,
                raw::C_INITIATE,
                raw::gss_mech_krb5,
                1,
                0,
                &raw const set,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        check(major, minor)
    }

    /// Acquires a credential of the Kerberos mechanism. Without a name, takes any that the store
    /// has.
    pub(crate) fn acquire(name: Option<&GssName>, usage: Usage, store: &Store) -> Result<Self, GssError> {
        let pairs = store.pairs();
        let set = Store::set(&pairs);
        let usage = if usage == Usage::Accept { raw::C_ACCEPT } else { raw::C_INITIATE };
        let name = name.map_or(ptr::null_mut(), |n| n.0);
        let mut cred = ptr::null_mut();
        let mut minor = 0;
        // SAFETY: the set, its pairs and their strings live until the call returns, which copies
        // them; the mechanism set points to a static of the library; outputs are live locals, or
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

/// Removes a ticket cache, if there is one. A credential that uses it finds no ticket any more.
pub(crate) fn remove_cache(name: &CStr) {
    let (mut context, mut cache) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: outputs are live locals, and each is used only after the call that sets it has
    // succeeded; the name lives until the call returns, which copies it. The cache is freed by its
    // removal, also if that fails, and the context once.
    unsafe {
        if raw::krb5_init_context(&raw mut context) != 0 {
            return;
        }
        if raw::krb5_cc_resolve(context, name.as_ptr(), &raw mut cache) == 0 {
            raw::krb5_cc_destroy(context, cache);
        }
        raw::krb5_free_context(context);
    }
}

impl Drop for Cred {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credential came from the library and is released once; null is allowed.
        unsafe { raw::gss_release_cred(&raw mut minor, &raw mut self.0) };
    }
}
