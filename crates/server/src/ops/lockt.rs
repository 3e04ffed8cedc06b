//! LOCKT (RFC 8881 section 18.11).

use super::lock::{mode, refusal};
use crate::engine::{Compound, LockFailure, OpResult, regular_file};
use nfs4::{Lockt4Args, Nfsstat4};
use state::LockError;
use xdr::{Decode, Decoder, Encoder};

/// Tests whether a lock could be granted.
///
/// # Errors
/// NFS4ERR_DENIED with the conflicting lock, NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE,
/// and the errors of [`state::Locks::lockt`], [`Compound::check_lock_range`] and
/// [`Compound::check_local_lock`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Lockt4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    regular_file(c.attributes(c.fh()?)?.file_type)?;
    c.check_lock_range(object, args.offset, args.length)?;
    let (client, file) = (c.client()?, object.key());
    let owner = &args.owner.owner;
    let mode = mode(args.locktype);
    let look = || c.state().locks().lockt(client, &file, owner, mode, args.offset, args.length);
    let free = match look() {
        Err(LockError::Denied(_)) if c.expired_give_way(&file)? => look(),
        free => free,
    };
    let free = free.map_err(LockFailure::from);
    let free = free.and_then(|()| c.check_local_lock(object, args.offset, args.length, mode));
    free.map_err(|error| refusal(error, reply))
}
