//! Connections between clients and the server: TCP as it is, with delays, cuts and partitions.
//!
//! Records of one connection and direction arrive in order and once, or not at all: from the place
//! on where the connection was cut. Either end learns of a cut in its own time, after what had
//! still arrived; so the server may carry out a call that the client has long sent again elsewhere.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// Which way a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a client.
    ToServer,
    /// To a client.
    ToClient,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    sent: u64,
    arrived: u64,
    /// When the last record arrives.
    last: Duration,
    /// Records from this one on are lost.
    lost_from: Option<u64>,
}

/// A connection.
#[derive(Debug)]
struct Link {
    host: usize,
    /// Whether the client thinks that it is there.
    client: bool,
    /// Whether the server thinks so.
    server: bool,
    to_server: Direction,
    to_client: Direction,
}

/// All connections.
pub(crate) struct Network {
    links: BTreeMap<u64, Link>,
    next: u64,
    /// Until when nothing gets through, for each client.
    blocked: Vec<Duration>,
    delay_max: Duration,
    rng: Rng,
}

impl Network {
    /// Makes a network without connections.
    pub(crate) fn new(hosts: usize, delay_max: Duration, rng: Rng) -> Self {
        Self { links: BTreeMap::new(), next: 0, blocked: vec![Duration::ZERO; hosts], delay_max, rng }
    }

    /// Cuts a client off until then.
    pub(crate) fn block(&mut self, host: usize, until: Duration) {
        if let Some(blocked) = self.blocked.get_mut(host) {
            *blocked = until.max(*blocked);
        }
    }

    /// When something that leaves now arrives.
    pub(crate) fn arrival(&mut self, host: usize, now: Duration) -> Duration {
        let blocked = self.blocked.get(host).copied().unwrap_or_default();
        let mut delay = self.rng.time(Duration::from_micros(50), self.delay_max);
        // Now and then a segment is lost, and TCP waits before it sends it again.
        if self.rng.one_in(50) {
            delay += self.rng.millis(200, 3000);
        }
        now.max(blocked) + delay
    }

    /// Opens a connection.
    pub(crate) fn open(&mut self, host: usize) -> u64 {
        self.next += 1;
        let (to_server, to_client) = Default::default();
        self.links.insert(self.next, Link { host, client: true, server: true, to_server, to_client });
        self.next
    }

    /// Whether the client thinks that a connection is there.
    pub(crate) fn is_up(&self, connection: u64) -> bool {
        self.links.get(&connection).is_some_and(|link| link.client)
    }

    /// Whose connection it is.
    pub(crate) fn host(&self, connection: u64) -> Option<usize> {
        self.links.get(&connection).map(|link| link.host)
    }

    /// The connections that clients think are there.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.links.iter().filter(|(_, link)| link.client).map(|(connection, _)| *connection).collect()
    }

    /// Sends a record: its number in its direction and when it arrives. Nothing when the sender
    /// knows the connection to be gone.
    pub(crate) fn send(&mut self, connection: u64, way: Way, now: Duration) -> Option<(u64, Duration)> {
        let host = self.host(connection)?;
        let arrival = self.arrival(host, now);
        let link = self.links.get_mut(&connection)?;
        if !(if way == Way::ToServer { link.client } else { link.server }) {
            return None;
        }
        let direction = link.direction(way);
        let number = direction.sent;
        direction.sent += 1;
        direction.last = arrival.max(direction.last + Duration::from_micros(1));
        Some((number, direction.last))
    }

    /// Whether a record arrives after all.
    pub(crate) fn arrives(&mut self, connection: u64, way: Way, number: u64) -> bool {
        let Some(link) = self.links.get_mut(&connection) else { return false };
        let listens = if way == Way::ToServer { link.server } else { link.client };
        let direction = link.direction(way);
        let arrives = listens && direction.lost_from.is_none_or(|lost| number < lost);
        if arrives {
            direction.arrived = number + 1;
        }
        arrives
    }

    /// Cuts a connection: of what is on its way some arrives. Returns when the client and the
    /// server learn of it.
    pub(crate) fn cut(&mut self, connection: u64, now: Duration) -> Option<(Duration, Duration)> {
        let rng = &mut self.rng;
        let link = self.links.get_mut(&connection)?;
        let mut lose = |direction: &mut Direction| {
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

    /// The server is gone: nothing more arrives there, and some of what it has sent does. Returns
    /// the connections and when their clients learn of it.
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

    /// An end has learnt that a connection is gone; false if it knew.
    pub(crate) fn learn(&mut self, connection: u64, way: Way) -> bool {
        let Some(link) = self.links.get_mut(&connection) else { return false };
        let end = if way == Way::ToServer { &mut link.server } else { &mut link.client };
        let knew = !std::mem::replace(end, false);
        if !link.client && !link.server {
            self.links.remove(&connection);
        }
        !knew
    }
}

impl Link {
    fn direction(&mut self, way: Way) -> &mut Direction {
        if way == Way::ToServer { &mut self.to_server } else { &mut self.to_client }
    }
}
