//! The records of clients that may reclaim, on a disk that a crash can catch half-way.

use crate::disk::Fuse;
use crate::mutation::Mutation;
use crate::rng::Rng;
use server::engine::{
    ClientRecords, JournalOwners, SyncedRecords, journal_line, journal_line_gone, journal_owners,
};
use state::{PrincipalHash, PriorClient};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first bytes of the names of NFSv4.0 clients in the journal.
const V40_PREFIX: &[u8] = b"\0NFSv4.0\0";

/// The journal: survives the server.
#[derive(Clone, Default)]
pub(crate) struct SimJournal {
    file: Arc<Mutex<File>>,
    fuse: Fuse,
    /// A deliberate fault of the journal, if any.
    mutation: Mutation,
}

#[derive(Default)]
struct File {
    text: String,
    synced: usize,
    owners: JournalOwners,
}

impl SimJournal {
    /// Makes an empty journal on a disk with this fuse.
    pub(crate) fn new(fuse: Fuse, mutation: Mutation) -> Self {
        Self { fuse, mutation, ..Self::default() }
    }

    /// A deliberate fault: records are never synced.
    fn forgets(&self) -> bool {
        self.mutation == Mutation::JournalNotSynced
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops any number of the unsynced bytes at the end, as a power failure does.
    pub(crate) fn lose_power(&self, rng: &mut Rng) {
        let mut file = self.file();
        let loose = file.text.len() - file.synced;
        let kept = if self.forgets() { 0 } else { rng.below(loose + 1) };
        let end = file.synced + kept;
        file.text.truncate(end);
    }

    /// Reads the journal as a start does, and writes it anew.
    pub(crate) fn open(&self) -> Result<Vec<PriorClient>, String> {
        let mut file = self.file();
        let owners =
            journal_owners(&file.text).map_err(|line| format!("the journal is damaged: {line:?}"))?;
        file.text = owners.iter().map(|(owner, principal)| journal_line(owner, *principal)).collect();
        file.synced = file.text.len();
        file.owners = owners;
        let prior = file.owners.iter();
        Ok(prior
            .map(|(owner, principal)| PriorClient { owner: owner.clone(), principal: *principal })
            .collect())
    }

    fn append(&self, change: impl FnOnce(&mut JournalOwners) -> Option<String>) {
        self.fuse.burn();
        let mut file = self.file();
        if let Some(line) = change(&mut file.owners) {
            file.text.push_str(&line);
        }
    }
}

impl ClientRecords for SimJournal {
    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        if self.mutation == Mutation::V40NotRecorded && owner.starts_with(V40_PREFIX) {
            return;
        }
        self.append(|owners| {
            let before = owners.insert(owner.to_vec(), Some(principal));
            (before != Some(Some(principal))).then(|| journal_line(owner, Some(principal)))
        });
    }

    fn forget(&self, owner: &[u8]) {
        self.append(|owners| owners.remove(owner).map(|_| journal_line_gone(owner)));
    }

    fn sync(&self) -> SyncedRecords {
        // Between writing and syncing.
        self.fuse.burn();
        if !self.forgets() {
            let mut file = self.file();
            file.synced = file.text.len();
        }
        SyncedRecords::All
    }

    fn may_wait(&self) -> bool {
        true
    }
}
