//! Everything there is, and the queue of what happens next.

use crate::history::History;
use crate::kerberos::SimRealm;
use crate::machine::{Machine, Out, Step};
use crate::network::{Network, Way};
use crate::onlooker::Onlooker;
use crate::plan::Plan;
use crate::rng::Rng;
use crate::trace::{Trace, digest};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// What is to happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A task goes on.
    Wake(usize),
    /// A record arrives.
    Arrive(u64, Way, u64, Vec<u8>),
    /// The end that records go to this way learns that a connection is gone.
    Gone(u64, Way),
    /// The server looks at what has arrived.
    Tick,
    /// A task of the pools takes a step.
    CarryOut,
    /// The server does what it does once a second.
    Housekeeping,
    /// Something goes wrong.
    Fault,
    /// One of several restarts in quick succession, with the number of those that follow.
    QuickRestart(usize),
    /// The server comes up again.
    Start,
}

/// A call that waits for its reply.
struct Waiting {
    task: usize,
    reply: Option<Vec<u8>>,
}

/// All that changes.
pub(crate) struct Inner {
    pub(crate) plan: Plan,
    pub(crate) now: Duration,
    order: u64,
    queue: BTreeMap<(Duration, u64), Event>,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) history: History,
    pub(crate) network: Network,
    pub(crate) machine: Machine,
    pub(crate) onlooker: Onlooker,
    pub(crate) realm: SimRealm,
    inbox: Vec<(u64, Vec<u8>)>,
    tick_due: bool,
    waiting: BTreeMap<(u64, u32), Waiting>,
    xid: u32,
    /// Callbacks that have arrived, by connection.
    pub(crate) callbacks: BTreeMap<usize, VecDeque<(u64, Vec<u8>)>>,
    pub(crate) ready: VecDeque<usize>,
    pub(crate) current: usize,
    /// When the server was started, by the true time, and how far its clock has jumped since.
    pub(crate) started: Duration,
    pub(crate) jumped: Duration,
    /// How far the wall clock is off, in nanoseconds.
    pub(crate) wall_off: i64,
    /// Clients that are to restart.
    pub(crate) restarts: Vec<usize>,
    /// The server does nothing until then: its machine is suspended.
    pub(crate) frozen_until: Duration,
}

/// A handle of the world, for everything that lives in it.
#[derive(Clone)]
pub(crate) struct World(Rc<RefCell<Inner>>);

/// Notes an event of the world in its trace.
macro_rules! note {
    ($inner:expr, $($what:tt)*) => {{
        let now = $inner.now;
        $inner.trace.note(now, format_args!($($what)*));
    }};
}
pub(crate) use note;

impl World {
    /// Makes a world; the machine is off.
    pub(crate) fn new(plan: Plan, mut rng: Rng, paths: &[String], keeps_lines: bool) -> Self {
        let realm = SimRealm::new(&mut rng, plan.ticket_lifetime);
        let machine = Machine::new(&plan, paths, &realm, rng.split());
        let network = Network::new(plan.clients, plan.delay_max, rng.split());
        Self(Rc::new(RefCell::new(Inner {
            plan,
            now: Duration::ZERO,
            order: 0,
            queue: BTreeMap::new(),
            rng,
            trace: Trace::new(keeps_lines),
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
        })))
    }

