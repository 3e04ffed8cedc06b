//! The records of a gateway's clients, which are in the storage before a call goes on.

use super::fault::ClusterFault;
use super::storage::{Replaced, SimStorage};
use crate::disk::Crash;
use crate::rng::Rng;
use grace::{ClientRecord, NodeId, ReleaseProtection};
use server::engine::ClientRecords;
use state::{PrincipalHash, PriorClient};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A hash that no principal of a simulation has.
const NOBODY: [u8; 16] = [0xff; 16];

/// The changes that are not in the storage yet: an epoch, records to put down, owners to remove.
pub(super) type RecordChanges = (u64, Vec<ClientRecord>, Vec<Vec<u8>>);

#[derive(Default)]
struct GatewayRecordTable {
    epoch: u64,
    clients: BTreeMap<Vec<u8>, ClientRecord>,
    put: BTreeSet<Vec<u8>>,
    removed: BTreeSet<Vec<u8>>,
    /// Whether changes are to be written.
    waits: bool,
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
        table.clients = clients;
        !table.clients.is_empty()
    }

    /// Marks all clients as ones whose state was released in an epoch, and returns those that are
    /// waited for.
    pub(super) fn release(&self, epoch: u64, protection: &ReleaseProtection) -> Vec<PriorClient> {
        let mut table = self.table();
        let clients = std::mem::take(&mut table.clients).into_values();
        let clients = clients.map(|client| client.released_in(epoch, protection));
        table.clients = clients.map(|client| (client.owner.clone(), client)).collect();
        let prior = table.clients.values().map(|client| {
            let hash = if client.released == Some(epoch) { client.principal } else { NOBODY };
            PriorClient { owner: client.owner.clone(), principal: Some(PrincipalHash(hash)) }
        });
        prior.collect()
    }

    /// Returns all clients, for the object of a new epoch.
    pub(super) fn all(&self) -> Vec<ClientRecord> {
        self.table().clients.values().cloned().collect()
    }

    /// Notes that the object of an epoch has `written`. Changes since then are left to be written.
    pub(super) fn begun(&self, epoch: u64, written: &[ClientRecord]) {
        let mut table = self.table();
        let written: BTreeMap<_, _> = written.iter().map(|record| (&record.owner, record)).collect();
        let differs = |(owner, record): &(&Vec<u8>, &ClientRecord)| written.get(owner) != Some(record);
        let put = table.clients.iter().filter(differs).map(|(owner, _)| owner.clone()).collect();
        let removed = written.keys().filter(|owner| !table.clients.contains_key(**owner));
        let removed: BTreeSet<_> = removed.map(|owner| (*owner).clone()).collect();
        (table.epoch, table.put, table.removed) = (epoch, put, removed);
        table.waits = !table.put.is_empty() || !table.removed.is_empty();
    }

    /// Notes that all clients that are left have reclaimed.
    pub(super) fn settle(&self) {
        let mut table = self.table();
        let GatewayRecordTable { clients, put, waits, .. } = &mut *table;
        for client in clients.values_mut().filter(|client| client.released.is_some()) {
            client.released = None;
            put.insert(client.owner.clone());
            *waits = true;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().clients.is_empty()
    }

    /// Returns whether replies have to wait.
    pub(super) fn waits(&self) -> bool {
        self.table().waits
    }

    /// Returns the changes that are to be written.
    pub(super) fn changes(&self) -> Option<RecordChanges> {
        let table = self.table();
        let put = table.put.iter().filter_map(|owner| table.clients.get(owner)).cloned().collect();
        table.waits.then(|| (table.epoch, put, table.removed.iter().cloned().collect()))
    }

    /// Notes that changes are in the storage.
    pub(super) fn flushed(&self, (epoch, put, removed): &RecordChanges) {
        let mut table = self.table();
        if table.epoch != *epoch {
            return;
        }
        for record in
            put.iter().filter(|record| table.clients.get(&record.owner) == Some(record)).collect::<Vec<_>>()
        {
            table.put.remove(&record.owner);
        }
        table.removed.retain(|owner| !removed.contains(owner));
        table.waits = !table.put.is_empty() || !table.removed.is_empty();
    }

    /// Writes changes, in one operation of the storage.
    pub(super) fn write(&self, (epoch, put, removed): RecordChanges) -> Result<bool, Replaced> {
        if self.fault == ClusterFault::RecordsLost {
            return Ok(true);
        }
        let mut storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
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
        let record = ClientRecord { owner: owner.to_vec(), principal: principal.0, released: None };
        let mut table = self.table();
        table.removed.remove(owner);
        if table.clients.get(owner) != Some(&record) {
            table.clients.insert(owner.to_vec(), record);
            table.put.insert(owner.to_vec());
        }
    }

    fn forget(&self, owner: &[u8]) {
        let mut table = self.table();
        table.put.remove(owner);
        if table.clients.remove(owner).is_some() {
            table.removed.insert(owner.to_vec());
        }
    }

    fn sync(&self) {
        let waits = |table: &GatewayRecordTable| !table.put.is_empty() || !table.removed.is_empty();
        let changes = {
            let mut table = self.table();
            table.waits = waits(&table);
            drop(table);
            self.changes()
        };
        let Some(changes) = changes else { return };
        // A call waits for the storage, here until its process is killed.
        let dies = self.cut.load(Relaxed) || self.disturbed.load(Relaxed) && self.draw(DIES_ONE_IN);
        if self.dead.load(Relaxed) || dies && (self.cut.load(Relaxed) || self.draw(2)) {
            self.die();
        }
        match self.write(changes.clone()) {
            Ok(true) if !dies => self.flushed(&changes),
            // Another instance has the records, or it dies after the record is written.
            _ => self.die(),
        }
    }

    fn may_wait(&self) -> bool {
        true
    }
}
