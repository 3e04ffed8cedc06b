//! Tenants: the Kerberos principals and the clients that share the server, with their limits.
//!
//! A tenant is a principal that RPCSEC_GSS proved, or the address of a caller: see [`TenantName`].
//! The network layer pauses the connections of tenants and exports that are over a limit of their
//! rates. Calls are charged when they are answered: a limit delays the next ones, and never makes
//! one fail.

mod bucket;
mod rules;
mod tenant;

pub use bucket::PAUSE_TIME_MAX;
pub use rules::{ExportLimits, LimitRule, LimitRules, LimitSubjects, TenantLimits, WEIGHT_DEFAULT};
pub use tenant::{LimitedTenant, RateUnit, TenantShare};

use crate::log_limit::LogLimit;
use arc_swap::ArcSwap;
use state::{Quotas, StateQuota, TenantName};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenant::{RateWait, TenantRates};

/// The use of a call, for the limits of rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallUsage {
    /// Operations of its COMPOUND that ran.
    pub(crate) operations: u32,
    /// The number of its export, if it had one.
    pub(crate) export: Option<u32>,
}

/// The subject of a limit on a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedKind {
    /// A Kerberos principal, by name.
    Principal,
    /// A client, by its address.
    Client,
    /// An export, by its path.
    Export,
}

impl LimitedKind {
    /// All kinds of limited subjects.
    pub const ALL: [Self; 3] = [Self::Principal, Self::Client, Self::Export];

    /// Returns the name in metrics and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Client => "client",
            Self::Export => "export",
        }
    }
}

/// An export with limits.
#[derive(Debug)]
struct LimitedExport {
    limits: ExportLimits,
    rates: TenantRates,
}

/// All tenants of a server, and the limits of principals, clients and exports.
#[derive(Debug, Default)]
pub struct LimitedTenants {
    rules: ArcSwap<LimitRules>,
    exports: ArcSwap<BTreeMap<u32, Arc<LimitedExport>>>,
    /// Whether any rate has a limit, so that calls are charged.
    bounds_rates: AtomicBool,
    /// Whether a client has a limit of its rates.
    bounds_clients: AtomicBool,
    table: Mutex<BTreeMap<TenantName, Arc<LimitedTenant>>>,
    /// The pauses in nanoseconds, by kind and unit.
    throttled: [[AtomicU64; RateUnit::ALL.len()]; LimitedKind::ALL.len()],
    log: LogLimit,
}

impl LimitedTenants {
    fn table(&self) -> MutexGuard<'_, BTreeMap<TenantName, Arc<LimitedTenant>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies rules to all calls from now on.
    pub fn apply(&self, rules: LimitRules) {
        let known = self.exports.load_full();
        let exports = rules.exports.iter().map(|limits| {
            // TenantRates that stay the same go on.
            let same = known.get(&limits.export).filter(|known| known.limits == *limits).cloned();
            let made = same.unwrap_or_else(|| Arc::new(LimitedExport::new(limits.clone())));
            (limits.export, made)
        });
        let exports: BTreeMap<_, _> = exports.collect();
        self.bounds_rates.store(rules.bounds_rates(), Relaxed);
        self.bounds_clients.store(rules.bounds_clients(), Relaxed);
        self.exports.store(Arc::new(exports));
        // LimitedTenants that are made meanwhile have the new rules.
        self.rules.store(Arc::new(rules));
        let rules = self.rules.load_full();
        self.table().iter().for_each(|(name, tenant)| tenant.limit(limits_of(&rules, name)));
    }

    /// Returns the tenant of a principal.
    pub(crate) fn principal(&self, principal: &str) -> Arc<LimitedTenant> {
        self.of(TenantName::Principal(principal.as_bytes().into()), || principal.to_owned())
    }

    /// Returns the tenant of a client.
    pub(crate) fn client(&self, address: IpAddr) -> Arc<LimitedTenant> {
        let name = TenantName::of_address(address);
        self.of(name, || address.to_canonical().to_string())
    }

    fn of(&self, name: TenantName, text: impl FnOnce() -> String) -> Arc<LimitedTenant> {
        let mut table = self.table();
        if let Some(known) = table.get(&name) {
            return known.clone();
        }
        let limits = limits_of(&self.rules.load(), &name);
        let tenant = Arc::new(LimitedTenant::new(share_id(&name), text(), limits));
        table.insert(name, tenant.clone());
        tenant
    }

    /// Forgets tenants that nothing refers to and that have nothing to pay for.
    pub(crate) fn sweep(&self, now: Duration) {
        self.table().retain(|_, tenant| Arc::strong_count(tenant) > 1 || !tenant.rates.is_idle(now));
    }

    /// Returns the weight of an export in the threads that wait for file systems.
    pub fn export_weight(&self, export: u32) -> u32 {
        self.exports.load().get(&export).and_then(|export| export.limits.weight).unwrap_or(WEIGHT_DEFAULT)
    }

    /// Returns whether calls need the tenant of their client, besides that of their principal.
    pub(crate) fn bounds_clients(&self) -> bool {
        self.bounds_clients.load(Relaxed)
    }

    /// Returns whether calls are to be charged.
    pub(crate) fn bounds_rates(&self) -> bool {
        self.bounds_rates.load(Relaxed)
    }

