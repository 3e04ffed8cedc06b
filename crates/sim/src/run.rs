//! One simulation from its seed to its verdict.

use crate::check;
use crate::client::Client;
use crate::history::Violation;
use crate::machine::CrashKind;
use crate::mutation::Mutation;
use crate::plan::{LEASE, SimPlan};
use crate::trace::TraceDetail;
use crate::work;
use crate::world::{Event, SimWorld, note};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::catch_unwind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// Time that the clients have after the faults, before they count as stuck.
const PATIENCE: Duration = Duration::from_secs(4000);

/// The outcome of a simulation.
pub struct SimOutcome {
    /// The seed of the simulation.
    pub seed: u64,
    /// The hash of its trace.
    pub hash: u64,
    /// The number of events in the trace.
    pub events: u64,
    /// The simulated time at the end.
    pub time: Duration,
    /// The number of the server's crashes.
    pub crashes: usize,
    /// The number of upgrades that succeeded.
    pub upgrades: usize,
    /// The violations that the checker has found.
    pub violations: Vec<Violation>,
    /// The lines of the trace, if kept.
    pub trace: Vec<String>,
}

/// A task of a client.
struct Task {
    host: usize,
    /// Whether the simulation waits for its end.
    works: bool,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

/// The tasks of all clients.
struct Tasks {
    world: SimWorld,
    all: BTreeMap<usize, Task>,
    next: usize,
    clients: Vec<Rc<Client>>,
    /// Whether all work is done and the clients are ending.
    ending: bool,
}

/// Runs the simulation of a seed. A panic counts as a violation.
pub fn run(seed: u64, mutation: Mutation, detail: TraceDetail) -> SimOutcome {
    let outcome = catch_unwind(|| play(seed, mutation, detail));
    outcome.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind");
        let detail = format!("a panic: {text}");
        let violations = vec![Violation { property: "no panic", detail, events: Vec::new() }];
        let (hash, events, time, crashes, upgrades) = (0, 0, Duration::ZERO, 0, 0);
        SimOutcome { seed, hash, events, time, crashes, upgrades, violations, trace: Vec::new() }
    })
}

fn play(seed: u64, mutation: Mutation, detail: TraceDetail) -> SimOutcome {
    let (plan, rng) = SimPlan::of(seed, mutation);
    let world = SimWorld::new(plan.clone(), rng, &work::paths(plan.clients), detail);
    {
        let mut inner = world.lock();
        note!(inner, "{plan:?}");
        inner.start();
        inner.schedule(Duration::from_secs(1), Event::Housekeeping);
        let first = inner.rng.time(Duration::ZERO, plan.fault_every);
        inner.schedule(first, Event::Fault);
        let first = inner.rng.time(Duration::ZERO, plan.upgrade_every);
        inner.schedule(first, Event::Upgrade);
    }
    let mut tasks =
        Tasks { world: world.clone(), all: BTreeMap::new(), next: 0, clients: Vec::new(), ending: false };
    (0..plan.clients).for_each(|host| tasks.begin(host, 0));
    let finished = tasks.run_until_done(plan.faults_until + PATIENCE);
    if finished {
        tasks.end();
    } else {
        let stuck: Vec<String> = tasks.clients.iter().map(|client| client.describe()).collect();
        let mut inner = world.lock();
        let now = inner.now;
        let detail = format!("the clients are not done by {:.0} s: {}", now.as_secs_f64(), stuck.join("; "));
        inner.history.complain("progress", detail, now);
    }
    // A last power failure: all acknowledged data has to be on the disk.
    tasks.all.clear();
    let mut inner = world.lock();
    inner.machine.crash(CrashKind::Power);
    let (time, crashes) = (inner.now, inner.history.crashes.len());
    inner.history.crashes.push(time);
    inner.history.power_losses.push(time);
    let violations = check::check(&inner.history, inner.machine.disk());
    let trace = std::mem::take(&mut inner.trace);
    let (hash, events, upgrades) = (trace.hash(), trace.events(), inner.upgrades);
    SimOutcome { seed, hash, events, time, crashes, upgrades, violations, trace: trace.into_lines() }
}

