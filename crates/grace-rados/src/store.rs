//! The grace database, and signs of life.

use crate::StoreError;
use crate::notifier::Notifier;
use ceph::CephErrno;
use ceph::rados::{ObjectWatch, Rados, RadosCluster, RadosOptions, RadosPool, WriteStep};
use grace::{Database, DatabaseChange, NodeId, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the grace database that are read: more than it may have.
const DATA_READ: usize = 64;
/// The object with the signs of life.
const BEATS: &str = "orthrus-beats";
/// Members whose signs of life are read.
const BEATS_MAX: usize = 1024;

/// The place of the shared storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The connection to the Ceph cluster.
    pub cluster: RadosOptions,
    /// The name of the pool.
    pub pool: String,
    /// The namespace in the pool; empty for the default one.
    pub namespace: String,
    /// The name of the grace database.
    pub object: String,
}

/// The shared storage of a cluster.
#[derive(Debug)]
pub struct GraceStore {
    pub(crate) options: StoreOptions,
    cluster: Arc<RadosCluster>,
    pool: Arc<RadosPool>,
    /// For objects of members, which can be large: the database does not wait for them.
    objects: RadosPool,
    notifier: Notifier,
}

impl GraceStore {
    /// Connects to the storage. Each value has a connection of its own.
    ///
    /// # Errors
    /// `Library` and `Connection`, with the remedy.
    pub fn open(options: &StoreOptions) -> Result<Arc<Self>, StoreError> {
        let cluster = RadosCluster::connect(Rados::load()?, &options.cluster)?;
        let open_pool = || cluster.pool(&options.pool, &options.namespace);
        let pool = Arc::new(open_pool()?);
        // A notification sets the last version of its pool's handle, which must stay that of the
        // last read of the database.
        let notifier = Notifier::start(open_pool()?, options.object.clone());
        let objects = open_pool()?;
        Ok(Arc::new(Self { options: options.clone(), cluster, pool, objects, notifier }))
    }

    /// Returns the place of the storage.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Returns the connection to the Ceph cluster.
    pub fn cluster(&self) -> &Arc<RadosCluster> {
        &self.cluster
    }

    pub(crate) fn objects_pool(&self) -> &RadosPool {
        &self.objects
    }

    /// Explains an error of an operation on an object.
    pub(crate) fn failed(&self, object: &str, reason: CephErrno) -> StoreError {
        let object = object.to_owned();
        match reason.number() {
            libc::ESHUTDOWN => StoreError::Blocklisted,
            libc::ECANCELED => StoreError::Replaced,
            libc::EPERM | libc::EACCES => {
                let (user, pool) = (self.options.cluster.user.clone(), self.options.pool.clone());
                StoreError::Denied { user, object, pool }
            }
            _ => StoreError::Unavailable { object, reason },
        }
    }

    /// Makes the grace database of a new cluster; returns false if there is one.
    ///
    /// # Errors
    /// `Denied`, `Blocklisted`, `Unavailable`.
    pub fn create(&self) -> Result<bool, StoreError> {
        let object = &self.options.object;
        let data = Database::default().epochs().encode();
        match self.pool.write(object, &[WriteStep::CreateNew, WriteStep::Write(&data)]) {
            Ok(()) => Ok(true),
            Err(error) if error.number() == libc::EEXIST => Ok(false),
            Err(error) => Err(self.failed(object, error)),
        }
    }

