//! One tenant: its rates and its contexts.

use super::bucket::RateBucket;
use super::rules::{TenantLimits, WEIGHT_DEFAULT};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The least time between two log lines about one tenant or export.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The handle of a context, in bytes.
type HandleBytes = [u8; 16];

/// A limit on a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// Operations of all its COMPOUNDs.
    Operations,
    /// Bytes of requests and replies.
    Bytes,
}

impl RateUnit {
    /// Both, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Operations, Self::Bytes];

    /// Returns the name in metrics and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Bytes => "bytes",
        }
    }
}

/// A wait for a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateWait {
    pub(super) time: Duration,
    /// The part of that time by which this call lengthens the wait of its tenant.
    pub(super) added: Duration,
    pub(super) unit: RateUnit,
    /// The limit, for each second.
    pub(super) rate: u64,
    /// Whether it is to be logged.
    pub(super) is_news: bool,
}

/// The rates of a tenant or an export.
#[derive(Debug, Default)]
pub(super) struct TenantRates {
    operations: RateBucket,
    bytes: RateBucket,
    /// The end of the quiet period of the log, in seconds of the server's clock.
    quiet_until: AtomicU64,
}

impl TenantRates {
    pub(super) fn set(&self, operations_max: u64, bytes_max: u64) {
        self.operations.set_rate(operations_max);
        self.bytes.set_rate(bytes_max);
    }

    /// Charges a call. Returns the longer wait, if the call was over a limit.
    pub(super) fn charge(&self, operations: u64, bytes: u64, now: Duration) -> Option<RateWait> {
        let buckets =
            [(RateUnit::Operations, &self.operations, operations), (RateUnit::Bytes, &self.bytes, bytes)];
        let waits = buckets.map(|(unit, bucket, amount)| {
            let time = bucket.charge(amount, now);
            RateWait {
                time,
                added: bucket.price(amount).min(time),
                unit,
                rate: bucket.rate(),
                is_news: false,
            }
        });
        let wait = waits.into_iter().filter(|wait| !wait.time.is_zero()).max_by_key(|wait| wait.time)?;
        Some(RateWait { is_news: self.is_news(now), ..wait })
    }

    fn is_news(&self, now: Duration) -> bool {
        let (now, quiet_until) = (now.as_secs(), self.quiet_until.load(Relaxed));
        let next = now + LOG_INTERVAL.as_secs();
        now >= quiet_until && self.quiet_until.compare_exchange(quiet_until, next, Relaxed, Relaxed).is_ok()
    }

    /// Returns whether nothing is left to pay for.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        self.operations.is_full(now) && self.bytes.is_full(now)
    }
}

/// The part of a tenant in the time of threads that serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantShare {
    /// Identifies the tenant as long as the server runs.
    pub id: u64,
    /// Its weight relative to the weights of others.
    pub weight: u32,
}

/// A Kerberos principal, or the client with an address.
#[derive(Debug)]
pub struct LimitedTenant {
    id: u64,
    name: String,
    weight: AtomicU32,
    pub(super) rates: TenantRates,
    contexts_max: AtomicUsize,
    contexts: Mutex<BTreeSet<HandleBytes>>,
}

impl LimitedTenant {
    pub(super) fn new(id: u64, name: String, limits: TenantLimits) -> Self {
        let tenant = Self {
            id,
            name,
            weight: AtomicU32::new(WEIGHT_DEFAULT),
            rates: TenantRates::default(),
            contexts_max: AtomicUsize::new(usize::MAX),
            contexts: Mutex::default(),
        };
        tenant.limit(limits);
        tenant
    }

    /// Applies limits from now on.
    pub(super) fn limit(&self, limits: TenantLimits) {
        self.rates.set(limits.operations_max.unwrap_or(0), limits.bytes_max.unwrap_or(0));
        self.weight.store(limits.weight.unwrap_or(WEIGHT_DEFAULT), Relaxed);
        self.contexts_max.store(limits.contexts_max.unwrap_or(usize::MAX), Relaxed);
    }

    /// Returns its part in the time of threads that serve.
    pub(crate) fn share(&self) -> TenantShare {
        TenantShare { id: self.id, weight: self.weight.load(Relaxed) }
    }

    /// Returns the principal or the address.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn contexts(&self) -> MutexGuard<'_, BTreeSet<HandleBytes>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new context. Returns all contexts of the principal if there are more than it may
    /// have.
    pub(crate) fn add_context(&self, handle: HandleBytes) -> Option<Vec<HandleBytes>> {
        let mut contexts = self.contexts();
        contexts.insert(handle);
        let exceeds = contexts.len() > self.contexts_max.load(Relaxed);
        exceeds.then(|| contexts.iter().copied().collect())
    }

    /// Removes a context from the count.
    pub(crate) fn remove_context(&self, handle: HandleBytes) {
        self.contexts().remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_wait_counts_and_is_news_once_a_minute() {
        let rates = TenantRates::default();
        let at = |seconds: u64| Duration::from_secs(100 + seconds);
        assert_eq!(rates.charge(u64::MAX, u64::MAX, at(0)), None, "no limit");
        rates.set(100, 1000);
        assert_eq!(rates.charge(100, 1000, at(0)), None, "a burst");
        let wait = rates.charge(50, 2000, at(0)).unwrap();
        assert_eq!((wait.time, wait.unit, wait.rate), (Duration::from_secs(2), RateUnit::Bytes, 1000));
        assert!(wait.is_news);
        assert!(!rates.charge(500, 0, at(1)).unwrap().is_news);
        assert!(rates.charge(5000, 0, at(60)).unwrap().is_news);
    }
}