    /// The world itself; not to be held over an await.
    pub(crate) fn lock(&self) -> RefMut<'_, Inner> {
        self.0.borrow_mut()
    }

    /// The true time.
    pub(crate) fn now(&self) -> Duration {
        self.0.borrow().now
    }

    /// Notes what a client does.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        note!(self.lock(), "{what}");
    }

    /// Waits.
    pub(crate) async fn sleep(&self, time: Duration) {
        let at = {
            let mut inner = self.lock();
            let (at, task) = (inner.now + time, inner.current);
            inner.schedule(at, Event::Wake(task));
            at
        };
        poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits until something holds, and looks ever less often.
    pub(crate) async fn until(&self, mut holds: impl FnMut() -> bool) {
        let mut pause = Duration::from_millis(2);
        while !holds() {
            self.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Connects a client to the server; nothing when nobody answers.
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

    /// Draws an XID.
    pub(crate) fn xid(&self) -> u32 {
        let mut inner = self.lock();
        inner.xid += 1;
        inner.xid
    }

    /// Sends a call and waits for its reply; nothing when the connection is gone or the time is
    /// over.
    pub(crate) async fn call(
        &self,
        connection: u64,
        xid: u32,
        record: Vec<u8>,
        patience: Duration,
    ) -> Option<Vec<u8>> {
        let deadline = {
            let mut inner = self.lock();
            if !inner.send(connection, Way::ToServer, record) {
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

    /// Answers a callback.
    pub(crate) fn answer(&self, connection: u64, record: Vec<u8>) {
        self.lock().send(connection, Way::ToServer, record);
    }

    /// A client gives a connection up.
    pub(crate) fn hang_up(&self, connection: u64) {
        let mut inner = self.lock();
        let now = inner.now;
        if let Some((_, server)) = inner.network.cut(connection, now) {
            inner.network.learn(connection, Way::ToClient);
            inner.schedule(server, Event::Gone(connection, Way::ToServer));
            note!(inner, "{connection} is given up");
        }
    }
}

impl Inner {
    /// Puts an event into the queue.
    pub(crate) fn schedule(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }

    /// Takes the next event and lets its time come.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let ((at, _), event) = self.queue.pop_first()?;
        self.now = at.max(self.now);
        Some(event)
    }

    /// What the server's clock says.
    pub(crate) fn server_clock(&self) -> Duration {
        self.now.saturating_sub(self.started) + self.jumped
    }

    pub(crate) fn send(&mut self, connection: u64, way: Way, record: Vec<u8>) -> bool {
        let now = self.now;
        let Some((number, at)) = self.network.send(connection, way, now) else { return false };
        self.schedule(at, Event::Arrive(connection, way, number, record));
        true
    }

    /// Lets an event of network or server happen.
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
                    self.step(|machine| machine.tick(records));
                }
            }
            Event::CarryOut => {
                if self.thaw(Event::CarryOut) && self.machine.has_away() {
                    self.step(Machine::carry_out);
                }
            }
            Event::Housekeeping => {
                if self.thaw(Event::Housekeeping) {
                    self.step(Machine::housekeeping);
                    let next = self.now + Duration::from_secs(1);
                    self.schedule(next, Event::Housekeeping);
                }
            }
            Event::Fault | Event::QuickRestart(_) | Event::Start => self.faults(event),
        }
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

    /// Whether the server's machine runs; else the event waits until it does.
    fn thaw(&mut self, event: Event) -> bool {
        let runs = self.now >= self.frozen_until;
        if !runs {
            let at = self.frozen_until;
            self.schedule(at, event);
        }
        runs
    }

    fn arrive(&mut self, connection: u64, way: Way, record: Vec<u8>) {
        note!(self, "{way:?} on {connection}: {} bytes, {:016x}", record.len(), digest(&record));
        if way == Way::ToServer {
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

    fn gone(&mut self, connection: u64, way: Way) {
        if !self.network.learn(connection, way) {
            return;
        }
        note!(self, "{connection} is gone, {way:?}");
        if way == Way::ToServer {
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

    /// Lets the machine take a step, and does what follows from it.
    fn step(&mut self, run: impl FnOnce(&mut Machine) -> Step) {
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
                    if let Some((property, what)) = self.onlooker.replied(connection, &record) {
                        let now = self.now;
                        self.history.complain(property, what, now);
                    }
                    self.send(connection, Way::ToClient, record);
                }
                Out::Close(connection) => {
                    let now = self.now;
                    if let Some((client, _)) = self.network.cut(connection, now) {
                        self.schedule(client, Event::Gone(connection, Way::ToClient));
                        self.gone(connection, Way::ToServer);
                    }
                }
            }
        }
        if self.machine.has_back() {
            self.tick_soon();
        }
        if self.machine.has_away() {
            let at = self.now + self.rng.millis(0, 20);
            self.schedule(at, Event::CarryOut);
        }
    }

    /// The server crashes now.
    pub(crate) fn crash(&mut self) {
        if !self.machine.is_up() {
            return;
        }
        let power = self.rng.one_in(2);
        let down = self.rng.millis(10, 8000);
        self.go_down(power, down);
    }

    /// The server ends, with the power of its machine or without it, and comes up again after
    /// `down`.
    pub(crate) fn go_down(&mut self, power: bool, down: Duration) {
        self.machine.crash(power);
        self.inbox.clear();
        self.onlooker.restart();
        self.frozen_until = Duration::ZERO;
        let now = self.now;
        note!(self, "the server crashes{}", if power { " and loses its power" } else { "" });
        self.history.crashes.push(now);
        if power {
            self.history.power_losses.push(now);
        }
        for (connection, client) in self.network.cut_all(now) {
            self.schedule(client, Event::Gone(connection, Way::ToClient));
        }
        self.schedule(now + down, Event::Start);
    }

    /// The server starts.
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
