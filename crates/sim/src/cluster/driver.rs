//! The membership of a gateway: it reads the grace database and performs the steps that
//! [`grace::GraceMember`] decides about, as `serve/membership/driver.rs` of the program does.

use super::fault::ClusterFault;
use super::gateway::{CONTACT, GRACE, GatewayProcess};
use super::mount::MountSession;
use super::storage::{Replaced, SimStorage};
use super::world::{NoReply, RequestOrder};
use grace::{
    DatabaseChange, GraceMember, LocalFacts, MemberAction, NodeId, ReleaseProtection, Sessions, StopReason,
    Timing, View,
};
use state::PriorClient;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The times of the members.
const TIMING: Timing =
    Timing { contact_max: CONTACT, silence_max: Duration::from_secs(10), absence_max: GRACE };
/// The pause between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause while a long step runs.
const JOB_PAUSE: Duration = Duration::from_millis(100);

/// The reason why a process ends.
type Ended = &'static str;

/// The outcome of a step.
enum StepOutcome {
    Done,
    Reread,
    Idle,
    Running,
}

/// A long step beside the readings.
struct SessionJob {
    action: MemberAction,
    outcome: Rc<RefCell<Option<Result<bool, Ended>>>>,
}

/// The state of the driver between two rounds.
pub(super) struct MemberDriver {
    gateway: Rc<GatewayProcess>,
    id: NodeId,
    member: GraceMember,
    read: Option<(u64, View)>,
    beat: u64,
    job: Option<SessionJob>,
    prior: Option<Vec<PriorClient>>,
    recovered: bool,
    /// A deliberate fault: another instance has its name, and it serves on.
    stays: bool,
}

impl MemberDriver {
    /// Runs until the process ends.
    pub(super) async fn run(gateway: Rc<GatewayProcess>) {
        gateway.task.set(gateway.shared.world.current());
        let Err(reason) = Self::rounds(gateway.clone()).await;
        gateway.end(reason);
    }

    async fn rounds(gateway: Rc<GatewayProcess>) -> Result<std::convert::Infallible, Ended> {
        let id = super::name(gateway.node);
        let former = ask(&gateway, {
            let id = id.clone();
            move |storage| storage.node(&id)
        })
        .await;
        let former = former.map_err(|_| "no storage at the start")?;
        let ended = (former.host == gateway.host).then_some(former.instance);
        let seconds = gateway.shared.world.now().as_secs() / 8;
        let member = GraceMember::new(id.clone(), TIMING, seconds, ended);
        let mut driver = Self {
            gateway,
            id,
            member,
            read: None,
            beat: 0,
            job: None,
            prior: None,
            recovered: false,
            stays: false,
        };
        loop {
            let pause = driver.round().await?;
            driver.answer();
            let gateway = driver.gateway.clone();
            gateway.shared.world.wait(pause, || gateway.notified.take()).await;
        }
    }

    /// Reads, and performs steps until there is nothing to do. Returns the pause until the next
    /// round.
    async fn round(&mut self) -> Result<Duration, Ended> {
        if self.is_evicted() && !self.stays {
            return Err("the cluster has evicted it");
        }
        self.read_all().await?;
        loop {
            let Some((_, view)) = self.read.clone() else { return Ok(INTERVAL) };
            let mut local = self.local();
            if self.recovered && self.gateway.records.waits() {
                self.gateway.flush().await;
                // The program writes these records before it goes on.
                local.recovery_over &= !self.gateway.records.waits();
            }
            let action = self.member.next(self.gateway.now(), &view, local);
            self.gateway.instance.set(self.member.instance());
            match self.perform(&view, action).await? {
                StepOutcome::Done => {}
                StepOutcome::Reread => self.read_all().await?,
                StepOutcome::Idle => return Ok(INTERVAL),
                StepOutcome::Running => return Ok(JOB_PAUSE),
            }
            self.gateway.instance.set(self.member.instance());
        }
    }

    fn is_evicted(&self) -> bool {
        self.gateway.session.borrow().as_ref().is_some_and(|session| session.evicted.load(Relaxed))
    }

    /// Gives a sign of life, and reads the database.
    async fn read_all(&mut self) -> Result<(), Ended> {
        let began = self.gateway.now();
        self.beat += 1;
        let claimed = self.member.instance();
        let number = claimed.unwrap_or_default().wrapping_mul(1 << 24).wrapping_add(self.beat);
        let beaten = match claimed {
            Some(_) => {
                let id = self.id.clone();
                self.ask_at(move |storage, _| storage.beat(&id, number)).await
            }
            None => Ok(()),
        };
        let view = match beaten {
            Ok(()) => match self.ask_at(|storage, _| storage.beats()).await {
                Ok(beats) => self.ask_at(move |storage, _| storage.view(beats)).await,
                Err(NoReply) => Err(NoReply),
            },
            Err(NoReply) => Err(NoReply),
        };
        match view {
            Ok((version, view)) => {
                self.member.observe(began, &view);
                self.read = Some((version, view));
            }
            Err(NoReply) if claimed.is_none() => return Err("no storage at the start"),
            Err(NoReply) => self.read = None,
        }
        self.answer();
        Ok(())
    }

