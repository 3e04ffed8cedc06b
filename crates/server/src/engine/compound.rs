//! The state that one COMPOUND carries from operation to operation (RFC 8881 section 16.2.3.1).

use super::pending_sync::PendingSync;
use super::{Call, DeferReason, Fh, FileKey, Nfs, NfsState, Object, Of40, OpError, OpenPayload, WaitPolicy};
use crate::metrics::RequestSubject;
use nfs4::{Clientid4, Nfsstat4, Sessionid4, Stateid4};
use pipes::Attachment;
use state::{ChannelAttrs, ClientKey, Effects, OpSet, RecordTickets, SlotToken, StateidKind};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};
use vfs::{Caller, ClientPeer, ExportTable};
use xdr::{Decoder, Encoder};

/// The session of a COMPOUND after SEQUENCE.
#[derive(Debug)]
pub struct InSession {
    /// Ends the slot's use; taken by [`Compound::finish`].
    pub token: Option<SlotToken>,
    /// The client's key in the state.
    pub client: ClientKey,
    /// The client ID on the wire.
    pub clientid: Clientid4,
    /// The session ID on the wire.
    pub sessionid: Sessionid4,
    /// The negotiated limits of the fore channel.
    pub fore: ChannelAttrs,
    /// sa_cachethis: the client asks to cache the reply.
    pub cache_this: bool,
    /// Operations that this caller may not send (SP4_MACH_CRED).
    pub forbidden: OpSet,
}

/// The position of the current operation in its COMPOUND.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    /// The number of operations before it.
    pub index: u32,
    /// The number of operations in the COMPOUND.
    pub count: u32,
}

impl Position {
    /// Returns whether no operation follows.
    pub fn is_last(self) -> bool {
        self.index + 1 >= self.count
    }
}

/// The progress of a COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompoundPhase {
    /// Its operations are running.
    Running,
    /// It is deferred: its next operation would block.
    Deferred(DeferReason),
    /// All operations have run, the last one with this status, and their changes are on stable
    /// storage. The client records that the reply depends on are not.
    Unrecorded(Nfsstat4),
    /// All operations have run, the last one with this status. Their changes are not yet on stable
    /// storage.
    Executed(Nfsstat4),
}

/// The state that a COMPOUND owns. It moves as a whole when the COMPOUND is deferred and another
/// thread resumes it.
///
/// While it is deferred, its slot stays in use: it must be given to [`Nfs::resume`],
/// [`Nfs::decline`] or [`Nfs::complete`].
#[must_use = "its slot stays busy until it is resumed or given up"]
#[derive(Debug)]
pub struct CompoundState {
    pub(crate) phase: CompoundPhase,
    /// The exports that were active when the call arrived.
    pub(crate) exports: Arc<ExportTable>,
    /// The minor version, 0 to 2.
    pub(crate) minor: u32,
    /// The index of the current operation.
    pub(crate) position: Position,
    /// How many times the current operation has been deferred.
    pub(crate) deferrals: u32,
    /// The current filehandle, if one is set.
    pub(crate) current: Option<Fh>,
    /// Whether the flavor of the call differs from the flavors of the current filehandle's export.
    pub(crate) restricted: bool,
    /// The saved filehandle, if one is set.
    pub(crate) saved: Option<Fh>,
    /// The current stateid, if one is set.
    pub(crate) stateid: Option<Stateid4>,
    /// The saved stateid, if one is set.
    pub(crate) saved_stateid: Option<Stateid4>,
    /// The session, after SEQUENCE has succeeded.
    pub(crate) session: Option<InSession>,
    /// The state that replaces the session in NFSv4.0.
    pub(crate) v40: Of40,
    /// The cached reply that answers the whole COMPOUND.
    pub(crate) replay: Option<Arc<[u8]>>,
    /// The operation and the export that it is about.
    pub(crate) subject: RequestSubject,
    /// The offset of COMPOUND4res in the reply buffer.
    pub(crate) reply_start: usize,
    /// The limit of the length of the reply buffer, in bytes.
    pub(crate) reply_end: usize,
    /// File data of the reply outside of its buffer.
    pub(crate) attached: Option<Attachment>,
    /// The offset of the number of results in the reply buffer.
    pub(crate) count_at: usize,
    /// The offset in the arguments of the first operation that has not run.
    pub(crate) args_at: usize,
    /// The offset of the current operation's result in the reply buffer.
    pub(crate) result_at: usize,
    /// Changes that are not on stable storage: see [`Compound::sync_before_reply`].
    pub(crate) pending_syncs: RefCell<Vec<PendingSync>>,
    /// The changes of client records that must be on stable storage before the reply.
    pub(crate) records: Cell<RecordTickets>,
    /// Whether an operation looked up or changed names: see
    /// [`CompoundOutcome::expensive`](super::CompoundOutcome).
    pub(crate) expensive: Cell<bool>,
    /// Whether the COMPOUND is one of those that stand for all: see
    /// [`ServedCounters::is_sample`](crate::metrics::ServedCounters). It may end on another thread
    /// than it began on.
    pub(crate) is_sample: bool,
}

