//! Limits of single tenants, clients and groups of files, besides
//! [`Limits`](crate::Limits).

use crate::TenantName;
use std::fmt;
use std::net::IpAddr;

/// Limits of one tenant, client or group of files; `None` adds nothing to those of
/// [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateQuota {
    /// Sessions. CREATE_SESSION beyond it: NFS4ERR_NOSPC.
    pub sessions_max: Option<usize>,
    /// Opens. OPEN beyond it: NFS4ERR_NOSPC.
    pub opens_max: Option<usize>,
    /// Lock stateids and locked ranges. LOCK beyond it: NFS4ERR_DELAY.
    pub locks_max: Option<usize>,
}

impl StateQuota {
    /// Returns whether the holder of so many opens may have one more.
    pub(crate) fn admits_open(self, opens: usize) -> bool {
        self.opens_max.is_none_or(|max| opens < max)
    }

    /// Returns whether the holder of so many locks may have more.
    pub(crate) fn admits_locks(self, locks: usize, more: usize) -> bool {
        self.locks_max.is_none_or(|max| locks.saturating_add(more) <= max)
    }
}

/// Tells the limits of single tenants, clients and groups of files. They may change at any time;
/// state that is held already stays.
pub trait Quotas: fmt::Debug + Send + Sync {
    /// Returns the limits of a tenant, over all of its clients.
    fn of_tenant(&self, tenant: &TenantName) -> StateQuota;

    /// Returns the limits of each client that was created from an address. They replace those for
    /// each client in [`Limits`](crate::Limits).
    fn of_client(&self, address: IpAddr) -> StateQuota;

    /// Returns the group of the files of a view; see
    /// [`State::with_views`](crate::State::with_views). It never changes.
    fn group_of(&self, view: u64) -> u64;

    /// Returns the limits of all opens and locks of a group of files.
    fn of_group(&self, group: u64) -> StateQuota;
}

/// No limits besides those of [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoQuotas;

impl Quotas for NoQuotas {
    fn of_tenant(&self, _tenant: &TenantName) -> StateQuota {
        StateQuota::default()
    }

    fn of_client(&self, _address: IpAddr) -> StateQuota {
        StateQuota::default()
    }

    fn group_of(&self, view: u64) -> u64 {
        view
    }

    fn of_group(&self, _group: u64) -> StateQuota {
        StateQuota::default()
    }
}
