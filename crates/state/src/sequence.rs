//! SEQUENCE (RFC 8881 sections 2.10.6 and 18.46): exactly-once semantics by slots.

use crate::{Caller, ChannelAttrs, ClientKey, Clientid4, Result, Sessionid4, SlotToken, State};
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
    /// NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT,
    /// NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_RETRY_UNCACHED_REP, NFS4ERR_DELAY (the first copy of
    /// the request still runs), NFS4ERR_TOO_MANY_OPS, NFS4ERR_REQ_TOO_BIG. None of them moves the slot.
    pub fn sequence(&mut self, now: Duration, caller: &Caller<'_>, args: &Sequence) -> Result<Sequenced> {
        let _ = (now, caller, args);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Ends a COMPOUND: `reply` is what a retry gets, `None` when it was not to be cached.
    ///
    /// Give the reply when sa_cachethis was set, and also when it costs next to nothing (a SEQUENCE alone, an error).
    /// A reply above the channel's response_cached is not kept. Does nothing when the session is gone by now.
    pub fn finish(&mut self, token: SlotToken, reply: Option<&[u8]>) {
        let _ = (token, reply);
    }
}
