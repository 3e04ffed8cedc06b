//! From handles to objects.

use super::node::Node;
use crate::{ObjectHandle, VfsError, VfsResult};
use siphasher::sip::SipHasher13;
use std::{
    collections::HashMap,
    hash::Hasher,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// Maps that threads share the objects over, so that they seldom meet at one lock.
const SHARDS: usize = 64;
/// A handle: one byte that says so, the inode number, the generation.
const HANDLE_BYTES: usize = 17;
const HANDLE_MARK: u8 = b'm';

type NodeShard = RwLock<HashMap<u64, Arc<Node>>>;

/// All objects that have a name. Inode numbers are never used twice.
#[derive(Debug)]
pub(super) struct Table {
    shards: [NodeShard; SHARDS],
    next: AtomicU64,
    /// The key of generations, which are a keyed hash of the inode number: no handle can be guessed
    /// from another, and handles of an earlier process are stale. `None`: generations are the inode
    /// numbers.
    handle_key: Option<[u8; 16]>,
}

impl Table {
    pub(super) fn new(first: u64, handle_key: Option<[u8; 16]>) -> Self {
        let shards = std::array::from_fn(|_| RwLock::new(HashMap::new()));
        Self { shards, next: AtomicU64::new(first), handle_key }
    }

    fn generation(&self, ino: u64) -> u64 {
        self.handle_key.map_or(ino, |key| {
            let mut hasher = SipHasher13::new_with_key(&key);
            hasher.write_u64(ino);
            hasher.finish()
        })
    }

    pub(super) fn next_ino(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn shard(&self, ino: u64) -> &NodeShard {
        // The remainder is below SHARDS.
        &self.shards[(ino % SHARDS as u64) as usize]
    }

    fn read(&self, ino: u64) -> RwLockReadGuard<'_, HashMap<u64, Arc<Node>>> {
        self.shard(ino).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, ino: u64) -> RwLockWriteGuard<'_, HashMap<u64, Arc<Node>>> {
        self.shard(ino).write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, node: &Arc<Node>) {
        self.write(node.ino).insert(node.ino, Arc::clone(node));
    }

    pub(super) fn remove(&self, ino: u64) {
        let removed = self.write(ino).remove(&ino);
        // Dropped here, after the lock: a large file takes time to free.
        drop(removed);
    }

    pub(super) fn get(&self, ino: u64) -> Option<Arc<Node>> {
        self.read(ino).get(&ino).cloned()
    }

    pub(super) fn handle(&self, ino: u64) -> ObjectHandle {
        let mut bytes = [HANDLE_MARK; HANDLE_BYTES];
        bytes[1..9].copy_from_slice(&ino.to_be_bytes());
        bytes[9..].copy_from_slice(&self.generation(ino).to_be_bytes());
        ObjectHandle::new(&bytes).unwrap_or_else(ObjectHandle::empty)
    }

    /// Finds the object of a handle.
    ///
    /// # Errors
    /// `Badhandle` for a handle of no memory backend, `Stale` for an object that was removed or
    /// belongs to another process.
    pub(super) fn resolve(&self, handle: &ObjectHandle) -> VfsResult<Arc<Node>> {
        let bytes: &[u8; HANDLE_BYTES] = handle.as_bytes().try_into().map_err(|_| VfsError::Badhandle)?;
        let [HANDLE_MARK, rest @ ..] = bytes else { return Err(VfsError::Badhandle) };
        let (ino, generation) = rest.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let ino = number(ino);
        if self.generation(ino) != number(generation) {
            return Err(VfsError::Stale);
        }
        self.get(ino).ok_or(VfsError::Stale)
    }
}
