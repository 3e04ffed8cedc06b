//! What the server has to do because state changed.

use crate::{ClientKey, CopyKey, DelegationKey, NoticeKey, PrincipalHash, Sessionid4};

/// One thing for the server to do, taken by [`crate::State::next_effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The client may hold state from now on: put it on stable storage, so that it may reclaim
    /// after a restart (RFC 8881 section 8.4.2.1). Saying it twice of one owner is harmless; the
    /// last principal counts.
    RecordClient {
        /// co_ownerid.
        owner: Vec<u8>,
        /// Who created the client.
        principal: PrincipalHash,
    },
    /// The client holds nothing any more, or must not reclaim: take it off stable storage.
    ForgetClient {
        /// co_ownerid.
        owner: Vec<u8>,
    },
    /// The grace period has ended: clients that wait may be told.
    GraceEnded,
}

/// A callback that the server is to send (RFC 8881 section 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallbackTask {
    /// CB_SEQUENCE alone, to see whether the backchannel of a session works.
    Probe {
        /// The session; the client knows it, since it has sent a SEQUENCE.
        sessionid: Sessionid4,
    },
    /// CB_RECALL: a conflict waits for a delegation (see [`crate::Delegations::recall`]).
    Recall {
        /// Who has it.
        client: ClientKey,
        /// Which it is.
        delegation: DelegationKey,
    },
    /// CB_GETATTR: another client asks for attributes that the holder of a delegation for writing
    /// may have changed (see [`crate::Delegations::getattr_file`]).
    Getattr {
        /// Who has the delegation.
        client: ClientKey,
        /// Which it is.
        delegation: DelegationKey,
    },
    /// CB_NOTIFY_LOCK: what the client has waited for may be free (see
    /// [`crate::Locks::lock_notice`]).
    NotifyLock {
        /// Who waits.
        client: ClientKey,
        /// For what.
        notice: NoticeKey,
    },
    /// CB_OFFLOAD: a copy has ended (see [`crate::Copies::offload`]).
    Offload {
        /// Whose it was.
        client: ClientKey,
        /// Which it was.
        copy: CopyKey,
    },
    /// CB_RECALL_ANY: the client has many delegations, and is to keep those that it needs most.
    RecallAny {
        /// Who has them.
        client: ClientKey,
        /// craa_objects_to_keep.
        keep: u32,
    },
}

/// What one call leaves for the server to do before it sends the reply.
#[derive(Debug)]
#[must_use = "files are to be closed, and records to be kept"]
pub struct Effects<O> {
    /// What the server attached to opens that are gone (CLOSE, an upgrade, an expired or replaced
    /// client), or has not come to be needed: to be dropped. No lock of state is held by now.
    pub closed: Vec<O>,
    /// Whether the call has queued any [`Effect`]: those in the queue are to be handled, in order,
    /// by one thread at a time.
    pub queued: bool,
    /// Callbacks to send.
    pub callbacks: Vec<CallbackTask>,
    /// Whether [`crate::Locks::take_unlocked`] has anything to tell.
    pub unlocked: bool,
}

impl<O> Default for Effects<O> {
    fn default() -> Self {
        Self { closed: Vec::new(), queued: false, callbacks: Vec::new(), unlocked: false }
    }
}
