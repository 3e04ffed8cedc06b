//! A gateway as a member of its cluster: from its start to its end.
//!
//! The rules are those of ganesha-rados-cluster-design(8), with an instance number against a former
//! instance that is still alive, and without a wait for members that are dead:
//!
//! 1. An instance claims its member by a number. A former instance that finds another number stops,
//!    and one that finds nothing stops to answer. Until then it may grant state, so the new
//!    instance does not say before that the member enforces.
//! 2. It takes over the records of the former instance, so that that one can change them no more.
//! 3. If there are clients that may reclaim, it begins a grace period, or joins it. When all others
//!    refuse new state, it ends the sessions of the former instance, which frees their locks.
//! 4. Its clients reclaim. When they have, it lifts its need, and with the last need the period
//!    ends.
//! 5. A member first says that it grants new state, while the database shows no grace period, and
//!    then does so. It first refuses new state and records its clients in the new epoch, and then
//!    says so.

use crate::watched::WatchedBeats;
use crate::{Database, DatabaseChange, NodeFlags, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The times of a cluster. All members have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a member serves after the last reading of the database. A client of a member that
    /// was replaced can hold its lease for so long in addition.
    pub contact_max: Duration,
    /// How long a member that gives no sign of life counts as alive: longer than `contact_max`.
    pub silence_max: Duration,
    /// How long the clients of a member that is gone keep the right to reclaim.
    pub absence_max: Duration,
}

/// A reading of the shared storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The contents of the grace database.
    pub database: Database,
    /// The signs of life of the members: numbers that change while they live.
    pub beats: BTreeMap<NodeId, u64>,
}

/// The facts of the server that a member needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalFacts {
    /// Whether no client of a former instance is waited for any more, and the records say so.
    pub recovery_over: bool,
    /// Whether clients are recorded.
    pub has_clients: bool,
    /// Whether the server ends. It answers no request any more.
    pub ending: bool,
}

/// A step for the caller to perform. A method of [`GraceMember`] reports its success; without it
/// the same step comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAction {
    /// Look whether a former instance has left clients that may reclaim: [`GraceMember::peeked`].
    Peek,
    /// Change the database, if it is still as it was read, and notify the members:
    /// [`GraceMember::written`].
    Write(Box<DatabaseChange>),
    /// Make the last records of the member this instance's, and read them: [`GraceMember::took`].
    TakeRecords,
    /// End the sessions of the former instance, which frees their locks, and find out which clients
    /// may reclaim: [`GraceMember::released`].
    Release {
        /// The number of the current epoch.
        epoch: u64,
        /// Whether it is one of a grace period.
        is_grace: bool,
    },
    /// Begin sessions, that is mount the file systems: [`GraceMember::mounted`].
    Mount,
    /// Record all clients that are known in the object of an epoch: [`GraceMember::recorded`].
    Record {
        /// The number of the epoch.
        epoch: u64,
    },
    /// Refuse new state: [`GraceMember::enforces`].
    Enforce,
    /// Grant new state: [`GraceMember::relaxed`].
    Relax,
    /// Let nobody reclaim any more: [`GraceMember::gave_up`].
    GiveUp,
    /// Evict a member that is dead, though it may be alive: [`GraceMember::fenced`].
    Fence {
        /// The name of the member.
        node: NodeId,
        /// The current epoch, in which its sessions are released.
        epoch: u64,
    },
    /// Write back and unmount, which ends the sessions: [`GraceMember::unmounted`].
    Unmount {
        /// The current epoch, in which they end.
        epoch: u64,
    },
    /// Nothing, until the next reading.
    Wait(MemberWait),
    /// End without further steps.
    Stop(StopReason),
}

/// The reason for a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberWait {
    /// Nothing: the member serves, and there is no grace period.
    Nothing,
    /// These members must refuse new state before sessions of a former instance may end.
    Enforcement(BTreeSet<NodeId>),
    /// Clients of these members have state to reclaim.
    Recovery(BTreeSet<NodeId>),
}

/// The reason why a member must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was not added to the cluster, or was removed.
    NotMember,
    /// Another instance is the member now.
    Replaced,
    /// It has ended as it was asked to.
    Ended,
}

