//! The objects that a backend used lately, by their handles.
//!
//! The cache is split into parts, so that threads seldom meet at one lock. Each part is a ring of
//! slots with a hand that goes round. It spares objects that were used since its last visit, and
//! objects that are pinned.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use vfs::ObjectHandle;

/// Independent parts of a cache.
const SHARDS: usize = 16;

/// An object that a cache holds.
pub trait CacheableObject {
    /// Returns the handle under which it is found.
    fn handle(&self) -> &ObjectHandle;

    /// Returns whether it must stay in the cache for now. While many objects are pinned, the cache
    /// holds more than its limit.
    fn is_pinned(entry: &Arc<Self>) -> bool {
        let _ = entry;
        false
    }
}

#[derive(Debug)]
struct CacheSlot<T> {
    object: Arc<T>,
    /// Used since the hand came by; a new one has to earn it.
    used: bool,
    /// Used or made since the last trim.
    fresh: bool,
}

/// One part of the cache.
#[derive(Debug)]
struct CachePart<T> {
    index: HashMap<ObjectHandle, usize>,
    slots: Vec<CacheSlot<T>>,
    hand: usize,
}

impl<T> Default for CachePart<T> {
    fn default() -> Self {
        Self { index: HashMap::new(), slots: Vec::new(), hand: 0 }
    }
}

/// At most `max` objects besides pinned ones; objects that were not used recently are evicted
/// first.
#[derive(Debug)]
pub struct ObjectCache<T> {
    shards: [Mutex<CachePart<T>>; SHARDS],
    shard_max: usize,
    hasher: RandomState,
}

