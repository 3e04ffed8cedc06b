//! Calls that are answered when what they have changed is on stable storage: one synchronisation for all that wait for the same object, and no
//! thread but the one that waits for the disk.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls that wait for what they have changed to be on stable storage, without threads; beyond it each waits for the disk on its own.
const CALLS_SETTLING_MAX: usize = 4096;
/// Bytes that they hold together, with the same consequence.
const SETTLING_BYTES_MAX: usize = 64 << 20;

/// Calls by the object that they wait for.
#[derive(Debug)]
pub struct Settling<K, T> {
    groups: Mutex<Groups<K, T>>,
    /// Synchronisations that were made, and calls that were answered after them.
    synced: AtomicU64,
    settled: AtomicU64,
}

#[derive(Debug)]
struct Groups<K, T> {
    /// Those that some thread leads, with the calls that have come since it began its last synchronisation.
    waiting: HashMap<K, Vec<(T, usize)>>,
    calls: usize,
    bytes: usize,
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Joined<T> {
    /// Who leads its group answers it.
    Follows,
    /// The caller leads the group: [`Settling::lead`].
    Leads,
    /// There is no room: the caller has it to itself.
    Alone(T),
}

impl<K, T> Default for Settling<K, T> {
    fn default() -> Self {
        let groups = Groups { waiting: HashMap::new(), calls: 0, bytes: 0 };
        Self { groups: Mutex::new(groups), synced: AtomicU64::new(0), settled: AtomicU64::new(0) }
    }
}

impl<K: Clone + Eq + Hash, T> Settling<K, T> {
    fn lock(&self) -> MutexGuard<'_, Groups<K, T>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call, whose change has been made and which holds `bytes`, among those that wait for `key`.
    pub fn join(&self, key: &K, call: T, bytes: usize) -> Joined<T> {
        let mut groups = self.lock();
        if groups.calls >= CALLS_SETTLING_MAX || groups.bytes.saturating_add(bytes) > SETTLING_BYTES_MAX {
            return Joined::Alone(call);
        }
        groups.calls += 1;
        groups.bytes += bytes;
        match groups.waiting.get_mut(key) {
            Some(waiting) => {
                waiting.push((call, bytes));
                Joined::Follows
            }
            None => {
                groups.waiting.insert(key.clone(), vec![(call, bytes)]);
                Joined::Leads
            }
        }
    }

    /// Answers those that wait for `key`, until nobody does: `sync` puts the object on stable storage, for one of the calls, and `answer` is told
    /// how that went, for each of them. A call is answered after a synchronisation that began when it waited, and so after its change; when
    /// that fails, all that it was for are told so. Neither may panic.
    pub fn lead<R: Copy>(&self, key: &K, sync: impl Fn(&T) -> R, answer: impl Fn(T, R)) {
        while let Some(calls) = self.next(key) {
            // Who comes from now on waits for the next one.
            let Some(outcome) = calls.first().map(&sync) else { continue };
            self.synced.fetch_add(1, Relaxed);
            self.settled.fetch_add(u64::try_from(calls.len()).unwrap_or(0), Relaxed);
            calls.into_iter().for_each(|call| answer(call, outcome));
        }
    }

    /// Takes those that wait, or ends the lead.
    fn next(&self, key: &K) -> Option<Vec<T>> {
        let mut groups = self.lock();
        let calls = groups.waiting.get_mut(key).map(std::mem::take).unwrap_or_default();
        if calls.is_empty() {
            groups.waiting.remove(key);
            return None;
        }
        groups.calls -= calls.len();
        groups.bytes -= calls.iter().map(|(_, bytes)| bytes).sum::<usize>();
        Some(calls.into_iter().map(|(call, _)| call).collect())
    }

    /// How many wait that no synchronisation has begun for; synchronisations; and the calls that they were for.
    pub fn counts(&self) -> [u64; 3] {
        let waiting = u64::try_from(self.lock().calls).unwrap_or(u64::MAX);
        [waiting, self.synced.load(Relaxed), self.settled.load(Relaxed)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn who_comes_while_the_disk_is_waited_for_waits_for_the_next_time() {
        let (settling, syncs) = (Settling::default(), AtomicUsize::new(0));
        assert_eq!(settling.join(&1, "first", 10), Joined::Leads);
        assert_eq!(settling.join(&1, "second", 10), Joined::Follows);
        assert_eq!(settling.join(&2, "another", 10), Joined::Leads);
        let answered = Mutex::new(Vec::new());
        let sync = |_: &&str| {
            let number = syncs.fetch_add(1, SeqCst);
            if number == 0 {
                assert_eq!(settling.join(&1, "late", 10), Joined::Follows);
            }
            number
        };
        settling.lead(&1, sync, |call, number| answered.lock().unwrap().push((call, number)));
        assert_eq!(*answered.lock().unwrap(), [("first", 0), ("second", 0), ("late", 1)]);
        assert_eq!(settling.counts(), [1, 2, 3]);
        assert_eq!(settling.join(&1, "after", 10), Joined::Leads, "nobody leads any more");
    }

    #[test]
    fn what_has_no_room_is_alone() {
        let settling = Settling::default();
        assert_eq!(settling.join(&1, "large", SETTLING_BYTES_MAX + 1), Joined::Alone("large"));
        assert_eq!(settling.join(&1, "one", SETTLING_BYTES_MAX), Joined::Leads);
        assert_eq!(settling.join(&1, "more", 1), Joined::Alone("more"));
        settling.lead(&1, |_| (), |_, ()| ());
        let joined: Vec<_> = (0..CALLS_SETTLING_MAX).map(|_| settling.join(&1, "call", 1)).collect();
        assert!(!joined.iter().any(|joined| matches!(joined, Joined::Alone(_))));
        assert_eq!(settling.join(&2, "too many", 1), Joined::Alone("too many"));
    }

    #[test]
    fn nobody_is_answered_before_a_synchronisation_that_began_after_the_change() {
        // A disk: what was changed, and what of that is stable.
        let (settling, changed, stable) = (Settling::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let answered = AtomicUsize::new(0);
        let sync = |_: &usize| {
            let seen = changed.load(SeqCst);
            thread::yield_now();
            stable.fetch_max(seen, SeqCst);
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let own = changed.fetch_add(1, SeqCst) + 1;
                        if settling.join(&1, own, 1) == Joined::Leads {
                            settling.lead(&1, sync, |call, ()| {
                                assert!(stable.load(SeqCst) >= call, "{call} is not stable");
                                answered.fetch_add(1, SeqCst);
                            });
                        }
                    }
                });
            }
        });
        assert_eq!(answered.load(SeqCst), 2000);
        assert_eq!(settling.counts()[0], 0);
    }
}
