//! The records of a gateway's clients, which are in the storage before a call goes on.

use super::fault::ClusterFault;
use super::storage::{Replaced, SimStorage};
use crate::disk::Crash;
use crate::rng::Rng;
use grace::{ClientRecord, NodeId, RecordChanges, RecordTable, ReleaseProtection};
use server::engine::{ClientRecords, SyncedRecords};
use state::{PrincipalHash, PriorClient};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A hash that no principal of a simulation has.
const NOBODY: [u8; 16] = [0xff; 16];

#[derive(Default)]
struct GatewayRecordTable {
    records: RecordTable,
    /// Whether changes are to be written.
    waits: bool,
}

impl GatewayRecordTable {
    fn look(&mut self) {
        self.waits = self.records.changes().is_some();
    }
}

/// One call in this many dies when it writes a record.
const DIES_ONE_IN: usize = 100;

/// The records, shared by a server and the driver of its membership.
#[derive(Clone)]
pub(super) struct GatewayRecords {
    table: Arc<Mutex<GatewayRecordTable>>,
    fault: ClusterFault,
    storage: Arc<Mutex<SimStorage>>,
    node: NodeId,
    /// The number of the instance; 0 before it has one.
    pub(super) instance: Arc<AtomicU64>,
    /// Whether the storage cannot be reached.
    pub(super) cut: Arc<AtomicBool>,
    /// Whether faults still happen in the run.
    pub(super) disturbed: Arc<AtomicBool>,
    /// Whether the process has died while it wrote a record.
    pub(super) dead: Arc<AtomicBool>,
    rng: Arc<Mutex<Rng>>,
}

impl GatewayRecords {
    pub(super) fn new(fault: ClusterFault, storage: Arc<Mutex<SimStorage>>, node: NodeId, rng: Rng) -> Self {
        Self {
            table: Arc::default(),
            fault,
            storage,
            node,
            instance: Arc::default(),
            cut: Arc::default(),
            disturbed: Arc::default(),
            dead: Arc::default(),
            rng: Arc::new(Mutex::new(rng)),
        }
    }

    fn table(&self) -> MutexGuard<'_, GatewayRecordTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the records of a former instance; returns whether there are any.
    pub(super) fn take(&self, clients: BTreeMap<Vec<u8>, ClientRecord>) -> bool {
        let mut table = self.table();
        table.records.take(clients.into_values());
        table.records.clients().len() > 0
    }

    /// Marks all clients as ones whose state was released in an epoch, and returns those that are
    /// waited for.
    pub(super) fn release(&self, epoch: u64, protection: &ReleaseProtection) -> Vec<PriorClient> {
        let mut table = self.table();
        table.records.release(epoch, protection);
        let prior = table.records.clients().map(|client| {
            let hash = if client.released == Some(epoch) { client.principal } else { NOBODY };
            PriorClient { owner: client.owner.clone(), principal: Some(PrincipalHash(hash)) }
        });
        prior.collect()
    }

    /// Returns all clients, for the object of a new epoch.
    pub(super) fn all(&self) -> Vec<ClientRecord> {
        self.table().records.clients().cloned().collect()
    }

    /// Notes that the object of an epoch has `written`. Changes since then are left to be written.
    pub(super) fn begun(&self, epoch: u64, written: &[ClientRecord]) {
        let mut table = self.table();
        table.records.begun(epoch, written);
        table.look();
    }

    /// Notes that all clients that are left have reclaimed.
    pub(super) fn note_recovered(&self) {
        let mut table = self.table();
        table.records.note_recovered();
        table.look();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().records.clients().len() == 0
    }

    /// Returns whether replies have to wait.
    pub(super) fn waits(&self) -> bool {
        self.table().waits
    }

    /// Returns the changes that are to be written.
    pub(super) fn changes(&self) -> Option<RecordChanges> {
        let table = self.table();
        table.waits.then(|| table.records.changes()).flatten()
    }

    /// Notes that changes are in the storage.
    pub(super) fn flushed(&self, changes: &RecordChanges) {
        let mut table = self.table();
        table.records.written(changes);
        table.look();
    }

    /// Writes changes, in one operation of the storage.
    pub(super) fn write(&self, changes: RecordChanges) -> Result<bool, Replaced> {
        if self.fault == ClusterFault::RecordsLost {
            return Ok(true);
        }
        let mut storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        let RecordChanges { epoch, put, removed } = changes;
        storage.change_records(&self.node, self.instance.load(Relaxed), epoch, put, &removed)
    }

    fn draw(&self, n: usize) -> bool {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).one_in(n)
    }

    /// Ends the process in the middle of a call.
    fn die(&self) -> ! {
        self.dead.store(true, Relaxed);
        resume_unwind(Box::new(Crash))
    }
}

impl ClientRecords for GatewayRecords {
    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        self.table().records.record(owner, principal.0);
    }

    fn forget(&self, owner: &[u8]) {
        self.table().records.forget(owner);
    }

    fn sync(&self) -> SyncedRecords {
        self.table().look();
        let Some(changes) = self.changes() else { return SyncedRecords::All };
        // A call waits for the storage, here until its process is killed.
        let dies = self.cut.load(Relaxed) || self.disturbed.load(Relaxed) && self.draw(DIES_ONE_IN);
        if self.dead.load(Relaxed) || dies && (self.cut.load(Relaxed) || self.draw(2)) {
            self.die();
        }
        match self.write(changes.clone()) {
            Ok(true) if !dies => {
                self.flushed(&changes);
                SyncedRecords::All
            }
            // Another instance has the records, or it dies after the record is written.
            _ => self.die(),
        }
    }

    fn may_wait(&self) -> bool {
        true
    }
}
