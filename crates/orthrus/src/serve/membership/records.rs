//! The records of clients that may reclaim, in RADOS.

use super::ending;
use grace::{ClientRecord, RecordChanges, RecordTable, ReleaseProtection};
use grace_rados::{NodeObjects, StoreError};
use server::LogLimit;
use server::engine::{ClientRecords, SyncedRecords};
use state::{PrincipalHash, PriorClient};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The pause between attempts while the storage does not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// The objects that have the records.
pub(super) trait RecordObjects: Send + Sync {
    /// Writes all clients into the object of an epoch, as [`NodeObjects::begin_records`] does.
    fn begin(&self, epoch: u64, clients: &[ClientRecord]) -> Result<(), StoreError>;

    /// Changes the records of some clients, as [`NodeObjects::change_records`] does.
    fn change(&self, changes: &RecordChanges) -> Result<(), StoreError>;
}

impl RecordObjects for NodeObjects {
    fn begin(&self, epoch: u64, clients: &[ClientRecord]) -> Result<(), StoreError> {
        self.begin_records(epoch, clients)
    }

    fn change(&self, changes: &RecordChanges) -> Result<(), StoreError> {
        self.change_records(changes.epoch, &changes.put, &changes.removed)
    }
}

/// The records, shared by the server and the thread of the cluster.
pub(super) struct RecordStore {
    objects: OnceLock<Arc<dyn RecordObjects>>,
    /// Not held while the storage is asked: the thread of the cluster looks at it, and must keep in
    /// contact.
    table: Mutex<RecordTable>,
    /// Held for one operation of the storage, so that the table and the objects change in one
    /// order.
    writing: Mutex<()>,
    began: Instant,
    errors: LogLimit,
}

impl RecordStore {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            objects: OnceLock::new(),
            table: Mutex::default(),
            writing: Mutex::default(),
            began: Instant::now(),
            errors: LogLimit::default(),
        })
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
        let _in_order = self.in_order();
        let clients: Vec<ClientRecord> = self.table().clients().cloned().collect();
        objects.begin(epoch, &clients)?;
        self.table().begun(epoch, &clients);
        Ok(())
    }

    fn in_order(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that all clients that are left have reclaimed their state. Waits for the storage.
    pub(super) fn note_recovered(&self) {
        self.table().note_recovered();
        self.write();
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.table().clients().len()
    }

    /// Writes all changes. While the storage does not take them it tries again: a client must not
    /// hear of a record that another instance could not read.
    fn write(&self) {
        while self.try_to_write() != SyncedRecords::All {
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Tries once to write all changes: first the removals, which a full pool takes.
    fn try_to_write(&self) -> SyncedRecords {
        let Some(objects) = self.objects.get() else { return SyncedRecords::All };
        let _in_order = self.in_order();
        let removals = self.table().removals();
        if !self.try_to_change(objects, removals) {
            return SyncedRecords::Few;
        }
        let changes = self.table().changes();
        if self.try_to_change(objects, changes) { SyncedRecords::All } else { SyncedRecords::Removals }
    }

    /// Returns whether the storage has these changes.
    fn try_to_change(&self, objects: &Arc<dyn RecordObjects>, changes: Option<RecordChanges>) -> bool {
        let Some(changes) = changes else { return true };
        match objects.change(&changes) {
            Ok(()) => self.table().written(&changes),
            Err(error) if error.is_final() => ending::end_for(&error.into()),
            Err(error) => {
                if let Some(suppressed) = self.errors.permit(self.began.elapsed()) {
                    tracing::error!(suppressed, "cluster: clients wait for their records: {error}");
                }
                return false;
            }
        }
        true
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

    fn sync(&self) -> SyncedRecords {
        self.0.try_to_write()
    }

    fn pause(&self) {
        std::thread::sleep(RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Objects that hang until the test lets them go on.
    struct Hanging {
        called: Sender<()>,
        go_on: Mutex<Receiver<()>>,
        stored: Mutex<Vec<RecordChanges>>,
    }

    impl Hanging {
        fn hang(&self) {
            self.called.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }

    impl RecordObjects for Hanging {
        fn begin(&self, epoch: u64, clients: &[ClientRecord]) -> Result<(), StoreError> {
            self.hang();
            let changes = RecordChanges { epoch, put: clients.to_vec(), removed: Vec::new() };
            self.stored.lock().unwrap().push(changes);
            Ok(())
        }

        fn change(&self, changes: &RecordChanges) -> Result<(), StoreError> {
            self.hang();
            self.stored.lock().unwrap().push(changes.clone());
            Ok(())
        }
    }

    #[test]
    fn the_thread_of_the_cluster_does_not_wait_for_a_record_that_is_written() {
        let ((called, calls), (go, go_on)) = (channel(), channel());
        let objects = Arc::new(Hanging { called, go_on: Mutex::new(go_on), stored: Mutex::default() });
        let store = RecordStore::new();
        assert!(store.objects.set(objects.clone()).is_ok());
        let records = ClusterRecords::new(Arc::clone(&store));
        std::thread::scope(|scope| {
            records.record(b"a", PrincipalHash([1; 16]));
            scope.spawn(|| assert_eq!(records.sync(), SyncedRecords::All));
            calls.recv().unwrap();
            assert_eq!(store.len(), 1);
            // Another client changes the table, and a new epoch begins behind the writer.
            records.record(b"b", PrincipalHash([2; 16]));
            let begun = scope.spawn(|| store.begin(7));
            assert_eq!(store.len(), 2);
            go.send(()).unwrap();
            calls.recv().unwrap();
            go.send(()).unwrap();
            assert!(begun.join().unwrap().is_ok());
        });
        assert_eq!(records.sync(), SyncedRecords::All);
        let stored = objects.stored.lock().unwrap();
        let written: Vec<_> = stored.iter().map(|changes| (changes.epoch, changes.put.len())).collect();
        assert_eq!(written, [(0, 1), (7, 2)]);
    }

    /// Objects in a full pool, which takes removals.
    #[derive(Default)]
    struct Full {
        is_full: AtomicBool,
        removed: Mutex<Vec<Vec<u8>>>,
    }

    impl RecordObjects for Full {
        fn begin(&self, _: u64, _: &[ClientRecord]) -> Result<(), StoreError> {
            Ok(())
        }

        fn change(&self, changes: &RecordChanges) -> Result<(), StoreError> {
            if !changes.put.is_empty() && self.is_full.load(Relaxed) {
                let (user, object, pool) = Default::default();
                return Err(StoreError::Denied { user, object, pool });
            }
            self.removed.lock().unwrap().extend_from_slice(&changes.removed);
            Ok(())
        }
    }

    #[test]
    fn a_full_pool_keeps_no_removal_waiting() {
        let objects = Arc::new(Full::default());
        let store = RecordStore::new();
        assert!(store.objects.set(objects.clone()).is_ok());
        let records = ClusterRecords::new(store);
        records.record(b"leaves", PrincipalHash([1; 16]));
        assert_eq!(records.sync(), SyncedRecords::All);
        objects.is_full.store(true, Relaxed);
        records.record(b"new", PrincipalHash([2; 16]));
        records.forget(b"leaves");
        assert_eq!(records.sync(), SyncedRecords::Removals);
        assert_eq!(*objects.removed.lock().unwrap(), [b"leaves".to_vec()]);
        assert_eq!(records.sync(), SyncedRecords::Removals);
        objects.is_full.store(false, Relaxed);
        assert_eq!(records.sync(), SyncedRecords::All);
    }
}
