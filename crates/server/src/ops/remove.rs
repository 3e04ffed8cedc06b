//! REMOVE (RFC 8881 section 18.25).

use crate::engine::{Change, Compound, OpResult, names};
use nfs4::Nfsstat4;
use xdr::{Decoder, Encoder};

/// Removes a name from the current directory. Clients that have the file open keep it.
///
/// # Errors
/// The errors of names, NFS4ERR_ROFS, NFS4ERR_DELAY while others have delegations, NFS4ERR_GRACE
/// while clients may reclaim a file that has no other name, NFS4ERR_ACCESS for a name on which an
/// export is mounted, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let name = names::component(args.opaque(usize::MAX)?)?;
    let directory = c.directory()?;
    if c.lookup_pseudo(c.fh()?, name)?.is_some() {
        return Err(Nfsstat4::NFS4ERR_ACCESS.into());
    }
    let held = c.hold_names(&[(&directory, name)])?;
    let found = c.begin_change_of_name(&directory, name)?;
    c.check_last_name(&directory, found.as_ref())?;
    let change = Change::before(&directory)?;
    let backend = &directory.export.backend;
    backend.remove(&c.caller(&directory), &directory.handle, name, found.as_ref())?;
    reply.value(&change.after(&directory));
    drop(held);
    c.sync_before_reply(&directory)
}
