//! The world of a run: its clock, the queue of events, the network and the server's machine.

use crate::history::History;
use crate::kerberos::SimRealm;
use crate::machine::{CrashKind, MachineStep, Out, ServerMachine};
use crate::mutation::Mutation;
use crate::network::{LinkDirection, SimNetwork};
use crate::onlooker::Onlooker;
use crate::plan::SimPlan;
use crate::rng::Rng;
use crate::trace::{Trace, TraceDetail, digest};
use crate::upgrade::UpgradeFault;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// An event in the queue.
#[derive(Debug)]
pub(crate) enum Event {
    /// A task continues after a pause or a reply.
    Wake(usize),
    /// A record arrives: connection, direction, number and bytes.
    Arrive(u64, LinkDirection, u64, Vec<u8>),
    /// The end that receives in this direction learns that a connection is gone.
    Gone(u64, LinkDirection),
    /// The server runs a tick on the records that have arrived.
    Tick,
    /// A task of the server's pools runs one step.
    RunTask,
    /// The server runs its housekeeping, once a second.
    Housekeeping,
    /// A fault is drawn and injected.
    Fault,
    /// One of several restarts in quick succession, with the number of further ones.
    QuickRestart(usize),
    /// The server starts again.
    Start,
    /// The server goes on in another process, or fails to.
    Upgrade,
}

/// A call without a reply, and the task that waits for it.
struct Waiting {
    task: usize,
    reply: Option<Vec<u8>>,
}

/// The mutable state of the world.
pub(crate) struct Inner {
    pub(crate) plan: SimPlan,
    pub(crate) now: Duration,
    order: u64,
    queue: BTreeMap<(Duration, u64), Event>,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) history: History,
    pub(crate) network: SimNetwork,
    pub(crate) machine: ServerMachine,
    pub(crate) onlooker: Onlooker,
    pub(crate) realm: SimRealm,
    inbox: Vec<(u64, Vec<u8>)>,
    tick_due: bool,
    waiting: BTreeMap<(u64, u32), Waiting>,
    xid: u32,
    /// Callbacks that have arrived, by client, with their connections.
    pub(crate) callbacks: BTreeMap<usize, VecDeque<(u64, Vec<u8>)>>,
    pub(crate) ready: VecDeque<usize>,
    pub(crate) current: usize,
    /// The true time of the server's start, and the distance by which its clock has jumped since.
    pub(crate) started: Duration,
    pub(crate) jumped: Duration,
    /// The error of the wall clock, in nanoseconds.
    pub(crate) wall_off: i64,
    /// Clients whose machines restart next.
    pub(crate) restarts: Vec<usize>,
    /// The end of the suspension of the server's machine, which does nothing before.
    pub(crate) frozen_until: Duration,
    /// The number of upgrades that have succeeded.
    pub(crate) upgrades: usize,
    /// Whether [`Mutation::OldServesOn`] makes an upgrade of the next tick.
    late_upgrade: bool,
}

/// A shared handle of the world.
#[derive(Clone)]
pub(crate) struct SimWorld(Rc<RefCell<Inner>>);

/// Adds an event to the trace of the world.
macro_rules! note {
    ($inner:expr, $($detail:tt)*) => {{
        let now = $inner.now;
        $inner.trace.note(now, format_args!($($detail)*));
    }};
}
pub(crate) use note;

impl SimWorld {
    /// Makes a world whose server is off.
    pub(crate) fn new(plan: SimPlan, mut rng: Rng, paths: &[String], detail: TraceDetail) -> Self {
        let realm = SimRealm::new(&mut rng, plan.ticket_lifetime);
        let machine = ServerMachine::new(&plan, paths, &realm, rng.split());
        let network = SimNetwork::new(plan.clients, plan.delay_max, rng.split());
        Self(Rc::new(RefCell::new(Inner {
            plan,
            now: Duration::ZERO,
            order: 0,
            queue: BTreeMap::new(),
            rng,
            trace: Trace::new(detail),
            history: History::default(),
            network,
            machine,
            onlooker: Onlooker::default(),
            realm,
            inbox: Vec::new(),
            tick_due: false,
            waiting: BTreeMap::new(),
            xid: 0,
            callbacks: BTreeMap::new(),
            ready: VecDeque::new(),
            current: 0,
            started: Duration::ZERO,
            jumped: Duration::ZERO,
            wall_off: 0,
            restarts: Vec::new(),
            frozen_until: Duration::ZERO,
            upgrades: 0,
            late_upgrade: false,
        })))
    }

