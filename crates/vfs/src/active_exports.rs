//! The active exports, which a reload replaces.

use crate::ExportTable;
use arc_swap::ArcSwap;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Copies of the active table.
const COPIES: usize = 16;

/// The table in force; a reload replaces it while requests under way keep the one they took.
///
/// Each request takes a snapshot, and counts the exports that it touches up and down. So that
/// threads do not meet at the same counters, there are copies of the table, each with exports of
/// its own, and a thread always uses the same one.
#[derive(Debug)]
pub struct Exports(ArcSwap<TableCopies>);

type TableCopies = [Arc<ExportTable>; COPIES];

/// Numbers threads as they come.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COPY: usize = THREADS.fetch_add(1, Relaxed) % COPIES;
}

fn copies(table: &ExportTable) -> Arc<TableCopies> {
    Arc::new(std::array::from_fn(|_| Arc::new(table.copy())))
}

impl Exports {
    /// Puts the first table in force.
    pub fn new(table: ExportTable) -> Self {
        Self(ArcSwap::new(copies(&table)))
    }

    /// Returns the table in force now.
    pub fn snapshot(&self) -> Arc<ExportTable> {
        // The number is below COPIES.
        Arc::clone(&self.0.load()[COPY.with(|copy| *copy)])
    }

    /// Puts another table in force for all threads at once and returns the former.
    pub fn replace(&self, table: ExportTable) -> Arc<ExportTable> {
        let former = self.0.swap(copies(&table));
        Arc::clone(&former[0])
    }
}
