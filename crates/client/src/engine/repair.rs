//! Handles deadlines, failed connections, context renewal and lost sessions.

use std::net::SocketAddr;
use std::time::Instant;

use nfs4::ChannelDirFromClient4;
use rpc::AcceptStat;

use super::call::{CallStage, EngineCall};
use super::link::{Connection, Link, LinkState};
use super::{CallEngine, Completion};
use crate::error::{Error, RpcError, TransportError};
use crate::raw::RawConnection;
use crate::security::{GssInitiation, Identity};
use crate::session::Control;
use crate::slots::{SequenceUse, SlotTable};

impl CallEngine {
    /// Checks everything that depends on the time.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), Error> {
        for index in 0..self.links.len() {
            self.reconnect(index, now);
        }
        self.time_out(now);
        self.repeat_put_off();
        self.renew_lease(now)
    }

    /// Queues the calls again that the server has put off. Checks are far enough apart for that.
    fn repeat_put_off(&mut self) {
        for call in self.calls.iter_mut().filter(|call| matches!(call.stage, CallStage::PutOff)) {
            call.stage = CallStage::Queued;
            self.links.queue(call.link, call.xid);
        }
    }

    /// Completes calls whose deadline has passed. A call with a slot keeps it until the server
    /// replies, because the server may still execute the call (RFC 8881 section 2.10.6.2).
    fn time_out(&mut self, now: Instant) {
        let late = |call: &&EngineCall| !call.abandoned && now >= call.deadline;
        let xids: Vec<_> = self.calls.iter().filter(late).map(|call| call.xid).collect();
        for xid in xids {
            let Some(call) = self.calls.get_mut(xid) else { continue };
            if call.slot.is_none() {
                self.complete(xid, SequenceUse::Unused, Err(Error::Timeout));
                continue;
            }
            call.abandoned = true;
            let (ticket, tag, internal) = (call.ticket, call.tag, call.internal);
            if !internal {
                let result = Err(Error::Timeout);
                self.done.push_back(Completion { ticket, tag, result });
            }
        }
    }

    /// Records that a connection has failed. After the reconnect its calls are sent again in the
    /// same slots (RFC 8881 section 2.10.6.2).
    pub(crate) fn cut(&mut self, index: usize) {
        let now = Instant::now();
        let Some(link) = self.links.get_mut(index).filter(|link| link.is_up()) else { return };
        link.state = LinkState::Down { since: now, retry_at: now, backoff: self.options.backoff };
        self.next_check = now;
        for call in self.calls.iter_mut() {
            if call.link == index && matches!(call.stage, CallStage::Sent(_)) {
                call.stage = CallStage::Queued;
                link.queued.push_back(call.xid);
                self.statistics.calls_repeated += 1;
            }
        }
    }

    /// Reconnects a failed connection if an attempt is due.
    fn reconnect(&mut self, index: usize, now: Instant) {
        let Some(link) = self.links.get(index) else { return };
        let LinkState::Down { since, retry_at, backoff } = link.state else { return };
        if now < retry_at {
            return;
        }
        let (must_bind, trunk) = (link.must_bind, link.trunk);
        match self.connect_link(must_bind, trunk) {
            Ok(connection) => {
                self.statistics.reconnects += 1;
                if let Some(link) = self.links.get_mut(index) {
                    link.state = LinkState::Up(connection);
                }
            }
            Err(_) => {
                let backoff_max = self.options.backoff_max;
                if let Some(link) = self.links.get_mut(index) {
                    let retry_at = Instant::now() + backoff;
                    link.state = LinkState::Down { since, retry_at, backoff: (backoff * 2).min(backoff_max) };
                }
                if now.saturating_duration_since(since) >= self.options.reconnect_max {
                    self.give_up(index);
                }
            }
        }
    }

    /// Fails the calls of a connection that cannot be restored.
    fn give_up(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        let given_up = self.options.reconnect_max;
        for xid in std::mem::take(&mut link.queued) {
            let error = TransportError::GaveUp(given_up);
            // It is unknown whether the server has seen the request. If not, the slot returns
            // NFS4ERR_SEQ_MISORDERED from now on; the opposite guess risks false replays.
            self.complete(xid, SequenceUse::Consumed, Err(error.into()));
        }
    }

    fn connect_link(&mut self, must_bind: bool, trunk: Option<SocketAddr>) -> Result<Connection, Error> {
        let mut connection = RawConnection::connect_by(
            &self.options,
            trunk.as_ref().map_or(&self.addresses, std::slice::from_ref),
        )?;
        if must_bind || self.session.protected || self.options.backchannel {
            self.bind(&mut connection)?;
        }
        Ok(Connection::new(connection)?)
    }

    /// Binds a connection to the session. A lost session is left for the calls to detect.
    fn bind(&mut self, connection: &mut RawConnection) -> Result<(), Error> {
        let session = self.session.id;
        let direction = match self.options.backchannel {
            true => ChannelDirFromClient4::CDFC4_FORE_OR_BOTH,
            false => ChannelDirFromClient4::CDFC4_FORE,
        };
        match Control::new(&self.options, &mut self.identity, connection).bind(&session, direction) {
            Err(error) if !error.is_session_lost() => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens a further connection of the session, to `trunk` if that is given.
    pub(crate) fn new_link(&mut self, trunk: Option<SocketAddr>) -> Result<Link, Error> {
        let connection = self.connect_link(false, trunk)?;
        Ok(Link {
            state: LinkState::Up(connection),
            queued: Default::default(),
            must_bind: false,
            pace: Default::default(),
            trunk,
        })
    }

    /// Opens a further connection of the session to another address, if the same server is there
    /// (session trunking, RFC 8881 section 2.10.5). Returns whether it is.
    ///
    /// # Errors
    /// Any [`Error`] of the connection; the session stays as it is.
    pub(crate) fn trunk(&mut self, address: SocketAddr) -> Result<bool, Error> {
        let mut connection = RawConnection::connect_by(&self.options, &[address])?;
        let (owner, protection) = (self.owner.clone(), self.options.state_protection);
        let mut control = Control::new(&self.options, &mut self.identity, &mut connection);
        let found = control.exchange_id(&owner, protection)?;
        if !self.session.trunks_with(&found) {
            return Ok(false);
        }
        self.bind(&mut connection)?;
        let link = Link { trunk: Some(address), ..Link::new(connection)? };
        self.links.push(link);
        Ok(true)
    }

    /// Establishes a new context. A permanent failure fails the calls that need it;
    /// a temporary one is retried until they time out.
    pub(super) fn renew_context(&mut self, now: Instant) {
        if now < self.context_retry_at {
            return;
        }
        match self.try_renew() {
            Ok(()) => self.statistics.contexts_renewed += 1,
            Err(error) if is_passing(&error) => {
                self.context_retry_at = Instant::now() + self.options.backoff;
            }
            Err(error) => {
                self.context_retry_at = Instant::now() + self.options.backoff;
                // A worn context still works; without any context the calls fail.
                if self.identity.needs_context() {
                    self.fail_queued(error);
                }
            }
        }
    }

    fn try_renew(&mut self) -> Result<(), Error> {
        let Identity::Gss { credential, context } = &mut self.identity else { return Ok(()) };
        // Without a valid ticket there is no reason to connect.
        let initiation = GssInitiation::new(credential)?;
        let mut connection = RawConnection::connect_by(&self.options, &self.addresses)?;
        *context = Some(initiation.establish(&mut connection, self.options.connect_timeout)?);
        Ok(())
    }

    /// Fails the queued calls; the first one gets the original error.
    fn fail_queued(&mut self, error: Error) {
        let mut error = Some(error);
        let queued: Vec<u32> = self.links.iter_mut().flat_map(|link| link.queued.drain(..)).collect();
        for xid in queued {
            if self.calls.get(xid).is_none() {
                continue;
            }
            let error = error.take().unwrap_or(Error::Misuse("no security context could be made"));
            self.complete(xid, SequenceUse::Unused, Err(error));
        }
    }

    /// Creates the client and the session again after the server has lost them. Calls in progress
    /// fail with [`TransportError::Closed`].
    ///
    /// # Errors
    /// Any [`Error`] of the new connection or session.
    pub(crate) fn recover(&mut self) -> Result<(), Error> {
        for call in self.calls.drain() {
            if !call.abandoned && !call.internal {
                let result = Err(TransportError::Closed.into());
                self.done.push_back(Completion { ticket: call.ticket, tag: call.tag, result });
            }
        }
        self.waiting.clear();
        // If this fails, a connection could be in the middle of a record, and its call is gone.
        for index in 0..self.links.len() {
            self.cut(index);
        }
        self.links.iter_mut().for_each(|link| link.queued.clear());
        let mut first = RawConnection::connect_by(&self.options, &self.addresses)?;
        let mut control = Control::new(&self.options, &mut self.identity, &mut first);
        self.session = control.establish(&self.owner, &self.options)?;
        self.back.reset();
        self.slots = SlotTable::new(self.session.fore.ca_maxrequests);
        let trunks: Vec<_> = self.links.iter().skip(1).map(|link| link.trunk).collect();
        self.links.replace(Link::new(first)?);
        for trunk in trunks {
            let link = self.new_link(trunk)?;
            self.links.push(link);
        }
        Ok(())
    }
}

/// Returns whether a context may be established later. With SYSTEM_ERR the server asks for that.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::Transport(_) | Error::Timeout | Error::Rpc(RpcError::NotExecuted(AcceptStat::SYSTEM_ERR))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_can_make_no_context_now_is_asked_again() {
        // RFC 5531 section 9
        for (status, passes) in [(AcceptStat::SYSTEM_ERR, true), (AcceptStat::GARBAGE_ARGS, false)] {
            assert_eq!(is_passing(&Error::Rpc(RpcError::NotExecuted(status))), passes);
        }
    }
}
