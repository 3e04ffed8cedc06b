//! The server's machine: the disk and the journal, which survive, and the server, which does not.

use crate::chance::Chance;
use crate::disk::{Crash, Disk, Fuse};
use crate::journal::Journal;
use crate::mutation::{Mutation, Tamper};
use crate::plan::{self, Plan};
use identity::{Mapper, Rules, StaticSource};
use rpc::ConnectionId;
use server::callback::CallbackTransport;
use server::dispatch::{
    Action, CompletedCall, DeferredCall, Engine, Environment, Metrics, ReplySink, Scratch, Server,
};
use server::engine::{Nfs, NfsConfig, Start};
use state::{Boot, Counts, Limits};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfs::{Export, ExportTable, Exports, MemoryBackend, MemoryLimits, SecFlavor, Timestamp};

/// A COMPOUND that waits for the disk.
type Suspended = <Nfs as Engine>::Suspended;

/// Seconds since 1970 at which a simulation begins.
const EPOCH: u64 = 1_800_000_000;

/// What becomes of a connection.
pub enum Out {
    /// A record goes out, without its mark.
    Record(u64, Vec<u8>),
    /// The server closes the connection.
    Close(u64),
}

/// What a step of the machine came to.
pub struct Step {
    /// What goes out, in this order.
    pub out: Vec<Out>,
    /// Whether the machine crashed in the middle; then nothing goes out.
    pub crashed: bool,
}

/// A server that runs.
struct Running {
    server: Server<Nfs>,
    scratch: Scratch,
    wire: Wire,
    away: Vec<DeferredCall<Suspended>>,
    back: Vec<CompletedCall>,
}

/// The machine.
pub struct Machine {
    plan: Plan,
    disk: Arc<Disk>,
    journal: Journal,
    /// Decides where in the next operations the machine crashes.
    pub fuse: Fuse,
    tamper: Tamper,
    chance: Chance,
    running: Option<Running>,
    starts: u32,
    verifier: [u8; 8],
    /// Nanoseconds that the server's clock has counted since its start.
    clock: Arc<AtomicU64>,
    /// Nanoseconds since 1970.
    wall: Arc<AtomicU64>,
}

/// A record, and the connection that it goes out on.
type Sent = (u64, Vec<u8>);

/// Takes the callbacks that the server sends.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<Sent>>>);

impl CallbackTransport for Wire {
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((connection.0, record));
        true
    }
}

