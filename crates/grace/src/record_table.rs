//! The clients of a member between its server and the storage.

use crate::{ClientRecord, ReleaseProtection};
use std::collections::{BTreeMap, BTreeSet};

/// The clients of a member, as the storage has them or is to have them.
#[derive(Debug, Default)]
pub struct RecordTable {
    /// The epoch whose object has them.
    epoch: u64,
    clients: BTreeMap<Vec<u8>, ClientRecord>,
    /// Owners with records that are to be written.
    put: BTreeSet<Vec<u8>>,
    /// Owners whose records are to be removed, even if new ones are to be written afterwards.
    removed: BTreeSet<Vec<u8>>,
}

/// Changes that the storage does not have yet. The removals come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChanges {
    /// The epoch whose object changes.
    pub epoch: u64,
    /// Records of clients that are new or have changed.
    pub put: Vec<ClientRecord>,
    /// Owners whose records are to be removed.
    pub removed: Vec<Vec<u8>>,
}

impl RecordTable {
    /// Takes over the records of the former instance.
    pub fn take(&mut self, clients: impl IntoIterator<Item = ClientRecord>) {
        self.clients = clients.into_iter().map(|client| (client.owner.clone(), client)).collect();
    }

    /// Marks all clients as ones whose state was released in an epoch.
    pub fn release(&mut self, epoch: u64, protection: &ReleaseProtection) {
        let clients = std::mem::take(&mut self.clients).into_values();
        self.take(clients.map(|client| client.released_in(epoch, protection)));
    }

