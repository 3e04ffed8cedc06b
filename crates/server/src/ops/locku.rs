//! LOCKU (RFC 8881 section 18.12).

use crate::engine::{Compound, NfsState, OpResult};
use nfs4::{Locku4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Unlocks a range of bytes.
///
/// # Errors
/// The errors of [`state::Locks::locku`] and [`Compound::check_lock_range`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Locku4Args::decode(args)?;
    let stateid = c.resolve(args.lock_stateid)?;
    let (client, object) = (c.client()?, c.object(Nfsstat4::NFS4ERR_BAD_STATEID)?);
    let (offset, length) = (args.offset, args.length);
    c.check_lock_range(object, offset, length)?;
    let file = object.key();
    let unlock = |state: &NfsState, effects: &mut _| {
        state.locks().locku(client, &stateid, &file, offset, length, effects)
    };
    let stateid = c.with_effects(unlock)?;
    c.progress.stateid = Some(stateid);
    reply.value(&stateid);
    Ok(())
}
