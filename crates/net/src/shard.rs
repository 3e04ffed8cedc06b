//! A shard: one thread that reads requests from its connections, passes them to the service in
//! batches, and writes the replies.
//!
//! Each loop serves interactive connections first, then those with deferred calls, then bulk
//! connections and strangers. Then it runs one brief step of a deferred call, with the shard in its
//! seat: see `relief.rs`. While several tenants have work, a loop puts off connections of tenants
//! that have had more than their share: see `shares.rs`.

use crate::activity::{Activity, Step};
use crate::driver::Ready;
use crate::interactive::InteractiveLane;
use crate::mailbox::{Arrival, Mailbox};
use crate::relief::{ReliefBell, ReliefSeat};
use crate::shared::SharedParts;
use crate::sockets::Sockets;
use crate::stillness::ShardPhase;
use crate::strangers::{SLICE, STEPS_MAX};
use crate::traffic::Lane;
use crate::{CompletionEvent, CompletionSender, Reply, Request, Service};
use rpc::memory;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Interval of the check for overdue connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the checks of a shard that drains.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);
/// Memory of requests in bytes above which a shard serves them before it reads more.
const REQUESTS_BYTES_MAX: usize = 16 << 20;
/// Steps that wait for the shard's thread; further ones are handed over.
const STEPS_WAITING_MAX: usize = 64;
/// The time in which a shard begins further steps before it serves its connections again.
const STEPS_TIME_MAX: Duration = Duration::from_micros(50);
/// The same for a shard that has served no other kind of connection for [`ALONE_TIME`].
const STEPS_ALONE_TIME_MAX: Duration = Duration::from_micros(250);
/// Requests of interactive connections that a shard serves together while several tenants have
/// work: enough to fill the lanes of the cipher.
const SHARED_REQUESTS_MAX: usize = 16;
/// Waits without a request of an interactive connection after which a shard runs several steps in a
/// row: their replies are protected together and nothing waits for them.
const CALM_WAITS: u32 = 16;
/// The time without an event of an interactive or bulk connection after which a shard runs a longer
/// step on its own thread: a request that arrives meanwhile waits for it.
const ALONE_TIME: Duration = Duration::from_millis(200);

/// The acceptor's end of a shard.
pub(crate) struct ShardHandle<S: Service> {
    mailbox: Arc<Mailbox>,
    activity: Arc<Activity>,
    seat: ShardSeat<S>,
    /// Disconnected when the shard has ended.
    end: Receiver<()>,
}

/// The place of a shard while its thread runs a step.
pub(crate) type ShardSeat<S> = Arc<ReliefSeat<Box<Shard<S>>>>;

impl<S: Service> ShardHandle<S> {
    /// Returns the mailbox, through which other threads reach the shard.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Returns the activity of the shard, for the watchdog.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }

    /// Returns the seat of the shard, for the relief thread.
    pub(crate) fn seat(&self) -> ShardSeat<S> {
        self.seat.clone()
    }

    /// Passes a new connection to the shard.
    pub(crate) fn add(&self, arrival: Arrival) {
        self.mailbox.add(arrival);
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
        let _ = self.end.recv();
    }
}

/// The events of one wait that are not served yet, by lane.
#[derive(Default)]
struct ReadyLanes {
    arrived: Vec<Ready>,
    interactive: Vec<Ready>,
    deferring: Vec<Ready>,
    bulk: Vec<Ready>,
}

/// Work that is measured for tenants: its start, if it is charged, and the time of interactive
/// turns until then.
#[derive(Clone, Copy)]
struct ChargedWork {
    start: Option<Instant>,
    turns: Duration,
}

/// The parts from which all shards are made.
pub(crate) struct ShardParts<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) shared: Arc<SharedParts>,
    pub(crate) bell: Arc<ReliefBell>,
}

