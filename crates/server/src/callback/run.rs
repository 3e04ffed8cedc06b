//! What becomes of a callback, from the wish to the answer.

use super::CallbackTransport;
use super::calls::{ANSWER_TIME_MAX, Sent, TRIES_MAX};
use super::message::{self, Answer};
use crate::engine::Nfs;
use nfs4::{NfsCbArgop4, Nfsstat4};
use rpc::ConnectionId;
use state::{CallbackEnd, CallbackTask, ClientKey, NoBackChannel};
use std::time::Duration;
use xdr::Decoder;

/// What is behind CB_SEQUENCE.
struct Content {
    /// Whose callback it is; a probe is of one session.
    client: Option<ClientKey>,
    operation: Option<NfsCbArgop4<'static>>,
}

impl Nfs {
    /// Takes what sends callbacks. Until then clients count as ones that cannot be called back.
    pub fn connect_callbacks(&self, transport: Box<dyn CallbackTransport>) {
        self.callbacks.connect(transport);
    }

    /// Sends callbacks, as far as there are slots and connections; the others wait or are for housekeeping to repeat.
    pub(crate) fn start_callbacks(&self, tasks: Vec<CallbackTask>, now: Duration) {
        for task in tasks {
            self.start_callback(task, 0, now);
        }
    }

    fn start_callback(&self, task: CallbackTask, tries: u8, now: Duration) {
        // None: there is nothing to say any more.
        let Some(Content { client, operation }) = self.content(&task) else { return };
        let CallbackTask::Probe { sessionid } = task;
        let begun = self.state.begin_probe(&sessionid);
        match (begun, client) {
            (Ok(call), _) => {
                self.send_callback(Sent { task, client, call, tries, since: now }, operation, now)
            }
            (Err(NoBackChannel::Busy), Some(client)) => self.callbacks.wait(client, task),
            (Err(_), _) => {}
        }
    }

    /// Returns what a callback says; `None` when it needs not be said any more.
    fn content(&self, task: &CallbackTask) -> Option<Content> {
        match task {
            CallbackTask::Probe { .. } => Some(Content { client: None, operation: None }),
        }
    }

    /// Sends a callback that has its slot.
    fn send_callback(&self, mut sent: Sent, operation: Option<NfsCbArgop4<'static>>, now: Duration) {
        sent.since = now;
        sent.tries += 1;
        let connection = sent.call.channel.connection;
        // Its answer may come before this thread goes on, so it is noted first.
        let (xid, record) = self.callbacks.insert(sent, |xid, call| message::encode(xid, call, operation));
        if !self.callbacks.send(connection, record)
            && let Some(sent) = self.callbacks.take(xid, connection)
        {
            self.lose(sent, now, false);
        }
    }

    /// Takes an answer that arrived on a connection; false if it is none to a callback.
    pub fn callback_reply(&self, connection: ConnectionId, record: &[u8], now: Duration) -> bool {
        let Some(xid) = record.first_chunk().map(|xid| u32::from_be_bytes(*xid)) else { return false };
        let Some(sent) = self.callbacks.take(xid, connection.0) else { return false };
        let Sent { task, client, tries, .. } = sent;
        match message::answer(record) {
            Answer::Done(results) => {
                self.state.end_callback(sent.call, CallbackEnd::Answered);
                self.answered(&task, Ok(results), now);
            }
            Answer::Failed(status) => {
                self.state.end_callback(sent.call, CallbackEnd::Answered);
                self.answered(&task, Err(status), now);
            }
            Answer::Again(end) => {
                self.state.end_callback(sent.call, end);
                // NFS4ERR_DELAY is for later.
                if end != CallbackEnd::Unknown && tries < TRIES_MAX {
                    self.start_callback(task, tries, now);
                }
            }
            Answer::Refused => self.lose(sent, now, true),
        }
        if let Some(next) = client.and_then(|client| self.callbacks.next_waiting(client)) {
            self.start_callback(next, 0, now);
        }
        true
    }

    /// Does what follows from an answer.
    fn answered(&self, task: &CallbackTask, results: Result<Decoder<'_>, Nfsstat4>, _now: Duration) {
        match (task, results) {
            (CallbackTask::Probe { .. }, _) => {}
        }
    }

    /// A callback has met with no answer, or with one that is none: it goes on over another connection. `silent` says that
    /// its connection is there and does not carry callbacks.
    fn lose(&self, mut sent: Sent, now: Duration, silent: bool) {
        if silent {
            self.state.callback_unanswered(&sent.call);
        }
        let content = self.content(&sent.task);
        match content {
            Some(content) if sent.tries < TRIES_MAX && self.state.redirect_callback(&mut sent.call) => {
                self.send_callback(sent, content.operation, now);
            }
            content => {
                let Sent { task, tries, call, .. } = sent;
                self.state.end_callback(call, CallbackEnd::Unknown);
                // A probe is of its session; others may go to another one.
                let elsewhere = content.is_some_and(|content| content.client.is_some());
                if elsewhere && tries < TRIES_MAX {
                    self.start_callback(task, tries, now);
                }
            }
        }
    }

    /// Sends the callbacks of a connection that is gone elsewhere.
    pub(crate) fn callback_connection_closed(&self, connection: ConnectionId) {
        for sent in self.callbacks.take_all(|sent| sent.call.channel.connection == connection.0) {
            let since = sent.since;
            self.lose(sent, since, false);
        }
    }

    /// Sends callbacks elsewhere that were not answered in time.
    pub(crate) fn callback_housekeeping(&self, now: Duration) {
        for sent in self.callbacks.take_all(|sent| now >= sent.since.saturating_add(ANSWER_TIME_MAX)) {
            tracing::info!(connection = sent.call.channel.connection, "a client does not answer callbacks");
            self.lose(sent, now, true);
        }
    }
}
