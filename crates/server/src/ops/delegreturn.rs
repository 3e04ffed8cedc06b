//! DELEGRETURN (RFC 8881 section 18.6).

use crate::engine::{Compound, OpResult};
use nfs4::{Delegreturn4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Returns a delegation on the current file. I/O in flight keeps the backend's file until it is
/// done.
///
/// # Errors
/// The errors of [`state::Delegations::delegreturn`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = Delegreturn4Args::decode(args)?;
    let stateid = c.resolve(args.deleg_stateid)?;
    let (client, file) = (c.client()?, c.file(Nfsstat4::NFS4ERR_BAD_STATEID)?);
    c.with_effects(|state, effects| state.delegations().delegreturn(client, &stateid, &file, effects))?;
    Ok(())
}
