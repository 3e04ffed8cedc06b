//! LOCK (RFC 8881 section 18.10).

use crate::engine::{Compound, Failure, LockFailure, OpResult};
use nfs4::{Lock4Args, Locker4, NfsLockType4, Nfsstat4};
use state::{Lock, LockDenied, LockError, Locker};
use xdr::{Decode, Decoder, Encoder};

/// Locks a range of bytes.
///
/// # Errors
/// NFS4ERR_DENIED with the lock in the way, and those of [`Compound::lock`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Lock4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    let file = object.key();
    let locker = match &args.locker {
        Locker4::TRUE(new) => {
            Locker::New { open_stateid: c.resolve(new.open_stateid)?, owner: &new.lock_owner.owner }
        }
        Locker4::FALSE(existing) => Locker::Existing(c.resolve(existing.lock_stateid)?),
    };
    let request = Lock {
        file: &file,
        write: is_write(args.locktype),
        waits: matches!(args.locktype, NfsLockType4::READW_LT | NfsLockType4::WRITEW_LT),
        reclaim: args.reclaim,
        offset: args.offset,
        length: args.length,
        locker,
    };
    let locked = match c.lock(object, &request) {
        // A program of this machine does not give way.
        Err(LockFailure::Lock(LockError::Denied(denied)))
            if denied.clientid != 0 && c.expired_give_way(&file)? =>
        {
            c.lock(object, &request)
        }
        locked => locked,
    };
    match locked {
        Ok(stateid) => {
            c.stateid = Some(stateid);
            reply.value(&stateid);
            Ok(())
        }
        Err(error) => Err(refusal(error, reply)),
    }
}

/// Whether a lock type is exclusive; waiting is the client's affair.
pub fn is_write(locktype: NfsLockType4) -> bool {
    matches!(locktype, NfsLockType4::WRITE_LT | NfsLockType4::WRITEW_LT)
}

/// Writes LOCK4denied where that is the answer.
pub fn refusal(error: LockFailure, reply: &mut Encoder) -> Failure {
    match error {
        LockFailure::Other(failure) => failure,
        LockFailure::Lock(LockError::Status(status)) => status.into(),
        LockFailure::Lock(LockError::Denied(denied)) => {
            encode_denied(&denied, reply);
            Failure::with_body(Nfsstat4::NFS4ERR_DENIED)
        }
    }
}

fn encode_denied(denied: &LockDenied, reply: &mut Encoder) {
    let locktype = if denied.write { NfsLockType4::WRITE_LT } else { NfsLockType4::READ_LT };
    reply.u64(denied.offset).u64(denied.length).u32(locktype as u32);
    reply.u64(denied.clientid).opaque(&denied.owner);
}
