//! Work for the server that results from changes of state.

pub(crate) mod image;

use crate::{ClientKey, CopyKey, DelegationKey, NoticeKey, PrincipalHash, RecordTickets, Sessionid4};
use std::net::IpAddr;

/// One thing for the server to do, taken by [`crate::State::take_effects`]. When the changes of
/// records are on stable storage, the server says so with [`crate::State::note_stable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The client may hold state from now on: put it on stable storage, so that it may reclaim
    /// after a restart (RFC 8881 section 8.4.2.1). Saying it twice of one owner is harmless; the
    /// last principal counts.
    RecordClient {
        /// co_ownerid of the client.
        owner: Vec<u8>,
        /// Hash of the principal that created the client.
        principal: PrincipalHash,
    },
    /// The client holds nothing any more, or must not reclaim: take it off stable storage.
    ForgetClient {
        /// co_ownerid of the client.
        owner: Vec<u8>,
    },
    /// The grace period has ended: the server may notify waiting clients.
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
        /// The client that holds the delegation.
        client: ClientKey,
        /// The delegation that the client must return.
        delegation: DelegationKey,
    },
    /// CB_GETATTR: another client asks for attributes that the holder of a delegation for writing
    /// may have changed (see [`crate::Delegations::getattr_file`]).
    Getattr {
        /// The client that holds the delegation.
        client: ClientKey,
        /// The delegation of the file in question.
        delegation: DelegationKey,
    },
    /// CB_NOTIFY_LOCK: the range that the client waits for may be free (see
    /// [`crate::Locks::lock_notice`]).
    NotifyLock {
        /// The client that waits.
        client: ClientKey,
        /// The lock that it waits for.
        notice: NoticeKey,
    },
    /// CB_OFFLOAD: a copy has ended (see [`crate::Copies::offload`]).
    Offload {
        /// The client of the copy.
        client: ClientKey,
        /// The copy that has ended.
        copy: CopyKey,
    },
    /// CB_RECALL_ANY: the client holds many delegations, and must return the least useful ones.
    RecallAny {
        /// The client that holds them.
        client: ClientKey,
        /// craa_objects_to_keep: the number of delegations to keep.
        keep: u32,
    },
}

/// A client that another one with the same client owner replaces. Each takes the other for its own
/// earlier incarnation (RFC 8881 section 18.35.4, case 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRival {
    /// co_ownerid of both, or the id of SETCLIENTID.
    pub owner: Vec<u8>,
    /// The address of the one that is replaced.
    pub address: IpAddr,
}

/// The work that one call leaves to the server before it sends the reply.
#[derive(Debug)]
#[must_use = "files are to be closed, and records to be kept"]
pub struct Effects<O> {
    /// Payloads of opens that are gone (CLOSE, an upgrade, an expired or replaced client) or were
    /// not needed; the caller drops them. No lock of state is held by now.
    pub closed: Vec<O>,
    /// The tickets of each [`Effect`] that the call has queued: one thread at a time must handle
    /// the queue, in order.
    pub queued: RecordTickets,
    /// The callbacks that the server must send.
    pub callbacks: Vec<CallbackTask>,
    /// Whether [`crate::Locks::take_unlocked`] has anything to tell.
    pub unlocked: bool,
    /// The client that lost its state to another one with the same client owner.
    pub rival: Option<OwnerRival>,
}

impl<O> Default for Effects<O> {
    fn default() -> Self {
        let (closed, callbacks) = (Vec::new(), Vec::new());
        Self { closed, queued: RecordTickets::default(), callbacks, unlocked: false, rival: None }
    }
}
