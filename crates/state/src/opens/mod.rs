//! OPEN: open owners, share reservations and the access that READ and WRITE have (RFC 8881 sections
//! 9 and 18.16).

pub(crate) mod close;
pub(crate) mod image;
pub(crate) mod requests;
pub(crate) mod shares;

use crate::Opens;
use crate::clients::LockedClient;
use crate::clients::users::User;
use crate::delegations::recalls::FileUse;
use crate::files::{FileState, FilesOfStripe};
use crate::opens::requests::{OpenClaim, OpenOutcome, OpenRequest, Opener};
use crate::opens::shares::{SeenShares, Share};
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::Table;
use crate::{ClientKey, Clientid4, Effects, Nfsstat4, Result, Stateid4};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The name space of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// open_owner4: the owner of opens.
    Open,
    /// lock_owner4: the owner of byte-range locks.
    Lock,
}

/// An open owner or a lock owner of a client.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) clientid: Clientid4,
    pub(crate) name: Arc<[u8]>,
    /// Opens of an open owner, lock stateids of a lock owner.
    pub(crate) uses: usize,
}

/// One open: of one owner on one file, for all of its OPENs. READ and WRITE check it directly, so
/// that no copy of it has to be kept in step.
#[derive(Debug)]
pub(crate) struct Open<F, O> {
    pub(crate) client: ClientKey,
    pub(crate) owner: SlabKey,
    /// The user that the open counts for.
    pub(crate) user: Arc<User>,
    pub(crate) file: F,
    pub(crate) share: Share,
    /// The requested shares, for the checks of OPEN_DOWNGRADE.
    pub(crate) seen: SeenShares,
    pub(crate) seqid: u32,
    pub(crate) payload: O,
    pub(crate) payload_access: u32,
    /// The lock stateids that were made under it.
    pub(crate) locks: Vec<SlabKey>,
}

/// The opens, and their open-owners and lock-owners.
#[derive(Debug)]
pub(crate) struct OpenTable<F, O> {
    table: Table<Open<F, O>>,
    /// An owner lives as long as it has opens or lock stateids.
    owners: Table<Owner>,
    /// Opens, for the limit.
    count: AtomicUsize,
}

impl<F, O> OpenTable<F, O> {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(), owners: Table::new(), count: AtomicUsize::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number that counts against the limit: an open is counted before it is there.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    pub(crate) fn read<R>(&self, key: SlabKey, run: impl FnOnce(&Open<F, O>) -> R) -> Option<R> {
        self.table.read(key, run)
    }

    /// Moves an open's stateid on; returns its new sequence number.
    pub(crate) fn advance_seqid(&self, key: SlabKey) -> Option<u32> {
        self.table.write(key, |open| {
            open.seqid = next_seqid(open.seqid);
            open.seqid
        })
    }

    /// Notes a lock stateid that was made under an open.
    pub(crate) fn add_lock(&self, open: SlabKey, lock: SlabKey) {
        self.table.write(open, |open| open.locks.push(lock));
    }

    pub(crate) fn remove_lock(&self, open: SlabKey, lock: SlabKey) {
        self.table.write(open, |open| open.locks.retain(|other| *other != lock));
    }

    pub(crate) fn owner<R>(&self, key: SlabKey, run: impl FnOnce(&Owner) -> R) -> Option<R> {
        self.owners.read(key, run)
    }

    /// Adds an owner without opens and lock stateids.
    pub(crate) fn insert_owner(&self, stripe: u32, clientid: Clientid4, name: Arc<[u8]>) -> SlabKey {
        self.owners.insert(stripe, Owner { clientid, name, uses: 0 })
    }

    /// Counts one more open or lock stateid of an owner.
    pub(crate) fn use_owner(&self, key: SlabKey) {
        self.owners.write(key, |owner| owner.uses += 1);
    }

    /// Runs a closure on every open, under the lock of its stripe.
    pub(crate) fn each(&self, run: impl FnMut(SlabKey, &Open<F, O>)) {
        self.table.each(run);
    }

    #[cfg(test)]
    pub(crate) fn set_seqid(&self, key: SlabKey, seqid: u32) {
        self.table.write(key, |open| open.seqid = seqid);
    }

    #[cfg(test)]
    pub(crate) fn owners_len(&self) -> usize {
        self.owners.len()
    }

    #[cfg(test)]
    pub(crate) fn each_owner(&self, run: impl FnMut(SlabKey, &Owner)) {
        self.owners.each(run);
    }
}

