//! Declarations of MIT Kerberos 1.18 and later: the C bindings of RFC 2744, the credential store
//! extension, the export of a context's keys and the removal of a cache. For x86-64 and AArch64
//! Linux.

use std::ffi::{c_char, c_int, c_void};

pub(super) type Major = u32;
pub(super) type CredId = *mut c_void;
pub(super) type CtxId = *mut c_void;
pub(super) type NameId = *mut c_void;
pub(super) type Krb5Context = *mut c_void;
pub(super) type Krb5Cache = *mut c_void;

#[repr(C)]
pub(super) struct Buffer {
    pub length: usize,
    pub value: *mut c_void,
}

impl Buffer {
    pub(super) const fn empty() -> Self {
        Self { length: 0, value: std::ptr::null_mut() }
    }

    /// Lends `bytes` to a call that only reads them; the C type lacks `const`.
    pub(super) const fn lend(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

#[repr(C)]
pub(super) struct OidDesc {
    pub length: u32,
    pub elements: *const c_void,
}
pub(super) type Oid = *const OidDesc;

#[repr(C)]
pub(super) struct OidSetDesc {
    pub count: usize,
    pub elements: Oid,
}

#[repr(C)]
pub(super) struct KeyValue {
    pub key: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
pub(super) struct KeyValueSet {
    pub count: u32,
    pub elements: *const KeyValue,
}

#[repr(C)]
pub(super) struct LucidKey {
    pub etype: u32,
    pub length: u32,
    pub data: *const u8,
}

#[repr(C)]
pub(super) struct LucidRfc1964 {
    pub sign_alg: u32,
    pub seal_alg: u32,
    pub ctx_key: LucidKey,
}

#[repr(C)]
pub(super) struct LucidCfx {
    pub have_acceptor_subkey: u32,
    pub ctx_key: LucidKey,
    pub acceptor_subkey: LucidKey,
}

/// The C struct `gss_krb5_lucid_context_v1_t`, with the exported keys.
#[repr(C)]
pub(super) struct LucidContext {
    pub version: u32,
    pub initiate: u32,
    pub endtime: u32,
    pub send_seq: u64,
    pub recv_seq: u64,
    pub protocol: u32,
    pub rfc1964: LucidRfc1964,
    pub cfx: LucidCfx,
}

pub(super) const PROTOCOL_CFX: u32 = 1;
pub(super) const LUCID_VERSION: u32 = 1;
pub(super) const C_INITIATE: c_int = 1;
pub(super) const C_ACCEPT: c_int = 2;
pub(super) const C_GSS_CODE: c_int = 1;
pub(super) const C_MECH_CODE: c_int = 2;
pub(super) const C_INDEFINITE: u32 = u32::MAX;
pub(super) const C_DELEG_FLAG: u32 = 1;
pub(super) const C_MUTUAL_FLAG: u32 = 2;
pub(super) const C_CONF_FLAG: u32 = 16;
pub(super) const C_INTEG_FLAG: u32 = 32;

#[link(name = "gssapi_krb5")]
unsafe extern "C" {
    pub(super) static gss_mech_krb5: Oid;
    pub(super) static gss_nt_krb5_name: Oid;
    pub(super) static GSS_C_NT_HOSTBASED_SERVICE: Oid;

    pub(super) fn gss_acquire_cred_from(
        minor: *mut u32,
        desired_name: NameId,
        time_req: u32,
        desired_mechs: *const OidSetDesc,
        usage: c_int,
        store: *const KeyValueSet,
        cred: *mut CredId,
        actual_mechs: *mut *mut OidSetDesc,
        time_rec: *mut u32,
    ) -> Major;
    pub(super) fn gss_store_cred_into(
        minor: *mut u32,
        cred: CredId,
        usage: c_int,
        mech: Oid,
        overwrite: u32,
        default: u32,
        store: *const KeyValueSet,
        elements_stored: *mut *mut OidSetDesc,
        usage_stored: *mut c_int,
    ) -> Major;
    pub(super) fn gss_release_cred(minor: *mut u32, cred: *mut CredId) -> Major;

    pub(super) fn gss_accept_sec_context(
        minor: *mut u32,
        context: *mut CtxId,
        cred: CredId,
        token: *const Buffer,
        bindings: *const c_void,
        src_name: *mut NameId,
        mech: *mut Oid,
        reply: *mut Buffer,
        ret_flags: *mut u32,
        time_rec: *mut u32,
        delegated: *mut CredId,
    ) -> Major;
    pub(super) fn gss_init_sec_context(
        minor: *mut u32,
        cred: CredId,
        context: *mut CtxId,
        target: NameId,
        mech: Oid,
        req_flags: u32,
        time_req: u32,
        bindings: *const c_void,
        token: *const Buffer,
        actual_mech: *mut Oid,
        output: *mut Buffer,
        ret_flags: *mut u32,
        time_rec: *mut u32,
    ) -> Major;
    pub(super) fn gss_inquire_context(
        minor: *mut u32,
        context: CtxId,
        src_name: *mut NameId,
        targ_name: *mut NameId,
        lifetime: *mut u32,
        mech: *mut Oid,
        flags: *mut u32,
        locally_initiated: *mut c_int,
        open: *mut c_int,
    ) -> Major;
    pub(super) fn gss_get_name_attribute(
        minor: *mut u32,
        name: NameId,
        attribute: *const Buffer,
        authenticated: *mut c_int,
        complete: *mut c_int,
        value: *mut Buffer,
        display_value: *mut Buffer,
        more: *mut c_int,
    ) -> Major;
    pub(super) fn gss_delete_sec_context(minor: *mut u32, context: *mut CtxId, token: *mut Buffer) -> Major;

    pub(super) fn gss_import_name(
        minor: *mut u32,
        text: *const Buffer,
        kind: Oid,
        name: *mut NameId,
    ) -> Major;
    pub(super) fn gss_display_name(minor: *mut u32, name: NameId, text: *mut Buffer, kind: *mut Oid)
    -> Major;
    pub(super) fn gss_release_name(minor: *mut u32, name: *mut NameId) -> Major;

    pub(super) fn gss_release_buffer(minor: *mut u32, buffer: *mut Buffer) -> Major;
    pub(super) fn gss_display_status(
        minor: *mut u32,
        status: u32,
        kind: c_int,
        mech: Oid,
        more: *mut u32,
        text: *mut Buffer,
    ) -> Major;

    pub(super) fn gss_krb5_export_lucid_sec_context(
        minor: *mut u32,
        context: *mut CtxId,
        version: u32,
        out: *mut *mut c_void,
    ) -> Major;
    pub(super) fn gss_krb5_free_lucid_sec_context(minor: *mut u32, lucid: *mut c_void) -> Major;
}

#[link(name = "krb5")]
unsafe extern "C" {
    pub(super) fn krb5_init_context(context: *mut Krb5Context) -> i32;
    pub(super) fn krb5_free_context(context: Krb5Context);
    pub(super) fn krb5_cc_resolve(context: Krb5Context, name: *const c_char, cache: *mut Krb5Cache) -> i32;
    pub(super) fn krb5_cc_destroy(context: Krb5Context, cache: Krb5Cache) -> i32;
}
