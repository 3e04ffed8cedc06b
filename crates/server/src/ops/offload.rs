//! OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 sections 15.9 and 15.8).

use crate::engine::{Compound, OpResult};
use nfs4::{Nfsstat4, OffloadCancel4Args, OffloadStatus4Args, OffloadStatus4Resok};
use xdr::{Decode, Decoder, Encoder};

/// Returns the progress of a copy, and its final status if it has ended.
///
/// # Errors
/// The errors of [`state::Copies::copy_status`].
pub fn status(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = OffloadStatus4Args::decode(args)?;
    let file = c.file(Nfsstat4::NFS4ERR_BAD_STATEID)?;
    let found = c.state().copies().copy_status(c.client()?, &args.osa_stateid, &file)?;
    let osr_complete = found.complete.into_iter().collect();
    reply.value(&OffloadStatus4Resok { osr_count: found.count, osr_complete });
    Ok(())
}

/// Cancels a copy. After success nothing more is written.
///
/// # Errors
/// The errors of [`state::Copies::cancel_copy`].
pub fn cancel(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = OffloadCancel4Args::decode(args)?;
    let file = c.file(Nfsstat4::NFS4ERR_BAD_STATEID)?;
    let user = &c.call.security.sender;
    Ok(c.state().copies().cancel_copy(c.client()?, user, &args.oca_stateid, &file)?)
}
