//! A bounded cache whose entries expire, and stand in for a source that fails for some time after.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A cache of values until they expire; at the limit it drops the oldest entry.
pub(crate) struct Cache<K, V> {
    max: usize,
    inner: Mutex<CacheState<K, V>>,
}

struct CacheState<K, V> {
    entries: HashMap<K, CacheEntry<V>>,
    /// Keys in order of insertion. A key occurs exactly once while it has an entry.
    order: VecDeque<K>,
}

/// The age of a cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAge {
    /// Time since the source gave the answer.
    pub age: Duration,
    /// Time until the answer is looked up again.
    pub fresh_for: Duration,
    /// Whether the answer stands in for a lookup that failed or is late.
    pub stale: bool,
}

/// A value with its two ages.
struct CacheEntry<V> {
    value: V,
    /// The end of the time in which the value needs no lookup.
    fresh: Duration,
    /// The end of the time in which the value stands in for a source that fails.
    kept: Duration,
    /// The time at which the source gave the value.
    since: Duration,
    /// Whether the value stands in for a lookup that failed.
    stands_in: bool,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, inner: Mutex::new(CacheState { entries: HashMap::new(), order: VecDeque::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a value that has not expired at `now`.
    pub(crate) fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q, now: Duration) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.lock().entries.get(key).filter(|entry| now < entry.fresh).map(|entry| entry.value.clone())
    }

    /// Returns a value that may have expired but is still kept at `now`.
    pub(crate) fn get_stale<Q: ?Sized + Eq + Hash>(&self, key: &Q, now: Duration) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.lock().entries.get(key).filter(|entry| now < entry.kept).map(|entry| entry.value.clone())
    }

    /// Returns a value that is kept at `now`, with its age.
    pub(crate) fn get_aged<Q: ?Sized + Eq + Hash>(&self, key: &Q, now: Duration) -> Option<(V, CacheAge)>
    where
        K: Borrow<Q>,
    {
        let inner = self.lock();
        let entry = inner.entries.get(key).filter(|entry| now < entry.kept)?;
        let age = CacheAge {
            age: now.saturating_sub(entry.since),
            fresh_for: entry.fresh.saturating_sub(now),
            stale: entry.stands_in || entry.fresh <= now,
        };
        Some((entry.value.clone(), age))
    }

    /// Stores a value of the time `now` that is fresh until `fresh` and kept until `kept`.
    pub(crate) fn put(&self, key: K, value: V, now: Duration, fresh: Duration, kept: Duration) {
        if self.max == 0 {
            return;
        }
        let mut inner = self.lock();
        let kept = kept.max(fresh);
        let entry = CacheEntry { value, fresh, kept, since: now, stands_in: false };
        if inner.entries.insert(key.clone(), entry).is_none() {
            inner.order.push_back(key);
        }
        if inner.entries.len() > self.max
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.entries.remove(&oldest);
        }
    }

    /// Treats a value as fresh until `fresh`, but not longer than it is kept. Returns whether there
    /// is a value that is kept at `now`.
    pub(crate) fn postpone<Q: ?Sized + Eq + Hash>(&self, key: &Q, now: Duration, fresh: Duration) -> bool
    where
        K: Borrow<Q>,
    {
        match self.lock().entries.get_mut(key).filter(|entry| now < entry.kept) {
            Some(entry) => {
                entry.fresh = fresh.min(entry.kept);
                entry.stands_in = true;
                true
            }
            None => false,
        }
    }

    /// Lets all entries expire. They remain for a source that fails.
    pub(crate) fn expire(&self) {
        self.lock().entries.values_mut().for_each(|entry| entry.fresh = Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn an_entry_expires_and_is_kept_for_some_time() {
        let cache = Cache::new(4);
        cache.put("a".to_owned(), 1, S, 10 * S, 30 * S);
        assert_eq!(cache.get("a", 9 * S), Some(1));
        assert_eq!(cache.get("a", 10 * S), None);
        assert_eq!((cache.get_stale("a", 29 * S), cache.get_stale("a", 30 * S)), (Some(1), None));
        cache.put("a".to_owned(), 2, S, 20 * S, 30 * S);
        assert_eq!(cache.get("a", 11 * S), Some(2));
    }

    #[test]
    fn an_entry_is_postponed_no_longer_than_it_is_kept() {
        let cache = Cache::new(4);
        cache.put("a".to_owned(), 1, S, 10 * S, 30 * S);
        let age = |now| cache.get_aged("a", now).map(|(_, age)| age);
        let fresh = CacheAge { age: 4 * S, fresh_for: 5 * S, stale: false };
        assert_eq!((age(5 * S), age(10 * S).map(|age| age.stale)), (Some(fresh), Some(true)));
        assert!(cache.postpone("a", 12 * S, 20 * S) && !cache.postpone("b", 12 * S, 20 * S));
        assert_eq!((cache.get("a", 19 * S), cache.get("a", 20 * S)), (Some(1), None));
        assert!(cache.postpone("a", 29 * S, 90 * S));
        assert_eq!(cache.get("a", 30 * S), None);
        assert!(!cache.postpone("a", 30 * S, 90 * S));
        let stale = CacheAge { age: 28 * S, fresh_for: S, stale: true };
        assert_eq!((age(29 * S), age(30 * S)), (Some(stale), None));
    }

    #[test]
    fn expired_entries_stay_as_stale_answers() {
        let cache = Cache::new(4);
        cache.put("a".to_owned(), 1, S, 10 * S, 30 * S);
        cache.expire();
        assert_eq!((cache.get("a", S), cache.get_stale("a", S)), (None, Some(1)));
    }

    #[test]
    fn the_cache_never_grows_beyond_its_limit() {
        let cache = Cache::new(3);
        for key in 0..1000_u32 {
            cache.put(key, key, S, S, S);
            cache.put(key, key, S, S, S);
        }
        let inner = cache.inner.lock().unwrap();
        assert_eq!((inner.entries.len(), inner.order.len()), (3, 3));
    }
}
