//! BACKCHANNEL_CTL: how callbacks are to be sent (RFC 8881 section 18.33).

use crate::engine::{Compound, OpResult};
use nfs4::{BackchannelCtl4Args, CallbackSecParms4, Nfsstat4};
use state::CallbackSecurity;
use xdr::{Decode, Decoder, Encoder};

/// Takes the callback program and the ways to authenticate.
///
/// # Errors
/// NFS4ERR_OP_NOT_IN_SESSION, and those of [`state::State::backchannel_ctl`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = BackchannelCtl4Args::decode(args)?;
    let session = c.session.as_ref().ok_or(Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    let security = callback_security(&args.bca_sec_parms);
    c.state().backchannel_ctl(&session.sessionid, args.bca_cb_program, &security)?;
    Ok(())
}

/// Returns callback_sec_parms4 as state keeps them.
pub fn callback_security(parms: &[CallbackSecParms4<'_>]) -> Vec<CallbackSecurity> {
    parms.iter().map(one).collect()
}

fn one(parms: &CallbackSecParms4<'_>) -> CallbackSecurity {
    match parms {
        CallbackSecParms4::AUTH_NONE => CallbackSecurity::None,
        CallbackSecParms4::AUTH_SYS(body) => {
            CallbackSecurity::Sys { machine: body.machinename.to_vec(), uid: body.uid, gid: body.gid }
        }
        CallbackSecParms4::RPCSEC_GSS(handles) => CallbackSecurity::Gss {
            service: handles.gcbp_service as u32,
            handle_from_server: handles.gcbp_handle_from_server.to_vec(),
            handle_from_client: handles.gcbp_handle_from_client.to_vec(),
        },
    }
}
