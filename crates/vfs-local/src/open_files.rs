//! The files that clients have open, by their fileids.
//!
//! A file without names lives on while a client has it open, as on a local file system: fchmod(2)
//! and access(2) work after another client has removed it. Without an open its handle is stale,
//! though a descriptor of the cache may keep the file alive.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Independent parts, so that threads seldom meet at one lock.
const SHARDS: usize = 16;

/// The number of opens of each file.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    shards: [Mutex<HashMap<u64, usize>>; SHARDS],
}

/// Counts as an open of a file until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedOpen {
    files: Arc<OpenFiles>,
    ino: u64,
}

impl OpenFiles {
    fn shard(&self, ino: u64) -> MutexGuard<'_, HashMap<u64, usize>> {
        // The remainder is below SHARDS.
        self.shards[(ino % SHARDS as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an open of a file.
    pub(crate) fn count(self: &Arc<Self>, ino: u64) -> CountedOpen {
        *self.shard(ino).entry(ino).or_default() += 1;
        CountedOpen { files: Arc::clone(self), ino }
    }

    /// Says whether a client has the file open.
    pub(crate) fn is_open(&self, ino: u64) -> bool {
        self.shard(ino).contains_key(&ino)
    }
}

impl Clone for CountedOpen {
    fn clone(&self) -> Self {
        self.files.count(self.ino)
    }
}

impl Drop for CountedOpen {
    fn drop(&mut self) {
        let mut shard = self.files.shard(self.ino);
        if let Some(count) = shard.get_mut(&self.ino) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&self.ino);
            }
        }
    }
}