/// The state of a shard, which one thread owns at a time.
pub(crate) struct Shard<S: Service> {
    service: Arc<S>,
    scratch: S::Shard,
    shared: Arc<SharedParts>,
    mailbox: Arc<Mailbox>,
    sockets: Sockets,
    /// Requests that the service handles together.
    batch: Vec<Request>,
    replies: Vec<Reply>,
    /// The sender that returns deferred calls to this shard.
    sink: CompletionSender<S::Completed>,
    /// Completed deferred calls whose replies this tick sends.
    completions: Vec<CompletionEvent<S::Completed>>,
    interactive: InteractiveLane<S>,
    /// Steps of deferred calls that wait for this thread.
    steps: VecDeque<S::Step>,
    /// Waits since the last request of an interactive connection.
    calm: u32,
    /// The time of the last event of an interactive or bulk connection.
    others_at: Instant,
    seat: ShardSeat<S>,
    bell: Arc<ReliefBell>,
    next_sweep: Instant,
    activity: Arc<Activity>,
    /// Dropped with the shard.
    _end: Sender<()>,
}

impl<S: Service> Shard<S> {
    /// Makes a shard and starts its thread.
    pub(crate) fn spawn(
        index: usize,
        parts: &ShardParts<S>,
        phase: ShardPhase,
    ) -> io::Result<ShardHandle<S>> {
        let mailbox = Arc::new(Mailbox::new(phase)?);
        let (end_sender, end) = mpsc::channel();
        let shard = Self::new(parts, mailbox.clone(), end_sender)?;
        let (activity, seat) = (shard.activity.clone(), shard.seat.clone());
        Box::new(shard).continue_on_thread(index).map_err(|(_, error)| error)?;
        Ok(ShardHandle { mailbox, activity, seat, end })
    }

    /// Starts a thread that runs the shard from now on.
    ///
    /// # Errors
    /// Returns the shard if the system has no thread left.
    pub(crate) fn continue_on_thread(self: Box<Self>, index: usize) -> Result<(), (Box<Self>, io::Error)> {
        let (give, given) = mpsc::channel();
        let run = move || {
            // Without a shard there is no thread either.
            if let Ok(shard) = given.recv() {
                Self::run(shard);
            }
        };
        match std::thread::Builder::new().name(format!("shard-{index}")).spawn(run) {
            Ok(_) => {
                give.send(self).map_err(|mpsc::SendError(shard)| (shard, io::ErrorKind::BrokenPipe.into()))
            }
            Err(error) => Err((self, error)),
        }
    }

    fn new(parts: &ShardParts<S>, mailbox: Arc<Mailbox>, end: Sender<()>) -> io::Result<Self> {
        let (service, shared) = (parts.service.clone(), parts.shared.clone());
        let sockets = Sockets::new(&mailbox, shared.clone())?;
        let activity = Arc::new(Activity::new());
        let sink = {
            let mailbox = mailbox.clone();
            CompletionSender::new(move || mailbox.ring())
        };
        let scratch = service.shard(&sink, activity.operation());
        let (batch, replies, completions) = (Vec::new(), Vec::new(), Vec::new());
        let interactive = InteractiveLane::new(service.clone(), sink.clone(), activity.operation().clone());
        Ok(Self {
            service,
            scratch,
            shared,
            mailbox,
            sockets,
            batch,
            replies,
            sink,
            completions,
            interactive,
            steps: VecDeque::new(),
            calm: 0,
            others_at: Instant::now(),
            seat: Arc::new(ReliefSeat::new()),
            bell: parts.bell.clone(),
            next_sweep: Instant::now() + SWEEP_INTERVAL,
            activity,
            _end: end,
        })
    }

    /// Runs the shard until it stops, or until another thread has taken it over.
    fn run(mut self: Box<Self>) {
        memory::keep(self.shared.limits.spare_bytes_max);
        self.resume();
        let mut ready = ReadyLanes::default();
        while !self.mailbox.is_stopping() {
            match self.mailbox.stillness.wanted() {
                ShardPhase::Serve => self.serve(&mut ready),
                ShardPhase::Drain => self.drain(),
                ShardPhase::Park => self.park(),
            }
            match self.run_steps() {
                Some(shard) => self = shard,
                None => return,
            }
        }
        self.sockets.close_all();
        self.report_closed();
        self.activity.end();
    }

