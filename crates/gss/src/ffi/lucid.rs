//! The exported ("lucid") context, which has the keys in plain form until they have been derived
//! from.

use std::ffi::c_void;

use super::raw;
use crate::error::{GssError, Status, major};

/// An exported context. Dropping it makes the library wipe and free its keys.
pub(crate) struct Exported(*mut raw::LucidContext);

// SAFETY: an exported context is plain memory that only its owner refers to.
unsafe impl Send for Exported {}

impl Exported {
    /// Takes ownership of the result of `gss_krb5_export_lucid_sec_context` for version 1.
    pub(super) fn new(lucid: *mut c_void) -> Result<Self, GssError> {
        let exported = Self(lucid.cast());
        if lucid.is_null() || exported.get().version != raw::LUCID_VERSION {
            return Err(GssError::Other(Status {
                major: major::FAILURE,
                minor: 0,
                text: "this Kerberos library exports contexts in an unknown layout".to_owned(),
            }));
        }
        Ok(exported)
    }

    fn get(&self) -> &raw::LucidContext {
        // SAFETY: not null (`new`), made by the library in the layout of version 1, valid until
        // `drop`.
        unsafe { &*self.0 }
    }

    /// Returns the first sequence number of this side's tokens.
    pub(crate) fn send_sequence(&self) -> u64 {
        self.get().send_seq
    }

    /// Derives the keys of per-message tokens: from the acceptor's subkey if it asserted one, else
    /// from the initiator's subkey or the session key (RFC 4121 section 2).
    ///
    /// # Errors
    /// `EnctypeRefused` for RC4 and 3DES, whose contexts use the tokens of RFC 1964, and for all
    /// enctypes other than 17 to 20.
    pub(crate) fn keys(&self, role: krb5::Role) -> Result<(i32, krb5::ContextKeys), GssError> {
        let context = self.get();
        if context.protocol != raw::PROTOCOL_CFX {
            return Err(refused(context.rfc1964.ctx_key.etype, "its tokens are RFC 1964's"));
        }
        let has_acceptor_subkey = context.cfx.have_acceptor_subkey != 0;
        let key = if has_acceptor_subkey { &context.cfx.acceptor_subkey } else { &context.cfx.ctx_key };
        let etype = key.etype.cast_signed();
        let enctype =
            krb5::Enctype::from_etype(etype).ok_or_else(|| refused(key.etype, "not one of 17 to 20"))?;
        if key.data.is_null() {
            return Err(refused(key.etype, "the key is missing"));
        }
        // SAFETY: the library's key: `data` points to `length` bytes, valid as long as `self`.
        let bytes = unsafe { std::slice::from_raw_parts(key.data, key.length as usize) };
        let protocol_key = if has_acceptor_subkey {
            krb5::ProtocolKey::AcceptorSubkey(bytes)
        } else {
            krb5::ProtocolKey::InitiatorKey(bytes)
        };
        let keys = krb5::ContextKeys::new(enctype, protocol_key, role)
            .map_err(|e| refused(key.etype, &e.to_string()))?;
        Ok((etype, keys))
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if !self.0.is_null() {
            let mut minor = 0;
            // SAFETY: made by the library, freed once.
            unsafe { raw::gss_krb5_free_lucid_sec_context(&raw mut minor, self.0.cast()) };
        }
    }
}

fn refused(etype: u32, why: &str) -> GssError {
    let name = match etype {
        1..=4 => "single DES",
        5..=7 | 16 => "3DES",
        23 | 24 => "RC4",
        25 | 26 => "Camellia",
        17..=20 => "AES",
        _ => "unknown",
    };
    GssError::EnctypeRefused(Status {
        major: major::FAILURE,
        minor: 0,
        text: format!("enctype {etype}, {name}: {why}"),
    })
}
