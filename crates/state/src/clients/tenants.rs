//! Tenants: the principals and addresses that clients and their state count for (RFC 8881 section
//! 2.10.3 leaves resources to the server).
//!
//! A tenant is a principal that RPCSEC_GSS proved, or the address of a caller by AUTH_SYS or
//! AUTH_NONE, whose name proves nothing. Common resources are divided among tenants, so that a
//! flood by one of them exhausts its own share.

use crate::clients::registry::Enrolled;
use crate::order::{Guard, Held, Leaf, LeafLevel, RegistryLevel};
use crate::sessions::nanoseconds;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard};
use crate::{Caller, Protection};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// The part of a pool that only tenants below their fair part may use: one in so many.
const KEPT_PART: usize = 4;

/// The identity of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TenantName {
    /// A principal that RPCSEC_GSS proved.
    Principal(Arc<[u8]>),
    /// An address of AUTH_SYS callers; see [`TenantName::of_address`].
    Address(IpAddr),
}

/// The holder of one IPv6 address has the 2^64 addresses of its network as well.
const NETWORK_OF_64_BITS: u128 = !0 << 64;

impl TenantName {
    pub(crate) fn of(caller: &Caller<'_>) -> Self {
        if caller.protection >= Protection::Authentication {
            return Self::Principal(Arc::clone(&caller.principal.0));
        }
        Self::of_address(caller.address)
    }

    /// Returns the tenant of a client's address: in IPv6, of its /64 network.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_OF_64_BITS)),
            address => address,
        })
    }
}

/// One principal or address, and how much of everything is its own.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// Client records; changes under the registry.
    pub(crate) clients: AtomicUsize,
    /// Bytes of sessions and their cached replies.
    pub(crate) memory: AtomicUsize,
    /// Opens of all its clients.
    pub(crate) opens: AtomicUsize,
    /// Lock stateids and locked ranges.
    pub(crate) locks: AtomicUsize,
    /// State-owners of its NFSv4.0 clients.
    pub(crate) owners: AtomicUsize,
    /// When room for one more client was looked for in vain, in nanoseconds.
    pub(super) vain_search: AtomicU64,
}

/// How long after a search in vain none is made again for the same tenant.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

impl Tenant {
    pub(crate) fn note_vain_search(&self, now: Duration) {
        self.vain_search.store(nanoseconds(now), Relaxed);
    }

    /// Whether it is no use to look again already.
    pub(crate) fn searched_in_vain(&self, now: Duration) -> bool {
        let at = self.vain_search.load(Relaxed);
        at > 0 && now < Duration::from_nanos(at).saturating_add(SEARCH_INTERVAL)
    }
}

/// Returns whether a client is one of a tenant's, or of anyone's.
pub(crate) fn is_of(tenant: Option<&Arc<Tenant>>) -> impl Fn(&Enrolled, &mut Held<RegistryLevel>) -> bool {
    move |client, _| tenant.is_none_or(|tenant| Arc::ptr_eq(tenant, &client.record.tenant))
}

/// All tenants that have anything.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    all: Leaf<Mutex<BTreeMap<TenantName, Arc<Tenant>>>>,
    count: AtomicUsize,
}

impl Tenants {
    /// Makes the table of tenants that have something.
    pub(super) fn of_all(all: BTreeMap<TenantName, Arc<Tenant>>) -> Self {
        Self { count: AtomicUsize::new(all.len()), all: Leaf::new(Mutex::new(all)) }
    }

    pub(super) fn lock(&self) -> Guard<MutexGuard<'_, BTreeMap<TenantName, Arc<Tenant>>>, LeafLevel> {
        self.all.lock()
    }

    /// Returns the caller's tenant, which stays as long as anything refers to it.
    pub(crate) fn of(&self, caller: &Caller<'_>) -> Arc<Tenant> {
        let mut all = self.lock();
        let tenant = Arc::clone(all.entry(TenantName::of(caller)).or_default());
        self.count.store(all.len(), Relaxed);
        tenant
    }

    /// Returns the caller's tenant, if it has anything.
    pub(crate) fn find(&self, caller: &Caller<'_>) -> Option<Arc<Tenant>> {
        self.lock().get(&TenantName::of(caller)).cloned()
    }

    /// Forgets tenants without clients and opens.
    pub(crate) fn sweep(&self) {
        let mut all = self.lock();
        all.retain(|_, tenant| Arc::strong_count(tenant) > 1);
        self.count.store(all.len(), Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns the tenant that holds most of something.
    pub(crate) fn largest(&self, of: impl Fn(&Tenant) -> &AtomicUsize) -> Option<Arc<Tenant>> {
        self.lock().values().max_by_key(|tenant| of(tenant).load(Relaxed)).cloned()
    }
}

/// Something of which there is a limited amount for all tenants, or for all users of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantPool {
    /// The limit of the resource.
    pub(crate) max: usize,
    /// The amount in use by all tenants.
    pub(crate) all: usize,
    /// Among how many it is divided.
    pub(crate) holders: usize,
}