impl CompoundState {
    /// Begins a COMPOUND without a session. COMPOUND4res starts at `reply_start` of the reply
    /// buffer.
    pub(crate) fn new(nfs: &Nfs, minor: u32, count: u32, reply_start: usize) -> Self {
        Self {
            phase: CompoundPhase::Running,
            exports: nfs.exports.snapshot(),
            minor,
            position: Position { index: 0, count },
            deferrals: 0,
            current: None,
            restricted: false,
            saved: None,
            stateid: None,
            saved_stateid: None,
            session: None,
            v40: Of40::default(),
            replay: None,
            subject: RequestSubject::default(),
            reply_start,
            reply_end: reply_start.saturating_add(nfs.config.sessionless_reply_max),
            attached: None,
            count_at: reply_start,
            args_at: 0,
            result_at: reply_start,
            pending_syncs: RefCell::default(),
            records: Cell::default(),
            expensive: Cell::new(false),
            is_sample: false,
        }
    }
}

/// A COMPOUND while a thread runs it: the state that it owns, and the environment that it borrows.
pub struct Compound<'c> {
    /// The server, shared by all threads.
    pub nfs: &'c Nfs,
    /// The call that carries the COMPOUND.
    pub call: &'c Call<'c>,
    /// The state that outlives a deferral.
    pub progress: &'c mut CompoundState,
    /// Files that the current operation changes. Until it ends, no other client gets a delegation
    /// for them.
    pub(super) changing: RefCell<Vec<FileKey>>,
    /// The time that operations may still wait for the name service.
    pub(super) names_wait_left: Cell<Duration>,
    /// Whether operations block on this thread or stop with [`OpStop::Deferred`](super::OpStop).
    pub(super) policy: WaitPolicy,
}

impl<'c> Compound<'c> {
    /// Continues a COMPOUND from its present state.
    pub(crate) fn new(
        nfs: &'c Nfs,
        call: &'c Call<'c>,
        progress: &'c mut CompoundState,
        policy: WaitPolicy,
    ) -> Self {
        progress.phase = CompoundPhase::Running;
        Self {
            nfs,
            call,
            progress,
            changing: RefCell::default(),
            names_wait_left: Cell::new(nfs.identity.lookup_wait_max()),
            policy,
        }
    }

    /// Returns the monotonic time of the call.
    pub fn now(&self) -> Duration {
        self.call.now
    }

    /// Returns the client as the rules of exports see it.
    pub fn peer(&self) -> ClientPeer {
        ClientPeer { address: self.call.peer, now: self.call.now }
    }

