//! The storage that all gateways share: objects with the grace database and the records of clients,
//! and the metadata servers with their sessions and locks. Each method is one atomic operation.

use super::fault::ClusterFault;
use crate::client::CELLS;
use grace::{ClientRecord, Database, DatabaseChange, NodeId, Sessions, View};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::LockKind;

/// The reason why an operation changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replaced;

/// The object of a member.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeObject {
    /// The instance that may change it.
    pub(super) instance: u64,
    pub(super) host: String,
    /// The epoch of its last records.
    records: Option<u64>,
    pub(super) sessions: Sessions,
}

/// The records of a member in an epoch.
#[derive(Clone, Debug, Default)]
struct RecordObject {
    instance: u64,
    clients: BTreeMap<Vec<u8>, ClientRecord>,
}

/// The locked bytes of a file by session.
type FileLocks = BTreeMap<String, [Option<LockKind>; CELLS]>;

/// The storage of a cluster.
pub(super) struct SimStorage {
    fault: ClusterFault,
    version: u64,
    pub(super) database: Database,
    beats: BTreeMap<NodeId, u64>,
    nodes: BTreeMap<NodeId, NodeObject>,
    records: BTreeMap<(NodeId, u64), RecordObject>,
    /// Sessions with the metadata servers, and when each was heard of last.
    sessions: BTreeMap<String, Duration>,
    locks: BTreeMap<Vec<u8>, FileLocks>,
    /// When each instance took its name.
    claims: BTreeMap<(NodeId, u64), Duration>,
    /// Sessions that gateways have ended.
    ended: BTreeSet<String>,
    /// When a gateway last found a session that another had ended and not noted.
    interrupted: Option<Duration>,
}

impl SimStorage {
    pub(super) fn new(members: &[NodeId], fault: ClusterFault) -> Self {
        let mut database = Database::default();
        members.iter().for_each(|node| database.add(node.clone()));
        Self {
            fault,
            version: 1,
            database,
            beats: BTreeMap::new(),
            nodes: BTreeMap::new(),
            records: BTreeMap::new(),
            sessions: BTreeMap::new(),
            locks: BTreeMap::new(),
            claims: BTreeMap::new(),
            ended: BTreeSet::new(),
            interrupted: None,
        }
    }

    /// Gives a sign of life.
    pub(super) fn beat(&mut self, node: &NodeId, number: u64) {
        self.beats.insert(node.clone(), number);
    }

    pub(super) fn beats(&self) -> BTreeMap<NodeId, u64> {
        self.beats.clone()
    }

    /// Reads the database, with signs of life that were read before.
    pub(super) fn view(&self, beats: BTreeMap<NodeId, u64>) -> (u64, View) {
        (self.version, View { database: self.database.clone(), beats })
    }

    /// Changes the database if it is as it was read; returns whether it was.
    pub(super) fn write(&mut self, version: u64, change: DatabaseChange, now: Duration) -> bool {
        if version != self.version && self.fault != ClusterFault::WritesBlindly {
            return false;
        }
        self.version += 1;
        self.database = change.into_result();
        let nodes: Vec<NodeId> = self.database.nodes().map(|(node, _)| node.clone()).collect();
        for node in nodes {
            if let Some(instance) = self.database.instance(&node) {
                self.claims.entry((node, instance)).or_insert(now);
            }
        }
        true
    }

    /// Returns when a later instance took the name of one.
    pub(super) fn taken(&self, node: &NodeId, instance: u64) -> Option<Duration> {
        let later = (node.clone(), instance.saturating_add(1))..=(node.clone(), u64::MAX);
        self.claims.range(later).next().map(|(_, at)| *at)
    }

    pub(super) fn node(&self, node: &NodeId) -> NodeObject {
        self.nodes.get(node).cloned().unwrap_or_default()
    }

    /// Returns whether a member has left records of clients.
    pub(super) fn has_records(&self, node: &NodeId) -> bool {
        let object = self.node(node).records.and_then(|epoch| self.records.get(&(node.clone(), epoch)));
        object.is_some_and(|object| !object.clients.is_empty())
    }

    /// Takes over the object of a member for an instance.
    pub(super) fn take(&mut self, node: &NodeId, instance: u64, host: &str) -> Result<(), Replaced> {
        let object = self.nodes.entry(node.clone()).or_default();
        if object.instance > instance {
            return Err(Replaced);
        }
        object.instance = instance;
        object.host = host.to_owned();
        Ok(())
    }

    /// Takes over the last records of a member, and reads them.
    pub(super) fn take_records(
        &mut self,
        node: &NodeId,
        instance: u64,
    ) -> Result<BTreeMap<Vec<u8>, ClientRecord>, Replaced> {
        let Some(epoch) = self.node(node).records else { return Ok(BTreeMap::new()) };
        let Some(object) = self.records.get_mut(&(node.clone(), epoch)) else { return Ok(BTreeMap::new()) };
        if object.instance > instance {
            return Err(Replaced);
        }
        object.instance = instance;
        Ok(object.clients.clone())
    }