    /// Reads the database, and returns its version for [`GraceStore::write`].
    ///
    /// # Errors
    /// `NoDatabase`, `Database`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn database(&self) -> Result<(u64, Database), StoreError> {
        let object = &self.options.object;
        let content = self.pool.read(object, DATA_READ).map_err(|error| match error.number() {
            libc::ENOENT => self.no_database(),
            _ => self.failed(object, error),
        })?;
        let database = if content.more {
            Err(grace::DatabaseError::TooMany)
        } else {
            Database::decode(&content.data, &content.omap, &content.xattrs)
        };
        let refuse = |reason| StoreError::Database { object: object.clone(), reason };
        Ok((content.version, database.map_err(refuse)?))
    }

    fn no_database(&self) -> StoreError {
        let StoreOptions { object, pool, namespace, .. } = &self.options;
        let namespace =
            if namespace.is_empty() { String::new() } else { format!(" (namespace {namespace})") };
        StoreError::NoDatabase { object: object.clone(), pool: pool.clone(), namespace }
    }

    /// Reads the database and the signs of life.
    ///
    /// # Errors
    /// As [`GraceStore::database`].
    pub fn view(&self) -> Result<(u64, View), StoreError> {
        let beats = self.beats()?;
        let (version, database) = self.database()?;
        Ok((version, View { database, beats }))
    }

    /// Changes the database, and notifies the members. Returns false if it has changed since
    /// `version` was read.
    ///
    /// # Errors
    /// `NoDatabase`, `Denied`, `Blocklisted`, and `Unavailable`: the change may have happened.
    pub fn write(&self, version: u64, change: &DatabaseChange) -> Result<bool, StoreError> {
        let object = &self.options.object;
        let data = change.epochs.map(grace::Epochs::encode);
        let flags: Vec<(&NodeId, [u8; 1])> =
            change.set.iter().map(|(node, flags)| (node, [flags.bits()])).collect();
        let mut steps = vec![WriteStep::AssertVersion(version)];
        steps.extend(data.as_ref().map(|data| WriteStep::Write(data)));
        if !flags.is_empty() {
            let entries = flags.iter().map(|(node, bits)| (node.as_bytes(), &bits[..]));
            steps.push(WriteStep::SetOmap(entries.collect()));
        }
        if !change.removed.is_empty() {
            steps.push(WriteStep::RemoveOmap(change.removed.iter().map(NodeId::as_bytes).collect()));
        }
        let attributes = change.attributes.iter();
        steps.extend(attributes.map(|(name, value)| WriteStep::SetXattr(name, value.as_bytes())));
        match self.pool.write(object, &steps) {
            Ok(()) => {}
            Err(error) if [libc::ERANGE, libc::EOVERFLOW].contains(&error.number()) => return Ok(false),
            Err(error) if error.number() == libc::ENOENT => return Err(self.no_database()),
            Err(error) => return Err(self.failed(object, error)),
        }
        self.notifier.ask();
        Ok(true)
    }

    /// Calls `changed`, on a thread of the library, when another member has changed the database.
    ///
    /// # Errors
    /// `NoDatabase`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn watch(&self, changed: Box<dyn Fn() + Send + Sync>) -> Result<ObjectWatch, StoreError> {
        let object = &self.options.object;
        self.pool.watch(object, changed).map_err(|error| match error.number() {
            libc::ENOENT => self.no_database(),
            _ => self.failed(object, error),
        })
    }

    /// Gives a sign of life: a number that differs from the last one.
    ///
    /// # Errors
    /// `Denied`, `Blocklisted`, `Unavailable`.
    pub fn beat(&self, node: &NodeId, number: u64) -> Result<(), StoreError> {
        let value = number.to_string();
        let entry = vec![(node.as_bytes(), value.as_bytes())];
        let steps = [WriteStep::Create, WriteStep::SetOmap(entry)];
        self.pool.write(BEATS, &steps).map_err(|error| self.failed(BEATS, error))
    }

    /// Reads the signs of life. Entries that are none are ignored.
    fn beats(&self) -> Result<BTreeMap<NodeId, u64>, StoreError> {
        let entries = match self.pool.read_omap(BEATS, BEATS_MAX) {
            Ok(entries) => entries,
            Err(error) if error.number() == libc::ENOENT => Vec::new(),
            Err(error) => return Err(self.failed(BEATS, error)),
        };
        let beat = |(node, number): (Vec<u8>, Vec<u8>)| {
            let text = |bytes| String::from_utf8(bytes).ok();
            Some((text(node)?.parse().ok()?, text(number)?.parse().ok()?))
        };
        Ok(entries.into_iter().filter_map(beat).collect())
    }

    /// Removes a sign of life, of a member that has left.
    ///
    /// # Errors
    /// As [`GraceStore::beat`].
    pub fn forget_beat(&self, node: &NodeId) -> Result<(), StoreError> {
        match self.pool.write(BEATS, &[WriteStep::RemoveOmap(vec![node.as_bytes()])]) {
            Err(error) if error.number() != libc::ENOENT => Err(self.failed(BEATS, error)),
            _ => Ok(()),
        }
    }
}