    /// Sends the replies of deferred calls, and begins no other.
    fn drain(&mut self) {
        self.sockets.drain();
        self.tick();
        self.mailbox.stillness.reach(ShardPhase::Drain);
        self.activity.rest();
        if self.steps.is_empty() {
            self.mailbox.wait(DRAIN_INTERVAL);
        }
        self.activity.wake();
        self.take_mail();
        self.tick();
    }

    /// Waits until it is decided which process serves. No call is deferred by now.
    fn park(&mut self) {
        self.sockets.drain();
        self.take_mail();
        self.tick();
        if !self.steps.is_empty() {
            return;
        }
        self.activity.rest();
        let (mailbox, sockets) = (self.mailbox.clone(), &mut self.sockets);
        mailbox.stillness.park(|| mailbox.is_stopping(), || sockets.export());
    }

    fn take_mail(&mut self) {
        self.mailbox.silence();
        self.sockets.take_arrived();
        self.take_completions();
        self.send_outgoing();
    }

    /// Serves all connections that are ready, lane by lane.
    fn serve(&mut self, ready: &mut ReadyLanes) {
        if self.sockets.is_draining() {
            self.sockets.reopen();
        }
        self.activity.rest();
        let wait = if self.steps.is_empty() { SWEEP_INTERVAL } else { Duration::ZERO };
        self.sockets.wait(wait, &mut ready.arrived);
        self.activity.wake();
        let woken = self.interactive.begin();
        self.service.note_wakeup(&mut self.scratch, woken);
        self.sockets.begin_round(woken);
        self.sort(ready, woken);
        for event in ready.interactive.drain(..) {
            self.dispatch_fairly(event);
            if self.sockets.requests.len() >= SHARED_REQUESTS_MAX && self.sockets.shares.is_contended() {
                self.tick();
            }
        }
        self.tick();
        // Interactive connections do not wait for a whole batch of expensive calls.
        self.interactive.enter(Lane::Deferring);
        for event in ready.deferring.drain(..) {
            self.dispatch_fairly(event);
            self.tick();
            self.interactive.turn(&mut self.sockets);
        }
        self.interactive.enter(Lane::Bulk);
        for event in ready.bulk.drain(..) {
            self.dispatch_fairly(event);
            // Work that is charged at once leaves the rest of the round to other tenants.
            if self.sockets.shares.is_contended() {
                self.tick();
            }
        }
        self.tick();
        self.sockets.end_round();
        self.serve_strangers();
        if Instant::now() >= self.next_sweep {
            self.next_sweep = Instant::now() + SWEEP_INTERVAL;
            self.sockets.close_overdue(Instant::now());
            memory::trim();
            self.report_closed();
        }
    }

    /// Sorts the events that have arrived by lane.
    fn sort(&mut self, ready: &mut ReadyLanes, woken: Instant) {
        self.calm = self.calm.saturating_add(1);
        for event in ready.arrived.drain(..) {
            let lane = match event {
                Ready::Input(id) | Ready::Output(id) => self.sockets.present(id),
                Ready::Mail | Ready::Over(_) => Lane::Interactive,
            };
            match lane {
                Lane::Interactive => {
                    if event != Ready::Mail {
                        (self.calm, self.others_at) = (0, woken);
                    }
                    ready.interactive.push(event);
                }
                Lane::Deferring => ready.deferring.push(event),
                Lane::Bulk => {
                    self.others_at = woken;
                    ready.bulk.push(event);
                }
            }
        }
    }

    /// Serves an event, or puts it off to a later round if its tenant is ahead of its share.
    fn dispatch_fairly(&mut self, event: Ready) {
        match event {
            Ready::Input(id) | Ready::Output(id) if !self.sockets.admits(id) => self.sockets.defer(event),
            event => {
                self.sockets.begin_work(event.connection());
                self.dispatch(event);
            }
        }
    }

    /// Starts to measure work for tenants.
    fn charged_work(&self) -> ChargedWork {
        let start = self.sockets.shares.is_contended().then(Instant::now);
        ChargedWork { start, turns: self.interactive.spent() }
    }

