//! SEQUENCE (RFC 8881 sections 2.10.6 and 18.46): exactly-once semantics by slots.

use crate::slab::Key;
use crate::slots::{Slot, SlotCheck, SlotState};
use crate::{Caller, ChannelAttrs, ClientKey, Clientid4, Nfsstat4, Result, Sessionid4, SlotToken, State};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The arguments of SEQUENCE, and what the server knows of the COMPOUND around it.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// sa_sessionid.
    pub sessionid: Sessionid4,
    /// sa_sequenceid.
    pub sequenceid: u32,
    /// sa_slotid.
    pub slotid: u32,
    /// sa_highest_slotid.
    pub highest_slotid: u32,
    /// sa_cachethis.
    pub cache_this: bool,
    /// A keyed hash of the COMPOUND's bytes: tells a retry from another request with the same sequence id.
    pub fingerprint: u64,
    /// Bytes of the request, RPC header included.
    pub request_size: u32,
    /// Operations of the COMPOUND, SEQUENCE included.
    pub operations: u32,
}

/// The results of SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOk {
    /// sr_sessionid.
    pub sessionid: Sessionid4,
    /// sr_sequenceid.
    pub sequenceid: u32,
    /// sr_slotid.
    pub slotid: u32,
    /// sr_highest_slotid.
    pub highest_slotid: u32,
    /// sr_target_highest_slotid.
    pub target_highest_slotid: u32,
    /// sr_status_flags.
    pub status_flags: u32,
}

/// A COMPOUND that may run now.
#[derive(Debug)]
pub struct Begun {
    /// Give it to [`State::finish`] with the reply, whatever becomes of the COMPOUND.
    pub token: SlotToken,
    /// The client, for the operations that follow.
    pub client: ClientKey,
    /// The client's id, for operations that carry one.
    pub clientid: Clientid4,
    /// What SEQUENCE answers.
    pub reply: SequenceOk,
    /// The fore channel's limits: the server checks the reply against response_size and response_cached.
    pub fore: ChannelAttrs,
}

/// What becomes of a COMPOUND whose SEQUENCE is good.
#[derive(Debug)]
pub enum Sequenced {
    /// It is new: run it.
    Execute(Begun),
    /// It is a retry: send these bytes, as given to [`State::finish`].
    Replay(Arc<[u8]>),
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles SEQUENCE: checks the slot, renews the lease, associates the connection where the client's state
    /// protection lets it.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED,
    /// NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_RETRY_UNCACHED_REP, NFS4ERR_DELAY (the first copy of the request still runs),
    /// NFS4ERR_TOO_MANY_OPS, NFS4ERR_REQ_TOO_BIG. None of them moves the slot or renews the lease.
    pub fn sequence(&mut self, now: Duration, caller: &Caller<'_>, args: &Sequence) -> Result<Sequenced> {
        // Here, and not only when leases are looked at: who has not reclaimed must be off stable storage before the
        // first conflicting operation is answered.
        self.end_grace_if_over(now);
        let (key, session) = self.session(&args.sessionid)?;
        let client_key = session.client;
        self.check_connection(session, caller.connection)?;
        if args.slotid >= session.fore.requests {
            return Err(Nfsstat4::NFS4ERR_BADSLOT);
        }
        if args.slotid > args.highest_slotid {
            return Err(Nfsstat4::NFS4ERR_BAD_HIGH_SLOT);
        }
        let fresh = Slot::default();
        let check = session.slots.get(args.slotid as usize).unwrap_or(&fresh).check(caller, args)?;
        if matches!(check, SlotCheck::New) {
            check_size(&session.fore, args)?;
        }
        self.associate_by_sequence(key, caller.connection);
        let client = self.clients.get_mut(client_key.0).ok_or(Nfsstat4::NFS4ERR_BADSESSION)?;
        client.renewed = client.renewed.max(now);
        match check {
            SlotCheck::Replay(reply) => Ok(Sequenced::Replay(reply)),
            SlotCheck::New => self.begin(key, caller, args).map(Sequenced::Execute),
        }
    }

    fn begin(&mut self, key: Key, caller: &Caller<'_>, args: &Sequence) -> Result<Begun> {
        let session = self.sessions.get_mut(key).ok_or(Nfsstat4::NFS4ERR_BADSESSION)?;
        let client_key = session.client;
        let client = self.clients.get_mut(client_key.0).ok_or(Nfsstat4::NFS4ERR_BADSESSION)?;
        let needed = args.slotid as usize + 1;
        if session.slots.len() < needed {
            session.slots.resize(needed, Slot::default());
        }
        let slot = session.slots.get_mut(args.slotid as usize).ok_or(Nfsstat4::NFS4ERR_BADSLOT)?;
        self.reply_cache = self.reply_cache.saturating_sub(slot.cached_len());
        slot.begin(caller, args);
        session.running += 1;
        client.running += 1;
        let highest = session.fore.requests - 1;
        let reply = SequenceOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: args.slotid,
            highest_slotid: highest,
            target_highest_slotid: target(highest, self.reply_cache_reserved, self.limits.reply_cache_max),
            // Nothing is revoked but with the whole client, and nothing is called back: no flag is ever due. A client
            // that has to reclaim knows it already, since its client id of before the restart was stale.
            status_flags: 0,
        };
        let token = SlotToken { session: key, slot: args.slotid };
        Ok(Begun { token, client: client_key, clientid: client.id, reply, fore: session.fore })
    }

    /// Ends a COMPOUND: `reply` is what a retry gets, `None` when it was not to be cached.
    ///
    /// Give the reply when sa_cachethis was set, and also when it costs next to nothing (a SEQUENCE alone, an error).
    /// A reply above the channel's response_cached is not kept. Does nothing when the session is gone by now.
    pub fn finish(&mut self, token: SlotToken, reply: Option<&[u8]>) {
        let Some(session) = self.sessions.get_mut(token.session) else { return };
        let Some(slot) = session.slots.get_mut(token.slot as usize) else { return };
        if !matches!(slot.state, SlotState::Running) {
            return;
        }
        slot.state = match reply {
            Some(reply) if reply.len() <= session.fore.response_cached as usize => {
                SlotState::Cached(Arc::from(reply))
            }
            _ => SlotState::Uncached,
        };
        self.reply_cache += slot.cached_len();
        session.running = session.running.saturating_sub(1);
        if let Some(client) = self.clients.get_mut(session.client.0) {
            client.running = client.running.saturating_sub(1);
        }
    }
}

fn check_size(fore: &ChannelAttrs, args: &Sequence) -> Result<()> {
    if args.operations > fore.operations {
        return Err(Nfsstat4::NFS4ERR_TOO_MANY_OPS);
    }
    if args.request_size > fore.request_size {
        return Err(Nfsstat4::NFS4ERR_REQ_TOO_BIG);
    }
    Ok(())
}

/// Asks clients to use a quarter of their slots once nine tenths of the reply caches' memory is promised.
fn target(highest: u32, reserved: usize, max: usize) -> u32 {
    if reserved > max / 10 * 9 { highest / 4 } else { highest }
}
