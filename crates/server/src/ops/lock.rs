//! LOCK (RFC 8881 section 18.10).

use crate::engine::{Compound, LOCAL_OWNER, LockFailure, OpError, OpResult, OpStop};
use nfs4::{Lock4Args, Locker4, NfsLockType4, Nfsstat4};
use siphasher::sip128::{Hasher128, SipHasher13};
use state::{Lock, LockDenied, LockMode, Locker};
use std::{borrow::Cow, hash::Hasher};
use xdr::{Decode, Decoder, Encoder};

/// Longest owner in LOCK4denied, in bytes. Linux clients since 6.12 reserve only the length of
/// their own owners and turn a longer one into EIO.
pub const DENIED_OWNER_MAX: usize = 20;
const _: () = assert!(LOCAL_OWNER.len() <= DENIED_OWNER_MAX);

/// Locks a range of bytes.
///
/// # Errors
/// NFS4ERR_DENIED with the conflicting lock, and the errors of [`Compound::lock`]
/// and [`Compound::check_lock_range`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Lock4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    c.check_lock_range(object, args.offset, args.length)?;
    let file = object.key();
    let locker = match &args.locker {
        Locker4::TRUE(new) => {
            Locker::New { open_stateid: c.resolve(new.open_stateid)?, owner: &new.lock_owner.owner }
        }
        Locker4::FALSE(existing) => Locker::Existing(c.resolve(existing.lock_stateid)?),
    };
    let request = Lock {
        file: &file,
        mode: mode(args.locktype),
        waits: matches!(args.locktype, NfsLockType4::READW_LT | NfsLockType4::WRITEW_LT),
        reclaim: args.reclaim,
        offset: args.offset,
        length: args.length,
        locker,
    };
    let locked = match c.lock(object, &request) {
        // A local program does not give way.
        Err(LockFailure::Denied(denied)) if denied.clientid != 0 && c.expired_give_way(&file)? => {
            c.lock(object, &request)
        }
        locked => locked,
    };
    match locked {
        Ok(stateid) => {
            c.progress.stateid = Some(stateid);
            reply.value(&stateid);
            Ok(())
        }
        Err(error) => Err(refusal(error, reply)),
    }
}

/// Returns the mode of a lock type. The variants that wait lock in the same way: the client does
/// the waiting.
pub fn mode(locktype: NfsLockType4) -> LockMode {
    match locktype {
        NfsLockType4::READ_LT | NfsLockType4::READW_LT => LockMode::Read,
        NfsLockType4::WRITE_LT | NfsLockType4::WRITEW_LT => LockMode::Write,
    }
}

/// Encodes LOCK4denied for a conflict, and returns the reason to stop.
pub fn refusal(error: LockFailure, reply: &mut Encoder) -> OpStop {
    match error {
        LockFailure::Stopped(stop) => stop,
        LockFailure::Denied(denied) => {
            encode_denied(&denied, reply);
            OpError::with_body(Nfsstat4::NFS4ERR_DENIED).into()
        }
    }
}

fn encode_denied(denied: &LockDenied, reply: &mut Encoder) {
    let locktype = match denied.mode {
        LockMode::Read => NfsLockType4::READ_LT,
        LockMode::Write => NfsLockType4::WRITE_LT,
    };
    reply.u64(denied.offset).u64(denied.length).u32(locktype as u32);
    reply.u64(denied.clientid).opaque(&short_owner(&denied.owner));
}

/// Returns an owner as LOCK4denied carries it: unchanged, or if it is too long, its first bytes and
/// a digest. The digest has no key, so that an owner is the same in every reply and after a
/// restart.
fn short_owner(owner: &[u8]) -> Cow<'_, [u8]> {
    if owner.len() <= DENIED_OWNER_MAX {
        return owner.into();
    }
    let mut hasher = SipHasher13::new();
    hasher.write(owner);
    let digest = hasher.finish128().as_bytes();
    let (first, _) = owner.split_at(DENIED_OWNER_MAX - digest.len());
    [first, &digest].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_owner_becomes_a_short_one_that_is_always_the_same() {
        for length in [0, 1, DENIED_OWNER_MAX] {
            let owner = vec![7; length];
            assert_eq!(*short_owner(&owner), *owner);
        }
        let long: Vec<Vec<u8>> = (0..=255).map(|last| [vec![7; 1023], vec![last]].concat()).collect();
        let mut short: Vec<Cow<'_, [u8]>> = long.iter().map(|owner| short_owner(owner)).collect();
        assert!(short.iter().all(|owner| owner.len() == DENIED_OWNER_MAX && owner.starts_with(&[7; 4])));
        assert_eq!(short_owner(&[7; DENIED_OWNER_MAX + 1]), short_owner(&[7; DENIED_OWNER_MAX + 1]));
        short.sort();
        short.dedup();
        assert_eq!(short.len(), long.len(), "owners that differ stay different");
    }
}
