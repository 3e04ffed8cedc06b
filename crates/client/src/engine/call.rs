//! The table of calls in progress.

use std::time::Instant;

use rpc::gss::RpcGssServiceT;

use crate::client::Ticket;
use crate::message::Message;
use crate::security::Expected;
use crate::slots::Slot;

/// XID bits that hold the index in the table; the remaining bits distinguish calls of one index.
const PLACE_BITS: u32 = 14;

/// The largest number of calls in progress.
pub(super) const CALLS_MAX: usize = 1 << PLACE_BITS;

/// The progress of a call.
#[derive(Clone, Debug)]
pub(crate) enum CallStage {
    /// The call waits for a slot.
    Waiting,
    /// The call has a slot and a connection, and waits for the next flush.
    Queued,
    /// The record is being written or has been written.
    Sent(Expected),
}

/// A call from its submission to its reply.
#[derive(Debug)]
pub(crate) struct EngineCall {
    /// Transaction id of the current attempt.
    pub xid: u32,
    /// The ticket that identifies the call to its caller.
    pub ticket: Ticket,
    /// The value of `CallOptions::tag`.
    pub tag: u64,
    /// The arguments, and the sealed record.
    pub message: Message,
    /// Index of the identity.
    pub identity: usize,
    /// A service that overrides the identity's.
    pub service: Option<RpcGssServiceT>,
    /// Whether the call may execute twice.
    pub repeatable: bool,
    /// Whether the client renews its lease with the call, so that no caller waits for it.
    pub internal: bool,
    /// The slot, once one is assigned.
    pub slot: Option<Slot>,
    /// Index of the connection, once a slot is assigned.
    pub link: usize,
    /// The current stage of the call.
    pub stage: CallStage,
    /// The time at which the call fails with a timeout.
    pub deadline: Instant,
    /// Whether the call has timed out. It keeps its slot, since the server may still execute it.
    pub abandoned: bool,
    /// The number of contexts established for this call so far.
    pub renewals: u8,
}

/// The table of calls. Its size is bounded by [`CALLS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Calls {
    entries: Vec<Option<EngineCall>>,
    free: Vec<u32>,
    generation: u32,
    tickets: u64,
}

impl Calls {
    /// Returns the number of calls in progress.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Adds a call with an index and a ticket of its own; `None` when the table is full.
    pub(crate) fn add(&mut self, call: EngineCall) -> Option<u32> {
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
        let (xid, ticket) = ((self.generation << PLACE_BITS) | place, Ticket(self.tickets));
        *self.entries.get_mut(place as usize)? = Some(EngineCall { xid, ticket, ..call });
        Some(place)
    }

    /// Returns the call at an index.
    pub(crate) fn get(&self, place: u32) -> Option<&EngineCall> {
        self.entries.get(place as usize)?.as_ref()
    }

    /// Returns the call at an index.
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut EngineCall> {
        self.entries.get_mut(place as usize)?.as_mut()
    }

    /// Removes a call from the table.
    pub(crate) fn remove(&mut self, place: u32) -> Option<EngineCall> {
        let call = self.entries.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(call)
    }

    /// Returns the index of the call with this transaction id.
    pub(crate) fn find(&self, xid: u32) -> Option<u32> {
        let place = xid & (CALLS_MAX as u32 - 1);
        self.get(place).filter(|call| call.xid == xid).map(|_| place)
    }

    /// Returns all calls with their indexes.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut EngineCall)> {
        self.entries.iter_mut().enumerate().filter_map(|(place, call)| Some((place as u32, call.as_mut()?)))
    }

    /// Removes all calls from the table.
    pub(crate) fn drain(&mut self) -> Vec<EngineCall> {
        self.free.clear();
        self.entries.drain(..).flatten().collect()
    }
}
