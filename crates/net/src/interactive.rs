//! The lane of interactive connections, which a shard serves during long work.
//!
//! A shard that reads, handles or sends a large record, or serves connections with deferred calls,
//! calls [`InteractiveLane::turn`] at intervals. A turn serves the connections of the lanes before
//! the current one that have no other requests in progress. Turns take at most half of the time, so
//! that the other work progresses as well.

use crate::driver::Ready;
use crate::requests::RequestQueue;
use crate::sockets::Sockets;
use crate::traffic::Lane;
use crate::{CompletionSender, Reply, Request, Service};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The inverse of the largest share of time that turns take.
const SHARE: u32 = 2;
/// Shortest time between two turns. A turn asks the kernel for events, which costs about a
/// microsecond.
const INTERVAL: Duration = Duration::from_micros(25);

/// The interactive lane of a shard. It has its own scratch memory, since the shard's is in use.
pub(crate) struct InteractiveLane<S: Service> {
    service: Arc<S>,
    sink: CompletionSender<S::Completed>,
    operation: Arc<AtomicU32>,
    /// Created when it is first needed.
    scratch: Option<S::Shard>,
    /// Steps for the shard's thread.
    pub(crate) steps: VecDeque<S::Step>,
    ready: Vec<Ready>,
    requests: RequestQueue,
    replies: Vec<Reply>,
    /// The last lane that turns serve.
    last: Lane,
    /// Start of the long work, and the time that turns have taken since.
    since: Instant,
    spent: Duration,
    /// The start of the last turn.
    turned: Instant,
}

impl<S: Service> InteractiveLane<S> {
    pub(crate) fn new(
        service: Arc<S>,
        sink: CompletionSender<S::Completed>,
        operation: Arc<AtomicU32>,
    ) -> Self {
        Self {
            service,
            sink,
            operation,
            scratch: None,
            steps: VecDeque::new(),
            ready: Vec::new(),
            requests: RequestQueue::default(),
            replies: Vec::new(),
            last: Lane::Interactive,
            since: Instant::now(),
            spent: Duration::ZERO,
            turned: Instant::now(),
        }
    }

    /// Starts to measure time, and returns the start.
    pub(crate) fn begin(&mut self) -> Instant {
        (self.since, self.spent) = (Instant::now(), Duration::ZERO);
        self.last = Lane::Interactive;
        self.since
    }

    /// Returns the time that turns have taken since the start.
    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// Lets turns serve the lanes before `lane`, and interactive connections in any case.
    pub(crate) fn enter(&mut self, lane: Lane) {
        self.last = if lane == Lane::Bulk { Lane::Deferring } else { Lane::Interactive };
    }

    /// Sends the replies that a long batch has produced so far, and takes a turn. Returns the time
    /// that this took.
    pub(crate) fn pause(&mut self, sockets: &mut Sockets, replies: &mut Vec<Reply>) -> Duration {
        let before = self.spent;
        sockets.sending = Duration::ZERO;
        let mut answered: Vec<u64> = replies.iter().map(|reply| reply.connection.0).collect();
        answered.dedup();
        sockets.queue(replies.drain(..));
        for id in answered {
            while sockets.write_step(id) {
                self.turn(sockets);
            }
            sockets.write_done(id);
        }
        self.turn(sockets);
        sockets.sending + self.spent - before
    }

    /// Serves the requests of connections that may pass, and defers all other readiness.
    pub(crate) fn turn(&mut self, sockets: &mut Sockets) {
        if sockets.len() < 2 || sockets.is_draining() {
            return;
        }
        let start = Instant::now();
        let is_early = start.duration_since(self.turned) < INTERVAL;
        if is_early || self.spent * SHARE > start.duration_since(self.since) {
            return;
        }
        self.turned = start;
        sockets.poll(&mut self.ready);
        for ready in self.ready.drain(..) {
            match ready {
                Ready::Input(id) if sockets.may_pass(id, self.last, start) => {
                    sockets.charged(id, |sockets| sockets.read_interactive(id, &mut self.requests));
                }
                Ready::Output(id) if sockets.may_pass(id, self.last, start) => {
                    sockets.charged(id, |sockets| sockets.write(id));
                }
                ready => sockets.defer(ready),
            }
        }
        if !self.requests.is_empty() {
            let sending = sockets.sending;
            self.serve(sockets, start);
            // `spent` includes the time that these replies took to send.
            sockets.sending = sending;
        }
        self.spent += start.elapsed();
    }

    /// Serves the requests in batches. The replies of one batch decide which requests the next
    /// admits.
    fn serve(&mut self, sockets: &mut Sockets, woken: Instant) {
        let mut requests = self.requests.take();
        let mut batch = Vec::new();
        for request in requests.drain(..) {
            batch.extend(sockets.admit(request));
            if batch.len() >= sockets.batch_requests_max() {
                self.serve_batch(sockets, &mut batch, woken);
            }
        }
        self.serve_batch(sockets, &mut batch, woken);
        self.requests.reuse(requests);
    }

    fn serve_batch(&mut self, sockets: &mut Sockets, batch: &mut Vec<Request>, woken: Instant) {
        if batch.is_empty() {
            return;
        }
        let start = sockets.shares.is_contended().then(Instant::now);
        let mut served: Vec<u64> = batch.iter().map(|request| request.connection.0).collect();
        sockets.count_records(served.len());
        let scratch = self.scratch.get_or_insert_with(|| self.service.shard(&self.sink, &self.operation));
        let (service, replies) = (&self.service, &mut self.replies);
        service.note_wakeup(scratch, woken);
        let tick = || service.tick(scratch, batch, &mut Vec::new(), replies, &mut |_| Duration::ZERO);
        let outcome = catch_unwind(AssertUnwindSafe(tick));
        service.take_steps(scratch, &mut self.steps);
        batch.clear();
        sockets.done(&mut served);
        if outcome.is_err() {
            self.scratch = None;
            self.replies.clear();
            sockets.blame(served);
            return;
        }
        sockets.queue(self.replies.drain(..));
        served.iter().for_each(|id| sockets.write(*id));
        if let Some(start) = start {
            sockets.charge_batch(&served, start.elapsed());
        }
    }
}
