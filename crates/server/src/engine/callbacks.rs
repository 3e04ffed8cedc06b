//! The life of a callback, from the request to its answer.

use super::{Compound, FileKey, Nfs};
use crate::callback::message::{self, CallbackOperation, CallbackReply};
use crate::callback::{
    ANSWER_TIME_MAX, ANSWER_TIME_MIN, CallbackTransport, OpenedCallback, Proof, Sent, TRIES_MAX,
};
use nfs4::{
    Bitmap4, CallbackSecParms4, CbGetattr4Args, CbNotifyLock4Args, CbOffload4Args, CbRecall4Args,
    CbRecallAny4Args, FATTR4_CHANGE, FATTR4_SIZE, Filehandle, NfsCbArgop4, Nfsstat4, OffloadInfo4,
    RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_WDATA_DLG, StableHow4, StateOwner4, WriteResponse4,
};
use rpc::ConnectionId;
use rpcsec::CONFOUNDER_LEN;
use state::{CallbackEnd, CallbackSecurity, CallbackTask, ClientKey, GetattrWait, NoBackChannel, Offload};
use std::sync::Arc;
use std::time::Duration;
use xdr::Decoder;

/// Returns the client of a callback. A probe belongs to a session instead.
fn client_of(task: &CallbackTask) -> Option<ClientKey> {
    match task {
        CallbackTask::Probe { .. } => None,
        CallbackTask::Recall { client, .. }
        | CallbackTask::RecallAny { client, .. }
        | CallbackTask::Getattr { client, .. }
        | CallbackTask::NotifyLock { client, .. }
        | CallbackTask::Offload { client, .. } => Some(*client),
    }
}

/// The connection of a callback without a usable answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UsedConnection {
    /// It has closed, with the callback.
    Closed,
    /// It is open but does not carry callbacks.
    Silent,
}

impl Compound<'_> {
    /// Converts callback_sec_parms4 to the form that state keeps.
    ///
    /// # Errors
    /// NFS4ERR_NOENT for a context that does not exist, or is not the caller's.
    pub fn callback_security(
        &self,
        parms: &[CallbackSecParms4<'_>],
    ) -> Result<Vec<CallbackSecurity>, Nfsstat4> {
        let (sender, now) = (&self.call.security.sender, self.now());
        parms.iter().map(|parms| self.nfs.callbacks.security(parms, sender, now)).collect()
    }
}

impl Nfs {
    /// Sets the sender of callbacks. Until then no client counts as reachable by callbacks.
    pub fn connect_callbacks(&self, transport: Box<dyn CallbackTransport>) {
        self.callbacks.connect(transport);
    }

    /// Sets the hook that runs, without any lock held, whenever [`Nfs::getattr_pending`] may have
    /// become false for a COMPOUND.
    pub fn connect_answers(&self, answered: Box<dyn Fn() + Send + Sync>) {
        self.callbacks.connect_answers(answered);
    }

    /// Returns whether a COMPOUND still waits for a client's answer to CB_GETATTR (see
    /// [`WaitsFor::getattr_wait`](crate::engine::WaitsFor::getattr_wait)).
    pub fn getattr_pending(&self, wait: GetattrWait) -> bool {
        self.state.delegations().getattr_pending(wait)
    }

    /// Sends callbacks as far as there are slots and connections. The others wait for a slot or are
    /// repeated by housekeeping.
    pub(crate) fn start_callbacks(&self, tasks: Vec<CallbackTask>, now: Duration) {
        for task in tasks {
            self.start_callback(task, 0, now);
        }
    }

    fn start_callback(&self, task: CallbackTask, tries: u8, now: Duration) {
        let Some(operation) = self.operation(&task) else { return };
        let begun = match (task, client_of(&task)) {
            (CallbackTask::Probe { sessionid }, _) => self.state.callbacks().begin_probe(&sessionid),
            (_, Some(client)) => self.state.callbacks().begin_callback(client),
            (_, None) => return,
        };
        match (begun, client_of(&task)) {
            (Ok(call), _) => {
                let proof = Arc::new(Proof::None);
                self.send_callback(Sent { task, call, proof, tries, since: now }, &operation, now);
            }
            (Err(NoBackChannel::Busy), Some(client)) if self.callbacks.wait(client, task) => {}
            (Err(_), _) => self.drop_callback(&task),
        }
    }

