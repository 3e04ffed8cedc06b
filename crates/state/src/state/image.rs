//! The image of a whole state, for the next process of the server.
//!
//! Each table has an image beside it. An image is made while no request runs. It takes each struct
//! apart field by field: a new field does not compile until it has a place in the image, or a
//! reason to be left out.

use crate::clients::ClientTable;
use crate::clients::grace::Grace;
use crate::clients::grace::image::GraceImage;
use crate::clients::image::{ClientImage, TenantImage};
use crate::clients::registry::Registry;
use crate::clients::registry::image::RegistryImage;
use crate::clients::tenants::Tenants;
use crate::copies::CopyTable;
use crate::copies::image::CopyImage;
use crate::delegations::image::DelegationImage;
use crate::delegations::{DelegationTable, DelegationTotals};
use crate::files::{FileView, Files};
use crate::groups::FileGroups;
use crate::locks::LockTable;
use crate::locks::image::{CountedGroups, FileImage, LockBase, LockImage, NoticesImage};
use crate::opens::OpenTable;
use crate::opens::image::{OpenImage, OwnerImage};
use crate::order::Held;
use crate::quotas::Quotas;
use crate::revocation::RevokedTable;
use crate::revocation::image::RevokedImage;
use crate::scramble::Scramble;
use crate::sessions::image::SessionImage;
use crate::sessions::{SessionTable, nanoseconds};
use crate::stateids::StateRef;
use crate::table::image::TableImage;
use crate::v40::V40Table;
use crate::v40::image::GoneImage;
use crate::{Limits, State};
use image::{ImageError, Secret};
use minicbor::{Decode, Encode};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The image of a state; `F` is the caller's image of a file's name.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StateImage<F> {
    #[n(0)]
    epoch: u32,
    #[n(1)]
    hash_key: Secret,
    #[n(2)]
    grace: GraceImage,
    #[n(3)]
    tenants: Vec<TenantImage>,
    #[n(4)]
    registry: RegistryImage,
    #[n(5)]
    clients: TableImage<ClientImage>,
    #[n(6)]
    sessions: TableImage<SessionImage>,
    #[n(7)]
    owners: TableImage<OwnerImage>,
    #[n(8)]
    opens: TableImage<OpenImage<F>>,
    #[n(9)]
    locks: TableImage<LockImage>,
    #[n(10)]
    files: Vec<FileImage<F>>,
    #[n(11)]
    notices: NoticesImage<F>,
    #[n(12)]
    delegations: TableImage<DelegationImage<F>>,
    /// Recently contended files: place and time.
    #[n(13)]
    contention: Vec<(u32, u64)>,
    #[n(14)]
    copies: TableImage<CopyImage<F>>,
    #[n(15)]
    gone: GoneImage,
    #[n(16)]
    revoked: Vec<RevokedImage>,
    /// Delegations granted, recalled and revoked since the start.
    #[n(17)]
    delegation_totals: Option<(u64, u64, u64)>,
    /// The lease in nanoseconds.
    #[n(18)]
    lease: Option<u64>,
}

impl<F> StateImage<F> {
    /// Returns the epoch of the start that identifiers carry, see [`crate::Boot`].
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the random key of the start, see [`crate::Boot`]; `None` for one of another length.
    pub fn hash_key(&self) -> Option<[u8; 16]> {
        self.hash_key.0.as_slice().try_into().ok()
    }
}

