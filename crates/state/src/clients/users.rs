//! Users of a client: its opens and locks count for them as well as for the client.
//!
//! A machine has one client for all of its users, and a user may have many clients. Opens and locks
//! therefore have two limits: a user's share of its client's limit, and its tenant's share of the
//! server's.

use crate::Clients;
use crate::clients::tenants::{Tenant, TenantName, TenantPool, is_of};
use crate::clients::{Client, ClientState, LockedClient};
use crate::order::{Held, NothingHeld};
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::{Caller, Effects, Nfsstat4, OpenClaim, Opener, Principal, Result, StateQuota};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// A principal that has opens by a client. Its numbers change under the client's state.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) principal: Principal,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) opens: AtomicUsize,
    /// Lock stateids and locked ranges.
    pub(crate) locks: AtomicUsize,
}

impl ClientState {
    /// Returns a user that is about to open something.
    pub(crate) fn user(&mut self, principal: &Principal, tenant: impl FnOnce() -> Arc<Tenant>) -> Arc<User> {
        let user = self.users.entry(Arc::clone(&principal.0)).or_insert_with(|| {
            let (opens, locks) = (AtomicUsize::new(0), AtomicUsize::new(0));
            Arc::new(User { principal: principal.clone(), tenant: tenant(), opens, locks })
        });
        Arc::clone(user)
    }

    /// Forgets a user that has nothing open any more.
    pub(crate) fn release_user(&mut self, user: &User) {
        if user.opens.load(Relaxed) == 0 && user.locks.load(Relaxed) == 0 {
            self.users.remove(&user.principal.0);
        }
    }

    fn pool(&self, max: usize, all: usize, own: usize) -> TenantPool {
        TenantPool { max, all, holders: self.users.len() + usize::from(own == 0) }
    }
}

impl<F: Clone + Eq + Hash, O> Clients<'_, F, O> {
    fn opens_pool(&self, own: usize) -> TenantPool {
        let (max, all) = (self.state.limits.opens_max, self.state.opens.count());
        TenantPool { max, all, holders: self.state.tenants.len() + usize::from(own == 0) }
    }

    fn locks_pool(&self) -> TenantPool {
        let (max, all) = (self.state.limits.locks_max, self.state.locks.count());
        TenantPool { max, all, holders: self.state.tenants.len() }
    }

    /// Checks one more open against the limits of the client and of the server, and unless it is
    /// reclaimed, against the shares of its user in both.
    ///
    /// # Errors
    /// NFS4ERR_NOSPC.
    pub(crate) fn check_open_limits(&self, client: &LockedClient<'_>, opener: Opener<'_>) -> Result<()> {
        let Opener { caller, claim, .. } = opener;
        let of_client = self.state.quotas.of_client(client.record.creator.address());
        let client_max = of_client.opens_max.unwrap_or(self.state.limits.opens_per_client_max);
        let of_client = client.state.opens.len();
        if of_client >= client_max || self.state.opens.count() >= self.state.limits.opens_max {
            return Err(Nfsstat4::NFS4ERR_NOSPC);
        }
        // State that fitted before a restart fits after it, in any order of reclaiming.
        if claim == OpenClaim::Previous {
            return Ok(());
        }
        let (own, of_tenant) = match client.state.users.get(&caller.principal.0) {
            Some(user) => (user.opens.load(Relaxed), user.tenant.opens.load(Relaxed)),
            None => (0, self.state.tenants.find(caller).map_or(0, |tenant| tenant.opens.load(Relaxed))),
        };
        let fits = client.state.pool(client_max, of_client, own).admits(own)
            && self.opens_pool(of_tenant).admits(of_tenant)
            && self.state.quotas.of_tenant(&TenantName::of(caller)).admits_open(of_tenant);
        if fits { Ok(()) } else { Err(Nfsstat4::NFS4ERR_NOSPC) }
    }

    /// Makes room for an open that was refused with NFS4ERR_NOSPC for the server's limit: removes
    /// the client whose lease expired first, one of the opener's tenant if that has used up its
    /// share. Returns whether there was one.
    pub fn make_room_for_open(&self, now: Duration, opener: &Caller<'_>, effects: &mut Effects<O>) -> bool {
        let tenant = self.state.tenants.find(opener);
        let opens = tenant.as_ref().map_or(0, |tenant| tenant.opens.load(Relaxed));
        let pool = self.opens_pool(opens);
        if pool.all < pool.max && pool.admits(opens) {
            return false;
        }
        let whose = tenant.as_ref().filter(|_| !pool.is_fair(opens));
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        self.state.leases().release_expired_clients(&mut registry, now, is_of(whose), 1, effects) > 0
    }

    /// Checks so many more locks as [`crate::Clients::check_open_limits`] does opens; they are
    /// counted for all clients already.
    ///
    /// # Errors
    /// NFS4ERR_DELAY.
    pub(crate) fn check_lock_limits(
        &self,
        record: &Client,
        client_state: &ClientState,
        user: &User,
        more: usize,
        reclaims: bool,
    ) -> Result<()> {
        let of_client = self.state.quotas.of_client(record.creator.address());
        let client_max = of_client.locks_max.unwrap_or(self.state.limits.locks_per_client_max);
        if client_state.locks + more > client_max || self.state.locks.count() > self.state.limits.locks_max {
            return Err(Nfsstat4::NFS4ERR_DELAY);
        }
        let (own, of_tenant) = (user.locks.load(Relaxed), user.tenant.locks.load(Relaxed));
        let fits = reclaims
            || client_state.pool(client_max, client_state.locks, own).admits(own)
                && self.locks_pool().admits(of_tenant)
                && self.quota_of(user).admits_locks(of_tenant, more);
        if fits { Ok(()) } else { Err(Nfsstat4::NFS4ERR_DELAY) }
    }

    /// Returns the limits of a user's tenant.
    fn quota_of(&self, user: &User) -> StateQuota {
        match user.principal.is_proved() {
            true => self.state.quotas.of_tenant(&TenantName::Principal(Arc::clone(&user.principal.0))),
            false => StateQuota::default(),
        }
    }

    /// As [`crate::Clients::make_room_for_open`], for so many locks.
    pub(crate) fn make_room_for_locks(
        &self,
        held: &mut Held<NothingHeld>,
        now: Duration,
        tenant: &Arc<Tenant>,
        more: usize,
        effects: &mut Effects<O>,
    ) -> bool {
        let (pool, locks) = (self.locks_pool(), tenant.locks.load(Relaxed));
        if pool.all + more <= pool.max && pool.admits(locks) {
            return false;
        }
        let whose = Some(tenant).filter(|_| !pool.is_fair(locks));
        let mut registry = self.state.registry(held);
        self.state.leases().release_expired_clients(&mut registry, now, is_of(whose), 1, effects) > 0
    }
}
