//! Callbacks: slots of backchannels and the connections that carry them (RFC 8881 sections 2.10.3.1
//! and 2.10.6).
//!
//! The server decides on the contents of a callback and its repetition; this module tracks session,
//! slot and connection. A callback keeps its slot until the client has answered it. Where an answer
//! is lost the sequence id is used again, since the client may not have seen it.

pub(crate) mod image;

use crate::Callbacks;
use crate::order::{Held, Leaf, NothingHeld};
use crate::sessions::backchannel::Ability;
use crate::sessions::{Session, SessionConnection};
use crate::sync::Mutex;
use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use crate::{BackChannel, ClientKey, Sessionid4};
use nfs4::{
    SEQ4_STATUS_BACKCHANNEL_FAULT, SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED, SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING,
    SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION,
};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Why no callback can be sent to a client at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBackChannel {
    /// No session has a backchannel that works.
    Down,
    /// All slots are taken by callbacks that the client has yet to answer.
    Busy,
}

/// The end of a callback, as far as its slot matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackEnd {
    /// The client has used the sequence id.
    Answered,
    /// The client has not used the sequence id, or may not have: the slot's next callback uses it
    /// again.
    Unknown,
    /// Client and server disagree about the slot (NFS4ERR_SEQ_MISORDERED): it is not used again.
    Misordered,
}

/// A callback's place: the arguments of its CB_SEQUENCE, and how to send it. To be given to
/// [`crate::Callbacks::end_callback`].
#[must_use = "its slot stays busy until the callback is ended"]
#[derive(Debug)]
pub struct BackCall {
    session: Arc<Session>,
    /// csa_slotid: the slot, from 0.
    pub slotid: u32,
    /// csa_sequenceid: the slot's sequence number.
    pub sequenceid: u32,
    /// csa_highest_slotid: the highest slot in use.
    pub highest_slotid: u32,
    /// Program, security and limits, and the connection to send it on.
    pub channel: BackChannel,
}

impl BackCall {
    /// Returns csa_sessionid, the session.
    pub fn sessionid(&self) -> Sessionid4 {
        self.session.id
    }
}

/// One slot of a backchannel.
#[derive(Clone, Copy, Debug)]
struct BackSlot {
    /// The sequence id of its next callback.
    next: u32,
    busy: bool,
    misordered: bool,
}

/// The slots of a session's backchannel, made when the first of them is used.
#[derive(Debug, Default)]
pub(crate) struct BackSlots(Leaf<Mutex<Vec<BackSlot>>>);

impl BackSlots {
    /// Takes the lowest free slot of so many; returns it with its sequence id and the highest slot
    /// in use.
    fn take(&self, count: u32) -> Option<(u32, u32, u32)> {
        let mut slots = self.0.lock();
        let free = slots.iter().position(|slot| !slot.busy && !slot.misordered);
        let place = match free {
            Some(place) => place,
            None if slots.len() < count as usize => {
                slots.push(BackSlot { next: 1, busy: false, misordered: false });
                slots.len() - 1
            }
            None => return None,
        };
        let slot = slots.get_mut(place)?;
        slot.busy = true;
        let sequenceid = slot.next;
        let highest = slots.iter().rposition(|slot| slot.busy).unwrap_or(place);
        Some((place as u32, sequenceid, highest as u32))
    }

    /// Frees a slot; returns whether all of so many are of no use any more.
    fn free(&self, slot: u32, end: CallbackEnd, count: u32) -> bool {
        let mut slots = self.0.lock();
        if let Some(slot) = slots.get_mut(slot as usize) {
            slot.busy = false;
            slot.misordered |= end == CallbackEnd::Misordered;
            if end == CallbackEnd::Answered {
                // Unlike that of a stateid it may be zero (RFC 8881 section 2.10.6.1).
                slot.next = slot.next.wrapping_add(1);
            }
        }
        slots.len() >= count as usize && slots.iter().all(|slot| slot.misordered)
    }
}

/// The backchannel has a connection that works; goes into no reply.
const UP: u32 = 1 << 30;
/// No callback has been tried; goes into no reply.
const UNTRIED: u32 = 1 << 31;
const REPLY_MASK: u32 = SEQ4_STATUS_CB_PATH_DOWN_SESSION | SEQ4_STATUS_BACKCHANNEL_FAULT;

/// The backchannel's part of sr_status_flags. A session that never had a backchannel has none.
#[derive(Debug, Default)]
pub(crate) struct PathStatus {
    flags: AtomicU32,
    /// When the last of the contexts for callbacks ends, in nanoseconds; zero where there is none.
    contexts_until: AtomicU64,
}

impl PathStatus {
    /// Takes note of whether there is a connection that works; returns whether that is new.
    fn set(&self, up: bool) -> bool {
        let change = |status: u32| match (up, status & UP != 0) {
            (true, false) => Some((status | UP | UNTRIED) & !SEQ4_STATUS_CB_PATH_DOWN_SESSION),
            (false, true) => Some(status & !(UP | UNTRIED) | SEQ4_STATUS_CB_PATH_DOWN_SESSION),
            _ => None,
        };
        self.flags.fetch_update(AcqRel, Acquire, change).is_ok()
    }

    /// Takes note of when the last context for callbacks ends (see
    /// `CallbackSecurity::contexts_until`).
    pub(crate) fn set_contexts(&self, until: u64) {
        self.contexts_until.store(until, Relaxed);
    }

