//! RELEASE_LOCKOWNER (RFC 7530 section 16.37).

use crate::engine::{Compound, OpResult};
use nfs4::ReleaseLockowner4Args;
use xdr::{Decode, Decoder, Encoder};

/// Removes a lock-owner without locks.
///
/// # Errors
/// NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED, and the errors of [`state::V40::release_lockowner`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = ReleaseLockowner4Args::decode(args)?;
    let sender = c.sender();
    let client = c.state().v40().client_of_id_40(c.now(), &sender, args.lock_owner.clientid)?;
    let owner = &args.lock_owner.owner;
    c.with_effects(|state, effects| state.v40().release_lockowner(client, &sender, owner, effects))?;
    Ok(())
}
