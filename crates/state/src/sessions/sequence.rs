//! SEQUENCE (RFC 8881 sections 2.10.6 and 18.46): exactly-once semantics by slots.

use crate::Sessions;
use crate::order::{Held, NothingHeld};
use crate::sessions::Session;
use crate::sessions::memory::{Pressure, TIGHT_PART};
use crate::sessions::slots::{SlotCheck, SlotState};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{
    CallbackTask, Caller, ChannelAttrs, ClientKey, Clientid4, Effects, Nfsstat4, OpSet, Result, Sessionid4,
    SlotToken,
};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The arguments of SEQUENCE, and properties of the COMPOUND around it.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// sa_sessionid: the session of the request.
    pub sessionid: Sessionid4,
    /// sa_sequenceid: the slot's sequence number.
    pub sequenceid: u32,
    /// sa_slotid: the slot, from 0.
    pub slotid: u32,
    /// sa_highest_slotid: the highest slot that the client uses.
    pub highest_slotid: u32,
    /// sa_cachethis: whether to cache the reply.
    pub cache_this: bool,
    /// A keyed hash of the COMPOUND's bytes: tells a retry from another request with the same
    /// sequence id.
    pub fingerprint: u64,
    /// Bytes of the request, RPC header included.
    pub request_size: u32,
    /// Operations of the COMPOUND, SEQUENCE included.
    pub operations: u32,
    /// Bytes of the shortest reply, the one that ends with SEQUENCE's result; RPC header included.
    pub reply_min: u32,
}

/// The results of SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOk {
    /// sr_sessionid: the session of the request.
    pub sessionid: Sessionid4,
    /// sr_sequenceid: the slot's sequence number.
    pub sequenceid: u32,
    /// sr_slotid: the slot, from 0.
    pub slotid: u32,
    /// sr_highest_slotid: the highest slot that the server accepts.
    pub highest_slotid: u32,
    /// sr_target_highest_slotid: the highest slot that the client should use.
    pub target_highest_slotid: u32,
    /// sr_status_flags: the SEQ4_STATUS bits.
    pub status_flags: u32,
}

/// A COMPOUND that may run now.
#[derive(Debug)]
pub struct Begun {
    /// The right to the slot; pass it to [`crate::Sessions::finish`] with the reply in every case.
    pub token: SlotToken,
    /// The client, for the operations that follow.
    pub client: ClientKey,
    /// The client's id, for operations that carry one.
    pub clientid: Clientid4,
    /// The result of SEQUENCE.
    pub reply: SequenceOk,
    /// The fore channel's limits: the server checks the reply against response_size and
    /// response_cached.
    pub fore: ChannelAttrs,
    /// Operations that this caller may not send for this client: empty except for SP4_MACH_CRED.
    pub forbidden: OpSet,
}

/// The next step of a COMPOUND after a successful SEQUENCE.
#[derive(Debug)]
pub enum Sequenced {
    /// It is new: run it.
    Execute(Begun),
    /// It is a retry: send these bytes, as given to [`crate::Sessions::finish`].
    Replay(Arc<[u8]>),
}

