//! Buffers of the library, and the messages for its status codes.

use std::ptr;

use super::raw;
use crate::error::{GssError, Status, major};

/// The most messages read for one code; more would mean an endless loop.
const MESSAGES_MAX: usize = 8;

/// A buffer that the library allocates, freed on drop.
pub(super) struct Owned(pub raw::Buffer);

impl Owned {
    pub(super) fn new() -> Self {
        Self(raw::Buffer::empty())
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        if self.0.value.is_null() || self.0.length == 0 {
            return &[];
        }
        // SAFETY: the library filled the buffer: `value` points to `length` initialised bytes,
        // valid until gss_release_buffer, which only `drop` calls.
        unsafe { std::slice::from_raw_parts(self.0.value.cast::<u8>(), self.0.length) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty or was filled by the library, and is released once.
        unsafe { raw::gss_release_buffer(&raw mut minor, &raw mut self.0) };
    }
}

/// Returns an error unless `major` is a success, possibly with supplementary bits such as
/// CONTINUE_NEEDED.
pub(super) fn check(major: u32, minor: u32) -> Result<(), GssError> {
    if major & (major::ROUTINE_MASK | major::CALLING_MASK) == 0 { Ok(()) } else { Err(error(major, minor)) }
}

/// Makes the error for a failed call. Call it on the same thread, before any other call.
///
/// The library keeps the text of a minor code in thread-local storage; the codes alone say less.
pub(super) fn error(major: u32, minor: u32) -> GssError {
    let mut parts = Vec::new();
    if minor != 0 {
        display(minor, raw::C_MECH_CODE, &mut parts);
    }
    parts.retain(|part| is_reason(part));
    // The text of GSS_S_FAILURE is "Unspecified GSS failure", which adds no information to a minor
    // text.
    if parts.is_empty() || major & major::ROUTINE_MASK != major::FAILURE {
        display(major, raw::C_GSS_CODE, &mut parts);
        parts.retain(|part| is_reason(part));
    }
    if parts.is_empty() {
        let codes = crate::Codes { major, minor };
        parts.push(format!("the library gives no reason: {codes}"));
    }
    GssError::classify(Status { major, minor, text: parts.join("; ") })
}

/// Returns whether a message gives the reason of a failure. Some failure codes have the text of
/// success, and the text of GSS_S_FAILURE refers to a minor code, which may be 0.
fn is_reason(message: &str) -> bool {
    !matches!(message, "" | "Success" | "No error" | "The routine completed successfully")
        && !message.starts_with("Unspecified GSS failure")
}

fn display(code: u32, kind: std::ffi::c_int, parts: &mut Vec<String>) {
    let mut more = 0;
    for _ in 0..MESSAGES_MAX {
        let mut text = Owned::new();
        let mut minor = 0;
        // SAFETY: all pointers are to live locals; the mechanism's OID is a static of the library,
        // or null for codes of GSS-API itself.
        let result = unsafe {
            let mech = if kind == raw::C_MECH_CODE { raw::gss_mech_krb5 } else { ptr::null() };
            raw::gss_display_status(&raw mut minor, code, kind, mech, &raw mut more, &raw mut text.0)
        };
        if result & (major::ROUTINE_MASK | major::CALLING_MASK) != 0 {
            return;
        }
        parts.push(String::from_utf8_lossy(text.as_slice()).trim_end_matches(['.', ' ']).to_owned());
        if more == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_is_explained_by_success() {
        // Codes of no table, of the operating system, and of MIT's own tables.
        let minors = [0, 1, 22, 100_000, u32::MAX, 0x96c7_3a00, 0x96c7_3a25, 0x025e_a100];
        for major in [major::FAILURE, major::DEFECTIVE_TOKEN, major::NO_CRED, 0, 1 << 24, 15 << 16] {
            for minor in minors {
                let text = error(major, minor).to_string();
                assert!(
                    !text.contains("Success") && !text.contains("success"),
                    "{major:x} {minor:x}: {text}"
                );
                assert!(!text.contains("Unspecified"), "{major:x} {minor:x}: {text}");
                assert!(!text.contains("()") && !text.ends_with(": "), "{major:x} {minor:x}: {text}");
            }
        }
        assert!(error(0, 0).to_string().contains("major 0x0"));
    }
    #[test]
    fn a_minor_code_is_named_once() {
        for (minor, name) in [
            (0x96c7_3a25, "KRB5KRB_AP_ERR_SKEW"),
            (0x96c7_3ae6, "KRB5_KT_KVNONOTFOUND"),
            (0x025e_a101, "KG_KEYTAB_NOMATCH"),
        ] {
            let said = error(major::FAILURE, minor).to_string();
            assert_eq!(said.matches(name).count(), 1, "{minor:x}: {said}");
        }
    }
}
