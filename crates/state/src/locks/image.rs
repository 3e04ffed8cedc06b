//! Images of lock stateids, locked ranges, waiting lock owners and notices of unlocked ranges.

use crate::ClientKey;
use crate::clients::image::RestoredClients;
use crate::clients::users::User;
use crate::files::{FileState, Files};
use crate::groups::FileGroups;
use crate::locks::ranges::{LockMode, LockRange};
use crate::locks::waits::{LockNotice, LockWait, NOTICES_MAX, Notices};
use crate::locks::{LockState, LockTable};
use crate::opens::image::{OwnerOf, OwnersByKey};
use crate::opens::{OpenTable, OwnerKind};
use crate::order::{Held, Leaf};
use crate::slab::SlabKey;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicUsize;
use crate::table::Table;
use crate::table::image::{KeyImage, TableImage};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

/// The image of a lock stateid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct LockImage {
    #[n(0)]
    owner: KeyImage,
    #[n(1)]
    open: KeyImage,
    #[n(2)]
    seqid: u32,
}

/// The ranges and waiting owners of a file, named by `F`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct FileImage<F> {
    #[n(0)]
    file: F,
    #[n(1)]
    ranges: Vec<HeldImage>,
    #[n(2)]
    waits: Vec<WaitImage<F>>,
}

/// The locked ranges of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct HeldImage {
    #[n(0)]
    owner: KeyImage,
    #[n(1)]
    ranges: Vec<RangeImage>,
}

/// A range: its first and last byte, and whether it is for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct RangeImage(#[n(0)] u64, #[n(1)] u64, #[n(2)] bool);

/// A lock owner that waits for a range.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct WaitImage<F> {
    #[n(0)]
    file: F,
    #[n(1)]
    client: KeyImage,
    #[n(2)]
    clientid: u64,
    #[n(3)]
    name: SharedBytes,
    #[n(4)]
    owner: KeyImage,
    #[n(5)]
    range: RangeImage,
}

/// Notices of unlocked ranges that are under way.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct NoticesImage<F> {
    #[n(0)]
    last: u64,
    #[n(1)]
    all: Vec<(u64, NoticeImage<F>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct NoticeImage<F> {
    #[n(0)]
    file: F,
    #[n(1)]
    clientid: u64,
    #[n(2)]
    owner: SharedBytes,
}

impl<F> LockTable<F> {
    pub(crate) fn image(&self) -> Result<TableImage<LockImage>, ImageError> {
        let Self { table, count: _, notices: _, unlocked } = self;
        if !unlocked.lock().is_empty() {
            return Err(ImageError::Busy("unlocked ranges"));
        }
        Ok(table.image(|_, lock| {
            // Client and user are those of the open.
            let LockState { client: _, owner, open, user: _, seqid } = lock;
            LockImage { owner: (*owner).into(), open: (*open).into(), seqid: *seqid }
        }))
    }

    pub(crate) fn notices_image<G>(&self, name: impl Fn(&F) -> G) -> NoticesImage<G> {
        let notices = self.notices.lock();
        let Notices { last, all } = &*notices;
        let all = all.iter().map(|(number, LockNotice { file, clientid, owner })| {
            let (file, owner) = (name(file), SharedBytes(Arc::clone(owner)));
            (*number, NoticeImage { file, clientid: *clientid, owner })
        });
        NoticesImage { last: *last, all: all.collect() }
    }
}

impl<F: Clone + Eq + Hash> Files<F> {
    /// Makes images of the files with ranges and waiting owners: the others are known from their
    /// opens and delegations.
    pub(crate) fn image<G>(&self, name: impl Fn(&F) -> G) -> Vec<FileImage<G>> {
        let mut images = Vec::new();
        self.each(|file, state| {
            // Changes under way are begun again by those that continue.
            let FileState { opens: _, shares: _, ranges, delegations: _, waits, changing: _ } = state;
            let held = |owner: SlabKey| HeldImage {
                owner: owner.into(),
                ranges: ranges.of(owner).map(RangeImage::of).collect(),
            };
            let wait = |wait: &LockWait<F>| {
                let LockWait { file, client, clientid, name: owner_name, owner, range, mode } = wait;
                WaitImage {
                    file: name(file),
                    client: client.0.into(),
                    clientid: *clientid,
                    name: SharedBytes(Arc::clone(owner_name)),
                    owner: (*owner).into(),
                    range: RangeImage::of((*range, *mode)),
                }
            };
            let image = FileImage {
                file: name(file),
                ranges: ranges.holders().map(held).collect(),
                waits: waits.iter().map(wait).collect(),
            };
            if !image.ranges.is_empty() || !image.waits.is_empty() {
                images.push(image);
            }
        });
        images
    }
}

/// The lock-owners with stateids of each file, and their clients.
type Lockers<F> = std::collections::HashMap<F, BTreeMap<SlabKey, SlabKey>, crate::hash::Keyed>;

/// The parts of a state that locks belong to.
pub(crate) struct LockBase<'a, F, O> {
    pub(crate) clients: &'a RestoredClients,
    pub(crate) holders: &'a OwnersByKey,
    pub(crate) opens: &'a OpenTable<F, O>,
    pub(crate) files: &'a Files<F>,
    pub(crate) groups: CountedGroups<'a, F>,
}