impl<T: CacheableObject> ObjectCache<T> {
    /// Makes an empty cache.
    pub fn new(max: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, shard_max: (max / SHARDS).max(1), hasher: RandomState::new() }
    }

    fn shard(&self, handle: &ObjectHandle) -> MutexGuard<'_, CachePart<T>> {
        // The remainder is below SHARDS.
        let shard = &self.shards[(self.hasher.hash_one(handle) % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds an object that is in use or cached.
    pub fn get(&self, handle: &ObjectHandle) -> Option<Arc<T>> {
        let mut shard = self.shard(handle);
        let at = *shard.index.get(handle)?;
        let slot = shard.slots.get_mut(at)?;
        slot.used = true;
        slot.fresh = true;
        Some(Arc::clone(&slot.object))
    }

    /// Keeps an object and returns the one to use: an equal one that was there before stays.
    pub fn insert(&self, object: T) -> Arc<T> {
        let object = Arc::new(object);
        let mut shard = self.shard(object.handle());
        let there = shard.index.get(object.handle()).and_then(|at| shard.slots.get(*at));
        if let Some(slot) = there {
            return Arc::clone(&slot.object);
        }
        let evicted = shard.put(Arc::clone(&object), self.shard_max);
        drop(shard);
        // Dropped after the lock is gone: the last descriptor of a removed file frees its blocks.
        drop(evicted);
        object
    }

    /// Lets go of an object, so that a removed one does not keep its space.
    pub fn forget(&self, handle: &ObjectHandle) {
        let mut shard = self.shard(handle);
        let at = shard.index.get(handle).copied();
        let slot = at.and_then(|at| shard.take(at));
        drop(shard);
        drop(slot);
    }

    /// Lets go of an object unless it is pinned.
    pub fn release(&self, handle: &ObjectHandle) {
        let mut shard = self.shard(handle);
        let at = shard.index.get(handle).copied();
        let slot = at.and_then(|at| if shard.is_pinned(at) { None } else { shard.take(at) });
        drop(shard);
        drop(slot);
    }

    /// Drops objects that were not used since the last call, except pinned ones.
    pub fn trim(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = shard.slots.iter().filter(|slot| !slot.fresh && !T::is_pinned(&slot.object));
            let idle: Vec<ObjectHandle> = idle.map(|slot| *slot.object.handle()).collect();
            shard.slots.iter_mut().for_each(|slot| slot.fresh = false);
            let gone: Vec<Option<CacheSlot<T>>> = idle
                .iter()
                .map(|handle| {
                    let at = shard.index.get(handle).copied();
                    at.and_then(|at| shard.take(at))
                })
                .collect();
            drop(shard);
            drop(gone);
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        let of =
            |shard: &Mutex<CachePart<T>>| shard.lock().unwrap_or_else(PoisonError::into_inner).slots.len();
        self.shards.iter().map(of).sum()
    }

    /// Returns whether the cache holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: CacheableObject> CachePart<T> {
    /// Adds an object; when full it takes the place of another, which is returned.
    fn put(&mut self, object: Arc<T>, max: usize) -> Option<CacheSlot<T>> {
        let handle = *object.handle();
        let slot = CacheSlot { object, used: false, fresh: true };
        if self.slots.len() < max || !self.find_victim() {
            self.index.insert(handle, self.slots.len());
            self.slots.push(slot);
            return None;
        }
        let victim = std::mem::replace(self.slots.get_mut(self.hand)?, slot);
        self.index.remove(victim.object.handle());
        self.index.insert(handle, self.hand);
        self.hand += 1;
        // Pinned objects have made it larger than its limit.
        while self.slots.len() > max && self.find_victim() {
            self.take(self.hand);
        }
        Some(victim)
    }

    /// Moves the hand to the next slot that was not used since it came by last and is not pinned;
    /// returns whether there is one.
    fn find_victim(&mut self) -> bool {
        // After one round everything counts as unused, so the second ends.
        for _ in 0..=2 * self.slots.len() {
            self.hand = if self.hand >= self.slots.len() { 0 } else { self.hand };
            match self.slots.get_mut(self.hand) {
                Some(slot) if slot.used => slot.used = false,
                Some(slot) if T::is_pinned(&slot.object) => {}
                Some(_) => return true,
                None => return false,
            }
            self.hand += 1;
        }
        false
    }

    fn is_pinned(&self, at: usize) -> bool {
        self.slots.get(at).is_some_and(|slot| T::is_pinned(&slot.object))
    }

    /// Removes a slot; the last one takes its place.
    fn take(&mut self, at: usize) -> Option<CacheSlot<T>> {
        if at >= self.slots.len() {
            return None;
        }
        let slot = self.slots.swap_remove(at);
        self.index.remove(slot.object.handle());
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(*moved.object.handle(), at);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NumberedObject(ObjectHandle);

    impl CacheableObject for NumberedObject {
        fn handle(&self) -> &ObjectHandle {
            &self.0
        }

        fn is_pinned(entry: &Arc<Self>) -> bool {
            Arc::strong_count(entry) > 1
        }
    }

    fn object(n: u64) -> NumberedObject {
        NumberedObject(ObjectHandle::new(&n.to_be_bytes()).unwrap())
    }

    #[test]
    fn the_cache_never_exceeds_its_limit_and_keeps_objects_in_use() {
        let cache = ObjectCache::new(160);
        let favourite = cache.insert(object(0)).0;
        for n in 1..2000 {
            cache.insert(object(n));
            assert!(cache.get(&favourite).is_some());
        }
        assert!(cache.len() <= 160);
    }

    #[test]
    fn objects_that_are_forgotten_or_idle_for_two_trims_are_dropped() {
        let cache = ObjectCache::new(160);
        let handles: Vec<ObjectHandle> = (0..20).map(|n| cache.insert(object(n)).0).collect();
        cache.forget(&handles[3]);
        assert!(cache.get(&handles[3]).is_none());
        cache.trim();
        assert!(cache.get(&handles[5]).is_some());
        cache.trim();
        assert_eq!(cache.len(), 1);
        assert!(cache.get(&handles[5]).is_some());
    }

    #[test]
    fn pinned_objects_stay_and_make_way_afterwards() {
        let cache = ObjectCache::new(160);
        let pinned: Vec<Arc<NumberedObject>> = (0..1000).map(|n| cache.insert(object(n))).collect();
        (1000..3000).for_each(|n| drop(cache.insert(object(n))));
        for _ in 0..3 {
            cache.trim();
        }
        assert_eq!(cache.len(), 1000);
        assert!(pinned.iter().all(|object| cache.get(&object.0).is_some()));
        cache.release(&pinned[7].0);
        assert!(cache.get(&pinned[7].0).is_some());
        let handle = pinned[7].0;
        drop(pinned);
        cache.release(&handle);
        assert!(cache.get(&handle).is_none());
        (3000..6000).for_each(|n| drop(cache.insert(object(n))));
        assert!(cache.len() <= 160);
    }
}
