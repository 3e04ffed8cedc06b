//! One thread with its connections: reads what has arrived, has it handled as a batch, writes the replies.

use crate::connection::{Connection, Progress};
use crate::{Action, Limits, Reply, Request, Service, Stats};
use rpc::ConnectionId;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// How often a shard looks for connections that are overdue.
const SWEEP_INTERVAL: Duration = Duration::from_secs(SWEEP_SECONDS as u64);
const SWEEP_SECONDS: i64 = 1;
/// Bytes read from a socket at once when no large record is under way.
const SCRATCH_SIZE: usize = 256 << 10;
/// The event data of the wake-up descriptor; connections count from one.
const WAKE: u64 = 0;

/// What the acceptor and the shard share.
struct Mailbox {
    arrived: Mutex<Vec<(ConnectionId, TcpStream, SocketAddr)>>,
    stop: AtomicBool,
    wake: OwnedFd,
}

impl Mailbox {
    fn ring(&self) {
        // The counter can only be full when the shard has yet to wake, so a failure loses nothing.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The acceptor's end of a shard.
pub(crate) struct ShardHandle {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

impl ShardHandle {
    /// Hands over a connection.
    pub(crate) fn add(&self, id: ConnectionId, stream: TcpStream, peer: SocketAddr) {
        self.mailbox.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((id, stream, peer));
        self.mailbox.ring();
    }

    /// Ends the shard after its tick and waits for it.
    pub(crate) fn stop(self) {
        self.mailbox.stop.store(true, Ordering::Release);
        self.mailbox.ring();
        let _ = self.thread.join();
    }
}

/// A shard thread.
pub(crate) struct Shard<S: Service> {
    service: Arc<S>,
    scratch: S::Shard,
    limits: Arc<Limits>,
    stats: Arc<Stats>,
    mailbox: Arc<Mailbox>,
    epoll: OwnedFd,
    connections: HashMap<u64, Connection>,
    requests: Vec<Request>,
    replies: Vec<Reply>,
    input: Vec<u8>,
}

impl<S: Service> Shard<S> {
    /// Starts a shard's thread.
    pub(crate) fn spawn(
        index: usize,
        service: Arc<S>,
        limits: Arc<Limits>,
        stats: Arc<Stats>,
    ) -> io::Result<ShardHandle> {
        let mailbox = Arc::new(Mailbox {
            arrived: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &mailbox.wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let shard = Self {
            scratch: service.shard(),
            service,
            limits,
            stats,
            mailbox: mailbox.clone(),
            epoll,
            connections: HashMap::new(),
            requests: Vec::new(),
            replies: Vec::new(),
            input: vec![0; SCRATCH_SIZE],
        };
        let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || shard.run())?;
        Ok(ShardHandle { mailbox, thread })
    }

    fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut next_sweep = Instant::now() + SWEEP_INTERVAL;
        while !self.mailbox.stop.load(Ordering::Acquire) {
            self.wait(&mut events);
            for event in events.drain(..) {
                self.dispatch(event);
            }
            self.tick();
            if Instant::now() >= next_sweep {
                next_sweep = Instant::now() + SWEEP_INTERVAL;
                self.close_overdue();
            }
        }
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    fn wait(&self, events: &mut Vec<Event>) {
        let timeout = Timespec { tv_sec: SWEEP_SECONDS, tv_nsec: 0 };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => tracing::error!("waiting for events failed: {error}"),
        }
    }

    fn dispatch(&mut self, event: Event) {
        let id = event.data.u64();
        if id == WAKE {
            let mut counter = [0u8; 8];
            let _ = rustix::io::read(&self.mailbox.wake, &mut counter);
            self.take_arrived();
            return;
        }
        let flags = event.flags;
        if flags.contains(EventFlags::OUT) {
            self.write(id);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP) {
            self.read(id);
        }
    }

    fn take_arrived(&mut self) {
        let arrived =
            std::mem::take(&mut *self.mailbox.arrived.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, stream, peer) in arrived {
            let added = epoll::add(&self.epoll, &stream, EventData::new_u64(id.0), EventFlags::IN);
            self.connections.insert(id.0, Connection::new(id, stream, peer, &self.limits));
            if let Err(error) = added {
                tracing::warn!("connection from {peer} could not be watched: {error}");
                self.close(id.0);
            }
        }
    }

    fn read(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // What a full budget leaves in the socket is reported again by the next wait.
        if connection.read(&mut self.input, &self.limits, &self.stats, &mut self.requests) == Progress::Closed
        {
            self.close(id);
        }
    }

    fn tick(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        Stats::add(&self.stats.records, self.requests.len() as u64);
        self.service.tick(&mut self.scratch, &mut self.requests, &mut self.replies);
        self.requests.clear();
        let mut answered: Vec<u64> = Vec::new();
        for reply in self.replies.drain(..) {
            let Some(connection) = self.connections.get_mut(&reply.connection.0) else { continue };
            match reply.action {
                Action::Send(record) => connection.queue(record),
                Action::Close => connection.close_when_sent(),
            }
            if answered.last() != Some(&reply.connection.0) {
                answered.push(reply.connection.0);
            }
        }
        answered.into_iter().for_each(|id| self.write(id));
    }

    /// Sends what waits; watches for room, and stops reading from a peer that does not take its replies.
    fn write(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.write(&self.stats) == Progress::Closed {
            self.close(id);
            return;
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::OUT, connection.has_output());
        interest.set(EventFlags::IN, connection.wants_input(&self.limits));
        if connection.interest_changed(interest)
            && epoll::modify(&self.epoll, connection.stream(), EventData::new_u64(id), interest).is_err()
        {
            self.close(id);
        }
    }

    fn close_overdue(&mut self) {
        let now = Instant::now();
        let overdue: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.is_overdue(now, &self.limits))
            .map(|(id, _)| *id)
            .collect();
        for id in overdue {
            Stats::add(&self.stats.overdue, 1);
            self.close(id);
        }
    }

    fn close(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            // Dropping the socket takes it out of the epoll set as well.
            connection.release(&self.stats);
            self.stats.connections.fetch_sub(1, Ordering::Relaxed);
            self.service.closed(ConnectionId(id));
        }
    }
}
