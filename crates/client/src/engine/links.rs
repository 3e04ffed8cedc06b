//! The connections of the session.

use std::time::Duration;

use rng::SplitMix64;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::Calls;
use super::link::{Connection, Link, LinkState};
use crate::error::{Error, TransportError};

/// Reads of one connection before the others take their turn.
const READS_MAX: usize = 8;

/// The connections of the session, by index, and the turn of calls on them.
#[derive(Debug)]
pub(crate) struct Links {
    pub(super) all: Vec<Link>,
    /// Index of the connection that took the last call.
    last: usize,
    /// Draws the times of [`Options::lag_max`](crate::Options::lag_max).
    pub(super) random: SplitMix64,
}

impl Links {
    /// Begins with the first connection.
    pub(crate) fn new(first: Link) -> Self {
        Self { all: vec![first], last: 0, random: SplitMix64(0) }
    }

    /// Replaces all connections by the first one of another session.
    pub(crate) fn replace(&mut self, first: Link) {
        self.all = vec![first];
    }

    /// Adds a connection behind the others.
    pub(crate) fn push(&mut self, link: Link) {
        self.all.push(link);
    }

    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the connection with this index.
    pub(crate) fn get(&self, index: usize) -> Option<&Link> {
        self.all.get(index)
    }

    /// Returns the connection with this index.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Link> {
        self.all.get_mut(index)
    }

    /// Returns all connections by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.all.iter()
    }

    /// Returns all connections by index.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.all.iter_mut()
    }

    /// Removes all connections, and returns one without a record in transit, if there is any.
    pub(crate) fn take_idle(&mut self) -> Option<crate::RawConnection> {
        self.all.drain(..).find_map(|link| match link.state {
            LinkState::Up(connection) => connection.into_raw(),
            LinkState::Down { .. } => None,
        })
    }

    /// Returns a connection that is up.
    pub(super) fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.get_mut(index)?.connection()
    }

    /// Queues a call for the next flush.
    pub(super) fn queue(&mut self, index: usize, xid: u32) {
        if let Some(link) = self.get_mut(index) {
            link.queued.push_back(xid);
        }
    }

    /// Selects the connection of the last call.
    pub(super) const fn last(&self) -> usize {
        self.last
    }

    /// Selects connections in turn. Uses failed connections only if all have failed, and none that
    /// holds back calls.
    pub(super) fn turn(&mut self) {
        let count = self.len().max(1);
        let turn = |step| (self.last + step) % count;
        let fit = |link: &Link| link.is_up() && !link.is_held();
        let up = (1..=count).map(turn).find(|link| self.get(*link).is_some_and(fit));
        self.last = up.unwrap_or_else(|| turn(1));
    }

    /// Waits for sockets, and returns the readable connections.
    pub(super) fn wait(&self, wait: Duration) -> Result<Vec<usize>, Error> {
        let mut indexes = Vec::with_capacity(self.len());
        let mut fds = Vec::with_capacity(self.len());
        let mut early = Vec::new();
        for (index, link) in self.iter().enumerate() {
            let LinkState::Up(connection) = &link.state else { continue };
            let out = if connection.wants_to_write() && !link.is_held() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            let fd = connection.fd();
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN | out));
            indexes.push(index);
            early.push(connection.has_early());
        }
        let wait = if early.contains(&true) { Duration::ZERO } else { wait };
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(std::io::Error::from(cause).into()),
        }
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        Ok(fds
            .iter()
            .zip(indexes)
            .zip(early)
            .filter(|((fd, _), early)| *early || fd.revents().intersects(readable))
            .map(|((_, index), _)| index)
            .collect())
    }

    /// Reads from a connection. On an error the records before it still count.
    pub(super) fn read(
        &mut self,
        index: usize,
        scratch: &mut [u8],
        records: &mut Vec<Vec<u8>>,
    ) -> Result<(), TransportError> {
        for _ in 0..READS_MAX {
            let Some(connection) = self.connection(index) else { break };
            if !connection.read(scratch, records)? {
                break;
            }
        }
        Ok(())
    }

    /// Writes to all connections that are not held back, and returns those that have failed.
    pub(super) fn write(&mut self, calls: &Calls) -> Vec<usize> {
        let mut failed = Vec::new();
        for (index, link) in self.all.iter_mut().enumerate().filter(|(_, link)| !link.is_held()) {
            let LinkState::Up(connection) = &mut link.state else { continue };
            if connection.wants_to_write() && connection.write(calls).is_err() {
                failed.push(index);
            }
        }
        failed
    }
}