impl Machine {
    /// Builds a machine with an empty disk but for `paths`; it is off.
    pub fn new(plan: &Plan, paths: &[String], mut chance: Chance) -> Self {
        let (fuse, wall) = (Fuse::default(), Arc::new(AtomicU64::new(0)));
        let told = wall.clone();
        let clock = move || {
            let nanoseconds = told.load(Relaxed);
            let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX);
            let nanoseconds = u32::try_from(nanoseconds % 1_000_000_000).unwrap_or(0);
            Timestamp { seconds, nanoseconds }
        };
        let limits = MemoryLimits { bytes_max: 1 << 26, objects_max: 10_000 };
        #[expect(clippy::expect_used, reason = "the limits have room for the root")]
        let files = MemoryBackend::determined(limits, Box::new(clock)).expect("room for the root");
        let disk = Disk::new(files, fuse.clone(), plan.slow_disk, plan.mutation == Mutation::CommitForgets);
        disk.prepare(paths);
        Self {
            disk: Arc::new(disk),
            journal: Journal::new(fuse.clone(), plan.mutation == Mutation::JournalNotSynced),
            fuse,
            tamper: Tamper::new(plan.mutation),
            chance: chance.split(),
            running: None,
            starts: 0,
            verifier: [0; 8],
            clock: Arc::default(),
            wall,
            plan: plan.clone(),
        }
    }

    /// The disk, for a look at the end.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether the server runs.
    pub fn is_up(&self) -> bool {
        self.running.is_some()
    }

    /// What the server holds for its clients.
    pub fn counts(&self) -> Option<Counts> {
        self.running.as_ref().map(|running| running.server.engine().counts())
    }

    /// Sets the clocks: the time since the server's start, and nanoseconds on the wall since the
    /// simulation's.
    pub fn set_clocks(&self, clock: Duration, wall: i64) {
        self.clock.store(u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.wall.store((EPOCH * 1_000_000_000).saturating_add_signed(wall), Relaxed);
    }

    /// Starts the server.
    ///
    /// # Errors
    /// When it does not come up again with what the crash has left.
    pub fn start(&mut self) -> Result<(), String> {
        let prior_clients = self.journal.open()?;
        self.starts += 1;
        let mut hash_key = [0; 16];
        hash_key[..8].copy_from_slice(&self.chance.next().to_be_bytes());
        if self.starts == 1 || self.plan.mutation != Mutation::VerifierStays {
            self.verifier = (u64::from(self.starts) << 32 ^ self.wall.load(Relaxed)).to_be_bytes();
        }
        let boot = Boot { epoch: self.starts, hash_key, principal_key: [9; 16], prior_clients };
        let start = Start { boot, write_verifier: self.verifier, filehandle_key: [9; 16] };
        let mut export = Export::new("/export", self.disk.clone()).map_err(|error| error.to_string())?;
        export.flavors = SecFlavor::ALL.to_vec();
        let table = ExportTable::new(vec![export], Timestamp { seconds: 1, nanoseconds: 0 });
        let table = table.map_err(|error| error.to_string())?;
        let numbers = Mutex::new(self.chance.split());
        let random = move || numbers.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mapper = Arc::new(Mapper::new(Rules::default(), StaticSource::default()));
        let limits = Limits { lease: plan::LEASE, grace: plan::GRACE, ..Limits::default() };
        let limits = Limits { recall_time: plan::LEASE, courtesy_max: self.plan.courtesy, ..limits };
        let nfs = Nfs::new(
            NfsConfig { limits, ..NfsConfig::default() },
            start,
            Arc::new(Exports::new(table)),
            mapper,
            Box::new(self.journal.clone()),
            Box::new(random),
            Duration::ZERO,
        );
        let wire = Wire::default();
        nfs.connect_callbacks(Box::new(wire.clone()));
        let clock = self.clock.clone();
        let environment = Environment {
            clock: Box::new(move || Duration::from_nanos(clock.load(Relaxed))),
            random: Box::new(|bytes| bytes.fill(0)),
        };
        let server = Server::new(nfs, None, environment, Arc::new(Metrics::default()));
        self.tamper.restart();
        let (away, back) = (Vec::new(), Vec::new());
        self.running = Some(Running { server, scratch: Scratch::new(), wire, away, back });
        Ok(())
    }

    /// The server ends at once; with its power the machine also loses what was not synced.
    pub fn crash(&mut self, power: bool) {
        self.running = None;
        self.fuse.set(0);
        if power {
            self.disk.lose_power(&mut self.chance);
            self.journal.lose_power(&mut self.chance);
        }
    }

    /// A tick of the server with these records.
    pub fn tick(&mut self, records: Vec<(u64, Vec<u8>)>) -> Step {
        let tamper = &mut self.tamper;
        let peer = SocketAddr::from(([192, 0, 2, 1], 700));
        let records: Vec<_> = records
            .into_iter()
            .map(|(connection, record)| (ConnectionId(connection), peer, tamper.request(record)))
            .collect();
        let slow = self.plan.slow_disk;
        self.run(|running, chance| {
            let Running { server, scratch, away, back, .. } = running;
            back.drain(..).for_each(|back| server.take_back(scratch, back));
            let mut shard = Shard { out: Vec::new(), away, chance, slow };
            server.tick(scratch, records, &mut shard);
            shard.out
        })
    }

    /// Whether calls are away, which somebody has to carry out.
    pub fn has_away(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.away.is_empty())
    }

    /// Carries out one of the calls that are away; its reply goes out with the next tick.
    pub fn carry_out(&mut self) -> Step {
        self.run(|running, chance| {
            let which = chance.below(running.away.len());
            let away = running.away.swap_remove(which);
            running.back.push(running.server.carry_out(away));
            Vec::new()
        })
    }

    /// A connection is gone.
    pub fn closed(&mut self, connection: u64) -> Step {
        self.run(|running, _| {
            running.server.closed(ConnectionId(connection));
            Vec::new()
        })
    }

    /// What is done once a second.
    pub fn housekeeping(&mut self) -> Step {
        self.run(|running, _| {
            running.server.housekeeping();
            Vec::new()
        })
    }

    fn run(&mut self, run: impl FnOnce(&mut Running, &mut Chance) -> Vec<Out>) -> Step {
        let Some(running) = self.running.as_mut() else { return Step { out: Vec::new(), crashed: false } };
        let chance = &mut self.chance;
        let done = catch_unwind(AssertUnwindSafe(|| run(running, chance)));
        let mut out = match done {
            Ok(out) => out,
            Err(payload) if payload.is::<Crash>() => {
                return Step { out: Vec::new(), crashed: true };
            }
            Err(payload) => resume_unwind(payload),
        };
        let wire = &running.wire.0;
        let callbacks = std::mem::take(&mut *wire.lock().unwrap_or_else(PoisonError::into_inner));
        out.extend(callbacks.into_iter().map(|(connection, record)| Out::Record(connection, record)));
        for out in &mut out {
            if let Out::Record(_, record) = out {
                *record = self.tamper.reply(std::mem::take(record)).split_off(rpc::RECORD_MARK_LEN);
            }
        }
        Step { out, crashed: false }
    }
}

/// Takes what a tick gives.
struct Shard<'t> {
    out: Vec<Out>,
    away: &'t mut Vec<DeferredCall<Suspended>>,
    chance: &'t mut Chance,
    slow: bool,
}

impl ReplySink<Suspended> for Shard<'_> {
    fn reply(&mut self, connection: ConnectionId, action: Action) {
        self.out.push(match action {
            Action::Send(record) => Out::Record(connection.0, record),
            Action::Close => Out::Close(connection.0),
        });
    }

    fn has_elsewhere(&self) -> bool {
        true
    }

    fn send_away(&mut self, away: DeferredCall<Suspended>) -> Result<(), DeferredCall<Suspended>> {
        // Now and then there is no room, and the client hears NFS4ERR_DELAY.
        if self.slow && self.chance.one_in(100) {
            return Err(away);
        }
        self.away.push(away);
        Ok(())
    }
}