    /// Returns the time of work without the interactive turns in it, if it is charged.
    fn time_of(&self, work: ChargedWork) -> Option<Duration> {
        let turns = self.interactive.spent().saturating_sub(work.turns);
        work.start.map(|start| start.elapsed().saturating_sub(turns))
    }

    /// Charges work for a connection to its tenant.
    fn charge(&mut self, connection: u64, work: ChargedWork) {
        if let Some(time) = self.time_of(work) {
            self.sockets.charge(connection, time);
        }
    }

    /// Runs the first of the waiting steps, further ones if no interactive connection waits for
    /// them, and sends the replies that they complete. Returns `None` if a step blocked and another
    /// thread has taken the shard over.
    fn run_steps(mut self: Box<Self>) -> Option<Box<Self>> {
        self.collect_steps();
        let Some(mut step) = self.next_step() else { return Some(self) };
        let end = self.steps_time().map(|time| Instant::now() + time);
        self.activity.step(Step::Serving, 0);
        let (service, seat, bell) = (self.service.clone(), self.seat.clone(), self.bell.clone());
        let is_charged = self.sockets.shares.is_contended();
        self.sink.attend(true);
        let mut turn = seat.leave(self);
        bell.ring();
        loop {
            let charged = service
                .connection(&step)
                .filter(|_| is_charged)
                .map(|connection| (connection, Instant::now()));
            let mut next = service.run_step(step);
            let further = |shard: &mut Box<Self>| {
                if let Some((connection, start)) = charged {
                    shard.sockets.charge(connection.0, start.elapsed());
                }
                shard.steps.extend(next.take());
                end.filter(|end| Instant::now() < *end).and_then(|_| shard.next_step())
            };
            match seat.renew(turn, further) {
                Some((renewed, Some(further))) => (turn, step) = (renewed, further),
                Some((renewed, None)) => {
                    let mut shard = seat.take(renewed)?;
                    shard.resume();
                    return Some(shard);
                }
                None => {
                    while let Some(step) = next {
                        next = service.run_step(step);
                    }
                    return None;
                }
            }
        }
    }

    /// Returns the time in which the shard begins further steps behind the first; `None` while
    /// interactive connections have work.
    fn steps_time(&self) -> Option<Duration> {
        match self.calm {
            ..CALM_WAITS => None,
            _ if self.is_alone() => Some(STEPS_ALONE_TIME_MAX),
            _ => Some(STEPS_TIME_MAX),
        }
    }

    /// Returns whether only connections with deferred calls have had work for a while, of one
    /// tenant.
    fn is_alone(&self) -> bool {
        !self.sockets.shares.is_contended() && self.others_at.elapsed() >= ALONE_TIME
    }

    /// Takes the first brief step of the waiting ones, and hands the longer steps before it to
    /// other threads. While several tenants have work, it is a step of the tenant whose turn it is.
    fn next_step(&mut self) -> Option<S::Step> {
        while !self.steps.is_empty() {
            if let Some(step) = self.take_step() {
                return Some(step);
            }
        }
        None
    }

    /// Takes the first of the waiting steps. Returns `None` if it is long and another thread runs
    /// it.
    fn take_step(&mut self) -> Option<S::Step> {
        let Self { service, sockets, steps, .. } = self;
        let is_contended = sockets.shares.is_contended();
        let mut turn =
            |step| service.connection(step).map_or(Duration::ZERO, |connection| sockets.turn(connection.0));
        let first = match is_contended {
            true => (0..steps.len()).min_by_key(|at| steps.get(*at).map(&mut turn))?,
            false => 0,
        };
        let step = steps.remove(first)?;
        let alone = self.steps.is_empty() && self.is_alone();
        if self.service.is_brief(&step, alone) { Some(step) } else { self.service.hand_over(step).err() }
    }

    /// Moves the steps of the last ticks to the waiting ones, and the excess to other threads.
    fn collect_steps(&mut self) {
        self.steps.append(&mut self.interactive.steps);
        while self.steps.len() > STEPS_WAITING_MAX {
            let Some(step) = self.steps.pop_back() else { return };
            if let Err(step) = self.service.hand_over(step) {
                return self.steps.push_back(step);
            }
        }
    }

