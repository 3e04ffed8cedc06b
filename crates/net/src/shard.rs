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
use std::panic::{AssertUnwindSafe, catch_unwind};
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
/// Bytes of requests above which they are served before more are read.
const REQUESTS_BYTES_MAX: usize = 16 << 20;
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
    /// Bytes of `requests`.
    requests_bytes: usize,
    /// What is served at once.
    batch: Vec<Request>,
    replies: Vec<Reply>,
    /// Connections that are over once what arrived on them has been served.
    ended: Vec<u64>,
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
            requests_bytes: 0,
            batch: Vec::new(),
            replies: Vec::new(),
            ended: Vec::new(),
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
                if self.requests_bytes > REQUESTS_BYTES_MAX {
                    self.tick();
                }
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
        let known = self.requests.len();
        let progress = connection.read(&mut self.input, &self.limits, &self.stats, &mut self.requests);
        let arrived = self.requests.get(known..).unwrap_or_default();
        self.requests_bytes += arrived.iter().map(|request| request.record.len()).sum::<usize>();
        if progress == Progress::Closed {
            // Not before its requests have been served: the service must not hear of a connection after its end.
            self.ended.push(id);
        }
    }

    /// Serves what has arrived, a batch at a time, then lets go of the connections that are over.
    fn tick(&mut self) {
        while !self.requests.is_empty() {
            self.requests_bytes = 0;
            let mut arrived = std::mem::take(&mut self.requests);
            for request in arrived.drain(..) {
                self.admit(request);
                if self.batch.len() >= self.limits.batch_requests_max {
                    self.serve_batch();
                }
            }
            self.serve_batch();
            if self.requests.is_empty() {
                self.requests = arrived;
            }
        }
        while let Some(id) = self.ended.pop() {
            self.close(id);
        }
    }

    /// Puts a request into the batch, or aside while its peer does not take the replies to earlier ones.
    fn admit(&mut self, request: Request) {
        let Some(connection) = self.connections.get_mut(&request.connection.0) else { return };
        if connection.is_closing() {
            return;
        }
        if !connection.is_congested(&self.limits) {
            self.batch.push(request);
            return;
        }
        connection.hold(request.record);
        if connection.account(&self.limits, &self.stats) == Progress::Closed {
            self.ended.push(request.connection.0);
        }
    }

    fn serve_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        Stats::add(&self.stats.records, self.batch.len() as u64);
        let mut served: Vec<u64> = self.batch.iter().map(|request| request.connection.0).collect();
        served.dedup();
        let (service, scratch) = (&self.service, &mut self.scratch);
        let (batch, replies) = (&mut self.batch, &mut self.replies);
        // A defect may cost those who met it their connections, but not all others theirs.
        let outcome = catch_unwind(AssertUnwindSafe(|| service.tick(scratch, batch, replies)));
        self.batch.clear();
        if outcome.is_err() {
            tracing::error!("a defect of the server closes {} connection(s)", served.len());
            Stats::add(&self.stats.panics, 1);
            self.scratch = self.service.shard();
            self.replies.clear();
            self.ended.extend(served);
            return;
        }
        for reply in self.replies.drain(..) {
            let Some(connection) = self.connections.get_mut(&reply.connection.0) else { continue };
            match reply.action {
                Action::Send(record) => connection.queue(record, &self.stats),
                Action::Close => connection.close_when_sent(),
            }
        }
        served.into_iter().for_each(|id| self.write(id));
    }

    /// Sends what waits; watches for room, and stops reading from a peer that does not take its replies.
    fn write(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.write(&self.stats) == Progress::Closed {
            self.close(id);
            return;
        }
        let waiting = self.stats.output_bytes.load(Ordering::Relaxed);
        if connection.has_output() && waiting > self.limits.output_bytes_total_max {
            Stats::add(&self.stats.overdue, 1);
            self.stats.log_closed(connection.peer(), format_args!("{waiting} bytes of replies wait"));
            self.close(id);
            return;
        }
        connection.release_held(&self.limits, &self.stats, &mut self.requests);
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