impl<F: Clone + Eq + Hash, O> Sessions<'_, F, O> {
    /// Handles SEQUENCE: checks the slot, renews the lease, associates the connection where the
    /// client's state protection lets it. A client that recovers sends over connections that are
    /// not bound, too.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_BADSLOT,
    /// NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY,
    /// NFS4ERR_RETRY_UNCACHED_REP, NFS4ERR_DELAY (the first copy still runs, or no memory for its
    /// reply), NFS4ERR_TOO_MANY_OPS, NFS4ERR_REQ_TOO_BIG, NFS4ERR_REP_TOO_BIG,
    /// NFS4ERR_REP_TOO_BIG_TO_CACHE. None of them moves the slot or renews the lease.
    pub fn sequence(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        args: &Sequence,
        effects: &mut Effects<O>,
    ) -> Result<Sequenced> {
        // Here, and not only in housekeeping, so that clients need not wait for its next turn.
        let held = &mut Held::nothing();
        self.state.leases().end_grace_in_time(held, now, effects);
        let session = self.session(&args.sessionid)?;
        // Linux binds its connections only after a first NFS4ERR_CONN_NOT_BOUND_TO_SESSION. If that
        // answers the reclaim of an open, or the OPEN after a refused reclaim, Linux (6.1 and 7.2)
        // never repeats it and goes on without the locks.
        let bound = session.check_connection(held, caller.connection);
        bound.or_else(|status| if session.record.recovers(held, now) { Ok(()) } else { Err(status) })?;
        if args.slotid >= session.fore.requests {
            return Err(Nfsstat4::NFS4ERR_BADSLOT);
        }
        if args.slotid > args.highest_slotid {
            return Err(Nfsstat4::NFS4ERR_BAD_HIGH_SLOT);
        }
        self.enter(held, &session)?;
        match self.use_slot(held, now, caller, args, &session) {
            Ok(SlotCheck::New) => {
                if session.path.take_untried() {
                    effects.callbacks.push(CallbackTask::Probe { sessionid: session.id });
                }
                Ok(Sequenced::Execute(self.begun(now, session, caller, args)))
            }
            Ok(SlotCheck::Replay(reply)) => {
                session.activity.leave();
                Ok(Sequenced::Replay(reply))
            }
            Err(status) => {
                session.activity.leave();
                Err(status)
            }
        }
    }

    /// Counts a request in, so that its session and client do not go for lack of requests.
    fn enter(&self, held: &mut Held<NothingHeld>, session: &Session) -> Result<()> {
        while !session.activity.enter() {
            // The thread that closed the gate may open it again; it holds the registry until then.
            drop(self.state.registry(held));
            if session.activity.is_closed() {
                return Err(Nfsstat4::NFS4ERR_BADSESSION);
            }
        }
        Ok(())
    }

    /// Puts a new request on its slot, or returns the cached reply of the one that it repeats.
    fn use_slot(
        &self,
        held: &mut Held<NothingHeld>,
        now: Duration,
        caller: &Caller<'_>,
        args: &Sequence,
        session: &Session,
    ) -> Result<SlotCheck> {
        let mut slot = session.slots.lock(args.slotid).ok_or(Nfsstat4::NFS4ERR_BADSLOT)?;
        let check = slot.check(caller, args)?;
        let last = match check {
            SlotCheck::New => {
                check_size(&session.fore, args)?;
                self.check_memory(session, args)?;
                session.activity.cached(slot.cached_len(), 0);
                slot.begin(caller, args)
            }
            SlotCheck::Replay(_) => SlotState::Fresh,
        };
        drop(slot);
        // The last reply is freed without the slot's lock.
        drop(last);
        self.associate_by_sequence(held, session, caller.connection);
        session.activity.renew(now);
        session.activity.outstanding.note(args.highest_slotid);
        Ok(check)
    }

    /// A reply that is to be cached on another slot than the first waits until there is memory for
    /// it: the client was asked to use the first alone.
    fn check_memory(&self, session: &Session, args: &Sequence) -> Result<()> {
        if args.cache_this && args.slotid > 0 && self.pressure(&session.record.tenant) == Pressure::Short {
            return Err(Nfsstat4::NFS4ERR_DELAY);
        }
        Ok(())
    }

    fn begun(&self, now: Duration, session: Arc<Session>, caller: &Caller<'_>, args: &Sequence) -> Begun {
        let highest = session.fore.requests - 1;
        let reply = SequenceOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: args.slotid,
            highest_slotid: highest,
            target_highest_slotid: self.target(&session, highest),
            // A client that has to reclaim knows it already, since its client id of before the
            // restart was stale.
            status_flags: session.status_flags(now, self.state.limits.lease),
        };
        Begun {
            client: session.client,
            clientid: session.record.id,
            reply,
            fore: session.fore,
            forbidden: session.record.forbids(caller),
            token: SlotToken { session, slot: args.slotid, cache_this: args.cache_this },
        }
    }

    /// Asks clients to use a quarter of their slots while the server is overloaded or their memory
    /// is tight, and one when it is used up (RFC 8881 section 2.10.6.1).
    fn target(&self, session: &Session, highest: u32) -> u32 {
        match self.pressure(&session.record.tenant) {
            Pressure::Short => 0,
            Pressure::Tight => highest / TIGHT_PART,
            Pressure::None if self.state.sessions.overloaded.load(Relaxed) => highest / TIGHT_PART,
            Pressure::None => highest,
        }
    }

    /// Sets whether the server is overloaded: from the next SEQUENCE on clients are asked to use
    /// fewer slots, or all of them again. Requests on the slots above are still served.
    pub fn set_overloaded(&self, overloaded: bool) {
        // Nearly always nothing changes: the cache line stays shared.
        if self.state.sessions.overloaded.load(Relaxed) != overloaded {
            self.state.sessions.overloaded.store(overloaded, Relaxed);
        }
    }

    /// Ends a COMPOUND: `reply` is the reply to a retry, `None` when it need not be cached.
    ///
    /// Pass the reply when sa_cachethis was set, and also when it is tiny (a SEQUENCE alone, an
    /// error). A reply above the channel's response_cached is not kept. Without effect if the
    /// session is gone by now.
    pub fn finish(&self, token: SlotToken, reply: Option<&[u8]>) {
        let SlotToken { session, slot, cache_this } = token;
        if !session.activity.is_closed() {
            let keeps = |reply: &&[u8]| {
                // Replies that were not to be cached are only kept where that costs others nothing.
                let asked = cache_this || slot == 0;
                reply.len() <= session.fore.response_cached as usize
                    && (asked || self.pressure(&session.record.tenant) < Pressure::Short)
            };
            let reply = reply.filter(keeps);
            let state = reply.map_or(SlotState::Uncached, |reply| SlotState::Cached(Arc::from(reply)));
            if let Some(mut slot) = session.slots.lock(slot) {
                slot.state = state;
                session.activity.cached(0, slot.cached_len());
            }
            self.count_replies(&session);
        }
        session.activity.leave();
    }
}

fn check_size(fore: &ChannelAttrs, args: &Sequence) -> Result<()> {
    if args.operations > fore.operations {
        return Err(Nfsstat4::NFS4ERR_TOO_MANY_OPS);
    }
    if args.request_size > fore.request_size {
        return Err(Nfsstat4::NFS4ERR_REQ_TOO_BIG);
    }
    if args.reply_min > fore.response_size {
        return Err(Nfsstat4::NFS4ERR_REP_TOO_BIG);
    }
    if args.cache_this && args.reply_min > fore.response_cached {
        return Err(Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE);
    }
    Ok(())
}