/// A gateway as a member of its cluster.
#[derive(Clone, Debug)]
pub struct GraceMember {
    id: NodeId,
    timing: Timing,
    /// The least number of the instance.
    number_min: u64,
    /// The number that the last write would make this instance's.
    claiming: u64,
    instance: Option<u64>,
    claimed: Duration,
    /// An instance that has certainly ended.
    ended: Option<u64>,
    /// Whether a former instance has left clients that may reclaim.
    holds: Option<bool>,
    /// Whether the records of the former instance were taken over.
    taken: bool,
    /// The epoch in which the sessions of the former instance ended.
    released: Option<u64>,
    mounted: bool,
    /// The epoch in whose object clients are recorded.
    records: Option<u64>,
    enforcing: bool,
    recovering: bool,
    /// The dead member and the number with which the last write would take its name away.
    condemning: Option<(NodeId, u64)>,
    /// Dead members whose instances have lost their names, with the numbers that did it.
    condemned: BTreeMap<NodeId, u64>,
    /// Dead members that were evicted since.
    fenced: BTreeMap<NodeId, u64>,
    watched: WatchedBeats,
    contact: Option<Duration>,
}

impl GraceMember {
    /// Makes an instance of a member. `number_min` must grow from start to start: the seconds since
    /// 1970, say. `ended` is a former instance that has certainly ended, if one is known. The new
    /// one refuses new state until it has joined.
    pub fn new(id: NodeId, timing: Timing, number_min: u64, ended: Option<u64>) -> Self {
        Self {
            id,
            timing,
            number_min,
            claiming: 0,
            instance: None,
            claimed: Duration::ZERO,
            ended,
            holds: None,
            taken: false,
            released: None,
            mounted: false,
            records: None,
            enforcing: true,
            recovering: false,
            condemning: None,
            condemned: BTreeMap::new(),
            fenced: BTreeMap::new(),
            watched: WatchedBeats::default(),
            contact: None,
        }
    }

    /// Returns the name of the member.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// Returns the number of the instance, when it is the member.
    pub fn instance(&self) -> Option<u64> {
        self.instance
    }

    /// Returns whether the server may answer requests: its file systems are mounted, and its
    /// clients recorded.
    pub fn may_serve(&self) -> bool {
        self.mounted && self.records.is_some()
    }

    /// Returns whether clients of a former instance reclaim.
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Returns whether new state is refused.
    pub fn is_enforcing(&self) -> bool {
        self.enforcing
    }

    /// Returns until when the server may answer requests, if nothing is read from now on.
    pub fn answers_until(&self) -> Option<Duration> {
        self.contact.map(|contact| contact.saturating_add(self.timing.contact_max))
    }

    /// Notes a reading that began at `began`.
    pub fn observe(&mut self, began: Duration, view: &View) {
        // An instance that was replaced has no contact.
        if self.instance.is_none_or(|own| view.database.instance(&self.id) == Some(own)) {
            self.contact = Some(began);
        }
        self.watched.observe(began, &view.beats, self.timing.contact_max);
    }

    /// As [`GraceMember::observe`], while the storage is full and takes no sign of life. It takes
    /// none of the others either, so none of them counts as silent.
    pub fn observe_full(&mut self, began: Duration, view: &View) {
        self.observe(began, view);
        self.watched = WatchedBeats::default();
    }

    /// Returns the next step, by the last reading.
    pub fn next(&mut self, now: Duration, view: &View, local: LocalFacts) -> MemberAction {
        self.condemning = None;
        let database = &view.database;
        if database.flags(&self.id).is_none() {
            return MemberAction::Stop(StopReason::NotMember);
        }
        let Some(instance) = self.instance else { return self.begin(database) };
        if database.instance(&self.id) != Some(instance) {
            return MemberAction::Stop(StopReason::Replaced);
        }
        if local.ending {
            return self.end(database, local);
        }
        let Some(released) = self.released else { return self.take_over(now, database) };
        // An administrator has ended the period, and other clients may hold the locks that were not
        // reclaimed.
        if self.recovering && !(database.epochs.is_grace() && database.epochs.current == released) {
            return MemberAction::GiveUp;
        }
        if self.records != Some(database.epochs.current) {
            return match self.enforcing {
                true => MemberAction::Record { epoch: database.epochs.current },
                false => MemberAction::Enforce,
            };
        }
        if !self.mounted {
            return MemberAction::Mount;
        }
        match database.epochs.is_grace() {
            true => self.in_grace(now, database, local),
            false => self.in_peace(database),
        }
    }