    /// Lets the server answer for as long as the last contact allows.
    fn answer(&self) {
        let running = self.gateway.running.borrow();
        let Some(running) = running.as_ref().filter(|_| self.member.may_serve()) else { return };
        let until = self.member.answers_until();
        let forever = self.gateway.shared.fault == ClusterFault::AnswersForever || self.stays;
        let until = if self.gateway.ending.get() { Some(Duration::ZERO) } else { until.filter(|_| !forever) };
        running.service().answer_until(until);
    }

    fn local(&mut self) -> LocalFacts {
        let recovery_over = self.gateway.running.borrow().is_some()
            && (!self.member.is_recovering() || self.gateway.has_recovered());
        if recovery_over && self.member.is_recovering() && !std::mem::replace(&mut self.recovered, true) {
            self.gateway.records.note_recovered();
        }
        let has_clients = !self.gateway.records.is_empty();
        LocalFacts { recovery_over, has_clients, ending: self.gateway.ending.get() }
    }

    async fn perform(&mut self, view: &View, action: MemberAction) -> Result<StepOutcome, Ended> {
        let world = self.gateway.shared.world.clone();
        if !matches!(action, MemberAction::Wait(_)) {
            world
                .note(format_args!("gw{} (process {}): {action:?}", self.gateway.node, self.gateway.process));
        }
        match action {
            MemberAction::Peek => {
                let id = self.id.clone();
                let holds = self.ask(move |storage| storage.has_records(&id)).await;
                self.member.peeked(holds.map_err(|_| "no storage at the start")?);
            }
            MemberAction::Write(change) => return Ok(self.write(*change).await),
            MemberAction::TakeRecords => self.take_records().await?,
            MemberAction::Release { .. } | MemberAction::Fence { .. } | MemberAction::Unmount { .. } => {
                return self.run_job(view, action);
            }
            MemberAction::Record { epoch } => return self.record(epoch).await,
            MemberAction::Mount => self.mount().await?,
            MemberAction::Enforce => {
                self.enforce(true);
                self.member.enforces();
            }
            MemberAction::Relax => {
                self.enforce(false);
                self.member.relaxed();
            }
            MemberAction::GiveUp => {
                let now = self.gateway.now();
                self.gateway.lock_records().await;
                self.gateway.give_up_recovery(now);
                self.gateway.writes.set(false);
                self.member.gave_up();
            }
            MemberAction::Wait(_) => {
                if self.gateway.shared.fault == ClusterFault::ReleasesEarly
                    && self.member.instance().is_some()
                {
                    return Ok(self.release_early(view));
                }
                return Ok(StepOutcome::Idle);
            }
            MemberAction::Stop(StopReason::Replaced)
                if self.gateway.shared.fault == ClusterFault::StaysReplaced =>
            {
                self.stays = true;
                return Ok(StepOutcome::Idle);
            }
            MemberAction::Stop(StopReason::Replaced) => return Err("it was replaced"),
            MemberAction::Stop(_) => return Err("it has left"),
        }
        Ok(StepOutcome::Done)
    }

    /// A deliberate fault: releases the state of the former instance although others grant.
    fn release_early(&mut self, view: &View) -> StepOutcome {
        let epoch = view.database.epochs().current;
        if self.prior.is_some() || self.gateway.running.borrow().is_some() {
            return StepOutcome::Idle;
        }
        let action = MemberAction::Release { epoch, is_grace: view.database.epochs().is_grace() };
        self.run_job(view, action).unwrap_or(StepOutcome::Idle)
    }

    fn enforce(&self, enforced: bool) {
        self.gateway.grants.set(!enforced);
        if let Some(running) = &*self.gateway.running.borrow() {
            let never = self.gateway.shared.fault == ClusterFault::EnforcesNever;
            running.service().server().engine().enforce_grace(enforced && !never);
        }
    }

    async fn write(&mut self, change: DatabaseChange) -> StepOutcome {
        let Some((version, _)) = self.read.take() else { return StepOutcome::Reread };
        let written = self.ask_at(move |storage, now| storage.write(version, change, now)).await;
        if written == Ok(true) {
            self.member.written(self.gateway.now());
            notify(&self.gateway);
        }
        StepOutcome::Reread
    }

