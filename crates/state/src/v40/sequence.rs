//! The sequence numbers of a state-owner, and its last reply (RFC 7530 sections 9.1.7 to 9.1.9).

use super::{Other, StateOwner};
use crate::opens::next_seqid;
use crate::slab::SlabKey;
use crate::sync::MutexGuard;
use crate::{Nfsstat4, Principal, Result};

/// The parts that distinguish sequenced requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the operation.
    pub operation: u32,
    /// A hash of its arguments and sender.
    pub fingerprint: u64,
}

/// A reply that is kept for a copy of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The status of its reply.
    pub status: Nfsstat4,
    /// The result behind the status.
    pub body: Box<[u8]>,
    /// The filehandle that it made the current one, of OPEN; else empty.
    pub filehandle: Box<[u8]>,
}

/// The next step of a sequenced request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It is to be run.
    Run,
    /// It is the copy of one that was answered so.
    Replay(Replay),
}

/// Where an owner stands.
#[derive(Debug, Default)]
pub(crate) struct OwnerSequence {
    /// The last number; nothing before the first request, which may begin with any.
    pub(super) seqid: Option<u32>,
    /// The open-owner has said OPEN_CONFIRM; of lock-owners it means nothing.
    pub(super) confirmed: bool,
    /// The open that waits for it.
    pub(super) unconfirmed: Option<SlabKey>,
    /// The principal of the last OPEN, or of the first LOCK.
    pub(super) principal: Option<Principal>,
    /// The stateid that the last request closed.
    pub(super) closed: Option<Other>,
    pub(super) last: Option<(Request, Replay)>,
}

/// The turn of one request of an owner: others of it wait, as the one reply that is kept demands.
#[derive(Debug)]
pub struct Turn<'o> {
    pub(super) owner: &'o StateOwner,
    pub(super) sequence: MutexGuard<'o, OwnerSequence>,
}

impl Turn<'_> {
    /// Holds a sequence number against the last one.
    ///
    /// # Errors
    /// NFS4ERR_BAD_SEQID.
    pub fn begin(&self, seqid: u32, request: Request) -> Result<Begin> {
        let Some(last) = self.sequence.seqid else { return Ok(Begin::Run) };
        if seqid == last {
            return match &self.sequence.last {
                Some((before, replay)) if *before == request => Ok(Begin::Replay(replay.clone())),
                _ => Err(Nfsstat4::NFS4ERR_BAD_SEQID),
            };
        }
        // Zero is left out, though not by every client.
        let next = seqid == next_seqid(last) || seqid == last.wrapping_add(1);
        if next { Ok(Begin::Run) } else { Err(Nfsstat4::NFS4ERR_BAD_SEQID) }
    }

    /// Like [`Turn::begin`], for OPEN: while an earlier OPEN of the owner waits for its
    /// confirmation, any other takes its place (RFC 7530 section 16.18.5). The caller then has to
    /// cancel the unconfirmed one.
    ///
    /// An OPEN that failed is run again for an unconfirmed owner: it has changed nothing, and a
    /// client that forgets an owner after its first OPEN failed begins again with the same number.
    ///
    /// # Errors
    /// NFS4ERR_BAD_SEQID for a number out of order.
    pub fn begin_open(&self, seqid: u32, request: Request) -> Result<Begin> {
        match self.begin(seqid, request) {
            Ok(Begin::Replay(replay)) if self.sequence.confirmed || replay.status == Nfsstat4::NFS4_OK => {
                Ok(Begin::Replay(replay))
            }
            _ if !self.sequence.confirmed => Ok(Begin::Run),
            begin => begin,
        }
    }

    /// Whether the owner has said OPEN_CONFIRM.
    pub fn is_confirmed(&self) -> bool {
        self.sequence.confirmed
    }

    /// Whether the owner has never been heard of.
    pub fn is_new(&self) -> bool {
        self.sequence.seqid.is_none()
    }

    /// Keeps the reply, unless its status is one that leaves the number unused (RFC 7530 section
    /// 9.1.7). Returns whether it was kept.
    pub fn end(&mut self, seqid: u32, request: Request, replay: Replay) -> bool {
        use Nfsstat4::*;
        let again = matches!(
            replay.status,
            NFS4ERR_STALE_CLIENTID
                | NFS4ERR_STALE_STATEID
                | NFS4ERR_BAD_STATEID
                | NFS4ERR_BAD_SEQID
                | NFS4ERR_BADXDR
                | NFS4ERR_RESOURCE
                | NFS4ERR_NOFILEHANDLE
                | NFS4ERR_MOVED
        );
        if !again {
            self.sequence.seqid = Some(seqid);
            self.sequence.last = Some((request, replay));
        }
        !again
    }

    /// Notes the principal of the owner.
    pub fn set_principal(&mut self, principal: &Principal) {
        self.sequence.principal = Some(principal.clone());
    }

    /// Removes the sequence of a lock-owner whose first LOCK failed.
    pub fn forget(&mut self) {
        *self.sequence = OwnerSequence::default();
    }
}
