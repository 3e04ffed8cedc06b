//! Images of clients and tenants.
//!
//! An image holds neither the tables by name and id nor the numbers that are counted from other
//! tables: they are made again from the entries.

use crate::clients::creator::Creator;
use crate::clients::records::RecordLog;
use crate::clients::registry::{Enrolled, FormerVerifiers, Registry};
use crate::clients::tenants::{Tenant, TenantName, Tenants};
use crate::clients::users::User;
use crate::clients::{Client, ClientKey, ClientState, ClientTable};
use crate::opens::OwnerKind;
use crate::opens::image::{OwnerOf, OwnersByKey};
use crate::order::{Held, Ordered, RegistryLevel};
use crate::sessions::create_session::image::CreateSessionOkImage;
use crate::sessions::nanoseconds;
use crate::slab::SlabKey;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::table::Table;
use crate::table::image::{KeyImage, TableImage};
use crate::v40::image::V40ClientImage;
use crate::{Nfsstat4, OpSet, Principal, PrincipalHash, StateProtect};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The name of a tenant: a principal or an address.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct TenantImage {
    #[n(0)]
    principal: Option<SharedBytes>,
    #[n(1)]
    address: Option<IpAddr>,
}

/// The place of each tenant in its image.
pub(crate) struct TenantNumbers(BTreeMap<*const Tenant, u32>);

impl TenantNumbers {
    fn of(&self, tenant: &Arc<Tenant>) -> Result<u32, ImageError> {
        self.0.get(&Arc::as_ptr(tenant)).copied().ok_or(ImageError::Inconsistent("a tenant without a name"))
    }
}

impl Tenants {
    pub(crate) fn image(&self) -> (Vec<TenantImage>, TenantNumbers) {
        let (mut images, mut numbers) = (Vec::new(), BTreeMap::new());
        for (number, (name, tenant)) in (0..).zip(&*self.lock()) {
            let (principal, address) = match name {
                TenantName::Principal(name) => (Some(SharedBytes(Arc::clone(name))), None),
                TenantName::Address(address) => (None, Some(*address)),
            };
            images.push(TenantImage { principal, address });
            numbers.insert(Arc::as_ptr(tenant), number);
        }
        (images, TenantNumbers(numbers))
    }

    /// Restores tenants that have nothing yet.
    pub(crate) fn restore(images: Vec<TenantImage>) -> Result<(Self, Vec<Arc<Tenant>>), ImageError> {
        let mut tenants = Vec::new();
        let mut by_name = BTreeMap::new();
        for TenantImage { principal, address } in images {
            let name = match (principal, address) {
                (Some(SharedBytes(name)), None) => TenantName::Principal(name),
                (None, Some(address)) => TenantName::Address(address),
                _ => return Err(ImageError::Inconsistent("the name of a tenant")),
            };
            let zero = AtomicUsize::default;
            let (clients, memory, opens, locks) = (zero(), zero(), zero(), zero());
            let (owners, vain_search) = (AtomicUsize::new(0), AtomicU64::new(0));
            let tenant = Tenant { clients, memory, opens, locks, owners, vain_search };
            let tenant = Arc::new(tenant);
            tenants.push(Arc::clone(&tenant));
            ensure(by_name.insert(name, tenant).is_none(), "two tenants of one name")?;
        }
        Ok((Self::of_all(by_name), tenants))
    }
}

