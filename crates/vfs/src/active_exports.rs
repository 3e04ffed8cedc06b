//! The active exports, which a reload replaces.

use crate::ExportTable;
use std::sync::{
    Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Copies of the active table.
const COPIES: usize = 16;

/// The table in force; a reload replaces it while requests under way keep the one they took.
///
/// Each request takes a snapshot, and counts the exports that it touches up and down. So that
/// threads do not meet at one lock and at the same counters, there are copies of the table, each
/// with exports of its own, and a thread always uses the same one.
#[derive(Debug)]
pub struct Exports {
    copies: [TableCopy; COPIES],
}

/// A copy has cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
struct TableCopy(RwLock<Arc<ExportTable>>);

impl TableCopy {
    fn read(&self) -> RwLockReadGuard<'_, Arc<ExportTable>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Arc<ExportTable>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers threads as they come.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COPY: usize = THREADS.fetch_add(1, Relaxed) % COPIES;
}

impl Exports {
    /// Puts the first table in force.
    pub fn new(table: ExportTable) -> Self {
        Self { copies: std::array::from_fn(|_| TableCopy(RwLock::new(Arc::new(table.copy())))) }
    }

    /// Returns the table in force now.
    pub fn snapshot(&self) -> Arc<ExportTable> {
        // The number is below COPIES.
        Arc::clone(&self.copies[COPY.with(|copy| *copy)].read())
    }

    /// Puts another table in force for all threads at once and returns the former.
    pub fn replace(&self, table: ExportTable) -> Arc<ExportTable> {
        let mut all = self.copies.each_ref().map(TableCopy::write);
        let former = Arc::clone(&all[0]);
        all.iter_mut().for_each(|current| **current = Arc::new(table.copy()));
        former
    }
}
