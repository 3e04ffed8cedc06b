//! COMMIT (RFC 8881 section 18.3).

use crate::engine::{Compound, OpResult, regular_file};
use nfs4::{Commit4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Puts written data on stable storage: the whole file, for any range.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    Commit4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    let backend = &object.export.backend;
    let committed = match c.opened(object) {
        // The kernel reports a failure of writeback to the descriptions that were open then. One
        // that the backend opens now misses it if another program has seen it. Nor does the file
        // need a name.
        Some(file) => file.sync(),
        None => {
            regular_file(backend.getattr(&object.handle)?.file_type)?;
            backend.commit(&object.handle)
        }
    };
    c.nfs.synced(committed)?;
    reply.opaque_fixed(&c.nfs.write_verifier(&**backend));
    Ok(())
}
