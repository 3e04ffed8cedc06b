//! BACKCHANNEL_CTL: parameters of callbacks (RFC 8881 section 18.33).

use crate::engine::{Compound, OpResult};
use nfs4::{BackchannelCtl4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Sets the callback program and the security parameters of callbacks.
///
/// # Errors
/// NFS4ERR_OP_NOT_IN_SESSION, NFS4ERR_NOENT for a context that is not the caller's, and the errors
/// of [`state::CallbackQueue::backchannel_ctl`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = BackchannelCtl4Args::decode(args)?;
    let session = c.progress.session.as_ref().ok_or(Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    let security = c.callback_security(&args.bca_sec_parms)?;
    c.state().callbacks().backchannel_ctl(&session.sessionid, args.bca_cb_program, &security)?;
    Ok(())
}
