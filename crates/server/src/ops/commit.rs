//! COMMIT (RFC 8881 section 18.3).

use crate::engine::{Compound, OpResult, regular_file};
use nfs4::{Commit4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Opens of one client that a COMMIT syncs: each may wait for the disk. Clients have one for each
/// of their users.
const SYNCED_OPENS_MAX: usize = 16;

/// Puts written data on stable storage: the whole file, for any range.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    Commit4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    let backend = &object.export.backend;
    let opened = c.opened(object);
    let committed = if opened.is_empty() {
        regular_file(backend.getattr(&object.handle)?.file_type)?;
        backend.commit(&object.handle)
    } else {
        // The kernel reports a failure of writeback to the descriptions that were open then. A
        // later one, of another open or of the backend, misses it if a local program has seen it.
        // Nor does the file need a name.
        let syncs: Vec<_> = opened.iter().take(SYNCED_OPENS_MAX).map(|file| file.sync()).collect();
        syncs.into_iter().collect()
    };
    c.nfs.synced(committed)?;
    reply.opaque_fixed(&c.nfs.write_verifier(&**backend));
    Ok(())
}