/// A client record, and its place in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ClientImage {
    #[n(0)]
    id: u64,
    #[n(1)]
    owner: SharedBytes,
    #[cbor(n(2), with = "minicbor::bytes")]
    verifier: [u8; 8],
    #[n(3)]
    creator: CreatorImage,
    /// spo_must_enforce and spo_must_allow, in halves, of SP4_MACH_CRED.
    #[n(4)]
    protect: Option<[u64; 4]>,
    #[n(5)]
    tenant: u32,
    #[n(6)]
    users: Vec<UserImage>,
    #[n(7)]
    recall_any_at: Option<u64>,
    #[n(8)]
    reclaim_complete: bool,
    #[n(9)]
    turn: u32,
    #[n(10)]
    confirmed: bool,
    #[n(11)]
    create_sequence: u32,
    #[n(12)]
    create_reply: Option<CreateSessionOkImage>,
    /// The status of a failed CREATE_SESSION.
    #[n(13)]
    create_status: u32,
    #[n(14)]
    sessions: Vec<KeyImage>,
    #[n(15)]
    renewed: u64,
    #[n(16)]
    recorded: bool,
    #[n(17)]
    v40: Option<V40ClientImage>,
    #[n(18)]
    reclaim_refused: Option<bool>,
    #[n(19)]
    reopens_until: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct CreatorImage {
    #[n(0)]
    principal: SharedBytes,
    #[cbor(n(1), with = "minicbor::bytes")]
    hash: [u8; 16],
    #[n(2)]
    proved: bool,
    #[n(3)]
    address: IpAddr,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct UserImage {
    #[n(0)]
    principal: SharedBytes,
    #[n(1)]
    tenant: u32,
    /// The locks that count for the user: one owner may lock under opens of several users.
    #[n(2)]
    locks: u64,
}

/// The place of each user in the image of its client.
#[derive(Default)]
pub(crate) struct UserNumbers(BTreeMap<*const User, u32>);

impl UserNumbers {
    pub(crate) fn of(&self, user: &Arc<User>) -> Result<u32, ImageError> {
        let number = self.0.get(&Arc::as_ptr(user)).copied();
        number.ok_or(ImageError::Inconsistent("an open of an unknown user"))
    }
}

impl Client {
    /// Makes an image of a client; its opens, locks, delegations and copies have images of their
    /// own, and so have its owners.
    fn image(
        &self,
        held: &mut Held<RegistryLevel>,
        enrolled: &Enrolled,
        tenants: &TenantNumbers,
        numbers: &mut UserNumbers,
    ) -> Result<ClientImage, ImageError> {
        // Paths are counted from the sessions, the status is made of the revoked state.
        let Self { id, owner, verifier, creator, protect, tenant, paths: _, status: _, put: _, v40, state } =
            self;
        // Machines that share an owner are noticed anew after an upgrade.
        let Enrolled {
            record: _,
            confirmed,
            create_sequence,
            create_reply,
            sessions,
            renewed,
            recorded,
            former: _,
        } = enrolled;
        let state = state.lock(held);
        let ClientState {
            closed: _,
            open_owners: _,
            lock_owners: _,
            opens: _,
            users,
            lock_states: _,
            locks: _,
            delegations: _,
            revoked: _,
            copies: _,
            recall_any_at,
            reclaim_complete,
            reclaim_refused,
            reopens_until,
            turn,
        } = &*state;
        numbers.0.extend((0..).zip(users.values()).map(|(number, user)| (Arc::as_ptr(user), number)));
        let user = |user: &Arc<User>| {
            let User { principal, tenant, opens: _, locks } = &**user;
            let principal = SharedBytes(Arc::clone(&principal.0));
            Ok(UserImage { principal, tenant: tenants.of(tenant)?, locks: locks.load(Relaxed) as u64 })
        };
        let create = create_reply.as_ref();
        Ok(ClientImage {
            id: *id,
            owner: SharedBytes(Arc::clone(owner)),
            verifier: *verifier,
            creator: creator.image(),
            protect: protect.image(),
            tenant: tenants.of(tenant)?,
            users: users.values().map(user).collect::<Result<_, ImageError>>()?,
            recall_any_at: recall_any_at.map(nanoseconds),
            reclaim_complete: *reclaim_complete,
            turn: *turn,
            confirmed: *confirmed,
            create_sequence: *create_sequence,
            create_reply: create.ok().map(|reply| CreateSessionOkImage::of(reply)),
            create_status: create.err().map_or(0, |status| *status as u32),
            sessions: sessions.iter().map(|key| (*key).into()).collect(),
            renewed: nanoseconds(*renewed),
            recorded: *recorded,
            v40: v40.as_ref().map(|v40| v40.image()).transpose()?,
            reclaim_refused: Some(*reclaim_refused),
            reopens_until: Some(nanoseconds(*reopens_until)),
        })
    }
}

impl StateProtect {
    /// Returns spo_must_enforce and spo_must_allow, each as two halves.
    fn image(&self) -> Option<[u64; 4]> {
        let Self::MachCred { must_enforce, must_allow } = self else { return None };
        let ([a, b], [c, d]) = (halves(*must_enforce), halves(*must_allow));
        Some([a, b, c, d])
    }
}

fn halves(OpSet(bits): OpSet) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

fn whole(high: u64, low: u64) -> OpSet {
    OpSet(u128::from(high) << 64 | u128::from(low))
}

impl Creator {
    fn image(&self) -> CreatorImage {
        let Self { principal, hash, proved, address } = self;
        let principal = SharedBytes(Arc::clone(&principal.0));
        CreatorImage { principal, hash: hash.0, proved: *proved, address: *address }
    }

    fn restore(CreatorImage { principal, hash, proved, address }: CreatorImage) -> Self {
        Self { principal: Principal(principal.0), hash: PrincipalHash(hash), proved, address }
    }
}

impl ClientTable {
    /// Makes images of the clients, and numbers their users.
    pub(crate) fn image(
        &self,
        tenants: &TenantNumbers,
    ) -> Result<(TableImage<ClientImage>, UserNumbers), ImageError> {
        let Self { registry, table, records } = self;
        if !records.is_stable() {
            return Err(ImageError::Busy("records of clients"));
        }
        let clients = table.image(|_, client| Arc::clone(client));
        let mut numbers = UserNumbers::default();
        let held = &mut Held::nothing();
        let mut registry = registry.lock(held);
        let (registry, held) = registry.split();
        let image = clients.try_map(|key, client| {
            let enrolled = registry.client(ClientKey(key));
            let enrolled = enrolled.map_err(|_| ImageError::Inconsistent("a client outside the registry"))?;
            client.image(held, enrolled, tenants, &mut numbers)
        })?;
        Ok((image, numbers))
    }

    /// Returns the owners of all clients.
    pub(crate) fn owners(&self) -> OwnersByKey {
        let mut owners = OwnersByKey::new();
        let mut all = Vec::new();
        self.table.each(|key, client| all.push((ClientKey(key), Arc::clone(client))));
        for (client, record) in all {
            let held = &mut Held::nothing();
            let state = record.lock_any(held);
            let mut add = |keys: &BTreeMap<Arc<[u8]>, SlabKey>, kind| {
                owners.extend(keys.values().map(|key| (*key, OwnerOf { client, kind })));
            };
            add(&state.open_owners, OwnerKind::Open);
            add(&state.lock_owners, OwnerKind::Lock);
        }
        owners
    }

    /// Returns whether a restored client is confirmed.
    pub(crate) fn is_confirmed(&self, key: ClientKey) -> bool {
        let held = &mut Held::nothing();
        self.registry.lock(held).client(key).is_ok_and(|client| client.confirmed)
    }

    /// Restores clients without opens and sessions.
    pub(crate) fn restore(
        image: TableImage<ClientImage>,
        mut registry: Registry,
        tenants: &[Arc<Tenant>],
    ) -> Result<(Self, RestoredClients), ImageError> {
        let mut restored = BTreeMap::new();
        let table = Table::restore(image, |key, client: ClientImage| {
            let (client, enrolled) = client.restore(ClientKey(key), tenants)?;
            registry.restore_client(ClientKey(key), enrolled)?;
            let record = Arc::clone(&client.record);
            restored.insert(key, client);
            Ok(record)
        })?;
        let registry = Ordered::new(Mutex::new(registry));
        Ok((Self { registry, table, records: RecordLog::default() }, RestoredClients(restored)))
    }
}

/// A restored client, for the restored opens and sessions of it.
pub(crate) struct RestoredClient {
    pub(crate) record: Arc<Client>,
    users: Vec<Arc<User>>,
    /// The sessions that its image lists.
    sessions: Vec<SlabKey>,
}

impl RestoredClient {
    pub(crate) fn user(&self, number: u32) -> Result<&Arc<User>, ImageError> {
        self.users.get(number as usize).ok_or(ImageError::Inconsistent("an open of an unknown user"))
    }

    /// Whether the client's image lists a session.
    pub(crate) fn lists(&self, session: SlabKey) -> bool {
        self.sessions.contains(&session)
    }

    /// Counts a revoked delegation, and has SEQUENCE say that there is one.
    pub(crate) fn count_revoked(&self, state: &mut ClientState) {
        state.revoked += 1;
        self.record.status.fetch_or(SEQ4_STATUS_RECALLABLE_STATE_REVOKED, Relaxed);
    }

    /// Checks the numbers of a client with all that it has.
    fn check(&self, held_sessions: usize) -> Result<(), ImageError> {
        ensure(self.sessions.len() == held_sessions, "a session that its client does not list")?;
        let state = self.record.lock_any(&mut Held::nothing()).locks;
        let of_users = self.users.iter().map(|user| user.locks.load(Relaxed));
        ensure(of_users.fold(0, usize::wrapping_add) == state, "the locks of a client's users")?;
        let idle = |user: &Arc<User>| user.opens.load(Relaxed) == 0;
        ensure(!self.users.iter().any(idle), "a user without opens")
    }
}

/// The restored clients by key.
pub(crate) struct RestoredClients(pub(crate) BTreeMap<SlabKey, RestoredClient>);

impl RestoredClients {
    pub(crate) fn get(&self, key: SlabKey) -> Result<&RestoredClient, ImageError> {
        self.0.get(&key).ok_or(ImageError::Inconsistent("the key of an unknown client"))
    }

    /// Checks each client when everything is restored; `sessions` tells how many a client has.
    pub(crate) fn check(&self, sessions: &BTreeMap<SlabKey, usize>) -> Result<(), ImageError> {
        self.0.iter().try_for_each(|(key, client)| client.check(sessions.get(key).copied().unwrap_or(0)))
    }
}

impl ClientImage {
    /// Restores a client without opens and sessions, and its place in the registry.
    fn restore(
        mut self,
        key: ClientKey,
        tenants: &[Arc<Tenant>],
    ) -> Result<(RestoredClient, Enrolled), ImageError> {
        let tenant = |number: u32| {
            let found = tenants.get(number as usize).cloned();
            found.ok_or(ImageError::Inconsistent("the number of a tenant"))
        };
        let users = UserImage::restore_all(std::mem::take(&mut self.users), tenant)?;
        let state = ClientState::restored(&self, &users);
        ensure(state.users.len() == users.len(), "two users of one name")?;
        let record = Arc::new(Client {
            id: self.id,
            owner: self.owner.0,
            verifier: self.verifier,
            creator: Creator::restore(self.creator),
            protect: self.protect.map_or(StateProtect::None, |[a, b, c, d]| StateProtect::MachCred {
                must_enforce: whole(a, b),
                must_allow: whole(c, d),
            }),
            tenant: tenant(self.tenant)?,
            paths: AtomicUsize::new(0),
            status: AtomicU32::new(0),
            put: AtomicU64::new(0),
            v40: self.v40.map(|v40| v40.restore(key)).transpose()?.map(Box::new),
            state: Ordered::new(Mutex::new(state)),
        });
        let status = Nfsstat4::from_u32(self.create_status);
        let status = status.ok_or(ImageError::Inconsistent("the status of a CREATE_SESSION"));
        let sessions: Vec<SlabKey> = self.sessions.into_iter().map(SlabKey::from).collect();
        let enrolled = Enrolled {
            record: Arc::clone(&record),
            confirmed: self.confirmed,
            create_sequence: self.create_sequence,
            create_reply: match self.create_reply {
                Some(reply) => Ok(Box::new(reply.into())),
                None => Err(status?),
            },
            sessions: sessions.clone(),
            renewed: Duration::from_nanos(self.renewed),
            recorded: self.recorded,
            former: FormerVerifiers::default(),
        };
        Ok((RestoredClient { record, users, sessions }, enrolled))
    }
}

impl UserImage {
    /// Restores the users of a client, by number.
    fn restore_all(
        images: Vec<Self>,
        tenant: impl Fn(u32) -> Result<Arc<Tenant>, ImageError>,
    ) -> Result<Vec<Arc<User>>, ImageError> {
        let user = |Self { principal, tenant: number, locks }| {
            let (opens, locks) = (AtomicUsize::new(0), AtomicUsize::new(locks as usize));
            let (principal, tenant) = (Principal(principal.0), tenant(number)?);
            tenant.locks.fetch_add(locks.load(Relaxed), Relaxed);
            Ok(Arc::new(User { principal, tenant, opens, locks }))
        };
        images.into_iter().map(user).collect()
    }
}

impl ClientState {
    /// Returns the state of a client without opens, locks, delegations and copies.
    fn restored(image: &ClientImage, users: &[Arc<User>]) -> Self {
        let named = |user: &Arc<User>| (Arc::clone(&user.principal.0), Arc::clone(user));
        Self {
            closed: false,
            open_owners: BTreeMap::new(),
            lock_owners: BTreeMap::new(),
            opens: Default::default(),
            users: users.iter().map(named).collect(),
            lock_states: BTreeMap::new(),
            locks: 0,
            delegations: Default::default(),
            revoked: 0,
            copies: Default::default(),
            recall_any_at: image.recall_any_at.map(Duration::from_nanos),
            reclaim_complete: image.reclaim_complete,
            reclaim_refused: image.reclaim_refused.unwrap_or_default(),
            reopens_until: image.reopens_until.map(Duration::from_nanos).unwrap_or_default(),
            turn: image.turn,
        }
    }
}