    async fn take_records(&mut self) -> Result<(), Ended> {
        let (instance, host) = (self.member.instance().unwrap_or_default(), self.gateway.host.clone());
        let id = self.id.clone();
        owned(self.ask(move |storage| storage.take(&id, instance, &host)).await)?;
        let id = self.id.clone();
        let clients = owned(self.ask(move |storage| storage.take_records(&id, instance)).await)?;
        let holds = self.gateway.records.take(clients);
        self.member.took(holds);
        Ok(())
    }

    /// Writes all records into the object of an epoch.
    async fn record(&mut self, epoch: u64) -> Result<StepOutcome, Ended> {
        self.gateway.lock_records().await;
        let recorded = self.record_all(epoch).await;
        self.gateway.writes.set(false);
        recorded
    }

    async fn record_all(&mut self, epoch: u64) -> Result<StepOutcome, Ended> {
        let written = self.gateway.records.all();
        let begin =
            move |storage: &mut SimStorage, id: &NodeId, instance| storage.begin_records(id, instance, epoch);
        let Some(there) = self.records_step(begin).await? else { return Ok(StepOutcome::Idle) };
        let put = written.clone();
        let put = move |storage: &mut SimStorage, id: &NodeId, instance| {
            storage.change_records(id, instance, epoch, put, &[])
        };
        let stale: Vec<Vec<u8>> =
            there.into_iter().filter(|owner| written.iter().all(|client| client.owner != *owner)).collect();
        let remove = move |storage: &mut SimStorage, id: &NodeId, instance| {
            storage.change_records(id, instance, epoch, Vec::new(), &stale)
        };
        let point = move |storage: &mut SimStorage, id: &NodeId, instance| {
            storage.point_to_records(id, instance, epoch)
        };
        let done = self.records_step(put).await?.is_some()
            && self.records_step(remove).await?.is_some()
            && self.records_step(point).await?.is_some();
        if !done {
            return Ok(StepOutcome::Idle);
        }
        self.gateway.records.begun(epoch, &written);
        self.member.recorded(epoch);
        Ok(StepOutcome::Done)
    }

    /// Performs an operation on the records; `None` without a reply.
    async fn records_step<T: 'static>(
        &self,
        run: impl FnOnce(&mut SimStorage, &NodeId, u64) -> Result<T, Replaced> + 'static,
    ) -> Result<Option<T>, Ended> {
        let (id, instance) = (self.id.clone(), self.member.instance().unwrap_or_default());
        match self.ask(move |storage| run(storage, &id, instance)).await {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(Replaced)) => Err("another instance has its records"),
            Err(NoReply) => Ok(None),
        }
    }

    /// Records a session with the metadata servers, opens it, and builds the server.
    async fn mount(&mut self) -> Result<(), Ended> {
        let Some(prior) = self.prior.take() else { return Err("nothing was released") };
        let instance = self.member.instance().unwrap_or_default();
        let identity = format!("{}/{instance}", self.id);
        let (id, mut sessions) = (self.id.clone(), Sessions::default());
        sessions.begin([identity.clone()]);
        owned(self.ask(move |storage| storage.set_sessions(&id, instance, sessions)).await)?;
        let named = identity.clone();
        let mounted = self.ask_at(move |storage, now| storage.mount(&named, now)).await;
        mounted.map_err(|NoReply| "the file system cannot be mounted")?;
        let session = MountSession {
            storage: self.gateway.shared.storage.clone(),
            identity,
            clock: self.gateway.shared.world.clock.clone(),
            cut: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
        };
        self.gateway.serve(prior, Arc::new(session));
        self.member.mounted();
        Ok(())
    }

    /// Starts a long step, or looks for its end.
    fn run_job(&mut self, view: &View, action: MemberAction) -> Result<StepOutcome, Ended> {
        let Some(job) = self.job.take() else {
            self.job = Some(self.start_job(view, action));
            return Ok(StepOutcome::Running);
        };
        let outcome = job.outcome.borrow_mut().take();
        match outcome {
            None => {
                self.job = Some(job);
                Ok(StepOutcome::Running)
            }
            Some(_) if job.action != action => Ok(StepOutcome::Done),
            Some(Ok(intact)) => {
                self.job_done(action, intact);
                Ok(StepOutcome::Done)
            }
            Some(Err("replaced")) if !matches!(action, MemberAction::Fence { .. }) => Err("it was replaced"),
            Some(Err(_)) => Ok(StepOutcome::Idle),
        }
    }

    fn start_job(&self, view: &View, action: MemberAction) -> SessionJob {
        let outcome = Rc::new(RefCell::new(None));
        let (gateway, slot) = (self.gateway.clone(), outcome.clone());
        let own = (self.id.clone(), self.member.instance().unwrap_or_default());
        let (taken, epoch, closes) = match &action {
            MemberAction::Fence { node, epoch } => {
                (Some((node.clone(), view.database.instance(node).unwrap_or_default())), *epoch, false)
            }
            MemberAction::Unmount { epoch } => (None, *epoch, true),
            MemberAction::Release { epoch, .. } => (None, *epoch, false),
            _ => (None, 0, false),
        };
        let process = self.gateway.process;
        self.gateway.shared.world.spawn(process, async move {
            let ended = end_sessions(&gateway, taken, own, epoch, closes).await;
            *slot.borrow_mut() = Some(ended);
        });
        SessionJob { action, outcome }
    }

    fn job_done(&mut self, action: MemberAction, sessions_intact: bool) {
        match action {
            MemberAction::Release { epoch, is_grace } => {
                let protection = ReleaseProtection { grace: is_grace.then_some(epoch), sessions_intact };
                self.prior = Some(self.gateway.records.release(epoch, &protection));
                self.member.released(epoch);
            }
            MemberAction::Fence { node, .. } => self.member.fenced(node),
            MemberAction::Unmount { .. } => self.member.unmounted(),
            _ => {}
        }
    }

    async fn ask<T: 'static>(&self, run: impl FnOnce(&mut SimStorage) -> T + 'static) -> Result<T, NoReply> {
        ask(&self.gateway, run).await
    }

    async fn ask_at<T: 'static>(
        &self,
        run: impl FnOnce(&mut SimStorage, Duration) -> T + 'static,
    ) -> Result<T, NoReply> {
        let (world, storage) = (self.gateway.shared.world.clone(), self.gateway.shared.storage.clone());
        let clock = world.clone();
        let run = move || run(&mut storage.lock().unwrap_or_else(PoisonError::into_inner), clock.now());
        world.message(self.gateway.process, RequestOrder::Any, run).await
    }
}

