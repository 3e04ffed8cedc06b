//! What one COMPOUND carries from operation to operation (RFC 8881 section 16.2.3.1).

use super::unsettled::Unsettled;
use super::{Call, Fh, FileKey, Nfs, NfsState, Object, Of40, OpError, OpenPayload, Patience};
use identity::LOOKUP_WAIT_MAX;
use nfs4::{Clientid4, Nfsstat4, Sessionid4, Stateid4};
use state::{ChannelAttrs, ClientKey, Effects, OpSet, SlotToken, StateidKind};
use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use vfs::{Caller, Export, ExportTable};
use xdr::{Decoder, Encoder};

/// The session that SEQUENCE put a COMPOUND into.
#[derive(Debug)]
pub struct InSession {
    /// Ends the slot's use; taken by [`Compound::finish`].
    pub token: Option<SlotToken>,
    /// The client, as state knows it.
    pub client: ClientKey,
    /// The client's id.
    pub clientid: Clientid4,
    /// The session's id.
    pub sessionid: Sessionid4,
    /// The limits of the fore channel.
    pub fore: ChannelAttrs,
    /// sa_cachethis.
    pub cache_this: bool,
    /// Operations that this caller may not send (SP4_MACH_CRED).
    pub forbidden: OpSet,
}

/// Where the operation that runs stands in its COMPOUND.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    /// Operations before it.
    pub index: u32,
    /// Operations in the COMPOUND.
    pub count: u32,
}

impl Position {
    /// Whether no operation follows.
    pub fn is_last(self) -> bool {
        self.index + 1 >= self.count
    }
}

/// The state of one COMPOUND while it runs.
pub struct Compound<'c> {
    /// The server.
    pub nfs: &'c Nfs,
    /// The call.
    pub call: &'c Call<'c>,
    /// The exports that were in force when the call began.
    pub exports: Arc<ExportTable>,
    /// The minor version, 0 to 2.
    pub minor: u32,
    /// Where we are.
    pub position: Position,
    /// The current filehandle.
    pub current: Option<Fh>,
    /// Whether the call's flavor is not the one for the current filehandle.
    pub restricted: bool,
    /// The saved filehandle.
    pub saved: Option<Fh>,
    /// The current stateid.
    pub stateid: Option<Stateid4>,
    /// The saved stateid.
    pub saved_stateid: Option<Stateid4>,
    /// The session, once SEQUENCE has succeeded.
    pub session: Option<InSession>,
    /// What there is instead in NFSv4.0.
    pub v40: Of40,
    /// A reply out of the reply cache that stands for the whole COMPOUND.
    pub replay: Option<Arc<[u8]>>,
    /// Where in the reply buffer COMPOUND4res begins.
    pub reply_start: usize,
    /// Length that the reply buffer may not exceed.
    pub reply_end: usize,
    /// Files that the operation changes, from which others' delegations are kept off until its end.
    pub changing: RefCell<Vec<FileKey>>,
    /// What operations have changed and have not put on stable storage: see [`Compound::settle`].
    pub(super) unsettled: RefCell<Vec<Unsettled>>,
    /// Where in the reply the result of the operation that runs begins.
    pub(super) result_at: usize,
    /// How long operations may still wait for names where they may wait.
    pub(super) names_wait_left: Cell<Duration>,
    /// Whether operations may wait, or else are to fail with [`OpStop::Deferred`].
    pub patience: Patience,
}

impl<'c> Compound<'c> {
    /// Begins a COMPOUND whose reply starts at `reply_start` of the buffer and has no session yet.
    pub fn new(nfs: &'c Nfs, call: &'c Call<'c>, minor: u32, count: u32, reply_start: usize) -> Self {
        Self {
            nfs,
            call,
            exports: nfs.exports.snapshot(),
            minor,
            position: Position { index: 0, count },
            current: None,
            restricted: false,
            saved: None,
            stateid: None,
            saved_stateid: None,
            session: None,
            v40: Of40::default(),
            replay: None,
            reply_start,
            reply_end: reply_start.saturating_add(nfs.config.sessionless_reply_max),
            changing: RefCell::default(),
            unsettled: RefCell::default(),
            result_at: reply_start,
            names_wait_left: Cell::new(LOOKUP_WAIT_MAX),
            patience: Patience::Waits,
        }
    }

