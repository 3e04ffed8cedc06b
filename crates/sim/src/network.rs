//! Connections between clients and the server: TCP with delays, cuts and partitions.
//!
//! Records of one connection and direction arrive in order and once; after a cut, the rest is lost.
//! Each end learns of a cut at its own time, after the records that still arrived. The server may
//! thus execute a call that the client has long sent again on another connection.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// The direction of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkDirection {
    /// From a client to the server.
    ToServer,
    /// From the server to a client.
    ToClient,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct DirectionState {
    sent: u64,
    arrived: u64,
    /// The arrival time of the last record.
    last: Duration,
    /// The number of the first lost record.
    lost_from: Option<u64>,
}

/// A connection as both ends see it.
#[derive(Debug)]
struct SimLink {
    host: usize,
    /// Whether it is open at the client.
    client: bool,
    /// Whether it is open at the server.
    server: bool,
    to_server: DirectionState,
    to_client: DirectionState,
}

/// All connections of a run.
pub(crate) struct SimNetwork {
    links: BTreeMap<u64, SimLink>,
    next: u64,
    /// The end of each client's partition.
    blocked: Vec<Duration>,
    delay_max: Duration,
    rng: Rng,
}

impl SimNetwork {
    /// Makes a network without connections.
    pub(crate) fn new(hosts: usize, delay_max: Duration, rng: Rng) -> Self {
        Self { links: BTreeMap::new(), next: 0, blocked: vec![Duration::ZERO; hosts], delay_max, rng }
    }

    /// Partitions a client off up to a time.
    pub(crate) fn block(&mut self, host: usize, until: Duration) {
        if let Some(blocked) = self.blocked.get_mut(host) {
            *blocked = until.max(*blocked);
        }
    }

    /// Draws the arrival time of a packet that leaves now.
    pub(crate) fn arrival(&mut self, host: usize, now: Duration) -> Duration {
        let blocked = self.blocked.get(host).copied().unwrap_or_default();
        let mut delay = self.rng.time(Duration::from_micros(50), self.delay_max);
        // TCP retransmits a lost segment after a pause.
        if self.rng.one_in(50) {
            delay += self.rng.millis(200, 3000);
        }
        now.max(blocked) + delay
    }

    /// Opens a connection of a client.
    pub(crate) fn open(&mut self, host: usize) -> u64 {
        self.next += 1;
        let (to_server, to_client) = Default::default();
        self.links.insert(self.next, SimLink { host, client: true, server: true, to_server, to_client });
        self.next
    }

    /// Returns whether a connection is open at the client.
    pub(crate) fn is_up(&self, connection: u64) -> bool {
        self.links.get(&connection).is_some_and(|link| link.client)
    }

    /// Returns the client of a connection.
    pub(crate) fn host(&self, connection: u64) -> Option<usize> {
        self.links.get(&connection).map(|link| link.host)
    }

    /// Lists the connections that are open at their clients.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.links.iter().filter(|(_, link)| link.client).map(|(connection, _)| *connection).collect()
    }

    /// Sends a record. Returns its number in its direction and its arrival time, or `None` if the
    /// sender knows that the connection is gone.
    pub(crate) fn send(
        &mut self,
        connection: u64,
        way: LinkDirection,
        now: Duration,
    ) -> Option<(u64, Duration)> {
        let host = self.host(connection)?;
        let arrival = self.arrival(host, now);
        let link = self.links.get_mut(&connection)?;
        if !(if way == LinkDirection::ToServer { link.client } else { link.server }) {
            return None;
        }
        let direction = link.direction(way);
        let number = direction.sent;
        direction.sent += 1;
        direction.last = arrival.max(direction.last + Duration::from_micros(1));
        Some((number, direction.last))
    }

    /// Returns whether a record arrives, or was lost in a cut.
    pub(crate) fn arrives(&mut self, connection: u64, way: LinkDirection, number: u64) -> bool {
        let Some(link) = self.links.get_mut(&connection) else { return false };
        let listens = if way == LinkDirection::ToServer { link.server } else { link.client };
        let direction = link.direction(way);
        let arrives = listens && direction.lost_from.is_none_or(|lost| number < lost);
        if arrives {
            direction.arrived = number + 1;
        }
        arrives
    }

    /// Cuts a connection, so that only some of the records in flight arrive. Returns the times at
    /// which the client and the server learn of it.
    pub(crate) fn cut(&mut self, connection: u64, now: Duration) -> Option<(Duration, Duration)> {
        let rng = &mut self.rng;
        let link = self.links.get_mut(&connection)?;
        let mut lose = |direction: &mut DirectionState| {
            let on_the_way = direction.sent - direction.arrived;
            let kept = rng.below(on_the_way as usize + 1) as u64;
            let lost = direction.lost_from.unwrap_or(u64::MAX).min(direction.arrived + kept);
            direction.lost_from = Some(lost);
            now.max(direction.last) + rng.millis(1, 2000)
        };
        let server = lose(&mut link.to_server);
        let client = lose(&mut link.to_client);
        Some((client, server))
    }

    /// Cuts all connections, as a crash of the server does: it receives nothing more, and some of
    /// its records in flight arrive. Returns the connections, and the times at which their clients
    /// learn of it.
    pub(crate) fn cut_all(&mut self, now: Duration) -> Vec<(u64, Duration)> {
        let all: Vec<u64> = self.links.keys().copied().collect();
        let mut cut = Vec::new();
        for connection in all {
            let Some((client, _)) = self.cut(connection, now) else { continue };
            if let Some(link) = self.links.get_mut(&connection) {
                link.to_server.lost_from = Some(link.to_server.arrived);
                link.server = false;
                cut.push((connection, client));
            }
        }
        cut
    }

    /// Notes that an end learns of the end of a connection; false if it knew already.
    pub(crate) fn learn(&mut self, connection: u64, way: LinkDirection) -> bool {
        let Some(link) = self.links.get_mut(&connection) else { return false };
        let end = if way == LinkDirection::ToServer { &mut link.server } else { &mut link.client };
        let knew = !std::mem::replace(end, false);
        if !link.client && !link.server {
            self.links.remove(&connection);
        }
        !knew
    }
}

impl SimLink {
    fn direction(&mut self, way: LinkDirection) -> &mut DirectionState {
        if way == LinkDirection::ToServer { &mut self.to_server } else { &mut self.to_client }
    }
}