    /// Continues after a step, on the same thread or another one: takes the completions that did
    /// not wake the shard.
    fn resume(&mut self) {
        self.sink.attend(false);
        self.take_completions();
        self.tick();
        // Turns between the replies may have begun calls, for which nothing else wakes the shard.
        self.collect_steps();
    }

    fn dispatch(&mut self, ready: Ready) {
        match ready {
            Ready::Mail => self.take_mail(),
            Ready::Input(id) => self.read(id),
            Ready::Output(id) => {
                let work = self.charged_work();
                self.write(id);
                self.charge(id, work);
            }
            Ready::Over(id) => self.sockets.end(id),
        }
    }

    /// Reads until the socket is empty or the tick's budget is used. The next wait reports the
    /// connection again if bytes remain.
    fn read(&mut self, id: u64) {
        let mut budget = self.shared.limits.tick_bytes_max;
        self.activity.step(Step::Reading, id);
        let work = self.charged_work();
        while let Some(count) = self.sockets.read_step(id) {
            if count >= budget || self.sockets.requests.bytes() > REQUESTS_BYTES_MAX {
                break;
            }
            budget -= count;
            if self.sockets.lane(id) == Lane::Bulk {
                self.interactive.turn(&mut self.sockets);
            }
        }
        self.sockets.read_done(id);
        self.charge(id, work);
        if self.sockets.requests.bytes() > REQUESTS_BYTES_MAX {
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
    fn take_completions(&mut self) {
        // Mail can arrive twice before a tick, so some may be queued already.
        let mut completions = Vec::new();
        self.sink.take(&mut completions);
        completions.retain(|completion| {
            let open = self.sockets.completed(completion.connection, completion.held);
            if !open {
                // The call may have used the connection after its end was reported.
                self.service.closed(completion.connection);
            }
            open
        });
        self.completions.append(&mut completions);
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
        while !self.sockets.requests.is_empty() || !self.completions.is_empty() {
            let mut arrived = self.sockets.requests.take();
            for request in arrived.drain(..) {
                self.batch.extend(self.sockets.admit(request));
                if self.batch.len() >= self.shared.limits.batch_requests_max {
                    self.serve_batch();
                }
            }
            self.serve_batch();
            self.sockets.requests.reuse(arrived);
            self.sockets.release();
        }
        self.sockets.close_ended();
        self.report_closed();
    }

    fn serve_batch(&mut self) {
        if self.batch.is_empty() && self.completions.is_empty() {
            return;
        }
        let work = self.charged_work();
        let mut served: Vec<u64> = self.batch.iter().map(|request| request.connection.0).collect();
        self.sockets.count_records(served.len());
        self.activity.step(Step::Serving, served.first().copied().unwrap_or_default());
        let completed: Vec<u64> = self.completions.iter().map(|completion| completion.connection.0).collect();
        let (service, scratch) = (&self.service, &mut self.scratch);
        let (batch, completions, replies) = (&mut self.batch, &mut self.completions, &mut self.replies);
        let (interactive, sockets) = (&mut self.interactive, &mut self.sockets);
        // A panic closes the connections of its batch, and no others.
        let mut pause = |replies: &mut Vec<Reply>| interactive.pause(sockets, replies);
        let tick = || service.tick(scratch, batch, completions, replies, &mut pause);
        let outcome = catch_unwind(AssertUnwindSafe(tick));
        service.take_steps(scratch, &mut self.steps);
        self.batch.clear();
        self.completions.clear();
        self.sockets.done(&mut served);
        served.extend(completed);
        served.dedup();
        if outcome.is_err() {
            self.scratch = self.service.shard(&self.sink, self.activity.operation());
            self.replies.clear();
            self.sockets.blame(served);
            return;
        }
        self.sockets.queue(self.replies.drain(..));
        served.iter().for_each(|id| self.write(*id));
        if let Some(time) = self.time_of(work) {
            self.sockets.charge_batch(&served, time);
        }
    }

    /// Reports closed connections to the service, after the last of their requests.
    fn report_closed(&mut self) {
        for connection in self.sockets.take_closed() {
            self.service.closed(connection);
        }
    }
}