    /// Returns the state: clients, sessions, opens and locks.
    pub fn state(&self) -> &'c NfsState {
        &self.nfs.state
    }

    /// Runs a state transition, and carries out its effects before it returns, except for client
    /// records: the COMPOUND's reply waits for these.
    pub fn with_effects<R>(&self, run: impl FnOnce(&NfsState, &mut Effects<OpenPayload>) -> R) -> R {
        self.nfs.with_queue(self.now(), run, |queued| self.progress.depend_on(queued))
    }

    /// Returns the caller in the form that state uses.
    pub fn sender(&self) -> state::Caller<'c> {
        state::Caller {
            connection: self.call.connection.0,
            address: self.call.peer.ip(),
            principal: &self.call.security.sender,
            protection: self.call.security.protection(),
        }
    }

    /// Returns the client of the session, or the client of an NFSv4.0 call.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION without a session.
    pub fn client(&self) -> Result<ClientKey, OpError> {
        match &self.progress.session {
            Some(session) => Ok(session.client),
            None => self.client_40(),
        }
    }

    /// Returns the current filehandle.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE without one.
    pub fn fh(&self) -> Result<&Fh, OpError> {
        self.progress.current.as_ref().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE.into())
    }

    /// Returns the current filehandle as an object of an export. `pseudo` is the error for a pseudo
    /// directory.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, `pseudo`.
    pub fn object(&self, pseudo: Nfsstat4) -> Result<&Object, OpError> {
        match self.fh()? {
            Fh::Object(object) => Ok(object),
            Fh::Pseudo(_) => Err(pseudo.into()),
        }
    }

    /// Returns the file of the current filehandle as state identifies it.
    ///
    /// # Errors
    /// As [`Compound::object`].
    pub fn file(&self, pseudo: Nfsstat4) -> Result<FileKey, OpError> {
        self.object(pseudo).map(Object::key)
    }

    /// Sets the current filehandle and clears the current stateid.
    pub fn set_current(&mut self, fh: Fh) {
        self.progress.current = Some(fh);
        self.progress.restricted = false;
        self.progress.stateid = None;
    }

    /// Returns the caller of an operation on an object, after the squashing of its export.
    pub fn caller(&self, object: &Object) -> Caller {
        object.rule().squash(self.call.security.caller.as_ref())
    }

    /// Replaces the special current stateid by the actual one (RFC 8881 section 16.2.3.1.2).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID when there is none, or for a reserved stateid without a meaning.
    pub fn resolve(&self, stateid: Stateid4) -> Result<Stateid4, OpError> {
        let stateid = match StateidKind::of(&stateid) {
            StateidKind::Current => self.progress.stateid.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?,
            _ => stateid,
        };
        // CLOSE leaves a current stateid that is never valid.
        match StateidKind::of(&stateid) {
            StateidKind::Invalid => Err(Nfsstat4::NFS4ERR_BAD_STATEID.into()),
            _ => Ok(stateid),
        }
    }

    /// Returns the bytes left for the result of the operation, with room kept for the next
    /// operation's status.
    pub fn room(&self, reply: &Encoder) -> usize {
        let kept = if self.progress.position.is_last() { 0 } else { super::space::STATUS_RESERVE };
        self.progress.reply_end.saturating_sub(self.reply_len(reply) + kept)
    }

    /// Returns the status for a result that does not fit (RFC 8881 section 2.10.6.4).
    pub fn too_big(&self) -> Nfsstat4 {
        match &self.progress.session {
            Some(session)
                if session.cache_this && session.fore.response_cached < session.fore.response_size =>
            {
                Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE
            }
            _ => Nfsstat4::NFS4ERR_REP_TOO_BIG,
        }
    }

    /// Returns the number of the next operation without consuming it. `args` stands behind the
    /// arguments of the current one.
    pub fn peek(&self, args: &Decoder<'_>) -> Option<u32> {
        if self.progress.position.is_last() {
            return None;
        }
        let mut ahead = *args;
        ahead.u32().ok()
    }

    /// Ends the use of the slot. `reply` is the reply cached for a retry.
    pub fn finish(&mut self, reply: Option<&[u8]>) {
        if let Some(token) = self.progress.session.as_mut().and_then(|session| session.token.take()) {
            self.state().sessions().finish(token, reply);
        }
    }
}

/// Ends changes and frees the slot, also after a panic. A deferred COMPOUND keeps its slot.
impl Drop for Compound<'_> {
    fn drop(&mut self) {
        self.end_changes();
        if self.progress.phase == CompoundPhase::Running {
            self.finish(None);
        }
    }
}
