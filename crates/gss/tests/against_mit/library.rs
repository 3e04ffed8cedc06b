//! One side of a context inside MIT's library: establishment and per-message calls.
#![allow(unsafe_code, reason = "C functions of MIT's library")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

#[repr(C)]
struct GssBuffer {
    length: usize,
    value: *mut c_void,
}

#[repr(C)]
struct GssOid {
    length: u32,
    elements: *const c_void,
}

#[link(name = "gssapi_krb5")]
unsafe extern "C" {
    static gss_mech_krb5: *const GssOid;
    static GSS_C_NT_HOSTBASED_SERVICE: *const GssOid;

    fn krb5_gss_register_acceptor_identity(keytab: *const c_char) -> u32;
    fn gss_import_name(
        minor: *mut u32,
        text: *const GssBuffer,
        kind: *const GssOid,
        name: *mut *mut c_void,
    ) -> u32;
    fn gss_init_sec_context(
        minor: *mut u32,
        cred: *mut c_void,
        context: *mut *mut c_void,
        target: *mut c_void,
        mech: *const GssOid,
        flags: u32,
        time: u32,
        bindings: *const c_void,
        input: *const GssBuffer,
        actual: *mut *const GssOid,
        output: *mut GssBuffer,
        ret_flags: *mut u32,
        time_rec: *mut u32,
    ) -> u32;
    fn gss_accept_sec_context(
        minor: *mut u32,
        context: *mut *mut c_void,
        cred: *mut c_void,
        input: *const GssBuffer,
        bindings: *const c_void,
        peer: *mut *mut c_void,
        mech: *mut *const GssOid,
        output: *mut GssBuffer,
        flags: *mut u32,
        time: *mut u32,
        delegated: *mut *mut c_void,
    ) -> u32;
    fn gss_delete_sec_context(minor: *mut u32, context: *mut *mut c_void, output: *mut GssBuffer) -> u32;
    fn gss_wrap(
        minor: *mut u32,
        context: *mut c_void,
        confidential: c_int,
        qop: u32,
        input: *const GssBuffer,
        was_confidential: *mut c_int,
        output: *mut GssBuffer,
    ) -> u32;
    fn gss_unwrap(
        minor: *mut u32,
        context: *mut c_void,
        input: *const GssBuffer,
        output: *mut GssBuffer,
        was_confidential: *mut c_int,
        qop: *mut u32,
    ) -> u32;
    fn gss_get_mic(
        minor: *mut u32,
        context: *mut c_void,
        qop: u32,
        message: *const GssBuffer,
        token: *mut GssBuffer,
    ) -> u32;
    fn gss_verify_mic(
        minor: *mut u32,
        context: *mut c_void,
        message: *const GssBuffer,
        token: *const GssBuffer,
        qop: *mut u32,
    ) -> u32;
    fn gss_release_name(minor: *mut u32, name: *mut *mut c_void) -> u32;
    fn gss_release_buffer(minor: *mut u32, buffer: *mut GssBuffer) -> u32;
}

const MUTUAL: u32 = 2;
const CONFIDENTIAL: u32 = 16;
const INTEGRITY: u32 = 32;
const CONTINUE_NEEDED: u32 = 1;

impl GssBuffer {
    const EMPTY: Self = Self { length: 0, value: ptr::null_mut() };

    /// Lends bytes to a call that only reads them.
    fn lend(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }

    /// Copies a buffer of the library and frees it.
    fn take(mut self) -> Vec<u8> {
        if self.value.is_null() {
            return Vec::new();
        }
        // SAFETY: the library filled `length` bytes at `value`; they are copied, then released
        // once.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.value.cast::<u8>(), self.length).to_vec();
            gss_release_buffer(&mut 0, &mut self);
            bytes
        }
    }
}

fn succeeded(call: &str, major: u32, minor: u32) {
    assert!(major <= CONTINUE_NEEDED, "{call}: major {major:#x}, minor {minor:#x}");
}

/// A context of the library. It must not be used by two threads at once, which `&mut self` ensures.
pub(crate) struct MitContext(*mut c_void);

impl MitContext {
    /// Starts a context with a service as the user of the default cache. Returns the first token.
    pub(crate) fn initiate(target: &str) -> (Self, Vec<u8>) {
        let mut context = Self(ptr::null_mut());
        let token = context.step(target, &[]);
        (context, token)
    }

    /// Takes the acceptor's answer.
    pub(crate) fn finish(&mut self, target: &str, token: &[u8]) {
        assert_eq!(self.step(target, token), Vec::<u8>::new());
    }