    /// Returns all clients, also to write them into the object of a new epoch.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = &ClientRecord> {
        self.clients.values()
    }

    /// Notes that the object of an epoch has these records. Changes since then are left to be
    /// written.
    pub fn begun(&mut self, epoch: u64, written: &[ClientRecord]) {
        let written: BTreeMap<_, _> = written.iter().map(|record| (&record.owner, record)).collect();
        let differs = |(owner, record): &(&Vec<u8>, &ClientRecord)| written.get(owner) != Some(record);
        self.put = self.clients.iter().filter(differs).map(|(owner, _)| owner.clone()).collect();
        let removed = written.keys().filter(|owner| !self.clients.contains_key(**owner));
        self.removed = removed.map(|owner| (*owner).clone()).collect();
        self.epoch = epoch;
    }

    /// Notes that all clients that are left have reclaimed their state. Those without
    /// RECLAIM_COMPLETE have not said so themselves.
    pub fn note_recovered(&mut self) {
        for client in self.clients.values_mut().filter(|client| client.released.is_some()) {
            client.released = None;
            self.put.insert(client.owner.clone());
        }
    }

    /// Records a client that has reclaimed everything.
    pub fn record(&mut self, owner: &[u8], principal: [u8; 16]) {
        let record = ClientRecord { owner: owner.to_vec(), principal, released: None };
        if self.clients.get(owner) != Some(&record) {
            self.clients.insert(owner.to_vec(), record);
            self.put.insert(owner.to_vec());
        }
    }

    /// Removes a client, which has no state any more or may not reclaim it.
    pub fn forget(&mut self, owner: &[u8]) {
        self.put.remove(owner);
        if self.clients.remove(owner).is_some() {
            self.removed.insert(owner.to_vec());
        }
    }

    /// Returns the changes that the storage does not have yet, if there are any.
    pub fn changes(&self) -> Option<RecordChanges> {
        if self.put.is_empty() && self.removed.is_empty() {
            return None;
        }
        let put = self.put.iter().filter_map(|owner| self.clients.get(owner)).cloned().collect();
        Some(RecordChanges { epoch: self.epoch, put, removed: self.removed.iter().cloned().collect() })
    }

    /// Returns the removals of [`RecordTable::changes`], if there are any. They do not wait for
    /// room, so they are written alone, and before the rest is looked up.
    pub fn removals(&self) -> Option<RecordChanges> {
        let changes = self.changes()?;
        (!changes.removed.is_empty()).then_some(RecordChanges { put: Vec::new(), ..changes })
    }

    /// Notes that the storage has changes of [`RecordTable::changes`]. A client that has changed
    /// again meanwhile is left to be written.
    pub fn written(&mut self, changes: &RecordChanges) {
        if self.epoch != changes.epoch {
            return;
        }
        for owner in &changes.removed {
            self.removed.remove(owner);
        }
        for record in &changes.put {
            match self.clients.get(&record.owner) {
                Some(now) if now == record => _ = self.put.remove(&record.owner),
                Some(_) => {}
                None => _ = self.removed.insert(record.owner.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(owner: &[u8]) -> ClientRecord {
        ClientRecord { owner: owner.to_vec(), principal: [1; 16], released: None }
    }

    fn changes(table: &RecordTable) -> (Vec<ClientRecord>, Vec<Vec<u8>>) {
        table.changes().map(|changes| (changes.put, changes.removed)).unwrap_or_default()
    }

    #[test]
    fn only_records_that_the_storage_lacks_are_written() {
        let mut table = RecordTable::default();
        table.take([client(b"a"), client(b"b")]);
        table.record(b"a", [1; 16]);
        table.forget(b"stranger");
        assert_eq!(table.changes(), None);
        table.record(b"a", [2; 16]);
        table.forget(b"b");
        let first = table.changes().unwrap();
        let changed = ClientRecord { principal: [2; 16], ..client(b"a") };
        assert_eq!((&first.put[..], &first.removed[..]), (&[changed][..], &[b"b".to_vec()][..]));
        // While they are written, the clients change again.
        table.record(b"a", [3; 16]);
        table.record(b"b", [1; 16]);
        table.written(&first);
        let changed = ClientRecord { principal: [3; 16], ..client(b"a") };
        assert_eq!(changes(&table), (vec![changed, client(b"b")], vec![]));
        assert_eq!(table.removals(), None);
        let second = table.changes().unwrap();
        table.written(&second);
        assert_eq!(table.changes(), None);
    }

    #[test]
    fn a_client_that_returns_and_goes_while_it_is_removed_is_removed_again() {
        let mut table = RecordTable::default();
        table.take([client(b"a")]);
        table.forget(b"a");
        table.record(b"a", [1; 16]);
        let written = table.changes().unwrap();
        table.forget(b"a");
        table.written(&written);
        assert_eq!(changes(&table), (vec![], vec![b"a".to_vec()]));
    }

    #[test]
    fn changes_during_the_write_of_a_new_object_are_written_next() {
        let mut table = RecordTable::default();
        table.take([client(b"a"), client(b"b")]);
        let before = table.changes();
        table.release(7, &ReleaseProtection { grace: Some(7), sessions_intact: true });
        let written: Vec<_> = table.clients().cloned().collect();
        assert!(before.is_none() && written.iter().all(|client| client.released == Some(7)));
        table.record(b"a", [1; 16]);
        table.forget(b"b");
        table.record(b"c", [1; 16]);
        let late = table.changes().unwrap();
        table.begun(7, &written);
        table.written(&late);
        assert_eq!(changes(&table), (vec![client(b"a"), client(b"c")], vec![b"b".to_vec()]));
        assert_eq!(table.changes().unwrap().epoch, 7);
    }

    #[test]
    fn a_removal_is_not_lost_when_its_client_comes_back() {
        let mut table = RecordTable::default();
        table.take([client(b"a")]);
        table.forget(b"a");
        table.record(b"a", [1; 16]);
        let removals = table.removals().unwrap();
        assert_eq!((removals.put.len(), &removals.removed[..]), (0, &[b"a".to_vec()][..]));
        table.written(&removals);
        assert_eq!((table.removals(), changes(&table)), (None, (vec![client(b"a")], vec![])));
    }

    #[test]
    fn clients_without_reclaim_complete_count_as_recovered_in_the_end() {
        let mut table = RecordTable::default();
        table.take([ClientRecord { released: Some(7), ..client(b"a") }, client(b"b")]);
        table.note_recovered();
        assert_eq!(changes(&table), (vec![client(b"a")], vec![]));
    }
}
