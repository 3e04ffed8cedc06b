//! Client records on their way to stable storage.
//!
//! State queues the changes, each with a ticket. A reply that depends on some of them waits until
//! their tickets are stable: `Compound` collects the tickets, and the phase `Unrecorded` has them.
//! A thread that writes takes the whole queue and makes one sync for all, so the others find their
//! tickets stable.

use super::{CommitKey, Compound, CompoundPhase, CompoundState, Nfs};
use state::{ClientKey, Effect, RecordTickets};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// The writing of client records, by one thread at a time that holds no lock.
#[derive(Debug)]
pub(super) struct Recording {
    /// Whether a thread makes an attempt to write.
    busy: Mutex<bool>,
    /// Notified after each attempt.
    attempted: Condvar,
    /// Whether the end of the grace period was taken off the queue; written in attempts only.
    grace_ended: AtomicBool,
    /// Whether the end of the grace period is on stable storage.
    recovered: AtomicBool,
}

impl Recording {
    pub(super) fn new(in_grace: bool) -> Self {
        let (grace_ended, recovered) = (AtomicBool::new(false), AtomicBool::new(!in_grace));
        Self { busy: Mutex::new(false), attempted: Condvar::new(), grace_ended, recovered }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn to make an attempt, unless none is needed any more.
    fn turn(&self, is_done: impl Fn() -> bool) -> Option<Attempt<'_>> {
        let busy = self.attempted.wait_while(self.lock(), |busy| *busy && !is_done());
        Attempt::new(self, busy.unwrap_or_else(PoisonError::into_inner), is_done())
    }

    /// Returns the turn if no thread has it.
    fn turn_if_free(&self) -> Option<Attempt<'_>> {
        let busy = self.lock();
        let taken = *busy;
        Attempt::new(self, busy, taken)
    }
}

/// The turn to write. It ends when this is dropped, also after a panic.
struct Attempt<'r>(&'r Recording);

impl<'r> Attempt<'r> {
    fn new(recording: &'r Recording, mut busy: MutexGuard<'_, bool>, refused: bool) -> Option<Self> {
        if refused {
            return None;
        }
        *busy = true;
        Some(Self(recording))
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.attempted.notify_all();
    }
}

/// The changes that a sync has put on stable storage. Removals take no space, so they may be stable
/// without the records that were put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncedRecords {
    /// All changes, which most storage has together.
    All,
    /// All removals, and not all records that were put.
    Removals,
    /// An unknown part of the changes, or none.
    Few,
}

impl Nfs {
    /// Returns whether no client of before the start is waited for any more, and the records say
    /// so. Waits for no record.
    pub fn has_recovered(&self) -> bool {
        self.recording.recovered.load(Acquire)
    }

    /// Waits until these changes are on stable storage, also while another thread writes them. One
    /// that comes during a sync waits for the end of that one, and at most for the next.
    pub(crate) fn write_records(&self, tickets: RecordTickets) {
        let is_stable = || self.state.unstable_records(tickets).is_empty();
        while !is_stable() {
            let Some(attempt) = self.recording.turn(is_stable) else { return };
            self.try_to_write(attempt);
            if !is_stable() {
                self.records.pause();
            }
        }
    }

    /// Waits until all client records in the queue are on stable storage.
    pub fn write_all_records(&self) {
        self.write_records(self.state.newest_records());
    }

    /// Writes records that no reply waits for, and those that have failed. Makes one attempt, and
    /// none while another thread makes one.
    pub(super) fn keep_records(&self) {
        if let Some(attempt) = self.recording.turn_if_free() {
            self.records.repair();
            if !self.state.unstable_records(self.state.newest_records()).is_empty() {
                self.try_to_write(attempt);
            }
        }
    }

    /// Empties the state's queue in order, and makes one sync for all of it: at the end of a grace
    /// period there may be many changes.
    fn try_to_write(&self, attempt: Attempt<'_>) {
        let Recording { grace_ended, recovered, .. } = attempt.0;
        let (effects, newest) = self.state.take_effects();
        for effect in effects {
            match effect {
                Effect::RecordClient { owner, principal } => self.records.record(&owner, principal),
                Effect::ForgetClient { owner } => self.records.forget(&owner),
                Effect::GraceEnded => {
                    self.records.grace_ended();
                    tracing::info!("the grace period has ended");
                    grace_ended.store(true, Relaxed);
                }
            }
        }
        let stable = match self.records.sync() {
            SyncedRecords::All => newest,
            SyncedRecords::Removals => RecordTickets { puts: 0, ..newest },
            SyncedRecords::Few => return,
        };
        self.state.note_stable(stable);
        if grace_ended.load(Relaxed) {
            recovered.store(true, Release);
        }
    }
}

impl CompoundState {
    /// Notes that the reply depends on changes of client records.
    pub(super) fn depend_on(&self, records: RecordTickets) {
        self.records.set(self.records.get().and(records));
    }

    /// Returns the records that must be on stable storage before the reply, after all operations
    /// have run.
    pub(super) fn pending_records(&self) -> Option<CommitKey> {
        let CompoundPhase::Unrecorded(_) = self.phase else { return None };
        Some(if self.records.get().puts > 0 { CommitKey::Puts } else { CommitKey::Removals })
    }
}

impl Compound<'_> {
    /// Notes that an operation got access that another client may have had until now, or that a
    /// restart may take away: see [`state::State::records_of_grant`]. The reply waits.
    pub fn note_grant(&self) {
        self.depend_on_grants(self.client().ok());
    }

    /// As [`Compound::note_grant`], of a client.
    pub(crate) fn depend_on_grants(&self, client: Option<ClientKey>) {
        self.progress.depend_on(self.state().records_of_grant(client));
    }

    /// Returns whether the reply depends on client records that are not on stable storage, and
    /// forgets those that are.
    pub(crate) fn is_unrecorded(&self) -> bool {
        let records = self.state().unstable_records(self.progress.records.get());
        self.progress.records.set(records);
        !records.is_empty()
    }
}
