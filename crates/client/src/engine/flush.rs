//! Turns submitted calls into bytes on a socket.

use std::time::Instant;

use super::call::{CallStage, EngineCall};
use super::{CallEngine, CallOptions, Ticket};
use crate::compound::{Compound, assign};
use crate::error::Error;
use crate::security::{Expected, Head, OutgoingCall, seal};
use nfs4::NFSPROC4_COMPOUND;

/// Calls that use one connection before the next one takes over. The calls of one flush share a
/// system call and reach the server together, as many as its cipher has lanes.
const RUN_MAX: usize = 16;

/// The XID of a call and the index of its connection.
type Place = (u32, usize);

impl CallEngine {
    /// Accepts a COMPOUND, and returns the ticket of the call.
    pub(crate) fn submit(&mut self, compound: Compound, options: CallOptions) -> Result<Ticket, Error> {
        let xid = self.accept(compound, options)?;
        self.calls.get(xid).map(|call| call.ticket).ok_or(Error::Misuse("the call is gone"))
    }

    /// Accepts a COMPOUND, and returns its XID.
    pub(super) fn accept(&mut self, compound: Compound, options: CallOptions) -> Result<u32, Error> {
        if !compound.is_in_session() {
            return Err(Error::Misuse("a COMPOUND without SEQUENCE goes over a connection of its own"));
        }
        let added = self.calls.add(EngineCall {
            xid: 0,
            ticket: Ticket(0),
            tag: options.tag,
            repeatable: compound.is_repeatable(),
            message: compound.into_message(&self.session.id),
            internal: false,
            slot: None,
            link: 0,
            stage: CallStage::Waiting,
            deadline: Instant::now() + options.timeout.unwrap_or(self.options.call_timeout),
            abandoned: false,
            renewals: 0,
        });
        let xid = added.ok_or(Error::Misuse("too many calls are in progress"))?;
        self.waiting.push_back(xid);
        Ok(xid)
    }

    /// Sends submitted calls, as far as slots and sockets allow.
    ///
    /// # Errors
    /// Fails only if the system has no random bytes; completions report the failures of calls.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.assign_slots();
        self.make_context();
        let (places, mut calls) = self.take_ready()?;
        if !calls.is_empty() {
            seal(&mut calls, &mut self.confounders)?;
            self.last_sent = Instant::now();
        }
        for ((xid, link), call) in places.into_iter().zip(calls) {
            self.hand_over(xid, link, call);
        }
        if let Some(lag_max) = self.options.lag_max {
            self.links.pace(lag_max, self.statistics.calls_sent, self.calls.len(), Instant::now());
        }
        for failed in self.links.write(&self.calls) {
            self.cut(failed);
        }
        Ok(())
    }

    /// Assigns slots to waiting calls in order of submission.
    fn assign_slots(&mut self) {
        // Connections that are held back get few calls, so that others have calls to overtake them.
        let run_max = if self.options.lag_max.is_some() { 1 } else { RUN_MAX };
        let mut run = 0;
        while let Some(xid) = self.waiting.front().copied() {
            let Some(call) = self.calls.get_mut(xid) else {
                self.waiting.pop_front();
                continue;
            };
            // A window smaller than the slot table bounds the calls in flight (RFC 2203 section
            // 5.3.3.1).
            if self.slots.busy() >= self.identity.outstanding_max() {
                return;
            }
            let Some(slot) = self.slots.acquire() else { return };
            assign(&mut call.message, &slot);
            call.slot = Some(slot);
            call.stage = CallStage::Queued;
            self.waiting.pop_front();
            if run % run_max == 0 {
                self.links.turn();
            }
            run += 1;
            let link = self.links.last();
            if let Some(call) = self.calls.get_mut(xid) {
                call.link = link;
            }
            self.links.queue(link, xid);
        }
    }

    /// Establishes the context that queued calls need.
    fn make_context(&mut self) {
        let now = Instant::now();
        let is_due = self.identity.needs_context() || self.identity.is_worn(now);
        if is_due && self.links.iter().flat_map(|link| &link.queued).any(|xid| self.calls.get(*xid).is_some())
        {
            self.renew_context(now);
        }
    }

    /// Takes the queued calls of all connections for sealing.
    fn take_ready(&mut self) -> Result<(Vec<Place>, Vec<OutgoingCall>), Error> {
        let (mut places, mut calls) = (Vec::new(), Vec::new());
        for (index, link) in self.links.iter_mut().enumerate().filter(|(_, link)| link.is_up()) {
            for _ in 0..link.queued.len() {
                let Some(xid) = link.queued.pop_front() else { break };
                let Some(call) = self.calls.get_mut(xid) else { continue };
                if self.identity.needs_context() {
                    // A context may follow later; otherwise the call times out.
                    link.queued.push_back(xid);
                    continue;
                }
                let head = Head::nfs(call.xid, NFSPROC4_COMPOUND, self.identity.protection()?);
                calls.push(OutgoingCall { message: std::mem::take(&mut call.message), head });
                places.push((xid, index));
            }
        }
        Ok((places, calls))
    }

    fn hand_over(&mut self, xid: u32, link: usize, sealed: OutgoingCall) {
        if let Some(call) = self.calls.get_mut(xid) {
            call.message = sealed.message;
            call.stage = CallStage::Sent(Expected::of(&sealed.head.protection));
        }
        if let Some(connection) = self.links.connection(link) {
            connection.push(xid);
            self.statistics.calls_sent += 1;
        }
    }
}
