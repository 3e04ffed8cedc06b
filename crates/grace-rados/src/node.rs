//! The objects of one member: its sessions, and the records of its clients.

use crate::{GraceStore, StoreError};
use ceph::rados::WriteStep;
use grace::{ClientRecord, NodeId, Sessions, record_object};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The attribute with the number of the instance that may change an object.
const INSTANCE: &str = "instance";
/// The keys of the object of a member.
const RECORDS: &str = "records";
const ENDING: &str = "ending";
const CLOSING: &str = "closing";
const LOST: &str = "lost";
const HOST: &str = "host";
const SESSION_PREFIX: &str = "session:";
/// Sessions and other keys of a member; a member with more cannot be read.
const KEYS_MAX: usize = 4096;
/// Client records of a member that a start takes over; with more it fails.
const CLIENTS_MAX: usize = 1 << 20;
/// Records that one operation writes.
const RECORDS_STEP: usize = 1000;

/// The facts about a member that others may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSummary {
    /// The number of the instance that may change the objects.
    pub instance: u64,
    /// The machine of that instance.
    pub host: String,
    /// The epoch of its last records.
    pub records: Option<u64>,
    /// Its sessions with the metadata servers.
    pub sessions: Sessions,
}

/// The objects of a member, in the hands of one instance.
#[derive(Debug)]
pub struct NodeObjects {
    store: Arc<GraceStore>,
    node: NodeId,
    object: String,
    /// The number of the instance as the attribute has it.
    instance: String,
}

impl GraceStore {
    /// Reads the facts about a member.
    ///
    /// # Errors
    /// `Damaged`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn node(&self, node: &NodeId) -> Result<NodeSummary, StoreError> {
        self.read_node(node).map(|(_, summary)| summary)
    }

    fn read_node(&self, node: &NodeId) -> Result<(Option<u64>, NodeSummary), StoreError> {
        let object = node_object(node);
        let content = match self.objects_pool().read(&object, 0) {
            Ok(content) => content,
            Err(error) if error.number() == libc::ENOENT => return Ok((None, NodeSummary::default())),
            Err(error) => return Err(self.failed(&object, error)),
        };
        let damaged = |what: &str| StoreError::Damaged {
            object: object.clone(),
            reason: format!("{what}; remove it with `rados rm`: the clients of {node} cannot reclaim then"),
        };
        if content.more || content.omap.len() > KEYS_MAX {
            return Err(damaged("it has too many keys"));
        }
        let mut summary = NodeSummary::default();
        let instance = content.xattrs.iter().find(|(name, _)| name == INSTANCE);
        summary.instance =
            instance.and_then(|(_, value)| epoch(value)).ok_or_else(|| damaged("it has no number"))?;
        for (key, value) in content.omap {
            let (Ok(key), Ok(text)) = (String::from_utf8(key), String::from_utf8(value.clone())) else {
                return Err(damaged("a key or a value is no text"));
            };
            let number = || epoch(&value).ok_or_else(|| damaged(&format!("{key:.64} is no number")));
            match key.strip_prefix(SESSION_PREFIX) {
                Some(identity) => drop(summary.sessions.open.insert(identity.to_owned(), text)),
                None if key == RECORDS => summary.records = Some(number()?),
                None if key == ENDING => summary.sessions.ending = Some(number()?),
                None if key == CLOSING => summary.sessions.closing = Some(number()?),
                None if key == LOST => summary.sessions.lost = true,
                None if key == HOST => summary.host = text,
                None => {}
            }
        }
        Ok((Some(content.version), summary))
    }

    /// Reads the last records of a member.
    ///
    /// # Errors
    /// `Damaged`, `Record`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn records(&self, node: &NodeId) -> Result<Vec<ClientRecord>, StoreError> {
        match self.node(node)?.records {
            Some(epoch) => self.read_records(&record_object(epoch, node)),
            None => Ok(Vec::new()),
        }
    }

    fn read_records(&self, object: &str) -> Result<Vec<ClientRecord>, StoreError> {
        let entries = match self.objects_pool().read_omap(object, CLIENTS_MAX) {
            Ok(entries) => entries,
            Err(error) if error.number() == libc::ENOENT => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(object, error)),
        };
        let refuse = |reason| StoreError::Record { object: object.to_owned(), reason };
        entries.iter().map(|(key, value)| ClientRecord::decode(key, value).map_err(refuse)).collect()
    }

    /// Takes over the objects of a member for an instance. Former instances cannot change them from
    /// now on.
    ///
    /// # Errors
    /// `Replaced` if a later instance has them, `Damaged`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn take(
        self: &Arc<Self>,
        node: &NodeId,
        instance: u64,
        host: &str,
    ) -> Result<NodeObjects, StoreError> {
        let (object, number) = (node_object(node), instance_value(instance));
        let entry = || vec![(HOST.as_bytes(), host.as_bytes())];
        let own = || [WriteStep::SetXattr(INSTANCE, number.as_bytes()), WriteStep::SetOmap(entry())];
        let new = [&[WriteStep::CreateNew][..], &own()].concat();
        let taken = match self.objects_pool().write(&object, &new) {
            Err(error) if error.number() == libc::EEXIST => {
                let guard = [WriteStep::XattrAtMost(INSTANCE, number.as_bytes())];
                self.objects_pool().write(&object, &[&guard[..], &own()].concat())
            }
            taken => taken,
        };
        taken.map_err(|error| self.failed(&object, error))?;
        Ok(NodeObjects { store: Arc::clone(self), node: node.clone(), object, instance: number })
    }

    /// Removes the objects of a member that has left.
    ///
    /// # Errors
    /// `Damaged`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn remove_node(&self, node: &NodeId) -> Result<(), StoreError> {
        let records = self.node(node)?.records.map(|epoch| record_object(epoch, node));
        records.iter().chain([&node_object(node)]).try_for_each(|object| self.remove(object))?;
        self.forget_beat(node)
    }

    fn remove(&self, object: &str) -> Result<(), StoreError> {
        match self.objects_pool().write(object, &[WriteStep::Remove]) {
            Err(error) if error.number() != libc::ENOENT => Err(self.failed(object, error)),
            _ => Ok(()),
        }
    }
}

