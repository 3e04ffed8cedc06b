//! Fairness: while the shard does something long, connections that ask for little are served in between.

use crate::driver::Ready;
use crate::sockets::Sockets;
use crate::{LateSink, Reply, Request, Service};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// What is served aside takes no more than this part of the time, so that bulk is not starved in turn.
const SHARE: u32 = 2;

/// What a shard serves in between, with scratch memory of its own.
pub(crate) struct Aside<S: Service> {
    service: Arc<S>,
    sink: LateSink<S::Late>,
    operation: Arc<AtomicU32>,
    /// Made when it is first needed.
    scratch: Option<S::Shard>,
    ready: Vec<Ready>,
    requests: Vec<Request>,
    replies: Vec<Reply>,
    /// Since when there has been something long, and what of that time went to others.
    since: Instant,
    spent: Duration,
}

impl<S: Service> Aside<S> {
    pub(crate) fn new(service: Arc<S>, sink: LateSink<S::Late>, operation: Arc<AtomicU32>) -> Self {
        Self {
            service,
            sink,
            operation,
            scratch: None,
            ready: Vec::new(),
            requests: Vec::new(),
            replies: Vec::new(),
            since: Instant::now(),
            spent: Duration::ZERO,
        }
    }

    /// Begins to count time, and says since when.
    pub(crate) fn begin(&mut self) -> Instant {
        (self.since, self.spent) = (Instant::now(), Duration::ZERO);
        self.since
    }

    /// Sends what there is of a long batch's replies, and gives others their turn. Returns how long that took.
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

    /// Serves what interactive connections have sent, and leaves all else for later.
    pub(crate) fn turn(&mut self, sockets: &mut Sockets) {
        if sockets.len() < 2 {
            return;
        }
        let start = Instant::now();
        if self.spent * SHARE > start.duration_since(self.since) {
            return;
        }
        sockets.poll(&mut self.ready);
        for ready in self.ready.drain(..) {
            match ready {
                Ready::Input(id) if sockets.is_interactive(id) => sockets.read_aside(id, &mut self.requests),
                Ready::Output(id) if sockets.is_interactive(id) => sockets.write(id),
                ready => sockets.defer(ready),
            }
        }
        if !self.requests.is_empty() {
            let sending = sockets.sending;
            self.serve(sockets, start);
            self.spent += start.elapsed();
            // What was sent meanwhile is part of that time.
            sockets.sending = sending;
        }
    }

    /// Serves what was read a batch at a time: what a batch leaves in replies decides what is admitted to the next.
    fn serve(&mut self, sockets: &mut Sockets, woken: Instant) {
        let mut requests = std::mem::take(&mut self.requests);
        let mut batch = Vec::new();
        for request in requests.drain(..) {
            batch.extend(sockets.admit(request));
            if batch.len() >= sockets.batch_requests_max() {
                self.serve_batch(sockets, &mut batch, woken);
            }
        }
        self.serve_batch(sockets, &mut batch, woken);
        self.requests = requests;
    }

    fn serve_batch(&mut self, sockets: &mut Sockets, batch: &mut Vec<Request>, woken: Instant) {
        if batch.is_empty() {
            return;
        }
        let mut served: Vec<u64> = batch.iter().map(|request| request.connection.0).collect();
        sockets.count_records(served.len());
        let scratch = self.scratch.get_or_insert_with(|| self.service.shard(&self.sink, &self.operation));
        let (service, replies) = (&self.service, &mut self.replies);
        service.woke(scratch, woken);
        let tick = || service.tick(scratch, batch, &mut Vec::new(), replies, &mut |_| Duration::ZERO);
        let outcome = catch_unwind(AssertUnwindSafe(tick));
        batch.clear();
        sockets.done(&mut served);
        if outcome.is_err() {
            self.scratch = None;
            self.replies.clear();
            sockets.blame(served);
            return;
        }
        sockets.queue(self.replies.drain(..));
        served.into_iter().for_each(|id| sockets.write(id));
    }
}