    /// Charges a call that has been answered. Returns how long its connection must be paused.
    pub(crate) fn charge(
        &self,
        principal: Option<&LimitedTenant>,
        client: Option<&LimitedTenant>,
        usage: CallUsage,
        bytes: usize,
        now: Duration,
    ) -> Duration {
        let (operations, bytes) = (u64::from(usage.operations), bytes as u64);
        let exports = self.exports.load();
        let export = usage.export.and_then(|export| exports.get(&export));
        let limited = [
            (LimitedKind::Principal, principal.map(|tenant| (tenant.name(), &tenant.rates))),
            (LimitedKind::Client, client.map(|tenant| (tenant.name(), &tenant.rates))),
            (LimitedKind::Export, export.map(|export| (export.limits.name.as_str(), &export.rates))),
        ];
        let mut longest = Duration::ZERO;
        for (kind, limited) in limited {
            let Some((name, rates)) = limited else { continue };
            let Some(wait) = rates.charge(operations, bytes, now) else { continue };
            self.note(kind, name, wait, now);
            longest = longest.max(wait.time);
        }
        longest
    }

    fn note(&self, kind: LimitedKind, name: &str, wait: RateWait, now: Duration) {
        let RateWait { added, unit, rate, is_news, .. } = wait;
        let counter = self.throttled.get(kind as usize).and_then(|units| units.get(unit as usize));
        let nanoseconds = u64::try_from(added.as_nanos()).unwrap_or(u64::MAX);
        if let Some(counter) = counter {
            counter.fetch_add(nanoseconds, Relaxed);
        }
        if is_news && let Some(suppressed) = self.log.permit(now) {
            let (kind, unit) = (kind.name(), unit.name());
            let keys = if kind == LimitedKind::Export.name() {
                "limits of the export"
            } else {
                "[limits.principal], [limits.client] and [[limits.rule]]"
            };
            tracing::warn!(
                suppressed,
                "{kind} {name} is throttled to {rate} {unit} a second, and with it all users of its \
                 connections; {keys} of the configuration set it"
            );
        }
    }

    /// Returns the time for which connections were paused, by the kind of the limit and its unit.
    pub fn throttled(&self) -> impl Iterator<Item = (LimitedKind, RateUnit, Duration)> + '_ {
        let sums = LimitedKind::ALL.into_iter().zip(&self.throttled);
        sums.flat_map(|(kind, units)| {
            let units = RateUnit::ALL.into_iter().zip(units);
            units.map(move |(unit, sum)| (kind, unit, Duration::from_nanos(sum.load(Relaxed))))
        })
    }
}

impl LimitedExport {
    fn new(limits: ExportLimits) -> Self {
        let rates = TenantRates::default();
        rates.set(limits.operations_max, limits.bytes_max);
        Self { limits, rates }
    }
}

/// Makes the id of a tenant from its name, so that one that is forgotten and made again keeps it.
fn share_id(name: &TenantName) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn limits_of(rules: &LimitRules, name: &TenantName) -> TenantLimits {
    match name {
        TenantName::Principal(name) => rules.of_principal(&String::from_utf8_lossy(name)),
        TenantName::Address(address) => rules.of_client(*address),
    }
}

impl Quotas for LimitedTenants {
    fn of_tenant(&self, tenant: &TenantName) -> StateQuota {
        match tenant {
            TenantName::Principal(name) => {
                // The state's name of a principal has its flavor in front.
                let name = String::from_utf8_lossy(name);
                quota(self.rules.load().of_principal(name.strip_prefix("gss:").unwrap_or(&name)))
            }
            // A name that is not proved counts for the client alone.
            TenantName::Address(_) => StateQuota::default(),
        }
    }

    fn of_client(&self, address: IpAddr) -> StateQuota {
        quota(self.rules.load().of_client(address))
    }

    /// Returns the number of the export; see `FileKey::view`.
    fn group_of(&self, view: u64) -> u64 {
        view >> 32
    }

    fn of_group(&self, group: u64) -> StateQuota {
        let export = u32::try_from(group).ok();
        let exports = self.exports.load();
        let limits = export.and_then(|export| exports.get(&export)).map(|export| &export.limits);
        limits.map_or(StateQuota::default(), |limits| StateQuota {
            sessions_max: None,
            opens_max: limits.opens_max,
            locks_max: limits.locks_max,
        })
    }
}

fn quota(limits: TenantLimits) -> StateQuota {
    let TenantLimits { sessions_max, opens_max, locks_max, .. } = limits;
    StateQuota { sessions_max, opens_max, locks_max }
}

/// The tenants of the clients that one thread has served.
#[derive(Debug, Default)]
pub(crate) struct ClientTenants {
    last: Option<(IpAddr, Arc<LimitedTenant>)>,
    known: HashMap<IpAddr, Arc<LimitedTenant>>,
}

/// Addresses that one thread remembers. When the table is full, it is emptied.
const CLIENTS_REMEMBERED_MAX: usize = 4096;

impl ClientTenants {
    /// Returns the tenant of a client.
    pub(crate) fn find(&mut self, tenants: &LimitedTenants, address: IpAddr) -> &Arc<LimitedTenant> {
        let Self { last, known } = self;
        let is_last = last.as_ref().is_some_and(|(last, _)| *last == address);
        if !is_last {
            if known.len() >= CLIENTS_REMEMBERED_MAX {
                known.clear();
            }
            let tenant = known.entry(address).or_insert_with(|| tenants.client(address)).clone();
            return &last.insert((address, tenant)).1;
        }
        &last.get_or_insert_with(|| (address, tenants.client(address))).1
    }
}
