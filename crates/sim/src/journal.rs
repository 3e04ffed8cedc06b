//! The records of clients that may reclaim, on a disk that a crash can catch half-way.

use crate::chance::Chance;
use crate::disk::Fuse;
use server::engine::{ClientRecords, journal_line, journal_owners};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The journal: survives the server.
#[derive(Clone, Default)]
pub struct Journal {
    file: Arc<Mutex<File>>,
    fuse: Fuse,
    /// A deliberate fault: what is recorded is never synced.
    pub forgets: bool,
}

#[derive(Default)]
struct File {
    text: String,
    synced: usize,
    owners: BTreeSet<Vec<u8>>,
}

impl Journal {
    /// Makes an empty journal on the disk whose fuse this is.
    pub fn new(fuse: Fuse, forgets: bool) -> Self {
        Self { fuse, forgets, ..Self::default() }
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine loses its power: of what was not synced some bytes are there, and some are not.
    pub fn lose_power(&self, chance: &mut Chance) {
        let mut file = self.file();
        let loose = file.text.len() - file.synced;
        let kept = if self.forgets { 0 } else { chance.below(loose + 1) };
        let end = file.synced + kept;
        file.text.truncate(end);
    }

    /// Reads the journal as a start does, and writes it anew.
    pub fn open(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut file = self.file();
        let owners =
            journal_owners(&file.text).map_err(|line| format!("the journal is damaged: {line:?}"))?;
        file.text = owners.iter().map(|owner| journal_line(owner, true)).collect();
        file.synced = file.text.len();
        file.owners = owners;
        Ok(file.owners.iter().cloned().collect())
    }

    fn change(&self, owner: &[u8], present: bool) {
        self.fuse.burn();
        let mut file = self.file();
        let changed = if present { file.owners.insert(owner.to_vec()) } else { file.owners.remove(owner) };
        if changed {
            file.text.push_str(&journal_line(owner, present));
        }
    }
}

impl ClientRecords for Journal {
    fn record(&self, owner: &[u8]) {
        self.change(owner, true);
    }

    fn forget(&self, owner: &[u8]) {
        self.change(owner, false);
    }

    fn sync(&self) {
        // Between writing and syncing.
        self.fuse.burn();
        if !self.forgets {
            let mut file = self.file();
            file.synced = file.text.len();
        }
    }

    fn may_wait(&self) -> bool {
        true
    }
}
