//! The queues from other threads to a shard, and the bell that wakes it.

use crate::image::ConnectionImage;
use crate::ledger::{ConnectionAccount, EvictionSink};
use crate::stillness::{Exported, ShardPhase, Stillness};
use rpc::ConnectionId;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Server-initiated records that may wait for one shard, which takes them as soon as it wakes.
const OUTGOING_MAX: usize = 1024;

/// A connection for a shard.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: ConnectionId,
    pub(crate) stream: TcpStream,
    pub(crate) account: Arc<ConnectionAccount>,
    /// Its state in the previous process.
    pub(crate) inherited: Option<ConnectionImage>,
}

/// The state that the shard shares with other threads.
#[derive(Debug)]
pub(crate) struct Mailbox {
    arrived: Mutex<Vec<Arrival>>,
    outgoing: Mutex<Vec<(ConnectionId, Vec<u8>)>>,
    evicted: Mutex<Vec<ConnectionId>>,
    /// Number of the shard's connections, including arrivals in the mailbox.
    connections: AtomicUsize,
    stop: AtomicBool,
    bell: OwnedFd,
    pub(crate) stillness: Stillness,
}

impl Mailbox {
    /// Makes the mailbox of a shard that begins in a phase.
    pub(crate) fn new(phase: ShardPhase) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            arrived: Mutex::new(Vec::new()),
            outgoing: Mutex::new(Vec::new()),
            evicted: Mutex::new(Vec::new()),
            connections: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            bell,
            stillness: Stillness::new(phase),
        })
    }

    /// Queues a new connection for the shard.
    pub(crate) fn add(&self, arrival: Arrival) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let first = {
            let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
            arrived.push(arrival);
            arrived.len() == 1
        };
        // The first arrival wakes the shard for all that follow until it takes them.
        if first {
            self.ring();
        }
    }

    /// Takes the queued connections.
    pub(crate) fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Queues a record to be sent; false if the queue is full.
    pub(crate) fn post(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        {
            let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
            if outgoing.len() >= OUTGOING_MAX {
                return false;
            }
            outgoing.push((connection, record));
        }
        self.ring();
        true
    }

    /// Takes the queued records.
    pub(crate) fn take_outgoing(&self) -> Vec<(ConnectionId, Vec<u8>)> {
        std::mem::take(&mut *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the connections that the shard must close.
    pub(crate) fn take_evicted(&self) -> Vec<ConnectionId> {
        std::mem::take(&mut *self.evicted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that the shard has closed one connection.
    pub(crate) fn closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of the shard's connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests the shard to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.stillness.wake();
        self.ring();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Wakes the shard by its event descriptor.
    pub(crate) fn ring(&self) {
        // The counter is full only while a wake is pending, so a failure loses nothing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Waits for the bell, at most for `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let _ =
            poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Timespec::try_from(timeout).ok().as_ref());
    }

    /// Resets the bell. The caller must check the queues afterwards.
    pub(crate) fn silence(&self) {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&self.bell, &mut counter);
    }
}

impl EvictionSink for Mailbox {
    fn evict(&self, connection: ConnectionId) {
        self.evicted.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.ring();
    }
}

/// The bell: readable from a [`Mailbox::ring`] to the next [`Mailbox::silence`].
impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Sets the phase of all shards.
pub(crate) fn want_all(shards: &[Arc<Mailbox>], phase: ShardPhase) {
    for shard in shards {
        shard.stillness.want(phase);
        shard.ring();
    }
}

/// Waits until all shards have reached a phase; false if one has not in time.
pub(crate) fn wait_all(shards: &[Arc<Mailbox>], phase: ShardPhase, until: Instant) -> bool {
    shards.iter().all(|shard| shard.stillness.wait_for(phase, until))
}

/// Collects the images of all connections from parked shards.
pub(crate) fn export_all(shards: &[Arc<Mailbox>], until: Instant) -> io::Result<Exported> {
    shards.iter().for_each(|shard| shard.stillness.ask());
    let mut all = Vec::new();
    for shard in shards {
        all.append(&mut shard.stillness.answer(until)?);
    }
    Ok(all)
}
