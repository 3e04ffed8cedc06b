//! LOCK of NFSv4.0 (RFC 7530 section 16.10).

use super::sequenced::{self, SequencedCall};
use crate::engine::{Compound, OpResult};
use crate::ops;
use nfs4::{ExistLockOwner4, Lock4Args, Locker4, NfsOpnum4, Nfsstat4, OpenToLockOwner4};
use state::v40::{Begin, OwnerKind};
use xdr::{Decode, Decoder, Encoder};

/// Locks a range of bytes in the sequence of the lock-owner. For a new lock-owner also in the
/// sequence of the open-owner.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, NFS4ERR_STALE_CLIENTID, NFS4ERR_RESOURCE, and the errors of
/// [`state::V40::owner_of_open`], [`state::V40::owner_of_lock`] and [`ops::lock::run`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = Lock4Args::decode(args)?;
    match &decoded.locker {
        Locker4::TRUE(new) => {
            let sequenced = SequencedCall::new(c, NfsOpnum4::OP_LOCK, new.open_seqid, &before, args);
            by_new(c, new, sequenced, before, reply)
        }
        Locker4::FALSE(existing) => {
            let sequenced = SequencedCall::new(c, NfsOpnum4::OP_LOCK, existing.lock_seqid, &before, args);
            by_existing(c, existing, sequenced, before, reply)
        }
    }
}

fn lock(c: &mut Compound<'_>, mut args: Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let done = ops::lock::run(c, &mut args, reply);
    // NFSv4.0 has no current stateid.
    c.progress.stateid = None;
    done
}

fn by_existing(
    c: &mut Compound<'_>,
    existing: &ExistLockOwner4,
    sequenced: SequencedCall,
    args: Decoder<'_>,
    reply: &mut Encoder,
) -> OpResult {
    let owner = c.state().v40().owner_of_lock(c.now(), &c.sender(), &existing.lock_stateid)?;
    sequenced::run(c, &owner, sequenced, reply, |c, reply, _| {
        sequenced::check_current(&existing.lock_stateid)?;
        lock(c, args, reply)
    })
}

/// Runs the first LOCK of a lock-owner. If it fails, the lock-owner remains new.
fn by_new(
    c: &mut Compound<'_>,
    new: &OpenToLockOwner4<'_>,
    sequenced: SequencedCall,
    args: Decoder<'_>,
    reply: &mut Encoder,
) -> OpResult {
    let client = c.state().v40().client_of_id_40(c.now(), &c.sender(), new.lock_owner.clientid)?;
    let opener = c.state().v40().owner_of_open(c.now(), &c.sender(), &new.open_stateid)?;
    if opener.client() != client {
        return Err(Nfsstat4::NFS4ERR_BAD_STATEID.into());
    }
    sequenced::run(c, &opener, sequenced, reply, |c, reply, turn| {
        sequenced::check(turn, &new.open_stateid)?;
        let owner = c.state().v40().state_owner(c.now(), client, OwnerKind::Lock, &new.lock_owner.owner)?;
        let mut own = sequenced::turn(c, &owner)?;
        if let Begin::Replay(replay) = own.begin(new.lock_seqid, sequenced.request)? {
            return sequenced::again(c, &replay, reply);
        }
        let start = reply.len();
        let result = lock(c, args, reply);
        match sequenced::replay(sequenced.opnum, &result, reply, start, &[]) {
            Some(_) if own.is_new() && result.is_err() => own.forget(),
            Some(replay) => {
                own.set_principal(c.sender().principal);
                own.end(new.lock_seqid, sequenced.request, replay);
            }
            None => {}
        }
        result
    })
}