/// The locks of groups of files, which are counted anew.
pub(crate) struct CountedGroups<'a, F> {
    pub(crate) groups: &'a FileGroups,
    /// Returns the group of a file.
    pub(crate) of: &'a dyn Fn(&F) -> u64,
}

impl<F> CountedGroups<'_, F> {
    fn add_locks(&self, file: &F, locks: usize) {
        self.groups.change_locks((self.of)(file), 0, locks);
    }
}

impl<F: Clone + Eq + Hash, O> LockBase<'_, F, O> {
    /// Returns the client, user and file of an open.
    fn open(&self, open: SlabKey) -> Result<(ClientKey, Arc<User>, F), ImageError> {
        let found = self.opens.read(open, |open| (open.client, Arc::clone(&open.user), open.file.clone()));
        found.ok_or(ImageError::Inconsistent("the open of a lock stateid"))
    }

    /// Restores the ranges of the owners of a file, which have to have lock stateids there.
    fn restore_ranges(
        &self,
        file: &mut FileState<F>,
        owners: Option<&BTreeMap<SlabKey, SlabKey>>,
        held: Vec<HeldImage>,
    ) -> Result<usize, ImageError> {
        let mut edges = Vec::new();
        for HeldImage { owner, ranges } in held {
            let owner = SlabKey::from(owner);
            let client = owners.and_then(|owners| owners.get(&owner)).copied();
            let client = client.ok_or(ImageError::Inconsistent("ranges without a lock stateid"))?;
            let before = file.ranges.len();
            ensure(!ranges.is_empty() && !file.ranges.holds(owner), "the ranges of an owner")?;
            let mut end = None;
            for range in ranges {
                let (range, mode) = range.restore()?;
                ensure(end.is_none_or(|end| range.offset() > end), "ranges that overlap")?;
                end = Some(range.last());
                edges.push((range.offset(), Edge::Begin, mode));
                edges.push((range.last(), Edge::End, mode));
                file.ranges.lock(owner, range, mode);
            }
            let record = &self.clients.get(client)?.record;
            record.lock_any(&mut Held::nothing()).locks += file.ranges.len() - before;
        }
        check_edges(edges)?;
        Ok(file.ranges.len())
    }
}

/// An end of a range. On one byte, ranges begin before others end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Begin,
    End,
}

/// Checks that no byte is locked for writing and by another owner as well, given where ranges begin
/// and end.
fn check_edges(mut edges: Vec<(u64, Edge, LockMode)>) -> Result<(), ImageError> {
    edges.sort_unstable();
    let (mut readers, mut writers) = (0u64, 0u64);
    for (_, edge, mode) in edges {
        let count = match mode {
            LockMode::Read => &mut readers,
            LockMode::Write => &mut writers,
        };
        *count = match edge {
            Edge::Begin => *count + 1,
            Edge::End => count.saturating_sub(1),
        };
        ensure(writers == 0 || readers + writers == 1, "ranges that conflict")?;
    }
    Ok(())
}