    /// Makes an object of records for an epoch, empty unless it has the last ones. Returns the
    /// owners in it.
    pub(super) fn begin_records(
        &mut self,
        node: &NodeId,
        instance: u64,
        epoch: u64,
    ) -> Result<Vec<Vec<u8>>, Replaced> {
        let is_last = self.node(node).records == Some(epoch);
        let object = self.records.entry((node.clone(), epoch)).or_default();
        if object.instance > instance {
            return Err(Replaced);
        }
        object.instance = instance;
        if !is_last {
            object.clients.clear();
        }
        Ok(object.clients.keys().cloned().collect())
    }

    /// Puts records down and removes others, by their owners. Returns false without the object.
    pub(super) fn change_records(
        &mut self,
        node: &NodeId,
        instance: u64,
        epoch: u64,
        put: Vec<ClientRecord>,
        removed: &[Vec<u8>],
    ) -> Result<bool, Replaced> {
        let Some(object) = self.records.get_mut(&(node.clone(), epoch)) else { return Ok(false) };
        if object.instance != instance {
            return Err(Replaced);
        }
        removed.iter().for_each(|owner| drop(object.clients.remove(owner)));
        for record in put {
            object.clients.insert(record.owner.clone(), record);
        }
        Ok(true)
    }

    /// Makes the records of an epoch the last ones.
    pub(super) fn point_to_records(
        &mut self,
        node: &NodeId,
        instance: u64,
        epoch: u64,
    ) -> Result<(), Replaced> {
        let object = self.owned(node, instance)?;
        let former = object.records.replace(epoch).filter(|former| *former != epoch);
        former.map(|former| self.records.remove(&(node.clone(), former)));
        Ok(())
    }

    /// Replaces the list of a member's sessions.
    pub(super) fn set_sessions(
        &mut self,
        node: &NodeId,
        instance: u64,
        sessions: Sessions,
    ) -> Result<(), Replaced> {
        self.owned(node, instance)?.sessions = sessions;
        Ok(())
    }

    fn owned(&mut self, node: &NodeId, instance: u64) -> Result<&mut NodeObject, Replaced> {
        self.nodes.get_mut(node).filter(|object| object.instance == instance).ok_or(Replaced)
    }

    /// Begins a session with the metadata servers.
    pub(super) fn mount(&mut self, identity: &str, now: Duration) {
        self.sessions.insert(identity.to_owned(), now);
    }

    /// Returns when a gateway last found a session that another had ended and not noted. It cannot
    /// know whether others have had the state since, so that clients may not reclaim it.
    pub(super) fn interrupted(&self) -> Option<Duration> {
        self.interrupted
    }

    /// Ends a session, whose locks are free then; returns whether there was one.
    pub(super) fn end_session(&mut self, identity: &str, now: Duration) -> bool {
        if self.fault == ClusterFault::FencesNobody {
            return self.sessions.contains_key(identity);
        }
        self.locks.values_mut().for_each(|sessions| sessions.retain(|session, _| *session != *identity));
        let found = self.sessions.remove(identity).is_some();
        if !self.ended.insert(identity.to_owned()) {
            self.interrupted = Some(now);
        }
        found || self.fault == ClusterFault::TrustsLostSessions
    }

    /// Ends the sessions of clients that are silent since a time, as metadata servers do.
    pub(super) fn evict_silent(&mut self, since: Duration) -> Vec<String> {
        let silent = self.sessions.iter().filter(|(_, seen)| **seen < since);
        let silent: Vec<String> = silent.map(|(identity, _)| identity.clone()).collect();
        for identity in &silent {
            self.locks.values_mut().for_each(|sessions| sessions.retain(|session, _| *session != *identity));
            self.sessions.remove(identity);
        }
        silent
    }

    /// Notes a sign of life of a session; returns whether it exists.
    pub(super) fn is_mounted(&mut self, identity: &str, now: Duration) -> bool {
        self.sessions.get_mut(identity).map(|seen| *seen = now).is_some()
    }

    /// Returns the first byte of a range that another session has locked against it.
    pub(super) fn conflict(
        &self,
        file: &[u8],
        identity: &str,
        cells: std::ops::Range<usize>,
        kind: LockKind,
    ) -> Option<(usize, LockKind)> {
        let others = self.locks.get(file)?.iter().filter(|(session, _)| *session != identity);
        let mut locked =
            others.flat_map(|(_, locks)| cells.clone().filter_map(|cell| Some((cell, locks[cell]?))));
        locked.find(|(_, other)| *other == LockKind::Write || kind == LockKind::Write)
    }

    /// Locks or unlocks a range for a session.
    pub(super) fn set_lock(
        &mut self,
        file: &[u8],
        identity: &str,
        cells: std::ops::Range<usize>,
        kind: Option<LockKind>,
    ) {
        let locks = self.locks.entry(file.to_vec()).or_default().entry(identity.to_owned()).or_default();
        locks[cells].fill(kind);
    }
}