    /// Claims the member. A grace period begins with it if clients may reclaim.
    fn begin(&mut self, database: &Database) -> MemberAction {
        let Some(holds) = self.holds else {
            return MemberAction::Peek;
        };
        let mut after = database.clone();
        let is_alone = self.ended.is_some() && self.ended == database.instance(&self.id);
        self.claiming = after.claim(&self.id, self.number_min);
        if is_alone {
            after.enforce(&self.id);
        }
        if holds {
            after.need(&self.id);
        }
        write(database, after)
    }

    /// Takes over the records and ends the sessions of a former instance.
    fn take_over(&mut self, now: Duration, database: &Database) -> MemberAction {
        if !self.taken {
            return MemberAction::TakeRecords;
        }
        if self.holds == Some(true) {
            let mut after = database.clone();
            // The former instance may have admitted clients since the first look.
            after.need(&self.id);
            if now >= self.claimed.saturating_add(self.timing.contact_max) {
                after.enforce(&self.id);
            }
            if after != *database {
                return write(database, after);
            }
            if let Some(action) = self.hold_up(now, database) {
                return action;
            }
            if !database.others_enforce(&self.id) {
                return MemberAction::Wait(MemberWait::Enforcement(lagging(database)));
            }
        }
        MemberAction::Release { epoch: database.epochs.current, is_grace: database.epochs.is_grace() }
    }

    /// Serves in a grace period.
    fn in_grace(&mut self, now: Duration, database: &Database, local: LocalFacts) -> MemberAction {
        let Some(flags) = database.flags(&self.id) else { return MemberAction::Stop(StopReason::NotMember) };
        if !self.enforcing {
            return MemberAction::Enforce;
        }
        let mut after = database.clone();
        if !flags.is_enforcing() {
            after.enforce(&self.id);
            return write(database, after);
        }
        self.recovering &= !local.recovery_over;
        if !self.recovering {
            after.lift(&self.id);
            if after != *database {
                return write(database, after);
            }
        }
        if let Some(action) = self.hold_up(now, database) {
            return action;
        }
        if database.all_enforce() {
            let needing = |(node, flags): (&NodeId, NodeFlags)| flags.needs_grace().then(|| node.clone());
            return MemberAction::Wait(MemberWait::Recovery(database.nodes().filter_map(needing).collect()));
        }
        MemberAction::Wait(MemberWait::Enforcement(lagging(database)))
    }

    /// Serves outside of a grace period.
    fn in_peace(&mut self, database: &Database) -> MemberAction {
        let mut after = database.clone();
        after.relax(&self.id);
        if after != *database {
            return write(database, after);
        }
        if self.enforcing { MemberAction::Relax } else { MemberAction::Wait(MemberWait::Nothing) }
    }

    /// Deals with members that are dead and hold up the others. First their instances lose their
    /// names, so that they stop if they come back; then their sessions end; then they count as
    /// members that refuse new state.
    fn hold_up(&mut self, now: Duration, database: &Database) -> Option<MemberAction> {
        let dead = self.dead(now, database)?;
        let is_condemned = |node: &NodeId| {
            let number = self.condemned.get(node);
            number.is_some() && number.copied() == database.instance(node)
        };
        let mut after = database.clone();
        if let Some(node) = dead.keys().find(|node| !is_condemned(node)) {
            self.condemning = Some((node.clone(), after.claim(node, 0)));
            return Some(write(database, after));
        }
        let fence = |(node, _): &(&NodeId, &NodeFlags)| self.fenced.get(*node) != self.condemned.get(*node);
        if let Some((node, _)) = dead.iter().find(fence) {
            return Some(MemberAction::Fence { node: node.clone(), epoch: database.epochs.current });
        }
        for (node, flags) in &dead {
            if flags.is_enforcing() {
                after.lift(node);
            } else {
                // Its clients may reclaim if it comes back in time.
                after.need(node);
                after.enforce(node);
            }
        }
        Some(write(database, after))
    }