    /// Returns the flags for the contexts of callbacks, all of them together (RFC 8881 section
    /// 18.46.3).
    fn contexts_flags(&self, now: Duration, lease: Duration) -> u32 {
        let until = self.contexts_until.load(Relaxed);
        match Duration::from_nanos(until) {
            _ if until == 0 => 0,
            until if now >= until => SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED,
            until if now.saturating_add(lease) >= until => SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING,
            _ => 0,
        }
    }

    /// Returns whether there is a connection that works.
    pub(crate) fn is_up(&self) -> bool {
        self.flags.load(Relaxed) & UP != 0
    }

    /// Returns whether there was such a connection and is none any more.
    pub(crate) fn is_down(&self) -> bool {
        self.flags.load(Relaxed) & SEQ4_STATUS_CB_PATH_DOWN_SESSION != 0
    }

    fn set_fault(&self) {
        self.flags.fetch_or(SEQ4_STATUS_BACKCHANNEL_FAULT, AcqRel);
    }

    /// Whether a callback is to be tried, once for each time that the backchannel came up.
    pub(crate) fn take_untried(&self) -> bool {
        self.flags.load(Relaxed) & UNTRIED != 0 && self.flags.fetch_and(!UNTRIED, AcqRel) & UNTRIED != 0
    }
}

impl Session {
    /// Returns the backchannel's part of sr_status_flags.
    pub(crate) fn status_flags(&self, now: Duration, lease: Duration) -> u32 {
        let session = self.path.flags.load(Relaxed) & REPLY_MASK | self.path.contexts_flags(now, lease);
        let down = session & SEQ4_STATUS_CB_PATH_DOWN_SESSION != 0 && self.record.paths.load(Relaxed) == 0;
        session | self.record.status.load(Relaxed) | if down { SEQ4_STATUS_CB_PATH_DOWN } else { 0 }
    }

    /// Sees whether callbacks have a way to the client, after its connections or its callback
    /// parameters changed.
    pub(crate) fn update_path(&self, connections: &[SessionConnection]) {
        let able = self.ability() == Ability::Able;
        let up = able && connections.iter().any(|connection| connection.back && !connection.silent);
        // The holder of the connections' lock changes both numbers.
        match self.path.set(up) {
            true if up => self.record.paths.fetch_add(1, AcqRel),
            true => self.record.paths.fetch_sub(1, AcqRel),
            false => return,
        };
    }

    /// Takes a slot and a connection for a callback.
    fn begin_callback(self: &Arc<Self>, held: &mut Held<NothingHeld>) -> Result<BackCall, NoBackChannel> {
        let channel = self.back_channel(held, None).ok_or(NoBackChannel::Down)?;
        let taken = self.back_slots.take(self.back.requests).ok_or(NoBackChannel::Busy)?;
        let (slotid, sequenceid, highest_slotid) = taken;
        Ok(BackCall { session: Arc::clone(self), slotid, sequenceid, highest_slotid, channel })
    }
}

impl<F: Clone + Eq + Hash, O> Callbacks<'_, F, O> {
    /// Takes a slot for a callback to a client, on the first of its sessions that can carry one.
    ///
    /// # Errors
    /// [`NoBackChannel`].
    pub fn begin_callback(&self, client: ClientKey) -> Result<BackCall, NoBackChannel> {
        let held = &mut Held::nothing();
        let sessions = match self.state.registry(held).client(client) {
            Ok(enrolled) => self.state.clients().sessions_of(enrolled),
            Err(_) => return Err(NoBackChannel::Down),
        };
        let mut why = NoBackChannel::Down;
        for session in sessions {
            match session.begin_callback(held) {
                Ok(call) => return Ok(call),
                Err(NoBackChannel::Busy) => why = NoBackChannel::Busy,
                Err(NoBackChannel::Down) => {}
            }
        }
        Err(why)
    }

    /// Takes a slot for a callback on one session, to see whether its backchannel works.
    ///
    /// # Errors
    /// [`NoBackChannel`].
    pub fn begin_probe(&self, sessionid: &Sessionid4) -> Result<BackCall, NoBackChannel> {
        let session = self.state.sessions().session(sessionid).map_err(|_| NoBackChannel::Down)?;
        session.begin_callback(&mut Held::nothing())
    }

    /// Moves a callback to another connection of its session, because the one that it was sent on
    /// is gone or silent; false when there is none. There it is a retry: slot and sequence id stay
    /// (RFC 8881 section 2.10.6.2).
    pub fn redirect_callback(&self, call: &mut BackCall) -> bool {
        match call.session.back_channel(&mut Held::nothing(), Some(call.channel.connection)) {
            Some(channel) => {
                call.channel = channel;
                true
            }
            None => false,
        }
    }

    /// Notes that the connection of a callback does not carry callbacks; BIND_CONN_TO_SESSION makes
    /// good for that.
    pub fn callback_unanswered(&self, call: &BackCall) {
        let held = &mut Held::nothing();
        let mut connections = call.session.connections_mut(held);
        let connection = connections.iter_mut().find(|connection| connection.id == call.channel.connection);
        if let Some(connection) = connection {
            connection.silent = true;
        }
        call.session.update_path(&connections);
    }

    /// Notes that none of the client's ways to authenticate a callback can be gone: its contexts
    /// are gone.
    pub fn callback_contexts_lost(&self, call: &BackCall) {
        // Before any time that there is; BACKCHANNEL_CTL makes good for that.
        call.session.path.set_contexts(1);
    }

    /// Ends a callback. When the session has no usable slot left, SEQUENCE reports
    /// SEQ4_STATUS_BACKCHANNEL_FAULT.
    pub fn end_callback(&self, call: BackCall, end: CallbackEnd) {
        if call.session.back_slots.free(call.slotid, end, call.session.back.requests) {
            call.session.path.set_fault();
        }
    }
}
