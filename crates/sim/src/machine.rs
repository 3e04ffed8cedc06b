//! The server's machine: the disk and the journal, which survive a crash, and the server, which
//! does not.

use crate::contents::{private_content, private_path};
use crate::disk::{Fuse, SimDisk};
use crate::journal::SimJournal;
use crate::kerberos::{self, SimRealm, UserMap};
use crate::mutation::Mutation;
use crate::plan::{self, SimPlan};
use crate::rng::Rng;
use crate::tamper::Tamper;
use crate::upgrade::{self, KeptFiles, UpgradeFault};
use rpc::ConnectionId;
use runtime::{
    Action, Builder, CompletionSender, Deterministic, NfsService, Request, Service, ShardMemory, housekeeping,
};
use server::callback::CallbackTransport;
use server::dispatch::{CompletedCall, Environment};
use server::engine::{NfsConfig, Start};
use server::rpcsec::RpcsecLimits;
use state::{Boot, Counts, Limits};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfs::{Export, ExportRule, ExportTable, Exports, MemoryBackend, MemoryLimits, SecFlavor, Timestamp};

/// One submission to the pools in this many is refused, with a slow disk: the client gets
/// NFS4ERR_DELAY.
const REFUSES_ONE_IN: usize = 100;

/// Seconds since 1970 at which a simulation begins.
const EPOCH: u64 = 1_800_000_000;

/// The part of the server's machine that a crash ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashKind {
    /// The process of the server alone.
    Process,
    /// The machine, by a power failure.
    Power,
}

/// An output of the server.
pub(crate) enum Out {
    /// Sends a record, without its mark.
    Record(u64, Vec<u8>),
    /// Closes a connection from the server's side.
    Close(u64),
}

/// The outcome of a step of the machine.
pub(crate) struct MachineStep {
    /// The outputs, in order.
    pub out: Vec<Out>,
    /// Whether the machine crashed in the middle; then there are no outputs.
    pub crashed: bool,
}

impl MachineStep {
    fn add(&mut self, mut later: Self) {
        self.crashed |= later.crashed;
        self.out.append(&mut later.out);
    }
}

/// A running server with its pools.
pub(crate) struct RunningMachine {
    service: Arc<NfsService<Deterministic>>,
    executor: Deterministic,
    exports: Arc<Exports>,
    shard: ShardMemory,
    sink: CompletionSender<CompletedCall>,
    /// Whether a deferred call has completed since the last tick.
    completed: Arc<AtomicBool>,
    wire: Wire,
}

impl RunningMachine {
    /// Wires a server with the pools of `executor`.
    pub(crate) fn of(
        service: Arc<NfsService<Deterministic>>,
        executor: Deterministic,
        exports: Arc<Exports>,
    ) -> Self {
        let wire = Wire::default();
        service.server().engine().connect_callbacks(Box::new(wire.clone()));
        let completed = Arc::new(AtomicBool::new(false));
        let completes = completed.clone();
        let sink = CompletionSender::new(move || completes.store(true, Relaxed));
        let shard = service.shard(&sink, &Arc::new(AtomicU32::new(0)));
        Self { service, executor, exports, shard, sink, completed, wire }
    }

    /// Serves records of connections, and the completions of deferred calls.
    fn tick(&mut self, mut requests: Vec<Request>) -> Vec<Out> {
        let Self { service, shard, sink, completed, .. } = self;
        completed.store(false, Relaxed);
        let (mut completions, mut replies) = (Vec::new(), Vec::new());
        sink.take(&mut completions);
        let pause = &mut |_: &mut _| Duration::ZERO;
        service.tick(shard, &mut requests, &mut completions, &mut replies, pause);
        // The executor decides when these steps run, as it does for the others.
        let mut steps = VecDeque::new();
        service.take_steps(shard, &mut steps);
        while let Some(step) = steps.pop_front() {
            assert!(service.hand_over(step).is_ok(), "a call that begins is queued or declined");
        }
        let out = replies.into_iter().filter_map(|reply| match reply.action {
            Action::Send(record) => Some(Out::Record(reply.connection.0, record)),
            Action::SendAttached(record, data) => {
                Some(Out::Record(reply.connection.0, data.insert_into(record).ok()?))
            }
            Action::Close => Some(Out::Close(reply.connection.0)),
            Action::Trust(_) | Action::Yield | Action::Pause(_) | Action::Defer(_) => None,
        });
        out.collect()
    }