impl TenantPool {
    /// Returns whether a holder of `own` may take more: as long as it holds less than twice the
    /// free part, or less than its part of the reserve.
    ///
    /// A quarter is reserved, and not free. So a single holder gets at most half of all, each
    /// further one finds two thirds of the part that the others left free, and the resource is
    /// never used up.
    pub(crate) fn admits(self, own: usize) -> bool {
        let left = self.max.saturating_sub(self.all);
        own < self.free().saturating_mul(2) || own < left.div_ceil(self.holders.max(1))
    }

    /// Whether a holder that `admits` lets grow should rather shrink: it is half way to its limit.
    pub(crate) fn is_tight(self, own: usize) -> bool {
        own >= self.free() && !self.is_fair(own)
    }

    /// Whether it is less than everyone can have at the same time.
    pub(crate) fn is_fair(self, own: usize) -> bool {
        own < (self.max / KEPT_PART / self.holders.max(1)).max(1)
    }

    fn free(self) -> usize {
        (self.max - self.max / KEPT_PART).saturating_sub(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Principal;

    fn name(address: &str, protection: Protection, principal: &str) -> TenantName {
        let principal = Principal::new(principal);
        let address = address.parse().unwrap();
        TenantName::of(&Caller { connection: 1, address, principal: &principal, protection })
    }

    #[test]
    fn a_claimed_user_is_no_tenant_and_a_proved_principal_is_one_from_everywhere() {
        let sys = |address, principal| name(address, Protection::None, principal);
        assert_eq!(sys("192.0.2.1", "sys:0"), sys("192.0.2.1", "sys:4242"));
        assert_eq!(sys("192.0.2.1", "sys:0"), sys("::ffff:192.0.2.1", "sys:0"));
        assert_ne!(sys("192.0.2.1", "sys:0"), sys("192.0.2.2", "sys:0"));
        assert_eq!(sys("2001:db8::1", "sys:0"), sys("2001:db8::ffff:1:2", "sys:0"));
        assert_ne!(sys("2001:db8::1", "sys:0"), sys("2001:db8:0:1::1", "sys:0"));
        for protection in [Protection::Authentication, Protection::Integrity, Protection::Privacy] {
            let gss = |address| name(address, protection, "gss:alice@R");
            assert_eq!(gss("192.0.2.1"), gss("2001:db8::1"));
            assert_ne!(gss("192.0.2.1"), name("192.0.2.1", protection, "gss:bob@R"));
        }
    }

    #[test]
    fn one_holder_gets_half_and_whoever_comes_last_still_gets_something() {
        let (max, mut held) = (1 << 20, Vec::<usize>::new());
        for holders in 1..=64 {
            let mut own = 0;
            let all: usize = held.iter().sum();
            while (TenantPool { max, all: all + own, holders }).admits(own) {
                own += 1;
            }
            let least = max / KEPT_PART / holders / holders;
            assert!(own >= least, "{own} of the {holders}th is less than {least}");
            assert!(holders > 1 || (max / 2 - 1..=max / 2 + 1).contains(&own), "{own}");
            held.push(own);
        }
        assert!(held.iter().sum::<usize>() <= max);
    }

    #[test]
    fn a_tenant_without_anything_is_forgotten() {
        let tenants = Tenants::default();
        let principal = Principal::new("sys:0");
        let caller = |n: u8| Caller {
            connection: 1,
            address: [192, 0, 2, n].into(),
            principal: &principal,
            protection: Protection::None,
        };
        let kept = tenants.of(&caller(1));
        drop(tenants.of(&caller(2)));
        assert_eq!(tenants.len(), 2);
        tenants.sweep();
        assert_eq!(tenants.len(), 1);
        assert!(Arc::ptr_eq(&kept, &tenants.of(&caller(1))));
    }
}