impl Tasks {
    fn spawn(&mut self, host: usize, works: bool, future: impl Future<Output = ()> + 'static) {
        self.next += 1;
        self.all.insert(self.next, Task { host, works, future: Box::pin(future) });
        self.world.lock().ready.push_back(self.next);
    }

    /// Begins a life of a client.
    fn begin(&mut self, host: usize, life: u32) {
        let client = Client::new(&self.world, host, life);
        match self.clients.get_mut(host) {
            Some(old) => *old = client.clone(),
            None => self.clients.push(client.clone()),
        }
        self.spawn(host, false, client.clone().manage());
        self.spawn(host, false, client.clone().answer_callbacks());
        self.spawn(host, false, client.clone().return_recalled());
        self.spawn(host, true, work::names::work(client.clone()));
        self.spawn(host, true, work::data::work(client.clone()));
        self.spawn(host, true, work::locks::work(client.clone()));
        self.spawn(host, true, work::shares::work(client.clone()));
        self.spawn(host, true, work::v40::work(client.clone()));
        self.spawn(host, true, work::private::work(client.clone()));
        self.spawn(host, true, work::appends::work(client));
    }

    /// Ends a life of a client between any two steps, and begins the next.
    fn restart(&mut self, host: usize) {
        let Some(client) = self.clients.get(host).cloned() else { return };
        if self.ending || !self.all.values().any(|task| task.host == host && task.works) {
            return;
        }
        self.all.retain(|_, task| task.host != host);
        client.stop();
        self.begin(host, client.life + 1);
    }

    /// Runs events until the work is done; false if the deadline passes first.
    fn run_until_done(&mut self, deadline: Duration) -> bool {
        loop {
            self.poll();
            if !self.all.values().any(|task| task.works) {
                return true;
            }
            let restarts = std::mem::take(&mut self.world.lock().restarts);
            if !restarts.is_empty() {
                restarts.into_iter().for_each(|host| self.restart(host));
                continue;
            }
            let mut inner = self.world.lock();
            match inner.next_event() {
                Some(event) if inner.now < deadline => inner.happen(event),
                _ => return false,
            }
        }
    }

    /// Polls the ready tasks.
    fn poll(&mut self) {
        loop {
            let next = self.world.lock().ready.pop_front();
            let Some(id) = next else { return };
            let Some(task) = self.all.get_mut(&id) else { continue };
            self.world.lock().current = id;
            if task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                self.all.remove(&id);
            }
        }
    }

    /// Ends the clients, after which the server must hold nothing of them.
    fn end(&mut self) {
        self.ending = true;
        let gone = Rc::new(Cell::new(0));
        for client in self.clients.clone() {
            let gone = gone.clone();
            let host = client.host;
            self.spawn(host, true, async move {
                client.finish().await;
                gone.set(gone.get() + 1);
            });
        }
        let now = self.world.now();
        let done = self.run_until_done(now + PATIENCE);
        // Unconfirmed and NFSv4.0 clients go with their leases.
        let world = self.world.clone();
        self.spawn(0, true, async move { world.sleep(LEASE * 3).await });
        self.run_until_done(now + PATIENCE * 2);
        let mut inner = self.world.lock();
        let now = inner.now;
        if !done || gone.get() != self.clients.len() {
            inner.history.complain("progress", "the clients cannot end their sessions".to_owned(), now);
        }
        if let Some(counts) = inner.machine.counts() {
            let left = [
                counts.clients,
                counts.sessions,
                counts.opens,
                counts.lock_stateids,
                counts.ranges,
                counts.delegations,
                counts.files,
                counts.session_memory,
            ];
            if left != [0; 8] {
                inner.history.complain(
                    "the server holds nothing of ended clients",
                    format!("{counts:?}"),
                    now,
                );
            }
        }
    }
}