    /// Returns the server with its pools.
    pub(crate) fn service(&self) -> &NfsService<Deterministic> {
        &self.service
    }

    /// Executes a call to its end.
    pub(crate) fn execute(&mut self, request: Request) -> Vec<Out> {
        let mut out = self.tick(vec![request]);
        while self.executor.waiting() > 0 || self.completed.load(Relaxed) {
            self.executor.step();
            out.append(&mut self.tick(Vec::new()));
        }
        out
    }

    /// Ends all calls and pauses background copies.
    fn stand_still(&mut self) -> Vec<Out> {
        // They have no thread of their own here.
        self.service.pause_copies();
        self.service.decline_parked();
        let mut out = Vec::new();
        while self.executor.waiting() > 0 || self.completed.load(Relaxed) {
            self.executor.step();
            out.append(&mut self.tick(Vec::new()));
        }
        out
    }
}

/// The server's machine, on or off.
pub(crate) struct ServerMachine {
    plan: SimPlan,
    disk: Arc<SimDisk>,
    journal: SimJournal,
    /// Decides at which of the next steps the machine crashes.
    pub fuse: Fuse,
    tamper: Tamper,
    realm: SimRealm,
    rng: Rng,
    running: Option<RunningMachine>,
    starts: u32,
    verifier: [u8; 8],
    /// The server's clock, in nanoseconds since its start.
    clock: Arc<AtomicU64>,
    /// The wall clock, in nanoseconds since 1970.
    wall: Arc<AtomicU64>,
}

/// A record, and the connection to send it on.
type Sent = (u64, Vec<u8>);

/// Collects the callbacks that the server sends.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<Sent>>>);

impl CallbackTransport for Wire {
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((connection.0, record));
        true
    }
}

