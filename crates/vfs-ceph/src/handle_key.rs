//! The key under which handles are signed, the same on every gateway.
//!
//! It is an extended attribute of the exported directory that only the superuser of a native client
//! can read. The first gateway makes it.

use ceph::fs::{CephInode, Credentials, XattrFlag};
use std::ffi::CStr;

/// The attribute with the key.
const NAME: &CStr = c"trusted.orthrus.handle_key";
/// Bytes of the key.
const KEY: usize = 16;

/// Returns the key of an export, and makes it if there is none; `None`, with a warning, where it
/// can be neither read nor made.
pub(crate) fn find_or_make(root: &CephInode, server: &Credentials, path: &str) -> Option<[u8; KEY]> {
    if let Some(key) = find(root, server) {
        return Some(key);
    }
    let mut key = [0; KEY];
    getrandom::fill(&mut key).ok()?;
    let made = root.set_xattr(NAME, &key, XattrFlag::Create, server);
    // Another gateway may have been faster.
    let key = find(root, server);
    if let (None, Err(error)) = (key, made) {
        tracing::warn!(
            %error,
            "ceph {path}: filehandles are good on this gateway only, since {} cannot be set on the directory: \
             let a gateway whose key may write start first",
            NAME.to_string_lossy()
        );
    }
    key
}

fn find(root: &CephInode, server: &Credentials) -> Option<[u8; KEY]> {
    root.xattr(NAME, KEY, server).ok()?.try_into().ok()
}
