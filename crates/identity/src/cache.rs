//! A bounded cache whose entries expire.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A cache of values until they expire; at the limit it drops the oldest entry.
pub(crate) struct Cache<K, V> {
    max: usize,
    inner: Mutex<CacheState<K, V>>,
}

struct CacheState<K, V> {
    entries: HashMap<K, (V, Duration)>,
    /// Keys in order of insertion. A key occurs exactly once while it has an entry.
    order: VecDeque<K>,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, inner: Mutex::new(CacheState { entries: HashMap::new(), order: VecDeque::new() }) }
    }

    /// Returns a value that has not expired at `now`.
    pub(crate) fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q, now: Duration) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries.get(key).filter(|(_, expires)| now < *expires).map(|(value, _)| value.clone())
    }

    /// Returns a value even if it has expired.
    pub(crate) fn get_stale<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries.get(key).map(|(value, _)| value.clone())
    }

    /// Stores a value until `expires`.
    pub(crate) fn put(&self, key: K, value: V, expires: Duration) {
        if self.max == 0 {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.entries.insert(key.clone(), (value, expires)).is_none() {
            inner.order.push_back(key);
        }
        if inner.entries.len() > self.max
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.entries.remove(&oldest);
        }
    }

    /// Drops all entries at once.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entries.clear();
        inner.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn an_entry_expires() {
        let cache = Cache::new(4);
        cache.put("a".to_owned(), 1, 10 * S);
        assert_eq!(cache.get("a", 9 * S), Some(1));
        assert_eq!(cache.get("a", 10 * S), None);
        cache.put("a".to_owned(), 2, 20 * S);
        assert_eq!(cache.get("a", 11 * S), Some(2));
    }

    #[test]
    fn the_cache_never_grows_beyond_its_limit() {
        let cache = Cache::new(3);
        for key in 0..1000_u32 {
            cache.put(key, key, S);
            cache.put(key, key, S);
        }
        let inner = cache.inner.lock().unwrap();
        assert_eq!((inner.entries.len(), inner.order.len()), (3, 3));
    }
}
