//! SEQUENCE: puts the COMPOUND into a session (RFC 8881 section 18.46).

use crate::engine::{Compound, InSession, NfsState, OpResult};
use nfs4::Sequence4Args;
use state::{Sequence, Sequenced};
use xdr::{Decode, Decoder, Encoder};

/// Size of SEQUENCE4resok in bytes.
const RESULT: usize = 36;

/// Begins the use of the slot, or finds the cached reply of a retry.
///
/// # Errors
/// The errors of [`state::Sessions::sequence`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Sequence4Args::decode(args)?;
    let sender = c.sender();
    let reply_min = c.call.reply_overhead + (reply.len() - c.progress.reply_start) + RESULT;
    let request = Sequence {
        sessionid: args.sa_sessionid,
        sequenceid: args.sa_sequenceid,
        slotid: args.sa_slotid,
        highest_slotid: args.sa_highest_slotid,
        cache_this: args.sa_cachethis,
        fingerprint: c.nfs.fingerprint(c.call.args, c.call.security),
        request_size: u32::try_from(c.call.request_size).unwrap_or(u32::MAX),
        operations: c.progress.position.count,
        reply_min: u32::try_from(reply_min).unwrap_or(u32::MAX),
    };
    let sequence =
        |state: &NfsState, effects: &mut _| state.sessions().sequence(c.now(), &sender, &request, effects);
    // It may end the grace period. The grants that depend on it wait for the records.
    let begun = match c.nfs.with_queue(c.now(), sequence, |_| ())? {
        Sequenced::Execute(begun) => begun,
        Sequenced::Replay(cached) => {
            c.progress.replay = Some(cached);
            // The first reply may not have been sent because of client records.
            let client = c.state().sessions().client_of_session(&request.sessionid).ok();
            c.depend_on_grants(client);
            return Ok(());
        }
    };
    c.progress.session = Some(InSession {
        token: Some(begun.token),
        client: begun.client,
        clientid: begun.clientid,
        sessionid: request.sessionid,
        fore: begun.fore,
        cache_this: request.cache_this,
        forbidden: begun.forbidden,
    });
    let ok = &begun.reply;
    reply.opaque_fixed(&ok.sessionid).u32(ok.sequenceid).u32(ok.slotid);
    reply.u32(ok.highest_slotid).u32(ok.target_highest_slotid).u32(ok.status_flags);
    Ok(())
}