impl NodeObjects {
    /// Takes over the last records, and reads them.
    ///
    /// # Errors
    /// `Replaced`, `Damaged`, `Record`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn take_records(&self) -> Result<Vec<ClientRecord>, StoreError> {
        let Some(epoch) = self.store.node(&self.node)?.records else { return Ok(Vec::new()) };
        let object = record_object(epoch, &self.node);
        let number = self.instance.as_bytes();
        let steps = [
            WriteStep::AssertExists,
            WriteStep::XattrAtMost(INSTANCE, number),
            WriteStep::SetXattr(INSTANCE, number),
        ];
        match self.store.objects_pool().write(&object, &steps) {
            Ok(()) => self.store.read_records(&object),
            Err(error) if error.number() == libc::ENOENT => Ok(Vec::new()),
            Err(error) => Err(self.store.failed(&object, error)),
        }
    }

    /// Writes the records of an epoch anew. They are the last ones from then on, and former ones
    /// are removed.
    ///
    /// An instance can die at any step, and its successor finds the clients: the object that has
    /// the last records is never without them.
    ///
    /// # Errors
    /// `Replaced`, `Damaged`, `Record`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn begin_records(&self, epoch: u64, clients: &[ClientRecord]) -> Result<(), StoreError> {
        let former = self.store.node(&self.node)?.records;
        let object = record_object(epoch, &self.node);
        self.begin_object(&object, former != Some(epoch))?;
        self.change_records(epoch, clients, &[])?;
        if former == Some(epoch) {
            let kept: BTreeSet<&[u8]> = clients.iter().map(|client| &client.owner[..]).collect();
            let owners = self.store.read_records(&object)?.into_iter().map(|client| client.owner);
            let stale: Vec<Vec<u8>> = owners.filter(|owner| !kept.contains(&owner[..])).collect();
            return self.change_records(epoch, &[], &stale);
        }
        let value = instance_value(epoch);
        self.change(&[WriteStep::SetOmap(vec![(RECORDS.as_bytes(), value.as_bytes())])])?;
        // One that stays behind does no harm.
        let _ = former.map(|former| self.store.remove(&record_object(former, &self.node)));
        Ok(())
    }

    /// Makes an object for records, or makes one this instance's and perhaps empties it.
    fn begin_object(&self, object: &str, empties: bool) -> Result<(), StoreError> {
        let number = self.instance.as_bytes();
        let own = WriteStep::SetXattr(INSTANCE, number);
        let failed = |error| self.store.failed(object, error);
        match self.store.objects_pool().write(object, &[WriteStep::CreateNew, own.clone()]) {
            Err(error) if error.number() == libc::EEXIST => {
                let guard = WriteStep::XattrAtMost(INSTANCE, number);
                let clear = empties.then_some(WriteStep::ClearOmap);
                let steps: Vec<WriteStep<'_>> = [guard, own].into_iter().chain(clear).collect();
                self.store.objects_pool().write(object, &steps).map_err(failed)
            }
            made => made.map_err(failed),
        }
    }

    /// Changes records of an epoch: removes some by their owners, and then puts others down.
    ///
    /// # Errors
    /// `Replaced`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn change_records(
        &self,
        epoch: u64,
        put: &[ClientRecord],
        removed: &[Vec<u8>],
    ) -> Result<(), StoreError> {
        let object = record_object(epoch, &self.node);
        for some in removed.chunks(RECORDS_STEP) {
            let keys: Vec<Vec<u8>> = some.iter().map(|owner| ClientRecord::key(owner)).collect();
            let step = WriteStep::RemoveOmap(keys.iter().map(Vec::as_slice).collect());
            self.guarded(&object, &[step])?;
        }
        put.chunks(RECORDS_STEP).try_for_each(|some| self.put_all(&object, some))
    }

    fn put_all(&self, object: &str, clients: &[ClientRecord]) -> Result<(), StoreError> {
        let entry = |client: &ClientRecord| {
            (ClientRecord::key(&client.owner), ClientRecord::value(client.principal, client.released))
        };
        let entries: Vec<(Vec<u8>, Vec<u8>)> = clients.iter().map(entry).collect();
        let entries = entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice()));
        self.guarded(object, &[WriteStep::SetOmap(entries.collect())])
    }

    /// Changes an object that belongs to this instance.
    fn guarded(&self, object: &str, steps: &[WriteStep<'_>]) -> Result<(), StoreError> {
        let guard = WriteStep::XattrIs(INSTANCE, self.instance.as_bytes());
        let steps = [&[guard][..], steps].concat();
        self.store.objects_pool().write(object, &steps).map_err(|error| self.store.failed(object, error))
    }

    fn change(&self, steps: &[WriteStep<'_>]) -> Result<(), StoreError> {
        self.guarded(&self.object, steps)
    }

    /// Reads the sessions of the member.
    ///
    /// # Errors
    /// `Damaged`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn sessions(&self) -> Result<Sessions, StoreError> {
        self.store.node(&self.node).map(|summary| summary.sessions)
    }

    /// Puts the sessions of the member down.
    ///
    /// # Errors
    /// `Replaced`, `Damaged`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn set_sessions(&self, sessions: &Sessions) -> Result<(), StoreError> {
        let (before, after) = (keys(&self.sessions()?), keys(sessions));
        let gone = before.keys().filter(|key| !after.contains_key(*key)).map(String::as_bytes).collect();
        let set = after.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        self.change(&[WriteStep::RemoveOmap(gone), WriteStep::SetOmap(set)])
    }
}

/// Returns the keys and values of sessions.
fn keys(sessions: &Sessions) -> BTreeMap<String, String> {
    let open = sessions.open.iter();
    let open = open.map(|(identity, address)| (format!("{SESSION_PREFIX}{identity}"), address.clone()));
    let epoch = |key: &str, epoch: Option<u64>| Some((key.to_owned(), instance_value(epoch?)));
    open.chain(epoch(ENDING, sessions.ending))
        .chain(epoch(CLOSING, sessions.closing))
        .chain(sessions.lost.then(|| (LOST.to_owned(), String::new())))
        .collect()
}

fn node_object(node: &NodeId) -> String {
    format!("orthrus-node:{node}")
}

/// Returns a number in the form in which numbers compare as text.
fn instance_value(number: u64) -> String {
    format!("{number:016x}")
}

fn epoch(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() == 16)?;
    u64::from_str_radix(text, 16).ok()
}