impl RangeImage {
    fn of((range, mode): (LockRange, LockMode)) -> Self {
        Self(range.offset(), range.last(), mode == LockMode::Write)
    }

    fn restore(self) -> Result<(LockRange, LockMode), ImageError> {
        let Self(first, last, write) = self;
        let range = LockRange::of_bytes(first, last);
        let mode = if write { LockMode::Write } else { LockMode::Read };
        Ok((range.ok_or(ImageError::Inconsistent("an empty range"))?, mode))
    }
}

impl<F: Clone + Eq + Hash> LockTable<F> {
    /// Restores lock stateids, ranges, waiting owners and notices.
    pub(crate) fn restore<G, O>(
        locks: TableImage<LockImage>,
        files: Vec<FileImage<G>>,
        notices: NoticesImage<G>,
        base: &LockBase<'_, F, O>,
        mut name: impl FnMut(G) -> Result<F, ImageError>,
    ) -> Result<Self, ImageError> {
        let mut lockers: Lockers<F> = Lockers::with_hasher(base.files.hasher());
        let table = Table::restore(locks, |key, LockImage { owner, open, seqid }| {
            let (owner, open) = (owner.into(), SlabKey::from(open));
            let (client, user, file) = base.open(open)?;
            let holder = OwnerOf { client, kind: OwnerKind::Lock };
            ensure(base.holders.get(&owner) == Some(&holder), "the lock-owner of a lock stateid")?;
            let held = &mut Held::nothing();
            let record = &base.clients.get(client.0)?.record;
            let mut state = record.lock_any(held);
            let before = state.lock_states.insert((owner, open), key);
            ensure(before.is_none(), "two lock stateids of one owner under one open")?;
            state.locks += 1;
            drop(state);
            base.opens.use_owner(owner);
            base.opens.add_lock(open, key);
            base.groups.add_locks(&file, 1);
            lockers.entry(file).or_default().insert(owner, client.0);
            Ok(LockState { client, owner, open, user, seqid })
        })?;
        let mut count = table.len();
        for FileImage { file, ranges, waits } in files {
            let file = name(file)?;
            let mut waiting = Vec::new();
            for wait in waits {
                waiting.push(wait.restore(&mut name)?);
            }
            let mut state =
                base.files.take(&file).ok_or(ImageError::Inconsistent("locks of an unknown file"))?;
            let fresh = state.ranges.len() == 0 && state.waits.is_empty();
            ensure(fresh, "a file is listed twice")?;
            let ranges = base.restore_ranges(&mut state, lockers.get(&file), ranges)?;
            base.groups.add_locks(&file, ranges);
            count += ranges;
            waiting.into_iter().for_each(|wait| state.wait_for_lock(wait));
            base.files.put(file, state);
        }
        let notices = notices.restore(name)?;
        Ok(Self {
            table,
            count: AtomicUsize::new(count),
            notices: Leaf::new(Mutex::new(notices)),
            unlocked: Leaf::default(),
        })
    }
}

impl<G> WaitImage<G> {
    fn restore<F>(
        self,
        name: &mut impl FnMut(G) -> Result<F, ImageError>,
    ) -> Result<LockWait<F>, ImageError> {
        let (range, mode) = self.range.restore()?;
        Ok(LockWait {
            file: name(self.file)?,
            client: ClientKey(self.client.into()),
            clientid: self.clientid,
            name: self.name.0,
            owner: self.owner.into(),
            range,
            mode,
        })
    }
}

impl<G> NoticesImage<G> {
    fn restore<F>(self, mut name: impl FnMut(G) -> Result<F, ImageError>) -> Result<Notices<F>, ImageError> {
        let Self { last, all } = self;
        ensure(all.len() <= NOTICES_MAX, "too many notices of unlocked ranges")?;
        let mut notices = BTreeMap::new();
        for (number, NoticeImage { file, clientid, owner }) in all {
            let notice = LockNotice { file: name(file)?, clientid, owner: owner.0 };
            let before = notices.insert(number, notice);
            ensure(before.is_none() && number <= last, "the number of a notice")?;
        }
        ensure(last < u64::MAX / 2, "the number of a notice")?;
        Ok(Notices { last, all: notices })
    }
}
