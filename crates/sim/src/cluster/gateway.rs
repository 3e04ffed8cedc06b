//! A gateway: the process of a real server, on one of several machines.

use super::driver::MemberDriver;
use super::fault::ClusterFault;
use super::mount::{GatewayMount, MountSession};
use super::records::GatewayRecords;
use super::storage::SimStorage;
use super::world::{ClusterWorld, Process, RequestOrder};
use crate::machine::{Out, RunningMachine};
use crate::plan;
use rpc::ConnectionId;
use runtime::{Builder, Deterministic, Request, housekeeping};
use server::dispatch::Environment;
use server::engine::{NfsConfig, Start};
use state::{Boot, Limits, PriorClient};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfs::{Export, ExportRule, ExportTable, Exports, MemoryBackend, SecFlavor, Timestamp};

/// The time without contact after which a gateway answers nobody: a quarter of a lease.
pub(super) const CONTACT: Duration = Duration::from_secs(5);
/// The length of a grace period: a lease, and that time.
pub(super) const GRACE: Duration = Duration::from_secs(25);

/// The parts that all gateways share.
#[derive(Clone)]
pub(super) struct ClusterParts {
    pub(super) world: ClusterWorld,
    pub(super) storage: Arc<Mutex<SimStorage>>,
    pub(super) files: Arc<MemoryBackend>,
    pub(super) fault: ClusterFault,
    /// All processes that run or have run.
    pub(super) gateways: Rc<RefCell<Vec<Rc<GatewayProcess>>>>,
}

impl ClusterParts {
    pub(super) fn storage(&self) -> MutexGuard<'_, SimStorage> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process of a gateway.
pub(super) struct GatewayProcess {
    pub(super) shared: ClusterParts,
    pub(super) process: Process,
    /// The index of the member.
    pub(super) node: usize,
    /// The name of the machine that it runs on.
    pub(super) host: String,
    pub(super) records: GatewayRecords,
    pub(super) started: Duration,
    pub(super) running: RefCell<Option<RunningMachine>>,
    pub(super) session: RefCell<Option<Arc<MountSession>>>,
    /// Whether a notification has come.
    pub(super) notified: Cell<bool>,
    /// The task of the driver, which a notification wakes.
    pub(super) task: Cell<usize>,
    /// Whether it was asked to end.
    pub(super) ending: Cell<bool>,
    /// Whether new state is granted.
    pub(super) grants: Cell<bool>,
    /// The number of its instance, when it has one.
    pub(super) instance: Cell<Option<u64>>,
    /// Whether records are being written.
    pub(super) writes: Cell<bool>,
}

impl GatewayProcess {
    /// Starts a process on a machine.
    pub(super) fn start(shared: &ClusterParts, node: usize, host: String) -> Rc<Self> {
        let process = shared.world.begin();
        shared.world.note(format_args!("gw{node} starts on {host} as process {process}"));
        let gateway = Rc::new(Self {
            shared: shared.clone(),
            process,
            node,
            host,
            records: GatewayRecords::new(
                shared.fault,
                shared.storage.clone(),
                super::name(node),
                shared.world.draw(|rng| rng.split()),
            ),
            started: shared.world.now(),
            running: RefCell::default(),
            session: RefCell::default(),
            notified: Cell::default(),
            task: Cell::default(),
            ending: Cell::default(),
            grants: Cell::default(),
            instance: Cell::default(),
            writes: Cell::default(),
        });
        shared.world.spawn(process, MemberDriver::run(gateway.clone()));
        shared.gateways.borrow_mut().push(gateway.clone());
        gateway
    }

    pub(super) fn lives(&self) -> bool {
        self.shared.world.lives(self.process)
    }

    /// Returns whether it answers its clients.
    pub(super) fn answers(&self) -> bool {
        self.running.borrow().as_ref().is_some_and(|running| !running.service().is_silent())
    }

    /// Ends the process, with or without a reason of its own.
    pub(super) fn end(&self, reason: &str) {
        self.shared.world.note(format_args!("gw{} (process {}) ends: {reason}", self.node, self.process));
        self.shared.world.end(self.process);
    }

