//! RECLAIM_COMPLETE (RFC 8881 section 18.51).

use crate::engine::{Compound, OpResult};
use nfs4::{Nfsstat4, ReclaimComplete4Args};
use xdr::{Decode, Decoder, Encoder};

/// Ends the reclaims of the client.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE for rca_one_fs without a current filehandle, and the errors of
/// [`state::Leases::reclaim_complete`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = ReclaimComplete4Args::decode(args)?;
    if args.rca_one_fs && c.progress.current.is_none() {
        return Err(Nfsstat4::NFS4ERR_NOFILEHANDLE.into());
    }
    let client = c.client()?;
    c.with_effects(|state, effects| {
        state.leases().reclaim_complete(c.now(), client, args.rca_one_fs, effects)
    })?;
    Ok(())
}
