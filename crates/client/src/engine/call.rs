//! The table of calls in progress.

use std::time::Instant;

use super::Ticket;
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
    /// The server has put the request off. The next check queues it again, in the same slot.
    PutOff,
    /// The record is being written or has been written.
    Sent(Expected),
}

/// A call from its submission to its reply.
#[derive(Debug)]
pub(crate) struct EngineCall {
    /// Transaction id, which repetitions keep.
    pub xid: u32,
    /// The ticket that identifies the call to its caller.
    pub ticket: Ticket,
    /// The value of `CallOptions::tag`.
    pub tag: u64,
    /// The arguments, and the sealed record.
    pub message: Message,
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

/// The table of calls, by XID. Its size is bounded by [`CALLS_MAX`]. An XID never finds a later
/// call with the same index, so queues may keep XIDs of calls that have ended.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    entries: Vec<Option<EngineCall>>,
    free: Vec<u32>,
    generation: u32,
    tickets: u64,
}

/// Returns the index of a call in the table.
const fn place(xid: u32) -> usize {
    xid as usize % CALLS_MAX
}

impl Calls {
    /// Returns the number of calls in progress.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Adds a call with an XID and a ticket of its own, and returns the XID; `None` when the table
    /// is full.
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
        Some(xid)
    }

    /// Returns the call with this XID.
    pub(crate) fn get(&self, xid: u32) -> Option<&EngineCall> {
        self.entries.get(place(xid))?.as_ref().filter(|call| call.xid == xid)
    }

    /// Returns the call with this XID.
    pub(crate) fn get_mut(&mut self, xid: u32) -> Option<&mut EngineCall> {
        self.entries.get_mut(place(xid))?.as_mut().filter(|call| call.xid == xid)
    }

    /// Removes a call from the table.
    pub(crate) fn remove(&mut self, xid: u32) -> Option<EngineCall> {
        let call = self.entries.get_mut(place(xid))?.take_if(|call| call.xid == xid)?;
        self.free.push(place(xid) as u32);
        Some(call)
    }

    /// Returns all calls, in the order of their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &EngineCall> {
        self.entries.iter().flatten()
    }

    /// Returns all calls, in the order of their indexes.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut EngineCall> {
        self.entries.iter_mut().flatten()
    }

    /// Removes all calls from the table.
    pub(crate) fn drain(&mut self) -> Vec<EngineCall> {
        self.free.clear();
        self.entries.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> EngineCall {
        EngineCall {
            xid: 0,
            ticket: Ticket(0),
            tag: 0,
            message: Message::default(),
            repeatable: false,
            internal: false,
            slot: None,
            link: 0,
            stage: CallStage::Waiting,
            deadline: Instant::now(),
            abandoned: false,
            renewals: 0,
        }
    }

    #[test]
    fn the_xid_of_a_call_that_has_ended_finds_no_later_one() {
        let mut calls = Calls::default();
        let ended = calls.add(call()).unwrap();
        assert!(calls.remove(ended).is_some());
        let later = calls.add(call()).unwrap();
        assert_eq!(place(later), place(ended));
        assert!(calls.get(ended).is_none() && calls.get_mut(ended).is_none());
        assert!(calls.remove(ended).is_none());
        assert_eq!((calls.len(), calls.get(later).map(|call| call.xid)), (1, Some(later)));
    }
}