    /// Returns the operation of a callback; `None` when the callback is no longer needed.
    fn operation(&self, task: &CallbackTask) -> Option<CallbackOperation> {
        match task {
            CallbackTask::Probe { .. } => Some(CallbackOperation::default()),
            CallbackTask::Recall { delegation, .. } => {
                let recall = self.state.delegations().recall(*delegation)?;
                let fh = self.filehandle(&recall.file).into();
                let args = CbRecall4Args { stateid: recall.stateid, truncate: false, fh };
                let argop = Some(NfsCbArgop4::OP_CB_RECALL(args));
                Some(CallbackOperation { argop, referring: recall.granted })
            }
            CallbackTask::Getattr { delegation, .. } => {
                let fh = self.filehandle(&self.state.delegations().getattr_file(*delegation)?).into();
                let attr_request = Bitmap4::of(&[FATTR4_CHANGE, FATTR4_SIZE]);
                let argop = Some(NfsCbArgop4::OP_CB_GETATTR(CbGetattr4Args { fh, attr_request }));
                Some(CallbackOperation { argop, referring: None })
            }
            CallbackTask::NotifyLock { notice, .. } => {
                let notice = self.state.locks().lock_notice(*notice)?;
                let cnla_fh = self.filehandle(&notice.file).into();
                let owner = notice.owner.to_vec().into();
                let cnla_lock_owner = StateOwner4 { clientid: notice.clientid, owner };
                let args = CbNotifyLock4Args { cnla_fh, cnla_lock_owner };
                Some(CallbackOperation { argop: Some(NfsCbArgop4::OP_CB_NOTIFY_LOCK(args)), referring: None })
            }
            CallbackTask::Offload { copy, .. } => {
                let offload = self.state.copies().offload(*copy)?;
                let referring = offload.begun;
                Some(CallbackOperation {
                    argop: Some(NfsCbArgop4::OP_CB_OFFLOAD(self.cb_offload(offload))),
                    referring,
                })
            }
            CallbackTask::RecallAny { keep, .. } => {
                let craa_type_mask = Bitmap4::of(&[RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_WDATA_DLG]);
                let args = CbRecallAny4Args { craa_objects_to_keep: *keep, craa_type_mask };
                Some(CallbackOperation { argop: Some(NfsCbArgop4::OP_CB_RECALL_ANY(args)), referring: None })
            }
        }
    }