/// Performs an operation of the storage.
async fn ask<T: 'static>(
    gateway: &GatewayProcess,
    run: impl FnOnce(&mut SimStorage) -> T + 'static,
) -> Result<T, NoReply> {
    let storage = gateway.shared.storage.clone();
    let run = move || run(&mut storage.lock().unwrap_or_else(PoisonError::into_inner));
    gateway.shared.world.message(gateway.process, RequestOrder::Kept, run).await
}

/// Returns the value of an operation on an object of the instance, which ends without it.
fn owned<T>(reply: Result<Result<T, Replaced>, NoReply>) -> Result<T, Ended> {
    match reply {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Replaced)) => Err("another instance has its objects"),
        Err(NoReply) => Err("no storage at the start"),
    }
}

/// Ends all sessions of a member, one after another, and notes each step. Returns whether their
/// state is protected by the grace period of the epoch.
async fn end_sessions(
    gateway: &Rc<GatewayProcess>,
    taken: Option<(NodeId, u64)>,
    own: (NodeId, u64),
    epoch: u64,
    closes: bool,
) -> Result<bool, Ended> {
    let replaced = |reply: Result<Result<(), Replaced>, NoReply>| match reply {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Replaced)) => Err("replaced"),
        Err(NoReply) => Err("no storage"),
    };
    if let Some((node, number)) = taken.clone() {
        let host = ask(gateway, {
            let node = node.clone();
            move |storage| storage.node(&node).host
        })
        .await;
        let host = host.map_err(|NoReply| "no storage")?;
        replaced(ask(gateway, move |storage| storage.take(&node, number, &host)).await)?;
    }
    let (node, number) = taken.unwrap_or(own);
    let put = |sessions: Sessions| {
        let node = node.clone();
        ask(gateway, move |storage| storage.set_sessions(&node, number, sessions))
    };
    let read = node.clone();
    let object = ask(gateway, move |storage| storage.node(&read)).await;
    let mut sessions = object.map_err(|NoReply| "no storage")?.sessions;
    if closes {
        sessions.close_in(epoch)
    } else {
        sessions.end_in(epoch)
    }
    replaced(put(sessions.clone()).await)?;
    for identity in sessions.open.clone().into_keys() {
        let name = identity.clone();
        let clock = gateway.shared.world.clone();
        let found = ask(gateway, move |storage| storage.end_session(&name, clock.now())).await;
        sessions.ended(&identity, found.map_err(|NoReply| "no storage")? || closes);
        replaced(put(sessions.clone()).await)?;
    }
    Ok(sessions.protect(epoch))
}

/// Tells the other gateways that the database has changed. Some do not hear of it.
fn notify(gateway: &Rc<GatewayProcess>) {
    let world = &gateway.shared.world;
    for other in gateway.shared.gateways.borrow().iter().filter(|other| other.process != gateway.process) {
        if world.fault_in(3) || world.is_cut(other.process) {
            continue;
        }
        let (other, again) = (other.clone(), world.clone());
        world.after(world.delay(), move || {
            other.notified.set(true);
            again.wake(other.task.get());
        });
    }
}