/// The owner's open of a file, as OPEN found it.
#[derive(Clone, Copy)]
struct OwnerOpen {
    key: SlabKey,
    share: Share,
    payload_access: u32,
}

/// The parts of a first open besides the request and its payload.
struct NewOpen {
    share: Share,
    payload_access: u32,
}

/// An OPEN that has passed its checks.
struct Granted {
    share: Share,
    /// The access bits that the payload has to have.
    needed: u32,
    own: Option<OwnerOpen>,
}

impl<F: Clone + Eq + Hash, O> Opens<'_, F, O> {
    /// Checks everything that does not depend on the file, so that OPEN can refuse before it
    /// creates anything: grace, claim, limits. On NFS4ERR_NOSPC
    /// [`crate::Clients::make_room_for_open`] may help.
    ///
    /// # Errors
    /// NFS4ERR_GRACE, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD, NFS4ERR_INVAL, NFS4ERR_NOSPC,
    /// NFS4ERR_DEADSESSION.
    pub fn open_allowed(&self, now: Duration, client: ClientKey, opener: Opener<'_>) -> Result<()> {
        let reclaims = opener.claim == OpenClaim::Previous;
        self.state.with_client(client, reclaims, |client, _| self.check_allowed(now, client, opener))
    }

    /// Checks one more open of a file against the limit of its group, so that OPEN can refuse it
    /// before creating anything; the directory stands for its files.
    ///
    /// # Errors
    /// NFS4ERR_NOSPC.
    pub fn group_allowed(&self, file: &F, claim: OpenClaim) -> Result<()> {
        let group = self.state.group_of(file);
        let quota = self.state.quotas.of_group(group);
        let fits = claim == OpenClaim::Previous
            || quota.opens_max.is_none()
            || quota.admits_open(self.state.groups.opens(group));
        if fits { Ok(()) } else { Err(Nfsstat4::NFS4ERR_NOSPC) }
    }

    fn check_allowed(&self, now: Duration, client: &mut LockedClient<'_>, opener: Opener<'_>) -> Result<()> {
        // The delegation covers the opens that a client has made under it, also in the grace
        // period.
        if !matches!(opener.claim, OpenClaim::Delegated(_)) {
            self.state.leases().check_grace(now, client, opener.shared)?;
        }
        if opener.owner.len() > self.state.limits.owner_size_max {
            return Err(Nfsstat4::NFS4ERR_INVAL);
        }
        self.state.clients().check_open_limits(client, opener)
    }

    fn check_request(
        &self,
        now: Duration,
        client: &mut LockedClient<'_>,
        request: &OpenRequest<'_, F>,
    ) -> Result<()> {
        let OpenRequest { opener: ref caller, owner, claim, file, .. } = *request;
        let shared = (self.state.is_shared)(file);
        self.check_allowed(now, client, Opener { caller, owner, claim, shared })
    }

    /// Does the checks of [`crate::Opens::open`]. Returns the access bits with which the payload
    /// must be opened (the request's, and the owner's present ones on this file). Passes the
    /// payload of the owner's open to `take` and returns the result, so that an OPEN for more
    /// access can keep using it.
    ///
    /// # Errors
    /// The errors of [`crate::Opens::open_allowed`], NFS4ERR_SHARE_DENIED,
    /// NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_DELAY (delegations of others are recalled), and with a
    /// delegation NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED.
    pub fn open_check<R>(
        &self,
        now: Duration,
        client: ClientKey,
        request: &OpenRequest<'_, F>,
        take: impl FnOnce(&O) -> R,
        effects: &mut Effects<O>,
    ) -> Result<(u32, Option<R>)> {
        let reclaims = request.claim == OpenClaim::Previous;
        self.state.with_client(client, reclaims, |client, held| {
            self.check_request(now, client, request)?;
            let files = self.state.files.read(held, request.file);
            let granted = self.grant(now, client, files.get(request.file), request, effects)?;
            let payload =
                granted.own.and_then(|own| self.state.opens.table.read(own.key, |open| take(&open.payload)));
            Ok((granted.needed, payload))
        })
    }

    /// Checks a request against the access and denials of other opens.
    fn grant(
        &self,
        now: Duration,
        client: &LockedClient<'_>,
        file: Option<&FileState<F>>,
        request: &OpenRequest<'_, F>,
        effects: &mut Effects<O>,
    ) -> Result<Granted> {
        let share = request.share()?;
        if let OpenClaim::Delegated(stateid) = request.claim {
            // A delegation for reading is none for writing; OPEN has no NFS4ERR_OPENMODE.
            let found =
                self.state.delegations().find_delegation(client.key, &stateid, request.file, share.access);
            found.map_err(|status| match status {
                Nfsstat4::NFS4ERR_OPENMODE => Nfsstat4::NFS4ERR_BAD_STATEID,
                status => status,
            })?;
        }
        let Some(file) = file else { return Ok(Granted { share, needed: share.access, own: None }) };
        let (owner, view) = (client.state.open_owners.get(request.owner), (self.state.view)(request.file));
        let own = owner.and_then(|owner| file.opens.get(&(*owner, view))).and_then(|key| {
            let own = |open: &Open<F, O>| OwnerOpen {
                key: *key,
                share: open.share,
                payload_access: open.payload_access,
            };
            self.state.opens.table.read(*key, own)
        });
        let own_share = own.map(|own| own.share).unwrap_or_default();
        let reclaims = request.claim == OpenClaim::Previous;
        let mut all = file.shares;
        if reclaims {
            // Shares that the owner held together may be reclaimed one after another.
            all.remove(own_share);
        }
        // The owner's own open is no exception (RFC 8881 sections 9.7 and 18.16.3, RFC 7530 section
        // 9.9).
        if share.conflicts(all.union()) {
            let status =
                if reclaims { Nfsstat4::NFS4ERR_RECLAIM_CONFLICT } else { Nfsstat4::NFS4ERR_SHARE_DENIED };
            return Err(status);
        }
        let file_use = if request.changes() { FileUse::Change } else { FileUse::Query };
        let delegations = self.state.delegations();
        let delegations =
            delegations.check_delegations(now, client.key, request.file, file, file_use, effects);
        delegations.map_err(|status| if reclaims { Nfsstat4::NFS4ERR_RECLAIM_CONFLICT } else { status })?;
        Ok(Granted { share, needed: share.access | own_share.access, own })
    }

    /// Opens, or widens the owner's open of this file. `payload` is for READ and WRITE, opened with
    /// `payload_access`. On any error, and when it is not needed, it is among the closed payloads
    /// of `effects`.
    ///
    /// # Errors
    /// The errors of [`crate::Opens::open_check`].
    pub fn open(
        &self,
        now: Duration,
        client: ClientKey,
        request: &OpenRequest<'_, F>,
        payload: O,
        payload_access: u32,
        effects: &mut Effects<O>,
    ) -> Result<OpenOutcome> {
        let mut payload = Some(payload);
        let outcome = self.open_with(now, client, request, &mut payload, payload_access, effects);
        effects.closed.extend(payload);
        outcome
    }

    /// Leaves behind the payload that is not needed (any more).
    fn open_with(
        &self,
        now: Duration,
        client: ClientKey,
        request: &OpenRequest<'_, F>,
        payload: &mut Option<O>,
        payload_access: u32,
        effects: &mut Effects<O>,
    ) -> Result<OpenOutcome> {
        let reclaims = request.claim == OpenClaim::Previous;
        self.state.with_client(client, reclaims, |client, held| {
            self.check_request(now, client, request)?;
            let mut files = self.state.files.lock(held, request.file);
            let granted = self.grant(now, client, files.get(request.file), request, effects)?;
            let had = granted.own.map_or(0, |own| own.payload_access);
            if granted.needed & !had != 0 && granted.needed & !payload_access != 0 {
                return Ok(OpenOutcome::Reopen(granted.needed));
            }
            let stateid = match (granted.own, files.get_mut(request.file)) {
                (Some(own), Some(file)) => self.widen(file, own, granted.share, payload, payload_access),
                _ => {
                    let open = NewOpen { share: granted.share, payload_access };
                    self.open_first(client, &mut files, request, open, payload)
                }
            };
            stateid.map(OpenOutcome::Opened)
        })
    }

    /// Merges an OPEN into the open that its owner already has (RFC 8881 section 9.9).
    fn widen(
        &self,
        file: &mut FileState<F>,
        own: OwnerOpen,
        share: Share,
        payload: &mut Option<O>,
        payload_access: u32,
    ) -> Result<Stateid4> {
        let after = own.share.union(share);
        file.shares.remove(own.share);
        file.shares.add(after);
        let seqid = self.state.opens.table.write(own.key, |open| {
            if after.access & !open.payload_access != 0
                && let Some(payload) = payload
            {
                std::mem::swap(&mut open.payload, payload);
                open.payload_access = payload_access;
            }
            open.share = after;
            open.seen = open.seen.with(share);
            open.seqid = next_seqid(open.seqid);
            open.seqid
        });
        let seqid = seqid.ok_or(Nfsstat4::NFS4ERR_DEADSESSION)?;
        Ok(self.state.stateid(StateRef::Open(own.key), seqid))
    }

    fn open_first(
        &self,
        client: &mut LockedClient<'_>,
        files: &mut FilesOfStripe<F>,
        request: &OpenRequest<'_, F>,
        new: NewOpen,
        payload: &mut Option<O>,
    ) -> Result<Stateid4> {
        let (view, group) = ((self.state.view)(request.file), self.state.group_of(request.file));
        let reclaims = request.claim == OpenClaim::Previous;
        let group_max = self.state.quotas.of_group(group).opens_max.filter(|_| !reclaims);
        let given = payload.take().ok_or(Nfsstat4::NFS4ERR_SERVERFAULT)?;
        // Counted before it is there: of several threads at the limit none gets beyond it.
        if self.state.opens.count.fetch_add(1, Relaxed) >= self.state.limits.opens_max {
            self.state.opens.count.fetch_sub(1, Relaxed);
            *payload = Some(given);
            return Err(Nfsstat4::NFS4ERR_NOSPC);
        }
        if !self.state.groups.add_open(group, group_max.unwrap_or(usize::MAX)) {
            self.state.opens.count.fetch_sub(1, Relaxed);
            *payload = Some(given);
            return Err(Nfsstat4::NFS4ERR_NOSPC);
        }
        let opener = &request.opener;
        let user = client.state.user(opener.principal, || self.state.tenants.of(opener));
        user.opens.fetch_add(1, Relaxed);
        user.tenant.opens.fetch_add(1, Relaxed);
        let turn = client.state.next_stripe();
        let owner = match client.state.open_owners.get(request.owner) {
            Some(key) => *key,
            None => {
                let name: Arc<[u8]> = request.owner.into();
                let owner = Owner { clientid: client.record.id, name: name.clone(), uses: 0 };
                *client.state.open_owners.entry(name).or_insert(self.state.opens.owners.insert(turn, owner))
            }
        };
        self.state.opens.owners.write(owner, |owner| owner.uses += 1);
        let file = files.entry(request.file.clone()).or_default();
        file.shares.add(new.share);
        let key = self.state.opens.table.insert(
            turn,
            Open {
                client: client.key,
                owner,
                user,
                file: request.file.clone(),
                share: new.share,
                seen: SeenShares::of(new.share),
                seqid: 1,
                payload: given,
                payload_access: new.payload_access,
                locks: Vec::new(),
            },
        );
        file.opens.insert((owner, view), key);
        client.state.opens.insert(key);
        Ok(self.state.stateid(StateRef::Open(key), 1))
    }

    /// Passes the payload of an open or lock stateid to `take` and returns the result, for I/O on
    /// `file`: `access` is READ 1, WRITE 2, or 0 for any (COMMIT, SETATTR without size and the
    /// like). Locks one stripe for a lookup; for a lock stateid two more, one after the other.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE.
    pub fn access<R>(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        access: u32,
        take: impl FnOnce(&O) -> R,
    ) -> Result<R> {
        let (open, seqid) = match self.state.state_ref(stateid)? {
            StateRef::Delegation(key) => {
                return self.state.delegations().delegated_access(
                    client,
                    key,
                    stateid.seqid,
                    file,
                    access,
                    take,
                );
            }
            StateRef::Open(key) => (key, stateid.seqid),
            // Zero accepts any sequence number of the open.
            StateRef::Lock(key) => {
                (self.state.locks().read_lock(client, key, stateid.seqid, |lock| lock.open)?, 0)
            }
            StateRef::Copy(_) => return Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        };
        self.read_open(client, open, seqid, |open| {
            if !self.state.is_named(&open.file, file) {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            }
            if access & !open.share.access != 0 {
                return Err(Nfsstat4::NFS4ERR_OPENMODE);
            }
            Ok(take(&open.payload))
        })
    }
}

/// The sequence number of a stateid after this one: zero has a meaning of its own and is left out
/// (RFC 8881 section 8.2.2).
pub(crate) fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}
