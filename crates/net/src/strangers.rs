//! The lane of strangers: connections that the service does not vouch for.
//!
//! Strangers are served after trusted connections, one step at a time: one read of at most
//! [`READ_MAX`](crate::driver) bytes, or one call. Addresses take turns, and so do the connections
//! of an address. While trusted connections are active anywhere on the server, the lane of each
//! shard has an [`Allowance`]; a lane without allowance is not even polled. On a server without
//! other work strangers are served at once.
//!
//! A deferred call costs its lane [`DEFERRED_COST`].

use crate::allowance::Allowance;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// Time for which the lane is served before trusted connections are checked again.
pub(crate) const SLICE: Duration = Duration::from_micros(400);
/// Steps of strangers that are served together.
pub(crate) const STEPS_MAX: usize = 8;
/// The cost of a deferred call, about the time to create a context.
const DEFERRED_COST: Duration = Duration::from_micros(200);

/// Place of a connection in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnTicket {
    address: IpAddr,
    number: u64,
}

/// The strangers of one shard that have work.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// Connections by address, each in the order in which they came.
    queues: BTreeMap<IpAddr, BTreeMap<u64, u64>>,
    /// The address that had the last turn.
    last: Option<IpAddr>,
    tickets: u64,
    allowance: Allowance,
}

impl Strangers {
    pub(crate) fn new(now: Instant) -> Self {
        Self { queues: BTreeMap::new(), last: None, tickets: 0, allowance: Allowance::new(now) }
    }

    /// Adds a connection behind the others of its address.
    pub(crate) fn push(&mut self, address: IpAddr, connection: u64) -> TurnTicket {
        self.tickets += 1;
        let number = self.tickets;
        self.queues.entry(address).or_default().insert(number, connection);
        TurnTicket { address, number }
    }

    /// Removes a connection before its turn.
    pub(crate) fn remove(&mut self, ticket: TurnTicket) {
        if let Some(queue) = self.queues.get_mut(&ticket.address) {
            queue.remove(&ticket.number);
            if queue.is_empty() {
                self.queues.remove(&ticket.address);
            }
        }
    }

    /// Takes the connection that has the turn.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.queues.range((after, Bound::Unbounded)).next();
        let (&address, _) = next.or_else(|| self.queues.first_key_value())?;
        self.last = Some(address);
        let queue = self.queues.get_mut(&address)?;
        let (_, connection) = queue.pop_first()?;
        if queue.is_empty() {
            self.queues.remove(&address);
        }
        Some(connection)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns how long the lane must wait for active trusted connections; zero if it may be served
    /// now.
    pub(crate) fn wait(&mut self, now: Instant) -> Duration {
        self.allowance.wait(now)
    }

    /// Charges time that strangers used on the shard.
    pub(crate) fn spend(&mut self, now: Instant, time: Duration) {
        self.allowance.spend(now, time);
    }

    /// Charges a deferred call.
    pub(crate) fn spend_deferred(&mut self, now: Instant) {
        self.allowance.spend(now, DEFERRED_COST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn addresses_take_turns_however_many_connections_each_has() {
        let mut lane = Strangers::new(Instant::now());
        (0..1000).for_each(|connection| _ = lane.push(address(9), connection));
        assert_eq!(lane.pop(), Some(0));
        lane.push(address(1), 5000);
        lane.push(address(200), 6000);
        let next: Vec<u64> = (0..4).filter_map(|_| lane.pop()).collect();
        assert_eq!(next, [6000, 5000, 1, 2]);
    }

    #[test]
    fn a_connection_that_closes_leaves_nothing_in_the_lane() {
        let mut lane = Strangers::new(Instant::now());
        let tickets: Vec<TurnTicket> = (0..4).map(|id| lane.push(address(id as u8 % 2), id)).collect();
        lane.remove(tickets[0]);
        lane.remove(tickets[2]);
        assert_eq!((lane.pop(), lane.pop(), lane.pop()), (Some(1), Some(3), None));
        lane.remove(tickets[1]);
        assert!(lane.is_empty());
    }

    #[test]
    fn deferred_calls_use_up_the_allowance_as_well() {
        let now = Instant::now();
        let mut lane = Strangers::new(now);
        let calls = (0..1000).take_while(|_| {
            lane.spend_deferred(now);
            lane.wait(now).is_zero()
        });
        assert!(calls.count() < 50);
    }
}
