//! A shard: one thread that reads requests from its connections, passes them to the service in
//! batches, and writes the replies.
//!
//! Each loop serves interactive connections first, then bulk connections, then strangers.

use crate::activity::{Activity, Step};
use crate::driver::Ready;
use crate::interactive::InteractiveLane;
use crate::ledger::{ConnectionAccount, Ledger};
use crate::mailbox::Mailbox;
use crate::sockets::Sockets;
use crate::strangers::{SLICE, STEPS_MAX};
use crate::{CompletionEvent, CompletionSender, Limits, Reply, Request, Service, Stats};
use rpc::{ConnectionId, memory};
use std::io;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval of the check for overdue connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Memory of requests in bytes above which a shard serves them before it reads more.
const REQUESTS_BYTES_MAX: usize = 16 << 20;

/// The acceptor's end of a shard.
pub(crate) struct ShardHandle {
    mailbox: Arc<Mailbox>,
    activity: Arc<Activity>,
    thread: JoinHandle<()>,
}

impl ShardHandle {
    /// Returns the mailbox, through which other threads reach the shard.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Returns the activity of the shard, for the watchdog.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }

    /// Passes a new connection to the shard.
    pub(crate) fn add(&self, id: ConnectionId, stream: TcpStream, account: Arc<ConnectionAccount>) {
        self.mailbox.add((id, stream, account));
    }

    /// Returns the number of connections of the shard.
    pub(crate) fn connections(&self) -> usize {
        self.mailbox.connections()
    }

    /// Asks the shard to end after its tick.
    pub(crate) fn stop(&self) {
        self.mailbox.stop();
    }

    /// Waits until the shard has ended.
    pub(crate) fn join(self) {
        let _ = self.thread.join();
    }
}

/// The state of a shard thread.
pub(crate) struct Shard<S: Service> {
    service: Arc<S>,
    scratch: S::Shard,
    limits: Arc<Limits>,
    mailbox: Arc<Mailbox>,
    sockets: Sockets,
    /// Requests that the service handles together.
    batch: Vec<Request>,
    replies: Vec<Reply>,
    /// The sender that returns deferred calls to this shard.
    sink: CompletionSender<S::Completed>,
    /// Completed deferred calls whose replies this tick sends.
    late: Vec<CompletionEvent<S::Completed>>,
    interactive: InteractiveLane<S>,
    activity: Arc<Activity>,
}

