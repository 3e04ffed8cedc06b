//! Files with state: their opens with share reservations, and their locked ranges (RFC 8881 section
//! 9.1).

use crate::Opens;
use crate::delegations::{DelegationMode, HeldDelegation};
use crate::hash::Keyed;
use crate::locks::ranges::RangeTable;
use crate::locks::waits::LockWait;
use crate::opens::Open;
use crate::opens::shares::ShareCounts;
use crate::order::{Before, FileLevel, Guard, Held, Ordered};
use crate::slab::SlabKey;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::table::Stripes;
use crate::{ClientKey, Nfsstat4, Quotas, Result, State};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// A file with at least one open or delegation, or one that is being changed. It may have several
/// names (see [`State::with_views`]): to a client these are different files.
#[derive(Debug)]
pub(crate) struct FileState<F> {
    /// By open owner and view: each has at most one.
    pub(crate) opens: BTreeMap<(SlabKey, FileView), SlabKey>,
    pub(crate) shares: ShareCounts,
    /// Held by lock owners.
    pub(crate) ranges: RangeTable<SlabKey>,
    /// Each holder has at most one.
    pub(crate) delegations: BTreeMap<Holder, HeldDelegation>,
    /// Lock owners that wait for conflicting ranges; a notified one is removed.
    pub(crate) waits: Vec<LockWait<F>>,
    /// Changes under way that no open tells of.
    pub(crate) changing: u32,
}

/// The number of one of a file's names.
pub(crate) type FileView = u64;

/// A client that knows a file by one of its names.
pub(crate) type Holder = (ClientKey, FileView);

impl<F> Default for FileState<F> {
    fn default() -> Self {
        Self {
            opens: BTreeMap::new(),
            shares: ShareCounts::default(),
            ranges: RangeTable::default(),
            delegations: BTreeMap::new(),
            waits: Vec::new(),
            changing: 0,
        }
    }
}

impl<F> FileState<F> {
    /// Whether nothing is left to be known of it.
    pub(crate) fn is_idle(&self) -> bool {
        self.opens.is_empty() && self.delegations.is_empty() && self.changing == 0
    }
}

/// The files of one stripe.
pub(crate) type FilesOfStripe<F> = HashMap<F, FileState<F>, Keyed>;

/// All files with state, in stripes by name.
#[derive(Debug)]
pub(crate) struct Files<F> {
    stripes: Stripes<Ordered<RwLock<FilesOfStripe<F>>, FileLevel>>,
    hasher: Keyed,
}

impl<F: Clone + Eq + Hash> Files<F> {
    pub(crate) fn new(hash_key: [u8; 16]) -> Self {
        let hasher = Keyed(hash_key);
        let stripes = Stripes::new(|| Ordered::new(RwLock::new(HashMap::with_hasher(hasher.clone()))));
        Self { stripes, hasher }
    }

    /// A number that scatters files.
    pub(crate) fn hash(&self, name: &F) -> u64 {
        self.hasher.hash_one(name)
    }

    fn stripe(&self, name: &F) -> &Ordered<RwLock<FilesOfStripe<F>>, FileLevel> {
        // The map uses other bits of the hash.
        self.stripes.of(self.hash(name) >> 32)
    }

    /// Locks the stripe of a file for a change.
    pub(crate) fn lock<'g>(
        &'g self,
        held: &'g mut Held<impl Before<FileLevel>>,
        name: &F,
    ) -> Guard<RwLockWriteGuard<'g, FilesOfStripe<F>>, FileLevel> {
        self.stripe(name).write(held)
    }

    /// Locks the stripe of a file for a look.
    pub(crate) fn read<'g>(
        &'g self,
        held: &'g mut Held<impl Before<FileLevel>>,
        name: &F,
    ) -> Guard<RwLockReadGuard<'g, FilesOfStripe<F>>, FileLevel> {
        self.stripe(name).read(held)
    }

    /// Counts them, stripe by stripe.
    pub(crate) fn len(&self, held: &mut Held<impl Before<FileLevel>>) -> usize {
        self.stripes.iter().map(|stripe| stripe.read(held).len()).sum()
    }

    /// Returns the hasher of file names.
    pub(crate) fn hasher(&self) -> Keyed {
        self.hasher.clone()
    }

    /// Takes a file out of a state that is being restored, to complete it.
    pub(crate) fn take(&self, name: &F) -> Option<FileState<F>> {
        self.stripe(name).write(&mut Held::nothing()).remove(name)
    }

    /// Puts a file into a state that is being restored.
    pub(crate) fn put(&self, name: F, state: FileState<F>) {
        self.stripe(&name).write(&mut Held::nothing()).insert(name, state);
    }

    /// Runs a closure on each file, under the lock of its stripe.
    pub(crate) fn each(&self, mut run: impl FnMut(&F, &FileState<F>)) {
        for stripe in self.stripes.iter() {
            stripe.read(&mut Held::nothing()).iter().for_each(|(name, file)| run(name, file));
        }
    }
}