    /// Builds the CB_OFFLOAD of a finished copy. The data is as unstable as after a WRITE with
    /// UNSTABLE4: the client sends COMMIT.
    fn cb_offload(&self, offload: Offload<FileKey>) -> CbOffload4Args<'static> {
        let Offload { stateid, file, status, count, verifier, .. } = offload;
        let coa_offload_info = match status {
            Nfsstat4::NFS4_OK => OffloadInfo4::NFS4_OK(WriteResponse4 {
                wr_callback_id: Vec::new(),
                wr_count: count,
                wr_committed: StableHow4::UNSTABLE4,
                wr_writeverf: verifier,
            }),
            status => OffloadInfo4::Default(status, count),
        };
        CbOffload4Args { coa_fh: self.filehandle(&file).into(), coa_stateid: stateid, coa_offload_info }
    }

    /// Returns the filehandle of a file as clients know it.
    fn filehandle(&self, file: &FileKey) -> Vec<u8> {
        let mut bytes = Vec::new();
        let filehandle = Filehandle { export: file.export, object: file.handle.as_bytes() };
        let exports = self.exports.snapshot();
        // Cannot fail: the filehandle was given to clients before.
        let _ = self.with_key_of(exports.by_id(file.export), |key| filehandle.append_to(key, &mut bytes));
        bytes
    }

    /// Sends a callback that holds its slot.
    fn send_callback(&self, mut sent: Sent, operation: &CallbackOperation, now: Duration) {
        sent.since = now;
        sent.tries += 1;
        let connection = sent.call.channel.connection;
        match self.callbacks.select_proof(&sent.call.channel, now) {
            Some(proof) => sent.proof = Arc::new(proof),
            None => {
                self.state.callbacks().callback_contexts_lost(&sent.call);
                return self.lose(sent, now, UsedConnection::Silent);
            }
        }
        let mut confounder = [0; CONFOUNDER_LEN];
        confounder.as_chunks_mut::<8>().0.iter_mut().for_each(|half| *half = self.random().to_be_bytes());
        // The answer may arrive before this thread goes on, so the callback is recorded first.
        let encode = |xid, sent: &Sent| message::encode(xid, &sent.call, operation, &sent.proof, confounder);
        let (xid, record) = self.callbacks.insert(sent, encode);
        if !self.callbacks.send(connection, record)
            && let Some(sent) = self.callbacks.take(xid, connection)
        {
            self.lose(sent, now, UsedConnection::Closed);
        }
    }

    /// Handles an answer that arrived on a connection. Returns false if it matches no callback or
    /// is not genuine; then the callback still waits for its answer.
    pub fn callback_reply(&self, connection: ConnectionId, record: &[u8], now: Duration) -> bool {
        let Some(xid) = record.first_chunk().map(|xid| u32::from_be_bytes(*xid)) else { return false };
        let Some(proof) = self.callbacks.proof(xid, connection.0) else { return false };
        let opened = match proof.open(record) {
            OpenedCallback::Forged => return false,
            OpenedCallback::Refused => None,
            OpenedCallback::Results(results) => Some(results),
        };
        let Some(sent) = self.callbacks.take(xid, connection.0) else { return false };
        let (task, tries) = (sent.task, sent.tries);
        match opened.as_deref().map_or(CallbackReply::Refused, message::answer) {
            CallbackReply::Done(results) => {
                self.state.callbacks().end_callback(sent.call, CallbackEnd::Answered);
                self.answered(&task, Ok(results), now);
            }
            CallbackReply::Failed(status) => {
                self.state.callbacks().end_callback(sent.call, CallbackEnd::Answered);
                self.answered(&task, Err(status), now);
            }
            CallbackReply::Again(end) => {
                self.state.callbacks().end_callback(sent.call, end);
                // After NFS4ERR_DELAY the callback is repeated later.
                match end != CallbackEnd::Unknown && tries < TRIES_MAX {
                    true => self.start_callback(task, tries, now),
                    false => self.drop_callback(&task),
                }
            }
            CallbackReply::Refused => self.lose(sent, now, UsedConnection::Silent),
        }
        if let Some(next) = client_of(&task).and_then(|client| self.callbacks.next_waiting(client)) {
            self.start_callback(next, 0, now);
        }
        true
    }

    /// Acts on an answer. The next housekeeping repeats a recall that the client has refused, since
    /// the reply that granted the delegation may still be in flight.
    fn answered(&self, task: &CallbackTask, results: Result<Decoder<'_>, Nfsstat4>, now: Duration) {
        match (task, results) {
            (CallbackTask::Recall { delegation, .. }, Ok(_)) => {
                self.state.delegations().recall_answered(*delegation)
            }
            (CallbackTask::Recall { .. }, Err(status)) => {
                tracing::debug!(status = status.name(), "a client refuses a recall");
            }
            (CallbackTask::Getattr { delegation, .. }, results) => {
                let delegations = self.state.delegations();
                match results.ok().and_then(message::held_attributes) {
                    Some(held) if delegations.getattr_answered(now, *delegation, held) => {
                        self.start_callback(*task, 0, now);
                    }
                    Some(_) => {}
                    None => delegations.getattr_refused(*delegation),
                }
                self.callbacks.wake();
            }
            (CallbackTask::NotifyLock { notice, .. }, _) => self.state.locks().lock_notice_done(*notice),
            // Housekeeping sends it again.
            (CallbackTask::Offload { .. }, Err(Nfsstat4::NFS4ERR_DELAY)) => {}
            // The stateid ends with any other answer (RFC 7862 section 4.8).
            (CallbackTask::Offload { client, copy }, _) => {
                self.offloads.count_answered();
                self.state.copies().offload_answered(*client, *copy);
            }
            (CallbackTask::Probe { .. } | CallbackTask::RecallAny { .. }, _) => {}
        }
    }

    /// Sends a callback without a usable answer over another connection.
    fn lose(&self, mut sent: Sent, now: Duration, connection: UsedConnection) {
        if connection == UsedConnection::Silent {
            self.state.callbacks().callback_unanswered(&sent.call);
        }
        match self.operation(&sent.task) {
            Some(operation)
                if sent.tries < TRIES_MAX && self.state.callbacks().redirect_callback(&mut sent.call) =>
            {
                self.send_callback(sent, &operation, now);
            }
            operation => {
                let Sent { task, tries, call, .. } = sent;
                self.state.callbacks().end_callback(call, CallbackEnd::Unknown);
                // A probe is bound to its session; other callbacks may use another one.
                match client_of(&task) {
                    _ if operation.is_none() => {}
                    Some(_) if tries < TRIES_MAX => self.start_callback(task, tries, now),
                    _ => self.drop_callback(&task),
                }
            }
        }
    }

    /// Drops a callback that has not got through. Housekeeping repeats recalls and ends of copies;
    /// an unanswered CB_GETATTR turns into a recall of the delegation.
    fn drop_callback(&self, task: &CallbackTask) {
        match task {
            CallbackTask::Getattr { delegation, .. } => {
                self.state.delegations().getattr_refused(*delegation);
                self.callbacks.wake();
            }
            CallbackTask::NotifyLock { notice, .. } => self.state.locks().lock_notice_done(*notice),
            CallbackTask::Probe { .. }
            | CallbackTask::Recall { .. }
            | CallbackTask::RecallAny { .. }
            | CallbackTask::Offload { .. } => {}
        }
    }

    /// Sends the callbacks of a closed connection over other connections, which have their full
    /// time to answer, less the part of a second since the last housekeeping.
    pub(crate) fn callback_connection_closed(&self, connection: ConnectionId) {
        for sent in self.callbacks.take_all(|sent| sent.call.channel.connection == connection.0) {
            let now = self.callbacks.housekept().max(sent.since);
            self.lose(sent, now, UsedConnection::Closed);
        }
    }

    /// Returns the time that a client may take to answer a callback. The client of a dead
    /// connection learns of it with its next request, within two thirds of a lease, and then has to
    /// bind another one and to return what is recalled.
    fn answer_time(&self) -> Duration {
        (self.config.limits.recall_time / 3).clamp(ANSWER_TIME_MIN, ANSWER_TIME_MAX)
    }

    /// Does the periodic work of callbacks: sends callbacks whose answer is overdue elsewhere,
    /// retries the ones that wait for a slot, since the answer that frees it may be lost, and
    /// repeats unanswered recalls and ends of copies.
    pub(crate) fn callback_housekeeping(&self, now: Duration) {
        self.callbacks.note_housekeeping(now);
        let answer_time = self.answer_time();
        for sent in self.callbacks.take_all(|sent| now >= sent.since.saturating_add(answer_time)) {
            if let Some(suppressed) = self.callbacks.unanswered.permit(now) {
                let connection = sent.call.channel.connection;
                tracing::info!(connection, suppressed, "a client does not answer callbacks");
            }
            self.lose(sent, now, UsedConnection::Silent);
        }
        self.start_callbacks(self.callbacks.take_waiting(), now);
        self.callbacks.keep_contexts(|| self.state.callbacks().callback_contexts(), now);
        let mut due = self.state.delegations().unanswered_recalls();
        due.extend(self.state.copies().unanswered_offloads());
        if !due.is_empty() {
            let under_way = self.callbacks.under_way();
            due.retain(|task| !under_way.contains(task));
            self.start_callbacks(due, now);
        }
    }
}
