//! The records of clients that may reclaim, in RADOS.

use super::ending;
use grace::{ClientRecord, RecordTable, ReleaseProtection};
use grace_rados::{NodeObjects, StoreError};
use server::LogLimit;
use server::engine::ClientRecords;
use state::{PrincipalHash, PriorClient};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The pause between attempts while the storage does not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

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
        table.take(clients);
        Ok(table.clients().len() > 0)
    }

    /// Marks all clients as ones whose state was released in an epoch. Returns those that reclaim
    /// or have to be waited for, and the number of those that may reclaim.
    pub(super) fn release(&self, epoch: u64, protection: &ReleaseProtection) -> (Vec<PriorClient>, usize) {
        let mut table = self.table();
        table.release(epoch, protection);
        let may = |client: &&ClientRecord| client.released == Some(epoch);
        let prior = table.clients().map(|client| {
            let hash = if may(&client) { client.principal } else { nobody() };
            PriorClient { owner: client.owner.clone(), principal: Some(PrincipalHash(hash)) }
        });
        (prior.collect(), table.clients().filter(may).count())
    }

    /// Writes all clients into the object of an epoch, which has them from then on.
    ///
    /// # Errors
    /// See [`NodeObjects::begin_records`].
    pub(super) fn begin(&self, epoch: u64) -> Result<(), StoreError> {
        let Some(objects) = self.objects.get() else { return Ok(()) };
        let mut table = self.table();
        let clients: Vec<ClientRecord> = table.clients().cloned().collect();
        objects.begin_records(epoch, &clients)?;
        table.begun(epoch, &clients);
        Ok(())
    }

    /// Notes that all clients that are left have reclaimed their state.
    pub(super) fn note_recovered(&self) {
        self.table().note_recovered();
        self.write();
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.table().clients().len()
    }

    /// Writes all changes. While the storage does not answer it tries again: a client must not hear
    /// of a record that another instance could not read.
    fn write(&self) {
        let Some(objects) = self.objects.get() else { return };
        loop {
            let mut table = self.table();
            let Some(changes) = table.changes() else { return };
            match objects.change_records(changes.epoch, &changes.put, &changes.removed) {
                Ok(()) => return table.written(&changes),
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
        self.0.table().record(owner, principal.0);
    }

    fn forget(&self, owner: &[u8]) {
        self.0.table().forget(owner);
    }

    fn sync(&self) {
        self.0.write();
    }
}