    /// Returns the time of its clock.
    pub(super) fn now(&self) -> Duration {
        self.shared.world.now().saturating_sub(self.started)
    }

    /// Builds the server, which refuses new state and answers nobody so far.
    pub(super) fn serve(self: &Rc<Self>, prior_clients: Vec<PriorClient>, session: Arc<MountSession>) {
        let Ok((builder, exports, executor)) = self.builder(prior_clients, session.clone()) else {
            return self.end("the server cannot be built");
        };
        let service = builder.service(&executor);
        service.answer_until(Some(Duration::ZERO));
        service.server().engine().enforce_grace(self.shared.fault != ClusterFault::EnforcesNever);
        *self.running.borrow_mut() = Some(RunningMachine::of(service, executor, exports.clone()));
        *self.session.borrow_mut() = Some(session);
        let gateway = self.clone();
        self.shared.world.spawn(self.process, async move {
            loop {
                gateway.shared.world.sleep(Duration::from_secs(1)).await;
                gateway.lock_records().await;
                gateway.keep_session();
                // Without the storage its thread would wait in the middle.
                if !gateway.shared.world.is_cut(gateway.process)
                    && let Some(running) = &*gateway.running.borrow()
                {
                    let round = || housekeeping::round(running.service(), &exports, false);
                    gateway.survives(catch_unwind(AssertUnwindSafe(round)));
                }
                gateway.writes.set(false);
            }
        });
    }

    fn builder(
        &self,
        prior_clients: Vec<PriorClient>,
        session: Arc<MountSession>,
    ) -> Result<(Builder, Arc<Exports>, Deterministic), String> {
        let files = self.shared.files.clone();
        let export = Export::new("/export", Arc::new(GatewayMount { files, session }));
        let export = export.map_err(|error| error.to_string())?;
        let flavors = vec![SecFlavor::Sys];
        let export = export.with_rule(ExportRule { flavors, ..ExportRule::default() });
        let table = ExportTable::new(vec![export], Timestamp { seconds: 1, nanoseconds: 0 });
        let exports = Arc::new(Exports::new(table.map_err(|error| error.to_string())?));
        let limits =
            Limits { lease: plan::LEASE, grace: GRACE, courtesy_max: Duration::ZERO, ..Limits::default() };
        let epoch = self.instance.get().unwrap_or_default() as u32;
        let boot = Boot { epoch, hash_key: [8; 16], principal_key: [9; 16], prior_clients };
        let write_verifier = u64::from(epoch).to_be_bytes();
        let start = Start { boot, write_verifier, filehandle_key: [9; 16] };
        let mut order = self.shared.world.draw(|rng| rng.split());
        let executor = Deterministic::new(move |end| order.below(end), 0);
        let config = NfsConfig {
            limits,
            server_owner: format!("gw{}", self.node).into_bytes(),
            ..NfsConfig::default()
        };
        let builder = Builder::new(exports.clone(), start, self.environment())
            .config(config)
            .records(Box::new(self.records.clone()));
        Ok((builder, exports, executor))
    }

    fn environment(&self) -> Environment {
        let (clock, started) = (self.shared.world.clock.clone(), self.started);
        let numbers = Mutex::new(self.shared.world.draw(|rng| rng.split()));
        let random = move |bytes: &mut [u8]| {
            let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
            for chunk in bytes.chunks_mut(8) {
                let number = numbers.next().to_ne_bytes();
                chunk.copy_from_slice(&number[..chunk.len()]);
            }
        };
        let now = move || Duration::from_nanos(clock.load(Relaxed)).saturating_sub(started);
        Environment { clock: Box::new(now), random: Box::new(random) }
    }

    /// Returns the outcome of a step of the server, unless the process has died in it.
    fn survives<T>(&self, done: Result<T, Box<dyn Any + Send>>) -> Option<T> {
        if self.records.dead.load(Relaxed) {
            self.end("it dies while it writes a record");
            return None;
        }
        Some(done.unwrap_or_else(|payload| resume_unwind(payload)))
    }

