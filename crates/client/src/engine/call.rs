//! The calls in progress.

use std::time::{Duration, Instant};

use rpc::gss::RpcGssServiceT;

use crate::client::{CallOptions, Ticket};
use crate::message::Message;
use crate::security::Expected;
use crate::slots::Slot;

/// Bits of an XID that are the place in the table; the rest tells the calls of one place apart.
const PLACE_BITS: u32 = 14;

/// The most calls in progress.
pub const CALLS_MAX: usize = 1 << PLACE_BITS;

/// Where a call is on its way.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Waits for a slot.
    Waiting,
    /// Has a slot and a connection, waits for the next flush.
    Queued,
    /// Is being written, or has been.
    Sent(Expected),
}

/// A call from its submission to its reply.
#[derive(Debug)]
pub struct Call {
    /// Transaction.
    pub xid: u32,
    /// What the caller gets back.
    pub ticket: Ticket,
    /// The caller's own mark.
    pub tag: u64,
    /// Arguments and record.
    pub message: Message,
    /// Index of the identity.
    pub identity: usize,
    /// Another service than the identity's.
    pub service: Option<RpcGssServiceT>,
    /// Whether it may be done twice.
    pub repeatable: bool,
    /// Whether this is the client's own call, to renew its lease: nobody waits for it.
    pub internal: bool,
    /// Its slot, once it has one.
    pub slot: Option<Slot>,
    /// Index of its connection, once it has a slot.
    pub link: usize,
    /// Where it is.
    pub stage: Stage,
    /// When to give up.
    pub deadline: Instant,
    /// Whether the caller has been told that it timed out. The slot stays taken: the server may
    /// still work.
    pub abandoned: bool,
    /// How often a new context has been made for it.
    pub renewals: u8,
}

/// The table of calls. Its size is bounded by [`CALLS_MAX`].
#[derive(Debug, Default)]
pub struct Calls {
    entries: Vec<Option<Call>>,
    free: Vec<u32>,
    generation: u32,
    tickets: u64,
}

/// What the table does not know of a new call.
#[derive(Debug)]
pub struct NewCall {
    /// The COMPOUND.
    pub message: Message,
    /// Whether it may be done twice.
    pub repeatable: bool,
    /// Whether nobody waits for it.
    pub internal: bool,
    /// Whose, and how.
    pub options: CallOptions,
}

impl Calls {
    /// The number of calls in progress.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Adds a call; `None` when the table is full.
    pub fn add(&mut self, new: NewCall, timeout: Duration, now: Instant) -> Option<u32> {
        if self.free.is_empty() {
            if self.entries.len() >= CALLS_MAX {
                return None;
            }
            self.free.push(self.entries.len() as u32);
            self.entries.push(None);
        }
        let place = self.free.pop()?;
        self.generation = self.generation.wrapping_add(1);
        self.tickets += 1;
        let call = Call {
            xid: (self.generation << PLACE_BITS) | place,
            ticket: Ticket(self.tickets),
            tag: new.options.tag,
            message: new.message,
            identity: new.options.identity.0,
            service: new.options.service,
            repeatable: new.repeatable,
            internal: new.internal,
            slot: None,
            link: 0,
            stage: Stage::Waiting,
            deadline: now + new.options.timeout.unwrap_or(timeout),
            abandoned: false,
            renewals: 0,
        };
        *self.entries.get_mut(place as usize)? = Some(call);
        Some(place)
    }

    /// The call at a place.
    pub fn get(&self, place: u32) -> Option<&Call> {
        self.entries.get(place as usize)?.as_ref()
    }

    /// The call at a place.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Call> {
        self.entries.get_mut(place as usize)?.as_mut()
    }

    /// Takes a call out of the table.
    pub fn remove(&mut self, place: u32) -> Option<Call> {
        let call = self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(call)
    }

    /// The place of the call with this transaction.
    pub fn find(&self, xid: u32) -> Option<u32> {
        let place = xid & (CALLS_MAX as u32 - 1);
        self.get(place).filter(|call| call.xid == xid).map(|_| place)
    }

    /// All calls with their places.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Call)> {
        self.entries.iter_mut().enumerate().filter_map(|(place, call)| Some((place as u32, call.as_mut()?)))
    }

    /// Takes every call out of the table.
    pub fn drain(&mut self) -> Vec<Call> {
        self.free.clear();
        self.entries.drain(..).flatten().collect()
    }
}
