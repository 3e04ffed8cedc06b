//! One run of a cluster from its seed to its verdict.

use super::client::SimClient;
use super::fault::ClusterFault;
use super::gateway::{ClusterParts, GatewayProcess};
use super::holds::Holds;
use super::storage::SimStorage;
use super::world::{ClusterWorld, ProcessTasks};
use crate::history::Violation;
use crate::rng::Rng;
use crate::trace::{TraceDetail, line};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::{Backend, Caller, MemoryBackend, MemoryLimits, NewObject, OpenAccess, SetAttributes, Timestamp};

/// Time without faults after which all gateways must serve, and all clients have had a lock.
const CALM: Duration = Duration::from_secs(240);
/// How long metadata servers keep the session of a client that they do not hear of.
const EVICTION: Duration = Duration::from_secs(35);
/// How long a member may be down before its clients may lose the right to reclaim.
const ABSENCE: Duration = Duration::from_secs(8);

/// The outcome of a run.
pub struct ClusterOutcome {
    /// The seed of the run.
    pub seed: u64,
    /// The hash of its trace.
    pub hash: u64,
    /// The number of events in the trace.
    pub events: u64,
    /// The simulated time at the end.
    pub time: Duration,
    /// The number of processes of gateways.
    pub processes: usize,
    /// The number of processes that died between two steps with the storage.
    pub deaths: usize,
    /// Locks and opens that clients have held and released.
    pub rounds: usize,
    /// The violations that the checks have found.
    pub violations: Vec<Violation>,
    /// The lines of the trace, if kept.
    pub trace: Vec<String>,
}

/// Plays a seed with two or three gateways. A panic counts as a violation.
pub fn run_cluster(seed: u64, fault: ClusterFault, detail: TraceDetail) -> ClusterOutcome {
    let play = || play(seed, fault, detail);
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind");
        let violation =
            Violation { property: "no panic", detail: format!("a panic: {text}"), events: Vec::new() };
        let (violations, trace) = (vec![violation], Vec::new());
        let (hash, events, time, processes, deaths, rounds) = (0, 0, Duration::ZERO, 0, 0, 0);
        ClusterOutcome { seed, hash, events, time, processes, deaths, rounds, violations, trace }
    })
}

/// The parts of a run.
struct Play {
    shared: ClusterParts,
    holds: Rc<RefCell<Holds>>,
    members: usize,
    clients: Vec<Rc<SimClient>>,
}

fn play(seed: u64, fault: ClusterFault, detail: TraceDetail) -> ClusterOutcome {
    let mut rng = Rng::new(seed);
    let (members, of_each) = (rng.between(2, 3), rng.between(1, 2));
    let disturbed = Duration::from_secs(rng.between(60, 300) as u64);
    let world = ClusterWorld::new(rng, detail);
    let names: Vec<_> = (0..members).map(super::name).collect();
    let shared = ClusterParts {
        world: world.clone(),
        storage: Arc::new(Mutex::new(SimStorage::new(&names, fault))),
        files: files(&world, members),
        fault,
        gateways: Rc::default(),
    };
    let holds = Rc::<RefCell<Holds>>::default();
    let clients = (0..members * of_each).map(|host| SimClient::new(&shared, &holds, host % members, host));
    let clients = clients.collect();
    let play = Rc::new(Play { shared, holds, members, clients });
    let mut tasks = ProcessTasks::new(&world);
    play.clients.iter().for_each(|client| world.spawn(0, client.clone().work()));
    (0..members).for_each(|node| world.spawn(0, play.clone().keep(node)));
    (0..members).for_each(|node| world.spawn(0, play.clone().watch(node)));
    world.spawn(0, play.clone().disturb());
    world.spawn(0, play.clone().evict());
    tasks.run(disturbed);
    world.note(format_args!("the faults end"));
    world.lock().calm = true;
    let before: Vec<usize> = play.clients.iter().map(|client| client.rounds.get()).collect();
    tasks.run(disturbed + CALM);
    if world.now() >= disturbed + CALM - Duration::from_secs(10) {
        play.check_end(&before);
    }
    play.outcome(seed, tasks)
}

/// Makes the file system, with a file for each number.
fn files(world: &ClusterWorld, members: usize) -> Arc<MemoryBackend> {
    let clock = world.clock.clone();
    let now = move || {
        let seconds = i64::try_from(clock.load(Relaxed) / 1_000_000_000).unwrap_or(i64::MAX);
        Timestamp { seconds, nanoseconds: 0 }
    };
    let limits = MemoryLimits { bytes_max: 1 << 20, objects_max: 100 };
    #[expect(clippy::expect_used, reason = "the limits have room for the root")]
    let files = MemoryBackend::determined(limits, Box::new(now)).expect("room for the root");
    let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    let access = OpenAccess { read: true, write: true };
    let root = Caller::root();
    let directory =
        files.create(&root, &files.root(), super::DIRECTORY.as_bytes(), NewObject::Directory, &set);
    if let Ok(directory) = directory {
        for file in 0..super::FILES + members {
            let _ = files.create_file(&root, &directory, super::path(file).as_bytes(), access, &set);
        }
    }
    Arc::new(files)
}

impl Play {
    fn alive(&self, node: usize) -> Vec<Rc<GatewayProcess>> {
        let gateways = self.shared.gateways.borrow();
        gateways.iter().filter(|gateway| gateway.node == node && gateway.lives()).cloned().collect()
    }