impl<F: Clone + Eq + Hash, O> Opens<'_, F, O> {
    /// Checks I/O with a special stateid against all share reservations; `access` as in
    /// [`crate::Opens::access`]. [`crate::Delegations::begin_change`] and
    /// [`crate::Delegations::check_unopened_read`] check conflicts with delegations.
    ///
    /// # Errors
    /// NFS4ERR_LOCKED (an open denies the access), NFS4ERR_GRACE.
    pub fn anonymous_access(&self, file: &F, access: u32) -> Result<()> {
        let held = &mut Held::nothing();
        if self.state.leases().refuses_new((self.state.is_shared)(file)) {
            return Err(Nfsstat4::NFS4ERR_GRACE);
        }
        let files = self.state.files.read(held, file);
        if files.get(file).is_some_and(|file| file.shares.union().deny & access != 0) {
            return Err(Nfsstat4::NFS4ERR_LOCKED);
        }
        Ok(())
    }

    /// Passes the payload of each of the client's opens of a file to `take`, or else the payload of
    /// its delegation, and returns the results.
    pub fn opened_by<R>(&self, client: ClientKey, file: &F, take: impl Fn(&O) -> R) -> Vec<R> {
        let held = &mut Held::nothing();
        let opens: Vec<SlabKey> = match self.state.files.read(held, file).get(file) {
            Some(file) => file.opens.values().copied().collect(),
            None => return Vec::new(),
        };
        let own = |open: &Open<F, O>| {
            (open.client == client && self.state.is_named(&open.file, file)).then(|| take(&open.payload))
        };
        let opened: Vec<R> =
            opens.into_iter().filter_map(|key| self.state.opens.read(key, own).flatten()).collect();
        if !opened.is_empty() {
            return opened;
        }
        self.state.delegations().own(client, file, DelegationMode::Read, take).into_iter().collect()
    }

    /// Returns whether anybody has the file open (for REMOVE and RENAME over it).
    pub fn is_open(&self, file: &F) -> bool {
        let held = &mut Held::nothing();
        self.state.files.read(held, file).get(file).is_some_and(|file| !file.opens.is_empty())
    }
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Lets files have several names: equal names denote one file, with common shares, locks and
    /// delegations, and `view` tells the names apart. To a client they are different files: its own
    /// delegation by one name does not cover an operation by another, and a stateid is valid only
    /// with the name that it was given for. By default all equal names are one.
    pub fn with_views(self, view: fn(&F) -> u64) -> Self {
        Self { view, ..self }
    }

    /// Sets the limits of single tenants, clients and groups of files.
    pub fn with_quotas(self, quotas: Arc<dyn Quotas>) -> Self {
        Self { quotas, ..self }
    }

    /// Returns the group of a file whose opens and locks have a limit together.
    pub(crate) fn group_of(&self, name: &F) -> u64 {
        self.quotas.group_of((self.view)(name))
    }

    /// Tells which files other servers serve as well (see [`crate::Leases::enforce_grace`]). By
    /// default all are such files.
    pub fn with_shared(self, is_shared: fn(&F) -> bool) -> Self {
        Self { is_shared, ..self }
    }

    /// Whether a name is the one that something was given for.
    pub(crate) fn is_named(&self, known: &F, name: &F) -> bool {
        known == name && (self.view)(known) == (self.view)(name)
    }
}
