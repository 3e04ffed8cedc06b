//! Group commit: calls that changed the same object share one synchronisation, and only one thread
//! waits for the disk.

use crate::CommitCounts;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most calls that wait for stable storage without a thread. Further calls synchronise alone.
const CALLS_COMMITTING_MAX: usize = 4096;
/// The most bytes that these calls hold together. Further calls synchronise alone.
const COMMITTING_BYTES_MAX: usize = 64 << 20;

/// Calls that wait for stable storage, grouped by the object that they changed.
#[derive(Debug)]
pub(crate) struct GroupCommit<K, T> {
    groups: Mutex<CommitGroups<K, T>>,
    synced: AtomicU64,
    committed: AtomicU64,
}

#[derive(Debug)]
struct CommitGroups<K, T> {
    /// The groups that have a leader, with the calls that joined since the start of its last
    /// synchronisation.
    waiting: HashMap<K, Vec<(T, usize)>>,
    calls: usize,
    bytes: usize,
}

/// The role of a call in its group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SyncRole<T> {
    /// The group's leader answers the call.
    Follower,
    /// The caller leads the group: it synchronises and answers until [`GroupCommit::next`] is
    /// `None`.
    Leader,
    /// The limits are reached: the caller synchronises for this call alone.
    Single(T),
}

impl<K, T> Default for GroupCommit<K, T> {
    fn default() -> Self {
        let groups = CommitGroups { waiting: HashMap::new(), calls: 0, bytes: 0 };
        Self { groups: Mutex::new(groups), synced: AtomicU64::new(0), committed: AtomicU64::new(0) }
    }
}

impl<K: Clone + Eq + Hash, T> GroupCommit<K, T> {
    fn lock(&self) -> MutexGuard<'_, CommitGroups<K, T>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call to the group of `key`. The call has made its change, and holds `bytes`.
    pub(crate) fn join(&self, key: &K, call: T, bytes: usize) -> SyncRole<T> {
        let mut groups = self.lock();
        let full = groups.bytes.saturating_add(bytes) > COMMITTING_BYTES_MAX;
        if groups.calls >= CALLS_COMMITTING_MAX || full {
            return SyncRole::Single(call);
        }
        groups.calls += 1;
        groups.bytes += bytes;
        match groups.waiting.get_mut(key) {
            Some(waiting) => {
                waiting.push((call, bytes));
                SyncRole::Follower
            }
            None => {
                groups.waiting.insert(key.clone(), vec![(call, bytes)]);
                SyncRole::Leader
            }
        }
    }

    /// Takes the calls that the leader's next synchronisation covers: all that joined before it
    /// starts. Later calls wait for the following one. `None` ends the leadership.
    pub(crate) fn next(&self, key: &K) -> Option<Vec<T>> {
        let mut groups = self.lock();
        let calls = groups.waiting.get_mut(key).map(std::mem::take).unwrap_or_default();
        if calls.is_empty() {
            groups.waiting.remove(key);
            return None;
        }
        groups.calls -= calls.len();
        groups.bytes -= calls.iter().map(|(_, bytes)| bytes).sum::<usize>();
        self.synced.fetch_add(1, Relaxed);
        self.committed.fetch_add(u64::try_from(calls.len()).unwrap_or(0), Relaxed);
        Some(calls.into_iter().map(|(call, _)| call).collect())
    }

    /// Returns the number of waiting calls, of synchronisations, and of calls that these covered.
    pub(crate) fn counts(&self) -> CommitCounts {
        let waiting = self.lock().calls;
        CommitCounts { waiting, syncs: self.synced.load(Relaxed), committed: self.committed.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn a_call_that_joins_during_a_sync_waits_for_the_next_sync() {
        let commit = GroupCommit::default();
        assert_eq!(commit.join(&1, "first", 10), SyncRole::Leader);
        assert_eq!(commit.join(&1, "second", 10), SyncRole::Follower);
        assert_eq!(commit.join(&2, "another", 10), SyncRole::Leader);
        assert_eq!(commit.next(&1), Some(vec!["first", "second"]));
        assert_eq!(commit.join(&1, "late", 10), SyncRole::Follower);
        assert_eq!(commit.next(&1), Some(vec!["late"]));
        assert_eq!(commit.next(&1), None);
        assert_eq!(commit.counts(), CommitCounts { waiting: 1, syncs: 2, committed: 3 });
        assert_eq!(commit.join(&1, "after", 10), SyncRole::Leader, "the group has no leader any more");
    }

    #[test]
    fn a_call_without_room_synchronises_alone() {
        let commit = GroupCommit::default();
        assert_eq!(commit.join(&1, "large", COMMITTING_BYTES_MAX + 1), SyncRole::Single("large"));
        assert_eq!(commit.join(&1, "one", COMMITTING_BYTES_MAX), SyncRole::Leader);
        assert_eq!(commit.join(&1, "more", 1), SyncRole::Single("more"));
        assert_eq!(commit.next(&1), Some(vec!["one"]));
        assert_eq!(commit.next(&1), None);
        let joined: Vec<_> = (0..CALLS_COMMITTING_MAX).map(|_| commit.join(&1, "call", 1)).collect();
        assert!(!joined.iter().any(|joined| matches!(joined, SyncRole::Single(_))));
        assert_eq!(commit.join(&2, "too many", 1), SyncRole::Single("too many"));
    }

    #[test]
    fn no_call_is_answered_before_a_sync_that_began_after_its_change() {
        // A disk: the number of changes, and how many of them are stable.
        let (commit, changed, stable) = (GroupCommit::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let answered = AtomicUsize::new(0);
        let sync = || {
            let seen = changed.load(SeqCst);
            thread::yield_now();
            stable.fetch_max(seen, SeqCst);
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let own = changed.fetch_add(1, SeqCst) + 1;
                        if commit.join(&1, own, 1) != SyncRole::Leader {
                            continue;
                        }
                        while let Some(calls) = commit.next(&1) {
                            sync();
                            for call in calls {
                                assert!(stable.load(SeqCst) >= call, "{call} is not stable");
                                answered.fetch_add(1, SeqCst);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(answered.load(SeqCst), 2000);
        assert_eq!(commit.counts().waiting, 0);
    }
}
