//! Images of opens, and of open-owners and lock-owners.

use crate::ClientKey;
use crate::clients::image::{RestoredClients, UserNumbers};
use crate::files::{FileView, Files};
use crate::opens::shares::{BOTH, SeenShares, Share};
use crate::opens::{Open, OpenTable, Owner, OwnerKind};
use crate::order::Held;
use crate::slab::SlabKey;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::table::Table;
use crate::table::image::{KeyImage, TableImage};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

/// An open-owner or a lock-owner.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OwnerImage {
    #[n(0)]
    client: KeyImage,
    /// Whether it is a lock-owner.
    #[n(1)]
    locks: bool,
    #[n(2)]
    name: SharedBytes,
}

/// One open, with the image `F` of the name of its file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OpenImage<F> {
    #[n(0)]
    client: KeyImage,
    #[n(1)]
    owner: KeyImage,
    /// The place of the user in the image of the client.
    #[n(2)]
    user: u32,
    #[n(3)]
    file: F,
    #[n(4)]
    access: u32,
    #[n(5)]
    deny: u32,
    /// The values of access and deny in the OPENs, as bits.
    #[n(6)]
    seen: [u8; 2],
    #[n(7)]
    seqid: u32,
    /// The caller's number of the payload.
    #[n(8)]
    payload: u32,
    #[n(9)]
    payload_access: u32,
}

/// The client of an owner, and the kind of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerOf {
    pub(crate) client: ClientKey,
    pub(crate) kind: OwnerKind,
}

/// The owners of all clients.
pub(crate) type OwnersByKey = BTreeMap<SlabKey, OwnerOf>;

impl<F, O> OpenTable<F, O> {
    /// Makes an image of the owners. Each needs a holder.
    pub(crate) fn owners_image(&self, holders: &OwnersByKey) -> Result<TableImage<OwnerImage>, ImageError> {
        let owner = |key, owner: &Owner| {
            let Owner { clientid: _, name, uses: _ } = owner;
            let OwnerOf { client, kind } = *holders.get(&key)?;
            let (client, locks) = (client.0.into(), kind == OwnerKind::Lock);
            Some(OwnerImage { client, locks, name: SharedBytes(Arc::clone(name)) })
        };
        let lost = ImageError::Inconsistent("an owner that no client has");
        self.owners.image(owner).try_map(|_, owner| owner.ok_or(lost.clone()))
    }

    pub(crate) fn image<G>(
        &self,
        users: &UserNumbers,
        name: impl Fn(&F) -> G,
        mut payload: impl FnMut(&F, &O) -> u32,
    ) -> Result<TableImage<OpenImage<G>>, ImageError> {
        // Owners have images of their own; the others are counted.
        let Self { table, owners: _, count: _ } = self;
        let image = table.image(|_, open| {
            // The locks have images that name their open.
            let Open {
                client,
                owner,
                user,
                file,
                share,
                seen,
                seqid,
                payload: own,
                payload_access,
                locks: _,
            } = open;
            Ok(OpenImage {
                client: client.0.into(),
                owner: (*owner).into(),
                user: users.of(user)?,
                file: name(file),
                access: share.access,
                deny: share.deny,
                seen: seen.bits(),
                seqid: *seqid,
                payload: payload(file, own),
                payload_access: *payload_access,
            })
        });
        image.try_map(|_, open: Result<_, ImageError>| open)
    }
}

impl<F: Clone + Eq + Hash, O> OpenTable<F, O> {
    /// Restores owners without opens and locks.
    pub(crate) fn restore_owners(
        image: TableImage<OwnerImage>,
        clients: &RestoredClients,
    ) -> Result<(Self, OwnersByKey), ImageError> {
        let mut holders = OwnersByKey::new();
        let owners = Table::restore(image, |key, OwnerImage { client, locks, name }| {
            let (client, name) = (ClientKey(client.into()), name.0);
            let record = &clients.get(client.0)?.record;
            let held = &mut Held::nothing();
            let mut state = record.lock_any(held);
            let (kind, names) = match locks {
                false => (OwnerKind::Open, &mut state.open_owners),
                true => (OwnerKind::Lock, &mut state.lock_owners),
            };
            ensure(names.insert(Arc::clone(&name), key).is_none(), "two owners of one name")?;
            holders.insert(key, OwnerOf { client, kind });
            Ok(Owner { clientid: record.id, name, uses: 0 })
        })?;
        Ok((Self { table: Table::new(), owners, count: AtomicUsize::new(0) }, holders))
    }

    /// Restores the opens, and the shares of their files.
    pub(crate) fn restore<G>(
        &mut self,
        image: TableImage<OpenImage<G>>,
        (clients, holders): (&RestoredClients, &OwnersByKey),
        files: &Files<F>,
        view: fn(&F) -> FileView,
        mut name: impl FnMut(G) -> Result<F, ImageError>,
        mut payload: impl FnMut(&F, u32) -> Result<O, ImageError>,
    ) -> Result<(), ImageError> {
        let owners = &self.owners;
        self.table = Table::restore(image, |key, open: OpenImage<G>| {
            let (owner, file) = (open.owner.into(), name(open.file)?);
            let client = ClientKey(open.client.into());
            let holder = OwnerOf { client, kind: OwnerKind::Open };
            ensure(holders.get(&owner) == Some(&holder), "the open-owner of an open")?;
            let share = Share { access: open.access, deny: open.deny };
            let sound = (1..=BOTH).contains(&share.access) && share.deny <= BOTH;
            ensure(sound && share.access & !open.payload_access == 0, "the share of an open")?;
            let restored = clients.get(client.0)?;
            let user = Arc::clone(restored.user(open.user)?);
            let held = &mut Held::nothing();
            let mut state = restored.record.lock_any(held);
            let (state, held) = state.split();
            let mut stripe = files.lock(held, &file);
            let known = stripe.entry(file.clone()).or_default();
            ensure(!share.conflicts(known.shares.union()), "opens that conflict")?;
            known.shares.add(share);
            let before = known.opens.insert((owner, view(&file)), key);
            ensure(before.is_none(), "two opens of one owner on one file")?;
            drop(stripe);
            state.opens.insert(key);
            user.opens.fetch_add(1, Relaxed);
            user.tenant.opens.fetch_add(1, Relaxed);
            owners.write(owner, |owner| owner.uses += 1);
            let payload = payload(&file, open.payload)?;
            Ok(Open {
                client,
                owner,
                user,
                file,
                share,
                seen: SeenShares::of_bits(open.seen),
                seqid: open.seqid,
                payload,
                payload_access: open.payload_access,
                locks: Vec::new(),
            })
        })?;
        self.count = AtomicUsize::new(self.table.len());
        Ok(())
    }

    /// Checks that each owner has an open or a lock stateid.
    pub(crate) fn check_owners(&self) -> Result<(), ImageError> {
        let mut used = true;
        self.owners.each(|_, owner| used &= owner.uses > 0);
        ensure(used, "an owner without opens and locks")
    }
}
