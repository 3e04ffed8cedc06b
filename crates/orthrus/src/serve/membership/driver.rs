//! The thread of the cluster: it reads the grace database, and performs the steps of the member.

use super::back_off;
use super::ending::{self, NotMember};
use super::fence::end_sessions;
use super::records::{ClusterRecords, RecordStore};
use super::report::explain;
use super::{MemberStart, Membership, SessionLog, identity};
use crate::config::CephStorage;
use crate::serve::store::Boot;
use anyhow::{Context, bail};
use ceph::rados::ObjectWatch;
use grace::{
    GraceMember, LocalFacts, MemberAction, MemberWait, NodeId, ReleaseProtection, Sessions, StopReason,
    Timing, View,
};
use grace_rados::{GraceStore, NodeObjects, StoreError};
use runtime::NfsService;
use server::LogLimit;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The parts of the time without contact after which the database is read again.
const INTERVAL_PARTS: u32 = 5;
/// The longest time between two reads of the shared state of a cluster.
const INTERVAL_MAX: Duration = Duration::from_secs(2);
/// The pause while a long step runs on another thread.
const JOB_PAUSE: Duration = Duration::from_millis(20);
/// The time between two lines of the log about one wait.
const WAIT_LOG_INTERVAL: Duration = Duration::from_secs(30);
/// How long file systems may take to be unmounted.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(4);

/// A message to the thread.
pub(super) enum ToDriver {
    /// Another member has changed the database, perhaps.
    Changed,
    /// The server is built.
    Attach(Arc<NfsService>),
    /// The server has ceased to answer, and the process ends at this time.
    End(Instant),
}

/// The parts of a driver.
pub(super) struct DriverParts {
    pub(super) store: Arc<GraceStore>,
    pub(super) node: NodeId,
    pub(super) host: String,
    pub(super) timing: Timing,
    pub(super) storages: Vec<CephStorage>,
    pub(super) began: Instant,
    pub(super) received: Receiver<ToDriver>,
    pub(super) waker: SyncSender<ToDriver>,
    pub(super) start: SyncSender<anyhow::Result<MemberStart>>,
    pub(super) end: SyncSender<bool>,
    pub(super) membership: Arc<Membership>,
}

/// A long step on another thread.
struct DriverJob {
    action: MemberAction,
    outcome: Receiver<anyhow::Result<bool>>,
}

/// The outcome of a step.
enum Performed {
    /// The next step follows from the same reading.
    Done,
    /// The database has to be read again first.
    Reread,
    /// There is nothing to do before something happens.
    Idle,
    /// A step runs elsewhere.
    Running,
}

/// The state of the thread between two rounds.
pub(super) struct Driver {
    parts: DriverParts,
    member: GraceMember,
    records: Arc<RecordStore>,
    objects: Option<Arc<NodeObjects>>,
    boot: Option<Boot>,
    read: Option<(u64, View)>,
    beat: u64,
    watch: Option<ObjectWatch>,
    job: Option<DriverJob>,
    service: Option<Arc<NfsService>>,
    /// Whether the main thread was asked to mount.
    asked: bool,
    /// Writes down the end of the recovery.
    recovery: Option<JoinHandle<()>>,
    ending: Option<Instant>,
    waits: Option<(MemberWait, Instant)>,
    was_silent: bool,
    errors: LogLimit,
}

impl Driver {
    /// Prepares the thread.
    ///
    /// # Errors
    /// The storage cannot be read, or the server is no member.
    pub(super) fn new(parts: DriverParts) -> anyhow::Result<Self> {
        let (_, database) = parts.store.database()?;
        if database.flags(&parts.node).is_none() {
            bail!(NotMember(parts.node));
        }
        let former = parts.store.node(&parts.node)?;
        let ended = identity::has_ended(&former.host, &parts.host).then_some(former.instance);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let member = GraceMember::new(parts.node.clone(), parts.timing, seconds, ended);
        Ok(Self {
            parts,
            member,
            records: RecordStore::new(),
            objects: None,
            boot: None,
            read: None,
            beat: 0,
            watch: None,
            job: None,
            service: None,
            asked: false,
            recovery: None,
            ending: None,
            waits: None,
            was_silent: false,
            errors: LogLimit::default(),
        })
    }

