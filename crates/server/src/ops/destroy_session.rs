//! DESTROY_SESSION (RFC 8881 section 18.37).

use crate::engine::{Compound, OpResult};
use nfs4::{DestroySession4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Destroys a session; the session of the COMPOUND itself only as the last operation.
///
/// # Errors
/// NFS4ERR_NOT_ONLY_OP when operations follow the end of their own session, and the errors of
/// [`state::Sessions::destroy_session`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = DestroySession4Args::decode(args)?;
    let own = c.progress.session.as_ref().map(|session| session.sessionid);
    if own == Some(args.dsa_sessionid) && !c.progress.position.is_last() {
        return Err(Nfsstat4::NFS4ERR_NOT_ONLY_OP.into());
    }
    let sender = c.sender();
    c.state().sessions().destroy_session(&sender, &args.dsa_sessionid, own.as_ref())?;
    Ok(())
}
