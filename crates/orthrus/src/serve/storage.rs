//! The storage of the server's state across restarts: its own state folder, or that of its cluster.

use super::exports::CephNode;
use super::membership::{Member, MemberStart, SessionLog, timing};
use super::recall_time;
use super::records::Records;
use super::store::{Boot, FolderLock, Store};
use crate::config::Settings;
use crate::service_manager::ServiceManager;
use server::engine::{ClientRecords, NoRecords};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The state of before, and the place of the state to come.
pub(super) struct StateStorage {
    pub(super) boot: Boot,
    /// The server's own name: no other server has it, and a restart keeps it.
    pub(super) owner: String,
    /// The name that it shares with servers that can take over from it.
    pub(super) scope: String,
    /// How long clients may reclaim.
    pub(super) grace: Duration,
    /// The membership in a cluster.
    pub(super) member: Option<Member>,
    records: Box<dyn ClientRecords>,
    sessions: Option<Arc<SessionLog>>,
    /// The name of this start for the metadata servers.
    identity: String,
    /// A copy of the lock of the state folder, for the next process.
    pub(super) lock: OwnedFd,
    /// The store of a server of its own.
    pub(super) store: Option<Arc<Store>>,
}

impl StateStorage {
    /// Opens the storage. As a member of a cluster, it waits until the file systems may be mounted.
    ///
    /// # Errors
    /// See [`Store::open`] and [`Member::join`].
    pub(super) fn open(
        settings: &Settings,
        directory: &Path,
        began: Instant,
        manager: &ServiceManager,
    ) -> anyhow::Result<Self> {
        let Some(cluster) = &settings.cluster else {
            let (store, boot) = Store::open(directory, settings.lease_time)?;
            return Self::of_store(settings, store, boot);
        };
        let lock = FolderLock::take(directory)?;
        let (member, start) = Member::join(settings, cluster, directory, began, manager)?;
        let MemberStart { boot, instance, records, sessions } = start;
        let scope = server_name(&boot);
        Ok(Self {
            boot,
            owner: format!("{scope}-{}", cluster.node),
            identity: format!("{scope}/{}/{instance}", cluster.node),
            scope,
            grace: timing(settings).1,
            member: Some(member),
            records: Box::new(records),
            sessions: Some(sessions),
            lock: lock.copy()?,
            store: None,
        })
    }

    /// Goes on with the storage of the previous process, as a server of its own.
    ///
    /// # Errors
    /// See [`Store::inherit`].
    pub(super) fn inherit(settings: &Settings, directory: &Path, lock: OwnedFd) -> anyhow::Result<Self> {
        let (store, boot) = Store::inherit(directory, lock, settings.lease_time)?;
        Self::of_store(settings, store, boot)
    }

    fn of_store(settings: &Settings, store: Store, boot: Boot) -> anyhow::Result<Self> {
        let grace = grace(settings, &store, !boot.prior_clients.is_empty());
        let (name, lock, store) = (server_name(&boot), store.lock()?, Arc::new(store));
        Ok(Self {
            boot,
            owner: name.clone(),
            scope: name.clone(),
            grace,
            member: None,
            records: Box::new(Records::new(store.clone())),
            sessions: None,
            identity: name,
            lock,
            store: Some(store),
        })
    }

    /// Returns the facts for backends of Ceph.
    pub(super) fn ceph_node(&self, settings: &Settings) -> CephNode {
        CephNode {
            identity: Some(self.identity.clone()),
            sessions: self.sessions.clone(),
            recall_time: recall_time(settings),
        }
    }

    /// Returns the records of clients, for the server.
    pub(super) fn take_records(&mut self) -> Box<dyn ClientRecords> {
        std::mem::replace(&mut self.records, Box::new(NoRecords))
    }
}

/// Returns how long clients may reclaim: at least for the lease that they know, since an idle one
/// notices the restart only when it renews (RFC 8881 section 8.4.2). With zero, none may.
fn grace(settings: &Settings, store: &Store, has_prior_clients: bool) -> Duration {
    if settings.grace_time.is_zero() {
        if has_prior_clients {
            tracing::warn!("grace_time = 0: clients have lost their opens and locks");
        }
        return Duration::ZERO;
    }
    let grace = settings.grace_time.max(store.former_lease());
    if has_prior_clients && grace > settings.grace_time {
        tracing::info!("the grace period is {} s: clients know this lease", grace.as_secs());
    }
    grace
}

/// Returns the name of a server, or of a cluster. Two must differ and one must stay itself, so it
/// is drawn from the secret that a restart keeps.
fn server_name(boot: &Boot) -> String {
    boot.secret.iter().take(8).fold("orthrus-".to_owned(), |name, byte| name + &format!("{byte:02x}"))
}