    /// Borrows the state. Do not hold it over an await.
    pub(crate) fn lock(&self) -> RefMut<'_, Inner> {
        self.0.borrow_mut()
    }

    /// Returns the true time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.0.borrow().now
    }

    /// Adds an event of a client to the trace.
    pub(crate) fn note(&self, detail: fmt::Arguments<'_>) {
        note!(self.lock(), "{detail}");
    }

    /// Waits for a simulated time.
    pub(crate) async fn sleep(&self, time: Duration) {
        let at = {
            let mut inner = self.lock();
            let (at, task) = (inner.now + time, inner.current);
            inner.schedule(at, Event::Wake(task));
            at
        };
        poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits until a condition holds, and checks it at growing intervals.
    pub(crate) async fn until(&self, mut holds: impl FnMut() -> bool) {
        let mut pause = Duration::from_millis(2);
        while !holds() {
            self.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Connects a client to the server; `None` if the server is down.
    pub(crate) async fn connect(&self, host: usize) -> Option<u64> {
        let round_trip = {
            let mut inner = self.lock();
            let now = inner.now;
            inner.network.arrival(host, now).saturating_sub(now)
        };
        self.sleep(round_trip).await;
        let mut inner = self.lock();
        if !inner.machine.is_up() {
            return None;
        }
        let connection = inner.network.open(host);
        note!(inner, "client {host} connects: {connection}");
        Some(connection)
    }

    /// Returns an XID that no other call has.
    pub(crate) fn xid(&self) -> u32 {
        let mut inner = self.lock();
        inner.xid += 1;
        inner.xid
    }

    /// Sends a call and waits for its reply; `None` if the connection ends or `patience` is over.
    pub(crate) async fn call(
        &self,
        connection: u64,
        xid: u32,
        record: Vec<u8>,
        patience: Duration,
    ) -> Option<Vec<u8>> {
        let deadline = {
            let mut inner = self.lock();
            if !inner.send(connection, LinkDirection::ToServer, record) {
                return None;
            }
            let (task, deadline) = (inner.current, inner.now + patience);
            inner.waiting.insert((connection, xid), Waiting { task, reply: None });
            inner.schedule(deadline, Event::Wake(task));
            deadline
        };
        let reply = poll_fn(|_| {
            let inner = self.0.borrow();
            match inner.waiting.get(&(connection, xid)) {
                Some(Waiting { reply: Some(_), .. }) => Poll::Ready(()),
                Some(_) if inner.now < deadline && inner.network.is_up(connection) => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        reply.await;
        self.lock().waiting.remove(&(connection, xid)).and_then(|waiting| waiting.reply)
    }

    /// Sends the reply to a callback.
    pub(crate) fn answer(&self, connection: u64, record: Vec<u8>) {
        self.lock().send(connection, LinkDirection::ToServer, record);
    }

    /// Closes a connection at its client.
    pub(crate) fn hang_up(&self, connection: u64) {
        let mut inner = self.lock();
        let now = inner.now;
        if let Some((_, server)) = inner.network.cut(connection, now) {
            inner.network.learn(connection, LinkDirection::ToClient);
            inner.schedule(server, Event::Gone(connection, LinkDirection::ToServer));
            note!(inner, "{connection} is closed by its client");
        }
    }
}

impl Inner {
    /// Adds an event to the queue.
    pub(crate) fn schedule(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }

    /// Takes the next event, and advances the time to it.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let ((at, _), event) = self.queue.pop_first()?;
        self.now = at.max(self.now);
        Some(event)
    }

    /// Returns the time of the server's clock.
    pub(crate) fn server_clock(&self) -> Duration {
        self.now.saturating_sub(self.started) + self.jumped
    }

    pub(crate) fn send(&mut self, connection: u64, way: LinkDirection, record: Vec<u8>) -> bool {
        let now = self.now;
        let Some((number, at)) = self.network.send(connection, way, now) else { return false };
        self.schedule(at, Event::Arrive(connection, way, number, record));
        true
    }

    /// Executes an event of the network or the server.
    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(task) => self.ready.push_back(task),
            Event::Arrive(connection, way, number, record) => {
                if self.network.arrives(connection, way, number) {
                    self.arrive(connection, way, record);
                }
            }
            Event::Gone(connection, way) => self.gone(connection, way),
            Event::Tick => {
                if self.thaw(Event::Tick) {
                    self.tick_due = false;
                    let records = self.take_inbox();
                    if std::mem::take(&mut self.late_upgrade) {
                        self.upgrade(records);
                    } else {
                        self.step(|machine| machine.tick(records));
                    }
                }
            }
            Event::RunTask => {
                if self.thaw(Event::RunTask) && self.machine.has_tasks() {
                    self.step(ServerMachine::run_task);
                }
            }
            Event::Housekeeping => {
                if self.thaw(Event::Housekeeping) {
                    self.step(ServerMachine::housekeeping);
                    let next = self.now + Duration::from_secs(1);
                    self.schedule(next, Event::Housekeeping);
                }
            }
            Event::Upgrade => {
                if self.thaw(Event::Upgrade) {
                    let at = self.now + self.rng.time(Duration::from_millis(1), self.plan.upgrade_every * 2);
                    self.schedule(at, Event::Upgrade);
                    if self.plan.mutation == Mutation::OldServesOn {
                        self.late_upgrade = true;
                    } else {
                        self.upgrade(Vec::new());
                    }
                }
            }
            Event::Fault | Event::QuickRestart(_) | Event::Start => self.faults(event),
        }
    }

    /// Upgrades the server to another process, which may fail. `late` are records that a deliberate
    /// fault lets the old process serve too late.
    fn upgrade(&mut self, late: Vec<(u64, usize, Vec<u8>)>) {
        if !self.machine.is_up() {
            return;
        }
        let fault = UpgradeFault::draw(&mut self.rng);
        note!(self, "an upgrade, with the fault {fault:?}");
        self.upgrades += usize::from(fault == UpgradeFault::None);
        let mut failed = None;
        self.step(|machine| {
            machine.upgrade(fault, late).unwrap_or_else(|why| {
                failed = Some(why);
                MachineStep { out: Vec::new(), crashed: false }
            })
        });
        let now = self.now;
        if let Some(why) = failed {
            self.history.complain("the next process goes on", why, now);
        }
        // Clients notice a pause.
        self.frozen_until = self.frozen_until.max(now + self.rng.millis(1, 900));
    }

    /// Takes the records that have arrived, with the clients that have sent them.
    fn take_inbox(&mut self) -> Vec<(u64, usize, Vec<u8>)> {
        let mut records = Vec::with_capacity(self.inbox.len());
        for (connection, record) in std::mem::take(&mut self.inbox) {
            let host = self.network.host(connection).unwrap_or_default();
            self.onlooker.received(connection, host, &record);
            records.push((connection, host, record));
        }
        records
    }

    /// Returns whether the server's machine runs. If not, the event is scheduled for the end of its
    /// suspension.
    fn thaw(&mut self, event: Event) -> bool {
        let runs = self.now >= self.frozen_until;
        if !runs {
            let at = self.frozen_until;
            self.schedule(at, event);
        }
        runs
    }

    fn arrive(&mut self, connection: u64, way: LinkDirection, record: Vec<u8>) {
        note!(self, "{way:?} on {connection}: {} bytes, {:016x}", record.len(), digest(&record));
        if way == LinkDirection::ToServer {
            self.inbox.push((connection, record));
            self.tick_soon();
            return;
        }
        let word =
            |at: usize| record.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        let (Some(xid), Some(kind)) = (word(0), word(4)) else { return };
        if kind == 0 {
            let host = self.network.host(connection).unwrap_or_default();
            self.callbacks.entry(host).or_default().push_back((connection, record));
        } else if let Some(waiting) = self.waiting.get_mut(&(connection, xid)) {
            waiting.reply = Some(record);
            self.ready.push_back(waiting.task);
        }
    }

    fn gone(&mut self, connection: u64, way: LinkDirection) {
        if !self.network.learn(connection, way) {
            return;
        }
        note!(self, "{connection} is gone, {way:?}");
        if way == LinkDirection::ToServer {
            self.inbox.retain(|(of, _)| *of != connection);
            self.step(|machine| machine.closed(connection));
            return;
        }
        let tasks = self.waiting.range((connection, 0)..=(connection, u32::MAX));
        let tasks: Vec<usize> = tasks.map(|(_, waiting)| waiting.task).collect();
        self.ready.extend(tasks);
    }

    fn tick_soon(&mut self) {
        if !std::mem::replace(&mut self.tick_due, true) {
            let at = self.now + self.rng.time(Duration::from_micros(5), Duration::from_micros(500));
            self.schedule(at, Event::Tick);
        }
    }

    /// Runs a step of the machine, and sends its outputs.
    fn step(&mut self, run: impl FnOnce(&mut ServerMachine) -> MachineStep) {
        let wall = i64::try_from(self.now.as_nanos()).unwrap_or(i64::MAX).saturating_add(self.wall_off);
        self.machine.set_clocks(self.server_clock(), wall);
        let step = run(&mut self.machine);
        if step.crashed {
            self.crash();
            return;
        }
        for out in step.out {
            match out {
                Out::Record(connection, record) => {
                    if let Some((property, detail)) = self.onlooker.replied(connection, &record) {
                        let now = self.now;
                        self.history.complain(property, detail, now);
                    }
                    self.send(connection, LinkDirection::ToClient, record);
                }
                Out::Close(connection) => {
                    let now = self.now;
                    if let Some((client, _)) = self.network.cut(connection, now) {
                        self.schedule(client, Event::Gone(connection, LinkDirection::ToClient));
                        self.gone(connection, LinkDirection::ToServer);
                    }
                }
            }
        }
        if self.machine.has_completed() {
            self.tick_soon();
        }
        if self.machine.has_tasks() {
            let at = self.now + self.rng.millis(0, 20);
            self.schedule(at, Event::RunTask);
        }
    }

    /// Crashes the server now, with or without its power.
    pub(crate) fn crash(&mut self) {
        if !self.machine.is_up() {
            return;
        }
        let crash = if self.rng.one_in(2) { CrashKind::Power } else { CrashKind::Process };
        let down = self.rng.millis(10, 8000);
        self.go_down(crash, down);
    }

    /// Ends the server, and schedules its start after `down`.
    pub(crate) fn go_down(&mut self, crash: CrashKind, down: Duration) {
        self.history.unfreed.extend(self.machine.clients_with_revoked());
        self.machine.crash(crash);
        self.inbox.clear();
        self.onlooker.restart();
        self.frozen_until = Duration::ZERO;
        let now = self.now;
        let loses_power = crash == CrashKind::Power;
        note!(self, "the server crashes{}", if loses_power { " and loses its power" } else { "" });
        self.history.crashes.push(now);
        if loses_power {
            self.history.power_losses.push(now);
        }
        for (connection, client) in self.network.cut_all(now) {
            self.schedule(client, Event::Gone(connection, LinkDirection::ToClient));
        }
        self.schedule(now + down, Event::Start);
    }

    /// Starts the server, which must accept the state that the crash has left.
    pub(crate) fn start(&mut self) {
        self.started = self.now;
        self.jumped = Duration::ZERO;
        let wall = i64::try_from(self.now.as_nanos()).unwrap_or(i64::MAX).saturating_add(self.wall_off);
        self.machine.set_clocks(Duration::ZERO, wall);
        let now = self.now;
        note!(self, "the server starts");
        match self.machine.start() {
            Ok(()) => self.history.starts.push(now),
            Err(error) => self.history.complain("the server starts again", error, now),
        }
    }
}