    fn step(&mut self, target: &str, token: &[u8]) -> Vec<u8> {
        let (mut minor, mut name, mut output) = (0, ptr::null_mut(), GssBuffer::EMPTY);
        // SAFETY: all pointers are to live locals, or null where the call allows it; buffers lend
        // bytes that outlive the calls; the name is released once.
        unsafe {
            let text = GssBuffer::lend(target.as_bytes());
            let major = gss_import_name(&mut minor, &text, GSS_C_NT_HOSTBASED_SERVICE, &mut name);
            succeeded("gss_import_name", major, minor);
            let major = gss_init_sec_context(
                &mut minor,
                ptr::null_mut(),
                &mut self.0,
                name,
                gss_mech_krb5,
                MUTUAL | CONFIDENTIAL | INTEGRITY,
                0,
                ptr::null(),
                &GssBuffer::lend(token),
                ptr::null_mut(),
                &mut output,
                ptr::null_mut(),
                ptr::null_mut(),
            );
            succeeded("gss_init_sec_context", major, minor);
            gss_release_name(&mut minor, &mut name);
        }
        output.take()
    }

    /// Accepts a context with a keytab. Returns the answer.
    pub(crate) fn accept(keytab: &Path, token: &[u8]) -> (Self, Vec<u8>) {
        let keytab = CString::new(keytab.to_str().expect("UTF-8")).expect("no NUL");
        let mut context = Self(ptr::null_mut());
        let (mut minor, mut output) = (0, GssBuffer::EMPTY);
        // SAFETY: as above; the library copies the path of the keytab.
        unsafe {
            let major = krb5_gss_register_acceptor_identity(keytab.as_ptr());
            succeeded("krb5_gss_register_acceptor_identity", major, 0);
            let major = gss_accept_sec_context(
                &mut minor,
                &mut context.0,
                ptr::null_mut(),
                &GssBuffer::lend(token),
                ptr::null(),
                ptr::null_mut(),
                ptr::null_mut(),
                &mut output,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            );
            succeeded("gss_accept_sec_context", major, minor);
        }
        (context, output.take())
    }

    /// Makes a wrap token, sealed or only signed.
    pub(crate) fn wrap(&mut self, message: &[u8], sealed: bool) -> Vec<u8> {
        let (mut minor, mut was_sealed, mut output) = (0, 0, GssBuffer::EMPTY);
        // SAFETY: the context is established; pointers are to live locals; the message outlives the
        // call.
        let major = unsafe {
            gss_wrap(
                &mut minor,
                self.0,
                sealed.into(),
                0,
                &GssBuffer::lend(message),
                &mut was_sealed,
                &mut output,
            )
        };
        succeeded("gss_wrap", major, minor);
        assert_eq!(was_sealed != 0, sealed);
        output.take()
    }

    /// Opens a sealed wrap token.
    pub(crate) fn unwrap(&mut self, token: &[u8]) -> Vec<u8> {
        let (mut minor, mut was_sealed, mut output) = (0, 0, GssBuffer::EMPTY);
        // SAFETY: as above.
        let major = unsafe {
            gss_unwrap(
                &mut minor,
                self.0,
                &GssBuffer::lend(token),
                &mut output,
                &mut was_sealed,
                ptr::null_mut(),
            )
        };
        succeeded("gss_unwrap", major, minor);
        assert_eq!(was_sealed, 1);
        output.take()
    }

    /// Makes a MIC token.
    pub(crate) fn mic(&mut self, message: &[u8]) -> Vec<u8> {
        let (mut minor, mut output) = (0, GssBuffer::EMPTY);
        // SAFETY: as above.
        let major = unsafe { gss_get_mic(&mut minor, self.0, 0, &GssBuffer::lend(message), &mut output) };
        succeeded("gss_get_mic", major, minor);
        output.take()
    }

    /// Checks a MIC token.
    pub(crate) fn verify(&mut self, message: &[u8], token: &[u8]) {
        let mut minor = 0;
        // SAFETY: as above.
        let major = unsafe {
            gss_verify_mic(
                &mut minor,
                self.0,
                &GssBuffer::lend(message),
                &GssBuffer::lend(token),
                ptr::null_mut(),
            )
        };
        succeeded("gss_verify_mic", major, minor);
    }
}

impl Drop for MitContext {
    fn drop(&mut self) {
        // SAFETY: the context is null or came from the library, and is deleted once.
        unsafe { gss_delete_sec_context(&mut 0, &mut self.0, ptr::null_mut()) };
    }
}