impl ServerMachine {
    /// Builds a machine that is off. Its disk has only `paths` and the private files of clients.
    pub(crate) fn new(plan: &SimPlan, paths: &[String], realm: &SimRealm, mut rng: Rng) -> Self {
        let (fuse, wall) = (Fuse::default(), Arc::new(AtomicU64::new(0)));
        let source = wall.clone();
        let clock = move || {
            let nanoseconds = source.load(Relaxed);
            let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX);
            let nanoseconds = u32::try_from(nanoseconds % 1_000_000_000).unwrap_or(0);
            Timestamp { seconds, nanoseconds }
        };
        let limits = MemoryLimits { bytes_max: 1 << 26, objects_max: 10_000 };
        #[expect(clippy::expect_used, reason = "the limits have room for the root")]
        let files = MemoryBackend::determined(limits, Box::new(clock)).expect("room for the root");
        let disk = SimDisk::new(files, fuse.clone(), plan.slow_disk, plan.mutation);
        disk.prepare(paths);
        (0..plan.clients).for_each(|host| {
            disk.prepare_private(&private_path(host), kerberos::uid(host), &private_content(host));
        });
        Self {
            disk: Arc::new(disk),
            journal: SimJournal::new(fuse.clone(), plan.mutation),
            fuse,
            tamper: Tamper::new(plan.mutation, realm),
            realm: realm.clone(),
            rng: rng.split(),
            running: None,
            starts: 0,
            verifier: [0; 8],
            clock: Arc::default(),
            wall,
            plan: plan.clone(),
        }
    }

    /// Returns the disk, for the checker.
    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// Returns whether the server runs.
    pub(crate) fn is_up(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the number of objects that the server holds for its clients.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.running.as_ref().map(|running| running.service.server().engine().counts())
    }

    /// Sets the server's clock, since its start, and the wall clock, in nanoseconds since the start
    /// of the simulation.
    pub(crate) fn set_clocks(&self, clock: Duration, wall: i64) {
        self.clock.store(u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.wall.store((EPOCH * 1_000_000_000).saturating_add_signed(wall), Relaxed);
    }

    /// Starts the server.
    ///
    /// # Errors
    /// Returns the reason if it does not start with the state that the crash has left.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let prior_clients = self.journal.open()?;
        self.starts += 1;
        let mut hash_key = [0; 16];
        hash_key[..8].copy_from_slice(&self.rng.next().to_be_bytes());
        if self.starts == 1 || self.plan.mutation != Mutation::VerifierStays {
            self.verifier = (u64::from(self.starts) << 32 ^ self.wall.load(Relaxed)).to_be_bytes();
        }
        let boot = Boot { epoch: self.starts, hash_key, principal_key: [9; 16], prior_clients };
        let start = Start { boot, write_verifier: self.verifier, filehandle_key: [9; 16] };
        let (builder, exports, executor) = self.builder(start)?;
        let service = builder.service(&executor);
        self.running = Some(RunningMachine::of(service, executor, exports));
        self.tamper.restart();
        Ok(())
    }

    /// Wires a process of the server with the disk and the journal of the machine.
    fn builder(&mut self, start: Start) -> Result<(Builder, Arc<Exports>, Deterministic), String> {
        let export = Export::new("/export", self.disk.clone()).map_err(|error| error.to_string())?;
        let export =
            export.with_rule(ExportRule { flavors: SecFlavor::ALL.to_vec(), ..ExportRule::default() });
        let table = ExportTable::new(vec![export], Timestamp { seconds: 1, nanoseconds: 0 });
        let table = table.map_err(|error| error.to_string())?;
        let exports = Arc::new(Exports::new(table));
        let limits = Limits { lease: plan::LEASE, grace: plan::GRACE, ..Limits::default() };
        let limits = Limits { recall_time: plan::LEASE, courtesy_max: self.plan.courtesy, ..limits };
        let environment = self.environment();
        let mut order = self.rng.split();
        let refuses = if self.plan.slow_disk { REFUSES_ONE_IN } else { 0 };
        let executor = Deterministic::new(move |end| order.below(end), refuses);
        let accounts = UserMap::new(self.plan.clients, self.plan.mutation == Mutation::PrincipalIgnored);
        let window = RpcsecLimits { window_size: self.plan.window, ..RpcsecLimits::default() };
        let builder = Builder::new(exports.clone(), start, environment)
            .config(NfsConfig { limits, ..NfsConfig::default() })
            .records(Box::new(self.journal.clone()))
            .kerberos(Box::new(self.realm.clone()), Box::new(accounts), window);
        Ok((builder, exports, executor))
    }

    /// Hands the clients over to another process of the server, or fails at a step and goes on.
    /// `late` are records that the old process serves after it has made the image, as it never
    /// should.
    ///
    /// # Errors
    /// The reason why there is no image, or why the next process refuses it.
    pub(crate) fn upgrade(
        &mut self,
        fault: UpgradeFault,
        late: Vec<(u64, usize, Vec<u8>)>,
    ) -> Result<MachineStep, String> {
        let mut step = self.run(RunningMachine::stand_still);
        let mut files = KeptFiles::default();
        let mut image = None;
        if !step.crashed && fault != UpgradeFault::Standstill {
            // An image is made behind the client records, which are on the disk.
            step.add(self.run(|running| {
                image = Some(upgrade::image(&running.service, &mut files));
                Vec::new()
            }));
        }
        let Some(image) = image else { return Ok(self.go_on(step)) };
        let image = image.map_err(|error| error.to_string())?;
        if !late.is_empty() {
            step.add(self.tick(late));
        }
        if step.crashed || fault == UpgradeFault::Image {
            return Ok(self.go_on(step));
        }
        // The keys and the epoch of the image take the place of these.
        let boot = Boot { epoch: 0, hash_key: [0; 16], principal_key: [9; 16], prior_clients: Vec::new() };
        let start = Start { boot, write_verifier: [0; 8], filehandle_key: [9; 16] };
        let (builder, exports, executor) = self.builder(start)?;
        let restored = builder.inherit(&executor, image, &mut files);
        let service = restored.map_err(|error| error.to_string())?;
        if fault != UpgradeFault::Restored {
            self.running = Some(RunningMachine::of(service, executor, exports));
        }
        Ok(self.go_on(step))
    }

    /// Continues the background copies in the process that serves from now on.
    fn go_on(&mut self, mut step: MachineStep) -> MachineStep {
        if !step.crashed {
            step.add(self.run(|running| {
                running.service.resume_copies();
                Vec::new()
            }));
        }
        step
    }

    /// Makes the clock and the random source of one life of the server.
    fn environment(&mut self) -> Environment {
        let clock = self.clock.clone();
        let numbers = Mutex::new(self.rng.split());
        let random = move |bytes: &mut [u8]| {
            let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
            for chunk in bytes.chunks_mut(8) {
                let number = numbers.next().to_ne_bytes();
                chunk.copy_from_slice(&number[..chunk.len()]);
            }
        };
        Environment {
            clock: Box::new(move || Duration::from_nanos(clock.load(Relaxed))),
            random: Box::new(random),
        }
    }

    /// Returns the IDs of the clients that have not freed a revoked delegation.
    pub(crate) fn clients_with_revoked(&self) -> Vec<u64> {
        let Some(running) = &self.running else { return Vec::new() };
        let listed = running.service.server().engine().list_delegations(usize::MAX).entries;
        listed.iter().filter(|one| one.phase == "revoked").map(|one| one.holder.client).collect()
    }

    /// Ends the server at once. With its power the machine also loses unsynced changes.
    pub(crate) fn crash(&mut self, crash: CrashKind) {
        self.running = None;
        self.fuse.set(0);
        if crash == CrashKind::Power {
            self.disk.lose_power(&mut self.rng);
            self.journal.lose_power(&mut self.rng);
        }
    }

    /// Runs a tick of the server with records of connections and their clients.
    pub(crate) fn tick(&mut self, records: Vec<(u64, usize, Vec<u8>)>) -> MachineStep {
        let tamper = &mut self.tamper;
        let peer = |host: usize| SocketAddr::from(([192, 0, 2, host as u8 + 1], 700));
        let requests: Vec<Request> = records
            .into_iter()
            .map(|(connection, host, record)| Request {
                connection: ConnectionId(connection),
                peer: peer(host),
                record: tamper.request(connection, record),
            })
            .collect();
        self.run(|running| running.tick(requests))
    }

    /// Returns whether the pools have tasks with a step to run.
    pub(crate) fn has_tasks(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.executor.waiting() > 0)
    }

    /// Returns whether deferred calls have completed. The next tick sends their replies.
    pub(crate) fn has_completed(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.completed.load(Relaxed))
    }

    /// Runs one step of one task of the pools.
    pub(crate) fn run_task(&mut self) -> MachineStep {
        self.run(|running| {
            running.executor.step();
            Vec::new()
        })
    }

    /// Reports the end of a connection to the server.
    pub(crate) fn closed(&mut self, connection: u64) -> MachineStep {
        self.run(|running| {
            running.service.closed(ConnectionId(connection));
            Vec::new()
        })
    }

    /// Runs the housekeeping of a second.
    pub(crate) fn housekeeping(&mut self) -> MachineStep {
        self.disk.sync_late();
        self.run(|running| {
            housekeeping::round(&running.service, &running.exports, false);
            Vec::new()
        })
    }

    fn run(&mut self, run: impl FnOnce(&mut RunningMachine) -> Vec<Out>) -> MachineStep {
        let Some(running) = self.running.as_mut() else {
            return MachineStep { out: Vec::new(), crashed: false };
        };
        let done = catch_unwind(AssertUnwindSafe(|| run(running)));
        if self.fuse.is_burned() {
            return MachineStep { out: Vec::new(), crashed: true };
        }
        let mut out = done.unwrap_or_else(|payload| resume_unwind(payload));
        assert_eq!(running.service.defects(), 0, "a deferred call has panicked");
        let wire = &running.wire.0;
        let callbacks = std::mem::take(&mut *wire.lock().unwrap_or_else(PoisonError::into_inner));
        out.extend(callbacks.into_iter().map(|(connection, record)| Out::Record(connection, record)));
        for out in &mut out {
            if let Out::Record(connection, record) = out {
                let plain = std::mem::take(record).split_off(rpc::RECORD_MARK_LEN);
                *record = self.tamper.reply(*connection, plain);
            }
        }
        MachineStep { out, crashed: false }
    }
}
