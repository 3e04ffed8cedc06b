//! The entries of a directory, by name and by cookie.

use super::budget::MemoryBudget;
use crate::VfsResult;
use std::{collections::BTreeMap, collections::HashMap, sync::Arc};

/// First cookie; 0, 1 and 2 are reserved (RFC 8881 section 18.23.3).
const COOKIE_FIRST: u64 = 3;
/// The bytes that an entry costs beside its name.
const ENTRY_BYTES: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct MemoryEntry {
    ino: u64,
    cookie: u64,
}

/// Entries with cookies that stay with a name from its making to its removal.
#[derive(Debug)]
pub(super) struct Directory {
    /// The directory above; the root's is itself.
    pub(super) parent: u64,
    by_name: HashMap<Arc<[u8]>, MemoryEntry>,
    by_cookie: BTreeMap<u64, (Arc<[u8]>, u64)>,
    next_cookie: u64,
    bytes: u64,
    budget: Arc<MemoryBudget>,
}

impl Directory {
    pub(super) fn new(parent: u64, budget: Arc<MemoryBudget>) -> Self {
        Self {
            parent,
            by_name: HashMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: COOKIE_FIRST,
            bytes: 0,
            budget,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u64> {
        self.by_name.get(name).map(|entry| entry.ino)
    }

    /// Adds a name, or lets an existing one (with its cookie) lead to another object.
    pub(super) fn insert(&mut self, name: &[u8], ino: u64) -> VfsResult<()> {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.ino = ino;
            if let Some(slot) = self.by_cookie.get_mut(&entry.cookie) {
                slot.1 = ino;
            }
            return Ok(());
        }
        let cost = ENTRY_BYTES + name.len() as u64;
        self.budget.take_bytes(cost)?;
        self.bytes += cost;
        let name: Arc<[u8]> = name.into();
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.by_cookie.insert(cookie, (Arc::clone(&name), ino));
        self.by_name.insert(name, MemoryEntry { ino, cookie });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(entry) = self.by_name.remove(name) {
            self.by_cookie.remove(&entry.cookie);
            let cost = ENTRY_BYTES + name.len() as u64;
            self.bytes -= cost;
            self.budget.give_bytes(cost);
        }
    }

    /// Returns whether READDIR can go on from a cookie that this directory gave.
    pub(super) fn knows(&self, cookie: u64) -> bool {
        cookie == 0 || (COOKIE_FIRST..self.next_cookie).contains(&cookie)
    }

    /// Returns at most `count` entries after a cookie: cookie, name, inode number.
    pub(super) fn after(&self, cookie: u64, count: usize) -> Vec<(u64, Arc<[u8]>, u64)> {
        let entries = self.by_cookie.range(cookie.saturating_add(1)..).take(count);
        entries.map(|(cookie, (name, ino))| (*cookie, Arc::clone(name), *ino)).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.budget.give_bytes(self.bytes);
    }
}