    /// Monotonic time of the call.
    pub fn now(&self) -> Duration {
        self.call.now
    }

    /// The client's address.
    pub fn client_ip(&self) -> IpAddr {
        self.call.peer.ip()
    }

    /// Clients, sessions, opens and locks.
    pub fn state(&self) -> &'c NfsState {
        &self.nfs.state
    }

    /// Runs what leaves something to do; that is done when it returns.
    pub fn with_effects<R>(&self, run: impl FnOnce(&NfsState, &mut Effects<OpenPayload>) -> R) -> R {
        self.nfs.with_effects(self.now(), run)
    }

    /// The sender as state sees it.
    pub fn sender(&self) -> state::Caller<'c> {
        state::Caller {
            connection: self.call.connection.0,
            address: self.client_ip(),
            principal: &self.call.security.sender,
            protection: self.call.security.protection(),
        }
    }

    /// The client of the session, or who there is instead in NFSv4.0.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION without one.
    pub fn client(&self) -> Result<ClientKey, OpError> {
        match &self.session {
            Some(session) => Ok(session.client),
            None => self.client_40(),
        }
    }

    /// The current filehandle.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE without one.
    pub fn fh(&self) -> Result<&Fh, OpError> {
        self.current.as_ref().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE.into())
    }

    /// The current filehandle as an object of an export; `pseudo` is the answer for a pseudo directory.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, `pseudo`.
    pub fn object(&self, pseudo: Nfsstat4) -> Result<&Object, OpError> {
        match self.fh()? {
            Fh::Object(object) => Ok(object),
            Fh::Pseudo(_) => Err(pseudo.into()),
        }
    }

    /// The current filehandle's file as state knows it.
    ///
    /// # Errors
    /// As [`Compound::object`].
    pub fn file(&self, pseudo: Nfsstat4) -> Result<FileKey, OpError> {
        self.object(pseudo).map(Object::key)
    }

    /// Makes another filehandle the current one; the current stateid goes.
    pub fn set_current(&mut self, fh: Fh) {
        self.current = Some(fh);
        self.restricted = false;
        self.stateid = None;
    }

    /// The caller as the export's backend shall see it.
    pub fn caller(&self, export: &Export) -> Caller {
        export.squash(self.call.security.caller.as_ref())
    }

    /// Puts the current stateid in the place of the special one (RFC 8881 section 16.2.3.1.2).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID when there is none, or for a reserved stateid that means nothing.
    pub fn resolve(&self, stateid: Stateid4) -> Result<Stateid4, OpError> {
        let stateid = match StateidKind::of(&stateid) {
            StateidKind::Current => self.stateid.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?,
            _ => stateid,
        };
        // CLOSE leaves one behind that is never valid.
        match StateidKind::of(&stateid) {
            StateidKind::Invalid => Err(Nfsstat4::NFS4ERR_BAD_STATEID.into()),
            _ => Ok(stateid),
        }
    }

    /// Bytes that the result of the operation may still take, the next operation's status kept free.
    pub fn room(&self, reply: &Encoder) -> usize {
        let kept = if self.position.is_last() { 0 } else { super::space::STATUS_RESERVE };
        self.reply_end.saturating_sub(reply.len() + kept)
    }

    /// The status for a result that does not fit (RFC 8881 section 2.10.6.4).
    pub fn too_big(&self) -> Nfsstat4 {
        match &self.session {
            Some(session)
                if session.cache_this && session.fore.response_cached < session.fore.response_size =>
            {
                Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE
            }
            _ => Nfsstat4::NFS4ERR_REP_TOO_BIG,
        }
    }

    /// Reads the number of the next operation without moving on; `args` stands behind the one that runs.
    pub fn peek(&self, args: &Decoder<'_>) -> Option<u32> {
        if self.position.is_last() {
            return None;
        }
        let mut ahead = *args;
        ahead.u32().ok()
    }

    /// Ends the use of the slot; `reply` is what a retry will get.
    pub fn finish(&mut self, reply: Option<&[u8]>) {
        if let Some(token) = self.session.as_mut().and_then(|session| session.token.take()) {
            self.state().finish(token, reply);
        }
    }
}

/// A slot is freed, and changes end, even when an operation panics.
impl Drop for Compound<'_> {
    fn drop(&mut self) {
        self.end_changes();
        self.finish(None);
    }
}