    /// Returns whether no client of before the start is waited for. Without the storage, or while
    /// records are written, the answer comes later.
    pub(super) fn has_recovered(&self) -> bool {
        if self.writes.get() || self.shared.world.is_cut(self.process) {
            return false;
        }
        self.keep_session();
        let running = self.running.borrow();
        let ask =
            || running.as_ref().is_some_and(|running| running.service().server().engine().has_recovered());
        self.survives(catch_unwind(AssertUnwindSafe(ask))).unwrap_or(false)
    }

    /// Lets nobody reclaim any more. Without the storage the process waits, until it is killed.
    pub(super) fn give_up_recovery(&self, now: Duration) {
        self.keep_session();
        let running = self.running.borrow();
        let give_up = || {
            if let Some(running) = &*running {
                running.service().server().engine().give_up_recovery(now);
            }
        };
        self.survives(catch_unwind(AssertUnwindSafe(give_up)));
    }

    /// Executes a call, and returns its reply; `None` if the connection is closed, or the process
    /// ends before.
    pub(super) async fn execute(&self, connection: u64, host: usize, record: Vec<u8>) -> Option<Vec<u8>> {
        self.lock_records().await;
        self.keep_session();
        let peer = SocketAddr::from(([192, 0, 2, host as u8 + 1], 700));
        let request = Request { connection: ConnectionId(connection), peer, record };
        let run = || self.running.borrow_mut().as_mut().map(|running| running.execute(request));
        let out = self.survives(catch_unwind(AssertUnwindSafe(run)));
        self.writes.set(false);
        let out = out??;
        let reply = out.into_iter().find_map(|out| match out {
            Out::Record(_, mut record) => Some(record.split_off(rpc::RECORD_MARK_LEN)),
            Out::Close(_) => None,
        })?;
        self.check_name();
        Some(reply)
    }

    /// Gives a sign of life to the metadata servers, or notices that they have ended the session.
    fn keep_session(&self) {
        self.records.cut.store(self.shared.world.is_cut(self.process), Relaxed);
        self.records.disturbed.store(!self.shared.world.lock().calm, Relaxed);
        self.records.instance.store(self.instance.get().unwrap_or_default(), Relaxed);
        if let Some(session) = &*self.session.borrow() {
            session.cut.store(self.shared.world.is_wholly_cut(self.process), Relaxed);
            session.keep();
        }
    }

    /// Writes changes of the records that no call has written.
    pub(super) async fn flush(&self) {
        self.lock_records().await;
        self.keep_session();
        self.write_changes().await;
        self.writes.set(false);
    }

    /// Waits until nobody else writes records.
    pub(super) async fn lock_records(&self) {
        while self.writes.replace(true) {
            self.shared.world.pause(5, 50).await;
        }
    }

    async fn write_changes(&self) {
        let Some(changes) = self.records.changes() else { return };
        let (records, sent) = (self.records.clone(), changes.clone());
        let write = move || records.write(sent);
        match self.shared.world.message(self.process, RequestOrder::Kept, write).await {
            Ok(Ok(true)) => self.records.flushed(&changes),
            Ok(Err(_)) => self.end("another instance has its records"),
            Ok(Ok(false)) | Err(_) => self.shared.world.pause(100, 500).await,
        }
    }

    /// Checks that an instance without its name answers no longer than it may without contact.
    fn check_name(&self) {
        let (storage, node) = (self.shared.storage(), super::name(self.node));
        let taken = storage.taken(&node, self.instance.get().unwrap_or_default());
        drop(storage);
        let now = self.shared.world.now();
        if let Some(taken) = taken.filter(|taken| now > *taken + CONTACT) {
            let detail = format!(
                "gw{} (process {}) answers at {:.3}, and lost its name at {:.3}",
                self.node,
                self.process,
                now.as_secs_f64(),
                taken.as_secs_f64()
            );
            self.shared.world.complain("a fenced gateway notices it", detail);
        }
    }
}