impl<S: Service> Shard<S> {
    /// Starts the thread of a shard, and returns once it waits for connections.
    pub(crate) fn spawn(
        index: usize,
        service: Arc<S>,
        limits: Arc<Limits>,
        stats: Arc<Stats>,
        ledger: Arc<Ledger>,
    ) -> io::Result<ShardHandle> {
        let mailbox = Arc::new(Mailbox::new()?);
        let activity = Arc::new(Activity::new());
        let (tell, told) = mpsc::channel();
        let run = {
            let (mailbox, activity) = (mailbox.clone(), activity.clone());
            // The driver is created on the thread that uses it.
            move || match Sockets::new(&mailbox, limits.clone(), stats, ledger) {
                Ok(sockets) => {
                    let _ = tell.send(Ok(()));
                    Self::new(service, sockets, limits, mailbox, activity).run();
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(run)?;
        told.recv().map_err(io::Error::other)??;
        Ok(ShardHandle { mailbox, activity, thread })
    }

    fn new(
        service: Arc<S>,
        sockets: Sockets,
        limits: Arc<Limits>,
        mailbox: Arc<Mailbox>,
        activity: Arc<Activity>,
    ) -> Self {
        let sink = {
            let mailbox = mailbox.clone();
            CompletionSender::new(move || mailbox.ring())
        };
        let scratch = service.shard(&sink, activity.operation());
        let (batch, replies, late) = (Vec::new(), Vec::new(), Vec::new());
        let interactive = InteractiveLane::new(service.clone(), sink.clone(), activity.operation().clone());
        Self { service, scratch, limits, mailbox, sockets, batch, replies, sink, late, interactive, activity }
    }

    fn run(mut self) {
        memory::keep(self.limits.spare_bytes_max);
        let (mut ready, mut bulk) = (Vec::new(), Vec::new());
        let mut next_sweep = Instant::now() + SWEEP_INTERVAL;
        while !self.mailbox.is_stopping() {
            self.activity.rest();
            self.sockets.wait(SWEEP_INTERVAL, &mut ready);
            self.activity.wake();
            self.service.woke(&mut self.scratch, self.interactive.begin());
            // Interactive connections do not wait for bulk connections.
            for ready in ready.drain(..) {
                match ready {
                    Ready::Input(id) | Ready::Output(id) if self.sockets.is_bulk(id) => bulk.push(ready),
                    ready => self.dispatch(ready),
                }
            }
            self.tick();
            for ready in bulk.drain(..) {
                self.dispatch(ready);
            }
            self.tick();
            self.serve_strangers();
            if Instant::now() >= next_sweep {
                next_sweep = Instant::now() + SWEEP_INTERVAL;
                self.sockets.close_overdue();
                memory::trim();
                self.tell_gone();
            }
        }
        self.sockets.close_all();
        self.tell_gone();
        self.activity.end();
    }

    fn dispatch(&mut self, ready: Ready) {
        match ready {
            Ready::Mail => {
                self.sockets.take_arrived();
                self.take_late();
                self.send_outgoing();
            }
            Ready::Input(id) => self.read(id),
            Ready::Output(id) => self.write(id),
            Ready::Over(id) => self.sockets.end(id),
        }
    }

    /// Reads until the socket is empty or the tick's budget is used. The next wait reports the
    /// connection again if bytes remain.
    fn read(&mut self, id: u64) {
        let mut budget = self.limits.tick_bytes_max;
        self.activity.step(Step::Reading, id);
        while let Some(count) = self.sockets.read_step(id) {
            if count >= budget || self.sockets.requests_bytes() > REQUESTS_BYTES_MAX {
                break;
            }
            budget -= count;
            if self.sockets.is_bulk(id) {
                self.interactive.turn(&mut self.sockets);
            }
        }
        self.sockets.read_done(id);
        if self.sockets.requests_bytes() > REQUESTS_BYTES_MAX {
            self.tick();
        }
    }

    /// Sends replies until the socket takes no more.
    fn write(&mut self, id: u64) {
        self.activity.step(Step::Sending, id);
        while self.sockets.write_step(id) {
            self.interactive.turn(&mut self.sockets);
        }
        self.sockets.write_done(id);
    }

    /// Serves strangers for a slice of time, as far as their allowance lasts.
    fn serve_strangers(&mut self) {
        if !self.sockets.open_lane() {
            return;
        }
        let start = Instant::now();
        loop {
            let steps = (0..STEPS_MAX).take_while(|_| self.sockets.step_stranger()).count();
            self.tick();
            if steps < STEPS_MAX || start.elapsed() >= SLICE {
                break;
            }
        }
        self.sockets.close_lane(start);
    }

    /// Takes completed deferred calls, and drops those of closed connections.
    fn take_late(&mut self) {
        // Mail can arrive twice before a tick, so some may be queued already.
        let mut late = Vec::new();
        self.sink.take(&mut late);
        late.retain(|late| self.sockets.came_back(late.connection, late.held));
        self.late.append(&mut late);
    }

    /// Sends records that answer no request, such as callbacks.
    fn send_outgoing(&mut self) {
        for (connection, record) in self.mailbox.take_outgoing() {
            match self.sockets.post(connection, record) {
                true => self.write(connection.0),
                false => self.service.closed(connection),
            }
        }
    }

    /// Serves the requests that have arrived in batches, then closes ended connections.
    fn tick(&mut self) {
        self.sockets.release();
        while self.sockets.has_requests() || !self.late.is_empty() {
            let mut arrived = self.sockets.take_requests();
            for request in arrived.drain(..) {
                self.batch.extend(self.sockets.admit(request));
                if self.batch.len() >= self.limits.batch_requests_max {
                    self.serve_batch();
                }
            }
            self.serve_batch();
            self.sockets.reuse_requests(arrived);
            self.sockets.release();
        }
        self.sockets.close_ended();
        self.tell_gone();
    }

    fn serve_batch(&mut self) {
        if self.batch.is_empty() && self.late.is_empty() {
            return;
        }
        let mut served: Vec<u64> = self.batch.iter().map(|request| request.connection.0).collect();
        self.sockets.count_records(served.len());
        self.activity.step(Step::Serving, served.first().copied().unwrap_or_default());
        let late: Vec<u64> = self.late.iter().map(|late| late.connection.0).collect();
        let (service, scratch) = (&self.service, &mut self.scratch);
        let (batch, replies) = (&mut self.batch, &mut self.replies);
        let (interactive, sockets, back) = (&mut self.interactive, &mut self.sockets, &mut self.late);
        // A panic closes the connections of its batch, and no others.
        let mut pause = |replies: &mut Vec<Reply>| interactive.pause(sockets, replies);
        let tick = || service.tick(scratch, batch, back, replies, &mut pause);
        let outcome = catch_unwind(AssertUnwindSafe(tick));
        self.batch.clear();
        self.late.clear();
        self.sockets.done(&mut served);
        served.extend(late);
        served.dedup();
        if outcome.is_err() {
            self.scratch = self.service.shard(&self.sink, self.activity.operation());
            self.replies.clear();
            self.sockets.blame(served);
            return;
        }
        self.sockets.queue(self.replies.drain(..));
        served.into_iter().for_each(|id| self.write(id));
    }

    /// Reports closed connections to the service, after the last of their requests.
    fn tell_gone(&mut self) {
        for connection in self.sockets.take_gone() {
            self.service.closed(connection);
        }
    }
}
