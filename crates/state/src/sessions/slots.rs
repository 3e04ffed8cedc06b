//! Slots and the reply cache of a session (RFC 8881 section 2.10.6.1).

pub(crate) mod image;

use crate::order::{Guard, Leaf, LeafLevel};
use crate::sessions::Session;
use crate::sync::{Mutex, MutexGuard};
use crate::{Caller, Nfsstat4, Principal, Protection, ReferringCall, Result, Sequence};
use std::sync::{Arc, OnceLock};

/// Stands for a COMPOUND that runs on a slot; not cloneable, so that it ends once.
#[must_use = "a slot stays busy until Sessions::finish gets its token"]
#[derive(Debug)]
pub struct SlotToken {
    pub(crate) session: Arc<Session>,
    pub(crate) slot: u32,
    /// sa_cachethis of the request.
    pub(crate) cache_this: bool,
}

impl SlotToken {
    /// Returns how a callback refers to the request.
    pub(crate) fn referring(&self) -> Option<ReferringCall> {
        let sequenceid = self.session.slots.lock(self.slot)?.sequence;
        Some(ReferringCall { sessionid: self.session.id, sequenceid, slotid: self.slot })
    }
}

/// The memory of a slot: its last request and reply.
#[derive(Clone, Debug, Default)]
pub(crate) enum SlotState {
    /// Nothing was sent on it: a retry of sequence id zero is NFS4ERR_SEQ_MISORDERED.
    #[default]
    Fresh,
    /// The request is in progress.
    Running,
    /// The request has ended, and its reply was not cached.
    Uncached,
    /// The request ran and this is its reply.
    Cached(Arc<[u8]>),
}

/// One slot: the last request, and its reply if that is cached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) sequence: u32,
    pub(crate) state: SlotState,
    fingerprint: u64,
    principal: Option<Principal>,
    protection: Option<Protection>,
}

/// The relation of a request to its slot.
pub(crate) enum SlotCheck {
    New,
    Replay(Arc<[u8]>),
}

impl Slot {
    pub(crate) fn cached_len(&self) -> usize {
        match &self.state {
            SlotState::Cached(reply) => reply.len(),
            _ => 0,
        }
    }

    /// Returns whether a request runs on it.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, SlotState::Running)
    }

    /// Returns whether RPCSEC_GSS proved the caller of its last request, and the protection.
    pub(crate) fn caller(&self) -> Option<(bool, Protection)> {
        Some((self.principal.as_ref()?.is_proved(), self.protection?))
    }

    /// Compares the request with the last one on the slot (RFC 8881 section 18.46.3).
    pub(crate) fn check(&self, caller: &Caller<'_>, args: &Sequence) -> Result<SlotCheck> {
        let retry = args.sequenceid == self.sequence;
        match &self.state {
            SlotState::Fresh if retry => Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED),
            // The first copy still runs: the retry came over another connection and has to wait.
            SlotState::Running if retry => Err(Nfsstat4::NFS4ERR_DELAY),
            SlotState::Running => Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED),
            _ if args.sequenceid == self.sequence.wrapping_add(1) => Ok(SlotCheck::New),
            _ if !retry => Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED),
            _ if !self.is_last_request(caller, args) => Err(Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY),
            SlotState::Cached(reply) => Ok(SlotCheck::Replay(reply.clone())),
            SlotState::Fresh | SlotState::Uncached => Err(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP),
        }
    }

    /// A cached reply is for the same bytes from the same principal only (RFC 8881 section
    /// 2.10.6.1.3.1), and for the same protection: the reply to a call with privacy must not leave
    /// in clear.
    fn is_last_request(&self, caller: &Caller<'_>, args: &Sequence) -> bool {
        self.fingerprint == args.fingerprint
            && self.principal.as_ref() == Some(caller.principal)
            && self.protection == Some(caller.protection)
    }

    /// Puts a new request on the slot, in place of the last one, and returns that one's reply.
    pub(crate) fn begin(&mut self, caller: &Caller<'_>, args: &Sequence) -> SlotState {
        self.sequence = args.sequenceid;
        self.fingerprint = args.fingerprint;
        // Nearly always it is the same principal as last time: save the reference counting.
        if self.principal.as_ref() != Some(caller.principal) {
            self.principal = Some(caller.principal.clone());
        }
        self.protection = Some(caller.protection);
        std::mem::replace(&mut self.state, SlotState::Running)
    }
}

/// Slots that are made together, when the first of them is used.
const CHUNK: usize = 8;

/// A chunk of neighbouring slots.
type Chunk = Box<[Leaf<Mutex<Slot>>; CHUNK]>;

/// The slots of a session, each behind its own lock: requests on different slots do not meet here.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) chunks: Box<[OnceLock<Chunk>]>,
}

impl Slots {
    /// Makes room for a number of slots; their memory is taken as they are used.
    pub(crate) fn new(count: u32) -> Self {
        Self { chunks: (0..(count as usize).div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Counts the requests on all slots by their sequence numbers.
    pub(crate) fn requests(&self) -> u64 {
        let slots = self.chunks.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter());
        slots.map(|slot| u64::from(slot.lock().sequence)).sum()
    }

    /// Bytes that a slot takes, without its reply.
    pub(crate) const fn size() -> usize {
        std::mem::size_of::<Leaf<Mutex<Slot>>>()
    }

    /// Locks a slot, unless it was never used.
    pub(crate) fn lock_used(&self, slot: u32) -> Option<Guard<MutexGuard<'_, Slot>, LeafLevel>> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?.get()?;
        Some(chunk.get(slot as usize % CHUNK)?.lock())
    }

    /// Locks a slot; `None` for one beyond the table.
    pub(crate) fn lock(&self, slot: u32) -> Option<Guard<MutexGuard<'_, Slot>, LeafLevel>> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        let chunk = chunk.get_or_init(|| Box::new(std::array::from_fn(|_| Leaf::default())));
        Some(chunk.get(slot as usize % CHUNK)?.lock())
    }
}