/// The parameters of a restored state, from the configuration and the caller.
#[derive(Clone, Debug)]
pub struct RestoreParameters<F> {
    /// The limits that are in force from now on. A lease shorter than that of the image waits for a
    /// restart: clients ask for its length only with a new client ID (RFC 8881 section 8.4.2).
    pub limits: Limits,
    /// The key that is meant by [`crate::Boot`].
    pub principal_key: [u8; 16],
    /// The function that is meant by [`State::with_views`].
    pub view: fn(&F) -> FileView,
    /// The limits of single tenants, clients and groups of files.
    pub quotas: Arc<dyn Quotas>,
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Makes an image. `name` makes one of a file's name; `payload` keeps the payload of an open or
    /// a delegation and returns its number. No request runs meanwhile, and no effect is queued.
    ///
    /// # Errors
    /// [`ImageError::Busy`].
    pub fn image<G>(
        &self,
        name: impl Fn(&F) -> G,
        mut payload: impl FnMut(&F, &O) -> u32,
    ) -> Result<StateImage<G>, ImageError> {
        let Self {
            limits,
            clients_max: _,
            slots_max: _,
            view: _,
            epoch,
            scramble: _,
            principal_key: _,
            grace,
            tenants,
            clients,
            sessions,
            files,
            opens,
            locks,
            delegations,
            copies,
            revoked,
            v40,
            quotas: _,
            is_shared: _,
            // Counted again.
            groups: _,
        } = self;
        let (registry, (tenants, numbers)) = {
            let held = &mut Held::nothing();
            let registry = self.registry(held);
            (registry.image()?, tenants.image())
        };
        let (client_images, users) = clients.image(&numbers)?;
        Ok(StateImage {
            epoch: *epoch,
            hash_key: Secret::from(&files.hasher().0[..]),
            grace: grace.image(),
            tenants,
            registry,
            clients: client_images,
            sessions: sessions.image()?,
            owners: opens.owners_image(&clients.owners())?,
            opens: opens.image(&users, &name, &mut payload)?,
            locks: locks.image()?,
            files: files.image(&name),
            notices: locks.notices_image(&name),
            delegations: delegations.image(&name, &mut payload),
            contention: delegations.contention_image(),
            copies: copies.image(&name)?,
            gone: v40.image(),
            revoked: revoked.image(),
            delegation_totals: Some(delegations.totals.image()),
            lease: Some(nanoseconds(limits.lease)),
        })
    }

    /// Restores a state from its image. `name` and `payload` are the reverse of those of
    /// [`State::image`]. The present time of the caller continues that of the image.
    ///
    /// # Errors
    /// The part of the image that is inconsistent.
    pub fn restore<G>(
        image: StateImage<G>,
        with: RestoreParameters<F>,
        mut name: impl FnMut(G) -> Result<F, ImageError>,
        mut payload: impl FnMut(&F, u32) -> Result<O, ImageError>,
    ) -> Result<Self, ImageError> {
        let RestoreParameters { mut limits, principal_key, view, quotas } = with;
        limits.lease = limits.lease.max(Duration::from_nanos(image.lease.unwrap_or(0)));
        let hash_key = image.hash_key().ok_or(ImageError::Inconsistent("the key of identifiers"))?;
        let (tenants, all_tenants) = Tenants::restore(image.tenants)?;
        let registry = Registry::restore(image.registry);
        let (clients, restored) = ClientTable::restore(image.clients, registry, &all_tenants)?;
        let (sessions, of_clients) = SessionTable::restore(image.sessions, &restored)?;
        let files = Files::new(hash_key);
        let (mut opens, holders) = OpenTable::restore_owners(image.owners, &restored)?;
        opens.restore(image.opens, (&restored, &holders), &files, view, &mut name, &mut payload)?;
        let groups = FileGroups::default();
        let group = |file: &F| quotas.group_of(view(file));
        let mut opened = Vec::new();
        opens.each(|_, open| opened.push(group(&open.file)));
        opened.into_iter().for_each(|group| _ = groups.add_open(group, usize::MAX));
        let counted = CountedGroups { groups: &groups, of: &group };
        let base =
            LockBase { clients: &restored, holders: &holders, opens: &opens, files: &files, groups: counted };
        let mut delegations = DelegationTable::restore(
            image.delegations,
            &image.contention,
            &restored,
            &files,
            view,
            &mut name,
            &mut payload,
        )?;
        delegations.totals = DelegationTotals::restore(image.delegation_totals.unwrap_or_default());
        let locks = LockTable::restore(image.locks, image.files, image.notices, &base, &mut name)?;
        opens.check_owners()?;
        let copies = CopyTable::restore(image.copies, &restored, &mut name)?;
        let v40 = V40Table::restore(image.gone, &restored, |key| clients.is_confirmed(key))?;
        let revoked = RevokedTable::restore(image.revoked, &restored, |state| match state {
            StateRef::Open(key) => opens.read(key, |_| ()).is_some(),
            StateRef::Lock(key) => locks.read(key, |_| ()).is_some(),
            StateRef::Delegation(key) => delegations.read(key, |_| ()).is_some(),
            StateRef::Copy(_) => false,
        })?;
        restored.check(&of_clients)?;
        Ok(Self {
            clients_max: limits.clients_max.into(),
            slots_max: limits.slots_max.into(),
            limits,
            view,
            epoch: image.epoch,
            scramble: Scramble::new(&hash_key),
            principal_key,
            grace: Grace::restore(image.grace),
            tenants,
            clients,
            sessions,
            files,
            opens,
            locks,
            delegations,
            copies,
            revoked,
            v40,
            quotas,
            groups,
            is_shared: |_| true,
        })
    }
}
