//! The records of clients that may reclaim, in RADOS.

use super::ending;
use grace::{ClientRecord, ReleaseProtection};
use grace_rados::{NodeObjects, StoreError};
use server::LogLimit;
use server::engine::ClientRecords;
use state::{PrincipalHash, PriorClient};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The pause between attempts while the storage does not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// The clients of this member, as the storage has them or will have them.
#[derive(Default)]
struct RecordTable {
    /// The epoch whose object has them.
    epoch: u64,
    clients: BTreeMap<Vec<u8>, ClientRecord>,
    /// Owners with records that are to be written.
    put: BTreeSet<Vec<u8>>,
    /// Owners whose records are to be removed.
    removed: BTreeSet<Vec<u8>>,
}

/// The records, shared by the server and the thread of the cluster.
pub(super) struct RecordStore {
    objects: OnceLock<Arc<NodeObjects>>,
    table: Mutex<RecordTable>,
    began: Instant,
    errors: LogLimit,
}

impl RecordStore {
    pub(super) fn new() -> Arc<Self> {
        let (objects, table) = (OnceLock::new(), Mutex::default());
        Arc::new(Self { objects, table, began: Instant::now(), errors: LogLimit::default() })
    }

    fn table(&self) -> MutexGuard<'_, RecordTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the records of the former instance, and returns whether there are any.
    ///
    /// # Errors
    /// See [`NodeObjects::take_records`].
    pub(super) fn take(&self, objects: Arc<NodeObjects>) -> Result<bool, StoreError> {
        let clients = objects.take_records()?;
        let _ = self.objects.set(objects);
        let mut table = self.table();
        table.clients = clients.into_iter().map(|client| (client.owner.clone(), client)).collect();
        Ok(!table.clients.is_empty())
    }

    /// Marks all clients as ones whose state was released in an epoch. Returns those that reclaim
    /// or have to be waited for, and the number of those that may reclaim.
    pub(super) fn release(&self, epoch: u64, protection: &ReleaseProtection) -> (Vec<PriorClient>, usize) {
        let mut table = self.table();
        let clients = std::mem::take(&mut table.clients).into_values();
        let clients = clients.map(|client| client.released_in(epoch, protection));
        table.clients = clients.map(|client| (client.owner.clone(), client)).collect();
        let may = |client: &&ClientRecord| client.released == Some(epoch);
        let prior = table.clients.values().map(|client| {
            let hash = if may(&client) { client.principal } else { nobody() };
            PriorClient { owner: client.owner.clone(), principal: Some(PrincipalHash(hash)) }
        });
        (prior.collect(), table.clients.values().filter(may).count())
    }

    /// Writes all clients into the object of an epoch, which has them from then on.
    ///
    /// # Errors
    /// See [`NodeObjects::begin_records`].
    pub(super) fn begin(&self, epoch: u64) -> Result<(), StoreError> {
        let Some(objects) = self.objects.get() else { return Ok(()) };
        let mut table = self.table();
        let clients: Vec<ClientRecord> = table.clients.values().cloned().collect();
        objects.begin_records(epoch, &clients)?;
        table.epoch = epoch;
        table.put.clear();
        table.removed.clear();
        Ok(())
    }

    /// Notes that all clients that are left have reclaimed their state. Those without
    /// RECLAIM_COMPLETE have not said so themselves.
    pub(super) fn settle(&self) {
        let mut table = self.table();
        let RecordTable { clients, put, .. } = &mut *table;
        for client in clients.values_mut().filter(|client| client.released.is_some()) {
            client.released = None;
            put.insert(client.owner.clone());
        }
        drop(table);
        self.write();
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.table().clients.len()
    }

    fn put(&self, owner: &[u8], principal: PrincipalHash) {
        let record = ClientRecord { owner: owner.to_vec(), principal: principal.0, released: None };
        let mut table = self.table();
        table.removed.remove(owner);
        if table.clients.get(owner) != Some(&record) {
            table.clients.insert(owner.to_vec(), record);
            table.put.insert(owner.to_vec());
        }
    }

    fn remove(&self, owner: &[u8]) {
        let mut table = self.table();
        table.put.remove(owner);
        if table.clients.remove(owner).is_some() {
            table.removed.insert(owner.to_vec());
        }
    }

    /// Writes all changes. While the storage does not answer it tries again: a client must not hear
    /// of a record that another instance could not read.
    fn write(&self) {
        let Some(objects) = self.objects.get() else { return };
        loop {
            let mut table = self.table();
            let put: Vec<ClientRecord> =
                table.put.iter().filter_map(|owner| table.clients.get(owner)).cloned().collect();
            let removed: Vec<Vec<u8>> = table.removed.iter().cloned().collect();
            if put.is_empty() && removed.is_empty() {
                return;
            }
            match objects.change_records(table.epoch, &put, &removed) {
                Ok(()) => {
                    table.put.clear();
                    table.removed.clear();
                    return;
                }
                Err(error) if error.is_final() => ending::end_now(&error),
                Err(error) => {
                    if let Some(suppressed) = self.errors.permit(self.began.elapsed()) {
                        tracing::error!(
                            suppressed,
                            "cluster: clients wait, since one cannot be recorded: {error}"
                        );
                    }
                }
            }
            drop(table);
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

/// Returns a hash that no principal has.
fn nobody() -> [u8; 16] {
    let mut hash = [0; 16];
    // Without randomness a fixed number is as hard to meet.
    let _ = getrandom::fill(&mut hash);
    hash
}

/// The records as the server writes them.
pub(in crate::serve) struct ClusterRecords(Arc<RecordStore>);

impl ClusterRecords {
    pub(super) fn new(store: Arc<RecordStore>) -> Self {
        Self(store)
    }
}

impl ClientRecords for ClusterRecords {
    fn may_wait(&self) -> bool {
        true
    }

    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        self.0.put(owner, principal);
    }

    fn forget(&self, owner: &[u8]) {
        self.0.remove(owner);
    }

    fn sync(&self) {
        self.0.write();
    }
}