    fn now(&self) -> Duration {
        self.parts.began.elapsed()
    }

    /// Runs until the process ends or the member has.
    pub(super) fn run(mut self) {
        loop {
            match self.round() {
                Ok(Some(pause)) => {
                    self.answer();
                    self.wait(pause);
                }
                Ok(None) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Reads the database, and performs steps until there is nothing to do. Returns the pause until
    /// the next round; `None` when the member has ended.
    fn round(&mut self) -> anyhow::Result<Option<Duration>> {
        if vfs_ceph::was_blocklisted()
            && let Some(reason) = self.reason_for_eviction()
        {
            return Err(reason.into());
        }
        self.read_all()?;
        loop {
            let Some((_, view)) = &self.read else { return Ok(Some(self.interval())) };
            let view = view.clone();
            let local = self.local();
            let action = self.member.next(self.now(), &view, local);
            if let MemberAction::Stop(reason) = action {
                self.stop(reason)?;
                return Ok(None);
            }
            match self.perform(&view, action)? {
                Performed::Done => {}
                Performed::Reread => self.read_all()?,
                Performed::Idle => return Ok(Some(self.interval())),
                Performed::Running => return Ok(Some(JOB_PAUSE)),
            }
            if self.ending.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
        }
    }

    fn interval(&self) -> Duration {
        (self.parts.timing.contact_max / INTERVAL_PARTS).min(INTERVAL_MAX)
    }

    /// Gives a sign of life, and reads the database. Both are a contact.
    fn read_all(&mut self) -> anyhow::Result<()> {
        let began = self.now();
        self.beat = self.beat.wrapping_add(1);
        let number = self.member.instance().unwrap_or_default().wrapping_mul(1 << 24).wrapping_add(self.beat);
        let store = &self.parts.store;
        // Before the claim, the signs of life are those of the former instance.
        let beaten =
            if self.member.instance().is_some() { store.beat(&self.parts.node, number) } else { Ok(()) };
        // Another error may be this gateway's alone. Without a sign of life it counts as dead in
        // the end, and has to be silent by then.
        let full = beaten.as_ref().err().filter(|error| error.is_full()).map(ToString::to_string);
        let read = if full.is_some() { store.view() } else { beaten.and_then(|()| store.view()) };
        match read {
            Ok((version, view)) => {
                match full {
                    None => self.member.observe(began, &view),
                    Some(error) => {
                        self.complain(&format!("no sign of life: {error}"));
                        self.member.observe_full(began, &view);
                    }
                }
                self.parts.membership.note_view(self.member.instance(), &view, self.records.len());
                self.read = Some((version, view));
                self.keep_watch();
            }
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) if self.member.instance().is_none() => return Err(error.into()),
            Err(error) => {
                self.read = None;
                self.complain(&format!("no contact: {error}"));
            }
        }
        self.answer();
        Ok(())
    }

    /// Lets the server answer for as long as the last contact allows.
    fn answer(&mut self) {
        let Some(service) = &self.service else { return };
        if self.member.may_serve() {
            service.answer_until(self.member.answers_until());
        }
        let is_silent = service.is_silent();
        if is_silent != std::mem::replace(&mut self.was_silent, is_silent) {
            match is_silent {
                true => tracing::error!(
                    "cluster: no contact for {} s: this gateway answers no client until there is one, since another \
                     may have taken its place",
                    self.parts.timing.contact_max.as_secs()
                ),
                false => tracing::info!("cluster: in contact: this gateway answers its clients"),
            }
        }
    }

    /// Begins a watch of the database, if there is none. Without one, changes are found later.
    fn keep_watch(&mut self) {
        if self.watch.as_ref().is_some_and(|watch| !watch.is_lost()) {
            return;
        }
        let waker = self.parts.waker.clone();
        // Messages that wait say the same.
        let changed = move || _ = waker.try_send(ToDriver::Changed);
        self.watch = None;
        match self.parts.store.watch(Box::new(changed)) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => self.complain(&format!("changes of other members are noticed late: {error}")),
        }
    }

    fn complain(&self, text: &str) {
        if let Some(suppressed) = self.errors.permit(self.now()) {
            tracing::warn!(suppressed, "cluster: {text}");
        }
    }

    fn local(&mut self) -> LocalFacts {
        let recovery_over = match &self.service {
            Some(service) if self.member.is_recovering() => {
                service.server().engine().has_recovered() && self.note_recovered()
            }
            Some(_) => true,
            None => false,
        };
        LocalFacts { recovery_over, has_clients: self.records.len() > 0, ending: self.ending.is_some() }
    }

    /// Records the end of the recovery, on another thread. Returns whether the record is written.
    fn note_recovered(&mut self) -> bool {
        if let Some(writer) = &self.recovery {
            return writer.is_finished();
        }
        let records = Arc::clone(&self.records);
        let writer = std::thread::Builder::new().name("cluster-records".into());
        match writer.spawn(move || records.note_recovered()) {
            Ok(writer) => {
                self.recovery = Some(writer);
                tracing::info!("cluster: the clients of this gateway have reclaimed what they could");
            }
            Err(error) => self.complain(&format!("no thread: {error}")),
        }
        false
    }

    fn perform(&mut self, view: &View, action: MemberAction) -> anyhow::Result<Performed> {
        match action {
            MemberAction::Peek => {
                let records = self.parts.store.records(&self.parts.node)?;
                self.member.peeked(!records.is_empty());
            }
            MemberAction::Write(change) => {
                let Some((version, _)) = self.read.take() else { return Ok(Performed::Reread) };
                if self.tried(|store| store.write(version, &change))?.is_some_and(|written| written) {
                    self.member.written(self.now());
                    back_off::note_name();
                }
                return Ok(Performed::Reread);
            }
            MemberAction::TakeRecords => self.take_records()?,
            MemberAction::Release { .. }
            | MemberAction::Fence { .. }
            | MemberAction::Record { .. }
            | MemberAction::Unmount { .. } => return self.run_job(action),
            MemberAction::Mount => return self.mount(),
            MemberAction::Enforce => {
                self.engine(|service| service.server().engine().enforce_grace(true));
                tracing::info!("cluster: a grace period begins: new opens and locks of shared files wait");
                self.member.enforces();
            }
            MemberAction::Relax => {
                self.engine(|service| service.server().engine().enforce_grace(false));
                tracing::info!("cluster: no grace period: new opens and locks are granted");
                self.member.relaxed();
            }
            MemberAction::GiveUp => {
                let now = self.now();
                self.engine(|service| service.server().engine().give_up_recovery(now));
                tracing::warn!(
                    "cluster: the grace period was ended: clients of this gateway can reclaim no more"
                );
                self.member.gave_up();
            }
            MemberAction::Wait(waits) => {
                self.note_wait(view, waits);
                return Ok(Performed::Idle);
            }
            // The caller has dealt with it.
            MemberAction::Stop(_) => return Ok(Performed::Idle),
        }
        Ok(Performed::Done)
    }

    fn engine(&self, run: impl FnOnce(&NfsService)) {
        if let Some(service) = &self.service {
            run(service);
        }
    }

    /// Runs a step of the storage; `None` after an error that can pass.
    fn tried<T>(
        &self,
        step: impl FnOnce(&Arc<GraceStore>) -> Result<T, StoreError>,
    ) -> anyhow::Result<Option<T>> {
        match step(&self.parts.store) {
            Ok(done) => Ok(Some(done)),
            Err(error) => self.retry(error).map(|_| None),
        }
    }

    /// Tries a step again later, unless its error is final.
    fn retry(&self, error: StoreError) -> anyhow::Result<Performed> {
        let can_pass = matches!(error, StoreError::Unavailable { .. }) || self.service.is_some();
        if error.is_final() || !can_pass {
            return Err(error.into());
        }
        self.complain(&error.to_string());
        Ok(Performed::Idle)
    }

    fn take_records(&mut self) -> anyhow::Result<()> {
        let instance = self.member.instance().unwrap_or_default();
        let objects = self.parts.store.take(&self.parts.node, instance, &self.parts.host)?;
        let objects = Arc::new(objects);
        let holds = self.records.take(Arc::clone(&objects))?;
        self.objects = Some(objects);
        self.member.took(holds);
        if holds {
            tracing::info!("cluster: {} clients of the former instance may have state", self.records.len());
        }
        Ok(())
    }

    /// Starts a long step, or looks for its end.
    fn run_job(&mut self, action: MemberAction) -> anyhow::Result<Performed> {
        let Some(job) = self.job.take() else {
            self.job = Some(self.start_job(action)?);
            return Ok(Performed::Running);
        };
        match job.outcome.try_recv() {
            Err(TryRecvError::Empty) => {
                self.job = Some(job);
                Ok(Performed::Running)
            }
            Err(TryRecvError::Disconnected) => bail!("a step of the cluster has ended with a defect"),
            // The step changed meanwhile.
            Ok(_) if job.action != action => Ok(Performed::Done),
            Ok(Ok(outcome)) => self.job_done(action, outcome),
            Ok(Err(error)) => {
                let error = match error.downcast() {
                    Ok(error) if matches!(action, MemberAction::Record { .. }) => return self.retry(error),
                    Ok(error) => error.into(),
                    Err(error) => error,
                };
                let is_final = error.downcast_ref().is_some_and(StoreError::is_final);
                if is_final && !matches!(action, MemberAction::Fence { .. }) {
                    return Err(error);
                }
                self.complain(&format!("{error:#}"));
                Ok(Performed::Idle)
            }
        }
    }

    fn start_job(&self, action: MemberAction) -> anyhow::Result<DriverJob> {
        let (send, outcome) = sync_channel(1);
        let (store, storages) = (Arc::clone(&self.parts.store), self.parts.storages.clone());
        let work: Box<dyn FnOnce() -> anyhow::Result<bool> + Send> = match &action {
            MemberAction::Fence { node, epoch } => {
                let (node, epoch, host) = (node.clone(), *epoch, self.parts.host.clone());
                let number = self.read.as_ref().and_then(|(_, view)| view.database.instance(&node));
                tracing::warn!("cluster: {node} gives no sign of life: its sessions are ended");
                Box::new(move || {
                    let former = store.node(&node)?.host;
                    let objects = store.take(&node, number.unwrap_or_default(), &former)?;
                    tracing::debug!("cluster: {node} is fenced by {host}");
                    end_sessions(&store, &objects, &storages, epoch)
                })
            }
            MemberAction::Record { epoch } => {
                let (records, epoch) = (Arc::clone(&self.records), *epoch);
                Box::new(move || Ok(records.begin(epoch).map(|()| true)?))
            }
            MemberAction::Unmount { epoch } => {
                let (objects, epoch) = (self.objects()?, *epoch);
                Box::new(move || unmount(&objects, epoch))
            }
            MemberAction::Release { epoch, .. } => {
                let (objects, epoch) = (self.objects()?, *epoch);
                Box::new(move || end_sessions(&store, &objects, &storages, epoch))
            }
            _ => bail!("only long steps run on a thread"),
        };
        let run = move || _ = send.send(work());
        std::thread::Builder::new().name("cluster-step".into()).spawn(run).context("no thread")?;
        Ok(DriverJob { action, outcome })
    }

    fn objects(&self) -> anyhow::Result<Arc<NodeObjects>> {
        self.objects.clone().context("the records were not taken over")
    }

    fn job_done(&mut self, action: MemberAction, outcome: bool) -> anyhow::Result<Performed> {
        match action {
            MemberAction::Release { epoch, is_grace } => {
                let protection =
                    ReleaseProtection { grace: is_grace.then_some(epoch), sessions_intact: outcome };
                let (prior, may) = self.records.release(epoch, &protection);
                if !prior.is_empty() {
                    tracing::info!(
                        "cluster: {may} clients may reclaim their state, and {} may not",
                        prior.len() - may
                    );
                }
                self.member.released(epoch);
                self.boot = Some(Boot {
                    // It grows with each start; the upper half is zero until 2106.
                    epoch: self.member.instance().unwrap_or_default() as u32,
                    secret: self.secret()?,
                    prior_clients: prior,
                });
            }
            MemberAction::Fence { node, .. } => self.member.fenced(node),
            MemberAction::Record { epoch } => self.member.recorded(epoch),
            MemberAction::Unmount { .. } if outcome => self.member.unmounted(),
            // They end with the process, as after a crash.
            _ => bail!("a file system of Ceph was not unmounted in time"),
        }
        Ok(Performed::Done)
    }

    /// Returns the secret of the cluster, and makes one if there is none.
    fn secret(&self) -> anyhow::Result<[u8; 32]> {
        if let Some(secret) = self.parts.store.secret()? {
            return Ok(secret);
        }
        let mut new = [0; 32];
        getrandom::fill(&mut new)
            .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
        Ok(self.parts.store.secret_or(&new)?)
    }

    /// Asks the main thread to mount the file systems, and waits for the server.
    fn mount(&mut self) -> anyhow::Result<Performed> {
        if self.service.is_some() {
            self.member.mounted();
            return Ok(Performed::Done);
        }
        if let Some(boot) = self.boot.take() {
            let objects = self.objects()?;
            objects.set_sessions(&Sessions::default())?;
            let start = MemberStart {
                boot,
                instance: self.member.instance().unwrap_or_default(),
                records: ClusterRecords::new(Arc::clone(&self.records)),
                sessions: Arc::new(SessionLog::new(objects)),
            };
            self.asked = true;
            let _ = self.parts.start.send(Ok(start));
        }
        Ok(Performed::Idle)
    }

    /// Logs a wait when it begins, and from time to time.
    fn note_wait(&mut self, view: &View, waits: MemberWait) {
        self.parts.membership.note_wait(&waits, self.member.is_enforcing());
        let old = self.waits.as_ref().is_some_and(|(before, logged)| {
            *before == waits && (waits == MemberWait::Nothing || logged.elapsed() < WAIT_LOG_INTERVAL)
        });
        if old {
            return;
        }
        let epochs = view.database.epochs();
        match &waits {
            MemberWait::Nothing => {}
            MemberWait::Enforcement(_) => tracing::info!(
                "cluster: waiting {} (a member that is gone for good leaves by `orthrus cluster leave NODE`)",
                explain(&waits)
            ),
            MemberWait::Recovery(_) => {
                tracing::info!(
                    "cluster: grace period of epoch {}: waiting {}",
                    epochs.current,
                    explain(&waits)
                );
            }
        }
        self.waits = Some((waits, Instant::now()));
    }

    /// Waits for a message, for at most a time.
    fn wait(&mut self, pause: Duration) {
        let mut pause = pause;
        loop {
            match self.parts.received.recv_timeout(pause) {
                Ok(ToDriver::Changed) => {}
                Ok(ToDriver::Attach(service)) => self.service = Some(service),
                Ok(ToDriver::End(at)) => self.ending = Some(at),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
            // Take all that have come.
            pause = Duration::ZERO;
        }
    }

    fn stop(&mut self, reason: StopReason) -> anyhow::Result<()> {
        match reason {
            StopReason::Ended => {
                let _ = self.parts.end.send(true);
                Ok(())
            }
            StopReason::Replaced => Err(StoreError::Replaced.into()),
            StopReason::NotMember => Err(NotMember(self.parts.node.clone()).into()),
        }
    }

    /// Ends the process, or the start.
    fn fail(&mut self, error: anyhow::Error) {
        if self.ending.is_some() {
            tracing::warn!("cluster: {error:#}");
            let _ = self.parts.end.send(false);
            return;
        }
        if !self.asked {
            let _ = self.parts.start.send(Err(error.context("the cluster of gateways")));
            return;
        }
        ending::end_for(&error);
    }

    /// Returns why the Ceph cluster has evicted this gateway; `None` if the database cannot be read
    /// now.
    fn reason_for_eviction(&self) -> Option<StoreError> {
        let database = self.parts.store.database();
        let instance = database.map(|(_, database)| database.instance(&self.parts.node));
        ending::reason_for_eviction(self.member.instance(), instance)
    }
}

/// Writes back and unmounts. Returns whether that succeeded in time.
fn unmount(objects: &NodeObjects, epoch: u64) -> anyhow::Result<bool> {
    let mut sessions = objects.sessions()?;
    sessions.close_in(epoch);
    objects.set_sessions(&sessions)?;
    if !vfs_ceph::unmount_all(UNMOUNT_TIME_MAX) {
        return Ok(false);
    }
    for identity in sessions.open.clone().into_keys() {
        sessions.ended(&identity, true);
    }
    objects.set_sessions(&sessions)?;
    Ok(true)
}
