//! ACCESS (RFC 8881 section 18.1).

use crate::attr;
use crate::engine::{Compound, Fh, OpResult};
use nfs4::{
    ACCESS4_DELETE, ACCESS4_EXECUTE, ACCESS4_EXTEND, ACCESS4_LOOKUP, ACCESS4_MODIFY, ACCESS4_READ,
    ACCESS4_XALIST, ACCESS4_XAREAD, ACCESS4_XAWRITE,
};
use vfs::{FileType, Permissions};
use xdr::{Decoder, Encoder};

/// Bits that apply to directories.
const OF_DIRECTORY: u32 = ACCESS4_READ | ACCESS4_LOOKUP | ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE;
/// Bits that apply to all other objects.
const OF_FILE: u32 = ACCESS4_READ | ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_EXECUTE;
/// Bits of NFSv4.2 that apply where objects have extended attributes (RFC 8276 section 8.5).
const OF_XATTRS: u32 = ACCESS4_XAREAD | ACCESS4_XAWRITE | ACCESS4_XALIST;
/// Bits that are never granted on a read-only export.
const CHANGING: u32 = ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE | ACCESS4_XAWRITE;

/// Returns the requested bits that the server supports, and the bits granted to the caller.
///
/// # Errors
/// NFS4ERR_STALE and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let asked = args.u32()?;
    let (directory, permissions) = judge(c)?;
    let xattrs = c.progress.minor >= 2 && attr::features(c.fh()?).xattrs;
    let known = if directory { OF_DIRECTORY } else { OF_FILE } | if xattrs { OF_XATTRS } else { 0 };
    let supported = asked & known;
    let mut access = supported & bits(directory, permissions);
    if c.fh()?.is_read_only() {
        access &= !CHANGING;
    }
    reply.u32(supported).u32(access);
    Ok(())
}

/// Returns whether the object is a directory, and the caller's permissions.
fn judge(c: &Compound<'_>) -> OpResult<(bool, Permissions)> {
    match c.fh()? {
        Fh::Pseudo(_) => Ok((true, Permissions { read: true, write: false, execute: true })),
        Fh::Object(object) => {
            let backend = &object.export.backend;
            let directory = backend.getattr(&object.handle)?.file_type == FileType::Directory;
            Ok((directory, backend.access(&c.caller(object), &object.handle)?))
        }
    }
}

fn bits(directory: bool, permissions: Permissions) -> u32 {
    let mut bits = 0;
    if permissions.read {
        bits |= ACCESS4_READ | ACCESS4_XAREAD | ACCESS4_XALIST;
    }
    if permissions.write {
        bits |= ACCESS4_XAWRITE;
    }
    match directory {
        // Changing entries needs permission to write and to search.
        true if permissions.write && permissions.execute => {
            bits |= ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE;
        }
        false if permissions.write => bits |= ACCESS4_MODIFY | ACCESS4_EXTEND,
        _ => {}
    }
    if permissions.execute {
        bits |= if directory { ACCESS4_LOOKUP } else { ACCESS4_EXECUTE };
    }
    bits
}
