//! Descriptors of objects that were in use lately.

use crate::foreign::Descriptor;
use rustix::fs::FileType;
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use vfs::ObjectHandle;

/// Independent parts, so that threads seldom meet at one lock.
const SHARDS: usize = 16;

/// An object held open by path only: good for attributes and as a starting point, not for data.
#[derive(Debug)]
pub(crate) struct CachedObject {
    pub(crate) handle: ObjectHandle,
    pub(crate) ino: u64,
    pub(crate) file_type: FileType,
    pub(crate) fd: Descriptor,
    /// A directory opened for reading, once its changes had to be synchronised.
    pub(crate) sync_fd: OnceLock<Descriptor>,
}

impl CachedObject {
    pub(crate) fn new(handle: ObjectHandle, ino: u64, file_type: FileType, fd: Descriptor) -> Self {
        Self { handle, ino, file_type, fd, sync_fd: OnceLock::new() }
    }
}

impl AsFd for CachedObject {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[derive(Debug)]
struct CacheSlot {
    object: Arc<CachedObject>,
    /// Used since the hand came by; a new one has to earn it.
    used: bool,
    /// Used or made since the last trim.
    fresh: bool,
}

/// One part of the cache: a ring of slots. The hand that goes round spares slots used since its
/// last visit.
#[derive(Debug, Default)]
struct CachePart {
    index: HashMap<ObjectHandle, usize>,
    slots: Vec<CacheSlot>,
    hand: usize,
}

/// At most `max` objects, each one descriptor or two; objects that were not used recently are
/// evicted first.
#[derive(Debug)]
pub(crate) struct ObjectCache {
    shards: [Mutex<CachePart>; SHARDS],
    shard_max: usize,
    hasher: RandomState,
}

impl ObjectCache {
    pub(crate) fn new(max: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, shard_max: (max / SHARDS).max(1), hasher: RandomState::new() }
    }

    fn shard(&self, handle: &ObjectHandle) -> MutexGuard<'_, CachePart> {
        // The remainder is below SHARDS.
        let shard = &self.shards[(self.hasher.hash_one(handle) % SHARDS as u64) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, handle: &ObjectHandle) -> Option<Arc<CachedObject>> {
        let mut shard = self.shard(handle);
        let at = *shard.index.get(handle)?;
        let slot = shard.slots.get_mut(at)?;
        slot.used = true;
        slot.fresh = true;
        Some(Arc::clone(&slot.object))
    }

    /// Keeps an object and returns the one to use: an equal one that was there before stays.
    pub(crate) fn insert(&self, object: CachedObject) -> Arc<CachedObject> {
        let object = Arc::new(object);
        let mut shard = self.shard(&object.handle);
        let there = shard.index.get(&object.handle).and_then(|at| shard.slots.get(*at));
        if let Some(slot) = there {
            return Arc::clone(&slot.object);
        }
        let evicted = shard.put(Arc::clone(&object), self.shard_max);
        drop(shard);
        // Closed after the lock is gone: the last descriptor of a removed file frees its blocks.
        drop(evicted);
        object
    }

    /// Lets go of an object, so that a removed one does not keep its space.
    pub(crate) fn forget(&self, handle: &ObjectHandle) {
        let mut shard = self.shard(handle);
        let at = shard.index.get(handle).copied();
        let slot = at.and_then(|at| shard.take(at));
        drop(shard);
        drop(slot);
    }

    /// Drops objects that were not used since the last call.
    pub(crate) fn trim(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let idle: Vec<ObjectHandle> =
                shard.slots.iter().filter(|slot| !slot.fresh).map(|slot| slot.object.handle).collect();
            shard.slots.iter_mut().for_each(|slot| slot.fresh = false);
            let gone: Vec<Option<CacheSlot>> = idle
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

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().slots.len()).sum()
    }
}

impl CachePart {
    /// Adds an object; when full it takes the place of another, which is returned.
    fn put(&mut self, object: Arc<CachedObject>, max: usize) -> Option<CacheSlot> {
        let handle = object.handle;
        let slot = CacheSlot { object, used: false, fresh: true };
        if self.slots.len() < max {
            self.index.insert(handle, self.slots.len());
            self.slots.push(slot);
            return None;
        }
        self.spare_the_used();
        let victim = std::mem::replace(self.slots.get_mut(self.hand)?, slot);
        self.index.remove(&victim.object.handle);
        self.index.insert(handle, self.hand);
        self.hand += 1;
        Some(victim)
    }

    /// Moves the hand to the next slot that was not used since it came by last.
    fn spare_the_used(&mut self) {
        // After one round everything counts as unused, so the second ends.
        for _ in 0..=self.slots.len() {
            self.hand = if self.hand >= self.slots.len() { 0 } else { self.hand };
            match self.slots.get_mut(self.hand) {
                Some(slot) if slot.used => slot.used = false,
                _ => return,
            }
            self.hand += 1;
        }
        self.hand = 0;
    }

    /// Removes a slot; the last one takes its place.
    fn take(&mut self, at: usize) -> Option<CacheSlot> {
        if at >= self.slots.len() {
            return None;
        }
        let slot = self.slots.swap_remove(at);
        self.index.remove(&slot.object.handle);
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.object.handle, at);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(n: u64) -> CachedObject {
        let fd = rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let handle = ObjectHandle::new(&n.to_be_bytes()).unwrap();
        CachedObject::new(handle, n, FileType::Directory, Descriptor::new(fd, None))
    }

    #[test]
    fn the_cache_never_holds_more_than_its_limit_and_keeps_what_is_used() {
        let cache = ObjectCache::new(160);
        let favourite = cache.insert(object(0)).handle;
        for n in 1..2000 {
            cache.insert(object(n));
            assert!(cache.get(&favourite).is_some());
        }
        assert!(cache.len() <= 160);
    }

    #[test]
    fn what_is_forgotten_or_idle_for_two_trims_is_closed() {
        let cache = ObjectCache::new(160);
        let handles: Vec<ObjectHandle> = (0..20).map(|n| cache.insert(object(n)).handle).collect();
        cache.forget(&handles[3]);
        assert!(cache.get(&handles[3]).is_none());
        cache.trim();
        assert!(cache.get(&handles[5]).is_some());
        cache.trim();
        assert_eq!(cache.len(), 1);
        assert!(cache.get(&handles[5]).is_some());
    }
}