    /// Starts a member on a machine where it does not run.
    fn start(&self, node: usize) {
        let used: Vec<String> = self.alive(node).iter().map(|gateway| gateway.host.clone()).collect();
        let hosts: Vec<String> =
            (0..3).map(|host| format!("host{host}")).filter(|host| !used.contains(host)).collect();
        let at = self.shared.world.draw(|rng| rng.below(hosts.len()));
        if let Some(host) = hosts.get(at) {
            GatewayProcess::start(&self.shared, node, host.clone());
        }
    }

    /// Starts a member again after a while whenever it is down.
    async fn keep(self: Rc<Self>, node: usize) {
        let world = self.shared.world.clone();
        loop {
            if self.alive(node).is_empty() {
                let long = world.fault_in(8);
                world.pause(100, if long { 60_000 } else { 3000 }).await;
                if self.alive(node).is_empty() {
                    self.start(node);
                }
            }
            world.sleep(Duration::from_millis(500)).await;
        }
    }

    /// Notes when a member has answered nobody for long.
    async fn watch(self: Rc<Self>, node: usize) {
        let world = self.shared.world.clone();
        let mut served = world.now();
        loop {
            if self.alive(node).iter().any(|gateway| gateway.answers()) {
                served = world.now();
            } else if world.now() > served + ABSENCE {
                self.holds.borrow_mut().excused.insert(node, world.now());
            }
            world.sleep(Duration::from_millis(500)).await;
        }
    }

    /// Ends the sessions of clients that the metadata servers have not heard of for long.
    async fn evict(self: Rc<Self>) {
        let world = self.shared.world.clone();
        loop {
            world.sleep(Duration::from_secs(5)).await;
            let since = world.now().saturating_sub(EVICTION);
            for identity in self.shared.storage().evict_silent(since) {
                world.note(format_args!("the metadata servers evict {identity}"));
                let node = (0..self.members).find(|node| identity.starts_with(&format!("gw{node}/")));
                node.map(|node| self.holds.borrow_mut().excused.insert(node, world.now()));
            }
        }
    }

    /// Injects faults until they end.
    async fn disturb(self: Rc<Self>) {
        let world = self.shared.world.clone();
        let mean = world.draw(|rng| rng.between(1500, 20_000)) as u64;
        while !world.lock().calm {
            world.pause(1, 2 * mean).await;
            if world.lock().calm {
                return;
            }
            let node = world.draw(|rng| rng.below(self.members));
            let (kind, of) = world.draw(|rng| (rng.below(100), rng.below(3)));
            let alive = self.alive(node);
            let gateway = alive.get(of.min(alive.len().saturating_sub(1)));
            match (kind, gateway) {
                (0..30, Some(gateway)) => gateway.end("it is killed"),
                (30..50, _) if alive.len() < 2 => self.start(node),
                (50..75, Some(gateway)) => {
                    let (time, whole) = world.draw(|rng| (rng.millis(500, 50_000), rng.one_in(2)));
                    world.note(format_args!(
                        "gw{node} (process {}) is cut off for {:.1} s{}",
                        gateway.process,
                        time.as_secs_f64(),
                        if whole { ", wholly" } else { "" }
                    ));
                    world.cut(gateway.process, world.now() + time, whole);
                }
                (75..82, Some(gateway)) => {
                    world.note(format_args!("gw{node} (process {}) is asked to end", gateway.process));
                    gateway.ending.set(true);
                }
                (82..90, _) => {
                    let client = &self.clients[world.draw(|rng| rng.below(self.clients.len()))];
                    client.restarts.set(true);
                }
                (90..100, _) => {
                    let client = &self.clients[world.draw(|rng| rng.below(self.clients.len()))];
                    client.cut_until.set(world.now() + world.draw(|rng| rng.millis(500, 40_000)));
                }
                _ => {}
            }
        }
    }

    /// Checks that all is well some time after the last fault.
    fn check_end(&self, before: &[usize]) {
        let world = &self.shared.world;
        let database = self.shared.storage().database.clone();
        if database.epochs().is_grace() {
            world.complain("the grace period ends", format!("{database:?}"));
        }
        for node in 0..self.members {
            let alive = self.alive(node);
            let granting = alive.iter().filter(|gateway| gateway.grants.get()).count();
            if alive.len() != 1 || granting != 1 {
                let detail = format!(
                    "gw{node} has {} processes, of which {granting} grant: {database:?}",
                    alive.len()
                );
                let property =
                    if alive.len() > 1 { "a fenced gateway notices it" } else { "the grace period ends" };
                world.complain(property, detail);
            }
        }
        for (host, (client, before)) in self.clients.iter().zip(before).enumerate() {
            if client.rounds.get() == *before {
                world.complain("progress", format!("client {host} holds nothing after the faults"));
            }
        }
    }

    fn outcome(&self, seed: u64, tasks: ProcessTasks) -> ClusterOutcome {
        let (time, deaths) = (self.shared.world.now(), self.shared.world.lock().deaths);
        let (trace, mut violations) = tasks.end();
        for (one, other) in self.holds.borrow().conflicts() {
            let detail = format!("file {} is held by {:?} and {:?}", one.file, one.owner, other.owner);
            let events = [&one, &other].map(|claim| {
                let until =
                    claim.until.map_or("the end".to_owned(), |until| format!("{:.6}", until.as_secs_f64()));
                line(claim.from, format_args!("client {:?} holds it until {until}", claim.owner))
            });
            violations.push(Violation { property: "exclusion", detail, events: events.into() });
        }
        let gateways = std::mem::take(&mut *self.shared.gateways.borrow_mut());
        let rounds = self.clients.iter().map(|client| client.rounds.get()).sum();
        let (hash, events, processes) = (trace.hash(), trace.events(), gateways.len());
        let trace = trace.into_lines();
        ClusterOutcome { seed, hash, events, time, processes, deaths, rounds, violations, trace }
    }
}
