//! CLOSE (RFC 8881 section 18.2).

use crate::engine::{Compound, OpResult};
use nfs4::{Close4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Ends an open with the locks under it. I/O in flight keeps the backend's file until it is done.
///
/// # Errors
/// The errors of [`state::Opens::close`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Close4Args::decode(args)?;
    let stateid = c.resolve(args.open_stateid)?;
    let (client, file) = (c.client()?, c.file(Nfsstat4::NFS4ERR_BAD_STATEID)?);
    let closed = c.with_effects(|state, effects| state.opens().close(client, &stateid, &file, effects))?;
    c.progress.stateid = Some(closed);
    reply.value(&closed);
    Ok(())
}
