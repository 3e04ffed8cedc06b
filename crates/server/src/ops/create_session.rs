//! CREATE_SESSION (RFC 8881 section 18.36).

use crate::engine::{Compound, OpResult, RefusedBy};
use nfs4::{ChannelAttrs4, CreateSession4Args};
use state::{ChannelAttrs, CreateSession, CreateSessionOk};
use xdr::{Decode, Decoder, Encoder};

/// Confirms the client ID and creates a session.
///
/// # Errors
/// NFS4ERR_NOENT for a context that is not the caller's, NFS4ERR_CLID_INUSE from an address that no
/// export admits, and the errors of [`state::Sessions::create_session`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = CreateSession4Args::decode(args)?;
    c.check_admitted()?;
    let callback_security = match c.callback_security(&args.csa_sec_parms) {
        Ok(security) => security,
        // The context may have ended since the first copy of the call.
        Err(status) => {
            let (sender, sessions) = (c.sender(), c.nfs.state.sessions());
            let ok = sessions.repeat_create_session(&sender, args.csa_clientid, args.csa_sequence);
            encode(&ok.ok_or(status)??, reply);
            return Ok(());
        }
    };
    let request = CreateSession {
        clientid: args.csa_clientid,
        sequence: args.csa_sequence,
        flags: args.csa_flags,
        fore: channel(&args.csa_fore_chan_attrs),
        back: channel(&args.csa_back_chan_attrs),
        minor_version: c.progress.minor,
        callback_program: args.csa_cb_program,
        callback_security,
    };
    let (sender, random) = (c.sender(), c.nfs.random());
    let (made, rival) = c.with_effects(|state, effects| {
        let made = state.sessions().create_session(c.now(), &sender, &request, random, effects);
        (made, effects.rival.take())
    });
    rival.iter().for_each(|rival| c.note_rival(rival));
    let ok = made.inspect_err(|status| c.note_if_full(*status, RefusedBy::Sessions))?;
    encode(&ok, reply);
    Ok(())
}

fn encode(ok: &CreateSessionOk, reply: &mut Encoder) {
    reply.opaque_fixed(&ok.sessionid).u32(ok.sequence).u32(ok.flags);
    encode_channel(&ok.fore, reply);
    encode_channel(&ok.back, reply);
}

fn channel(attrs: &ChannelAttrs4) -> ChannelAttrs {
    ChannelAttrs {
        header_pad_size: attrs.ca_headerpadsize,
        request_size: attrs.ca_maxrequestsize,
        response_size: attrs.ca_maxresponsesize,
        response_cached: attrs.ca_maxresponsesize_cached,
        operations: attrs.ca_maxoperations,
        requests: attrs.ca_maxrequests,
    }
}

/// Encodes channel_attrs4, without RDMA.
fn encode_channel(attrs: &ChannelAttrs, reply: &mut Encoder) {
    reply.u32(attrs.header_pad_size).u32(attrs.request_size).u32(attrs.response_size);
    reply.u32(attrs.response_cached).u32(attrs.operations).u32(attrs.requests).u32(0);
}