    /// Returns the members that hold up the others and give no sign of life: those that do not
    /// begin to refuse new state, and those whose clients do not come back. `None` if there are
    /// none, or if one that is alive does not refuse new state yet: it could get the locks of
    /// those.
    fn dead(&self, now: Duration, database: &Database) -> Option<BTreeMap<NodeId, NodeFlags>> {
        let Timing { silence_max, absence_max, .. } = self.timing;
        let mut dead = BTreeMap::new();
        for (node, flags) in database.nodes() {
            let silence = self.watched.silence(now, node);
            let is_silent = *node != self.id && silence >= silence_max;
            let is_absent = is_silent && silence >= silence_max.saturating_add(absence_max);
            match (flags.is_enforcing(), flags.needs_grace()) {
                (false, _) if !is_silent => return None,
                (false, _) => drop(dead.insert(node.clone(), flags)),
                (true, true) if is_absent => drop(dead.insert(node.clone(), flags)),
                (true, _) => {}
            }
        }
        (!dead.is_empty()).then_some(dead)
    }

    /// Ends: its clients may reclaim after the next start, so that its locks are released only
    /// while all members refuse new state.
    fn end(&mut self, database: &Database, local: LocalFacts) -> MemberAction {
        self.enforcing = true;
        if self.released.is_none() {
            return MemberAction::Stop(StopReason::Ended);
        }
        let mut after = database.clone();
        if local.has_clients {
            after.need(&self.id);
        }
        after.enforce(&self.id);
        if self.mounted && local.has_clients {
            if after != *database {
                return write(database, after);
            }
            if !database.all_enforce() {
                return MemberAction::Wait(MemberWait::Enforcement(lagging(database)));
            }
        }
        if self.mounted {
            return MemberAction::Unmount { epoch: database.epochs.current };
        }
        if !local.has_clients {
            after.lift(&self.id);
        }
        if after != *database { write(database, after) } else { MemberAction::Stop(StopReason::Ended) }
    }

    /// Notes whether a former instance has left clients or sessions.
    pub fn peeked(&mut self, holds: bool) {
        self.holds = Some(holds);
    }

    /// Notes that the database was changed, by `now`.
    pub fn written(&mut self, now: Duration) {
        if self.instance.is_none() {
            // A reading of the former instance after this shows it the number.
            (self.instance, self.claimed) = (Some(self.claiming), now);
        }
        self.condemned.extend(self.condemning.take());
    }

    /// Notes that the records are this instance's, and whether there are clients in them.
    pub fn took(&mut self, holds: bool) {
        (self.taken, self.holds) = (true, Some(holds));
    }

    /// Notes that the sessions of the former instance have ended in an epoch. Its clients reclaim,
    /// or wait until leases from before have ended.
    pub fn released(&mut self, epoch: u64) {
        self.released = Some(epoch);
        self.recovering = self.holds == Some(true);
    }

    /// Notes that all clients are recorded in the object of an epoch.
    pub fn recorded(&mut self, epoch: u64) {
        self.records = Some(epoch);
    }

    /// Notes that new state is refused.
    pub fn enforces(&mut self) {
        self.enforcing = true;
    }

    /// Notes that new state is granted.
    pub fn relaxed(&mut self) {
        self.enforcing = false;
    }

    /// Notes that nobody reclaims any more.
    pub fn gave_up(&mut self) {
        self.recovering = false;
    }

    /// Notes that a member was evicted.
    pub fn fenced(&mut self, node: NodeId) {
        if let Some(number) = self.condemned.get(&node) {
            self.fenced.insert(node, *number);
        }
    }

    /// Notes that the file systems are mounted.
    pub fn mounted(&mut self) {
        self.mounted = true;
    }

    /// Notes that the file systems are unmounted.
    pub fn unmounted(&mut self) {
        self.mounted = false;
    }
}

fn write(before: &Database, after: Database) -> MemberAction {
    match DatabaseChange::between(before, after) {
        Some(change) => MemberAction::Write(Box::new(change)),
        None => MemberAction::Wait(MemberWait::Nothing),
    }
}

/// Returns the members that do not refuse new state yet.
fn lagging(database: &Database) -> BTreeSet<NodeId> {
    let lags = |(node, flags): (&NodeId, NodeFlags)| (!flags.is_enforcing()).then(|| node.clone());
    database.nodes().filter_map(lags).collect()
}
