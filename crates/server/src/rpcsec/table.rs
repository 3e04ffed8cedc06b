//! The table of all established contexts.

use super::context::{Context, HANDLE_LEN, Handle, SharedContext};
use crate::metrics::Metrics;
use crate::tenants::{LimitedTenant, LimitedTenants};
use image::{ImageError, ensure};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Stripes of the table, each with its own lock.
const STRIPES_MAX: usize = 16;

/// With fewer contexts per stripe than this, eviction would be uneven.
const STRIPE_CONTEXTS_MIN: usize = 64;

/// Evicts one in this many contexts of a full stripe at once, so that one search for the least
/// useful serves many insertions.
const EVICTED_PART: usize = 16;

/// Idle contexts stay while the stripe is filled to less than one in this many parts.
const IDLE_PART: usize = 4;

type ContextStripe = HashMap<Handle, SharedContext, BuildHasherDefault<HandleHasher>>;

/// Passes the hash of a handle through unchanged.
#[derive(Default)]
struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |number, byte| number.rotate_left(8) ^ u64::from(*byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The established contexts by handle, shared by all connections and threads (RFC 2203 section
/// 5.2.3.1).
///
/// Any connection finds a context, not only the one that created it. A context lives as long as its
/// ticket, since a client cannot make a new one for a user who has logged out by then and left a
/// program behind. From a quarter of the limit on, contexts go that were idle for some minutes.
/// When the table is full, the principals with the most contexts lose some, and so does a principal
/// with more than it may have: first contexts that never carried a call, oldest first, then the
/// least recently used. A client whose context is gone gets RPCSEC_GSS_CREDPROBLEM and creates a
/// new one. Handles are random and so fill the stripes evenly: with the default limit, eviction
/// begins between 95 % and 100 % of it, and never later.
pub struct ContextTable {
    stripes: Box<[RwLock<ContextStripe>]>,
    stripe_max: AtomicUsize,
    next_id: AtomicU64,
    next_sweep: AtomicUsize,
    next_refresh: AtomicUsize,
    refresh_everywhere: AtomicBool,
    metrics: Arc<Metrics>,
    tenants: Arc<LimitedTenants>,
}

impl ContextTable {
    /// Makes an empty table for at most `contexts_max` contexts (at least one). Each counts for its
    /// principal in `tenants`.
    pub fn new(contexts_max: usize, metrics: Arc<Metrics>, tenants: Arc<LimitedTenants>) -> Self {
        let contexts_max = contexts_max.max(1);
        let stripes = (contexts_max / STRIPE_CONTEXTS_MIN).clamp(1, STRIPES_MAX);
        Self {
            stripes: (0..stripes).map(|_| RwLock::default()).collect(),
            stripe_max: AtomicUsize::new((contexts_max / stripes).max(1)),
            next_id: AtomicU64::new(1),
            next_sweep: AtomicUsize::new(0),
            next_refresh: AtomicUsize::new(0),
            refresh_everywhere: AtomicBool::new(false),
            metrics,
            tenants,
        }
    }

    /// Replaces the most contexts; new ones make room for themselves where there are more.
    pub fn set_max(&self, contexts_max: usize) {
        self.stripe_max.store((contexts_max / self.stripes.len()).max(1), Relaxed);
    }

    /// Finds a context that has not expired; one that has is removed.
    pub fn find(&self, handle: Handle, now: Duration) -> Option<Arc<Context>> {
        let stripe = self.stripe(handle)?;
        let found = Arc::clone(read(stripe).get(&handle)?);
        if found.is_expired(now) {
            if write(stripe).remove(&handle).is_some() {
                discount(&found);
                Metrics::add(&self.metrics.contexts_expired, 1);
            }
            return None;
        }
        Some(found)
    }

    /// Returns the number of a new context, unique while the server runs.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Returns the number of the next context.
    pub(super) fn last_id(&self) -> u64 {
        self.next_id.load(Relaxed)
    }

    pub(super) fn set_last_id(&self, next_id: u64) {
        self.next_id.store(next_id, Relaxed);
    }

    /// Stores a context of an image, which was counted when it was created.
    pub(super) fn insert_restored(&self, context: SharedContext, now: Duration) -> Result<(), ImageError> {
        let tenant = self.tenants.principal(context.principal());
        context.set_tenant(tenant.clone());
        let handle = context.handle();
        let stripe = self.stripe(handle);
        let mut stripe = write(stripe.ok_or(ImageError::Inconsistent("the handle of a context"))?);
        if stripe.len() >= self.stripe_max.load(Relaxed) {
            self.make_room(&mut stripe, now);
        }
        let before = stripe.insert(handle, context);
        // A principal that has too many by now loses some with its next one.
        tenant.add_context(*handle.as_bytes());
        ensure(before.is_none(), "two contexts of one handle")
    }

    /// Stores a context. From now on every connection finds it. If its principal has more contexts
    /// than it may have, some of them go.
    pub(crate) fn insert(&self, context: SharedContext, now: Duration) {
        let (handle, tenant) = (context.handle(), self.tenants.principal(context.principal()));
        context.set_tenant(tenant.clone());
        let Some(stripe) = self.stripe(handle) else { return };
        {
            let mut stripe = write(stripe);
            if stripe.len() >= self.stripe_max.load(Relaxed) {
                self.make_room(&mut stripe, now);
            }
            stripe.insert(handle, context);
        }
        Metrics::add(&self.metrics.contexts_created, 1);
        if let Some(handles) = tenant.add_context(*handle.as_bytes()) {
            self.evict_some(&tenant, handle, handles);
        }
    }

    /// Evicts the least useful of a principal's contexts, without the `newest`.
    fn evict_some(&self, tenant: &LimitedTenant, newest: Handle, handles: Vec<[u8; HANDLE_LEN]>) {
        let mut found = Vec::new();
        for handle in handles.into_iter().map(Handle::new).filter(|handle| *handle != newest) {
            match self.stripe(handle).and_then(|stripe| read(stripe).get(&handle).cloned()) {
                Some(context) => found.push(context),
                // Another thread has removed it before it was counted.
                None => tenant.remove_context(*handle.as_bytes()),
            }
        }
        found.sort_by_key(|context| context.usefulness());
        let count = (found.len() / EVICTED_PART).max(1);
        for handle in found.iter().take(count).map(|context| context.handle()) {
            let removed = self.stripe(handle).and_then(|stripe| write(stripe).remove(&handle));
            if let Some(context) = removed {
                discount(&context);
                Metrics::add(&self.metrics.contexts_evicted, 1);
            }
        }
    }

    /// Removes a context on its owner's demand. Calls in flight finish.
    pub(crate) fn destroy(&self, handle: Handle) {
        let removed = self.stripe(handle).and_then(|stripe| write(stripe).remove(&handle));
        if let Some(context) = removed {
            discount(&context);
            Metrics::add(&self.metrics.contexts_destroyed, 1);
        }
    }

    /// Marks a context as used, so that it does not expire for lack of calls.
    pub(crate) fn touch(&self, handle: Handle, now: Duration) {
        if let Some(context) = self.stripe(handle).and_then(|stripe| read(stripe).get(&handle).cloned()) {
            context.touch(now);
        }
    }

    /// Removes expired and unused contexts from one stripe, and idle ones where there are many.
    /// Called once a second, it covers the whole table in well under a minute.
    pub fn sweep(&self, now: Duration) {
        let turn = self.next_sweep.fetch_add(1, Relaxed) % self.stripes.len();
        if let Some(stripe) = self.stripes.get(turn) {
            self.remove_expired(&mut write(stripe), now);
        }
    }

    /// Makes the identities of all contexts due for a refresh.
    pub fn refresh_all(&self) {
        for stripe in &self.stripes {
            read(stripe).values().for_each(|context| context.set_refresh(Duration::ZERO));
        }
        self.refresh_everywhere.store(true, Relaxed);
    }

    /// Appends the contexts whose identities are due for a refresh, of one stripe for each call,
    /// and of all after [`ContextTable::refresh_all`]. They are due again after `interval`.
    pub(crate) fn due_for_refresh(&self, now: Duration, interval: Duration, due: &mut Vec<SharedContext>) {
        let everywhere = self.refresh_everywhere.swap(false, Relaxed);
        let turn = self.next_refresh.fetch_add(1, Relaxed) % self.stripes.len();
        for (index, stripe) in self.stripes.iter().enumerate() {
            if everywhere || index == turn {
                let first = due.len();
                due.extend(read(stripe).values().filter(|context| context.is_refresh_due(now)).cloned());
                let next = now.saturating_add(interval);
                due.iter().skip(first).for_each(|context| context.set_refresh(next));
            }
        }
    }

    /// Returns the number of established contexts.
    pub fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| read(stripe).len()).sum()
    }

    /// Lists at most `max` contexts.
    pub fn list(&self, max: usize) -> Vec<Arc<Context>> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            found.extend(read(stripe).values().take(max - found.len()).cloned());
        }
        found
    }

    /// Returns the number of contexts whose tickets expire `within` a time. Idle ones do not count:
    /// most of their users have logged out.
    pub fn expiring(&self, now: Duration, within: Duration) -> usize {
        let until = now.saturating_add(within);
        let expires = |context: &&SharedContext| context.is_expired(until) && !context.is_idle(now);
        self.stripes.iter().map(|stripe| read(stripe).values().filter(expires).count()).sum()
    }

    /// Returns the number of contexts with delegated tickets.
    pub fn delegated(&self) -> usize {
        let count = |stripe| read(stripe).values().filter(|context| context.is_delegated()).count();
        self.stripes.iter().map(count).sum()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stripe(&self, handle: Handle) -> Option<&RwLock<ContextStripe>> {
        let [first, second, ..] = *handle.as_bytes();
        self.stripes.get(usize::from(u16::from_be_bytes([first, second])) % self.stripes.len())
    }

    fn remove_expired(&self, stripe: &mut ContextStripe, now: Duration) {
        let before = stripe.len();
        let keeps_idle = before < self.stripe_max.load(Relaxed) / IDLE_PART;
        stripe.retain(|_, context| {
            let useful = !context.is_unused(now) && (keeps_idle || !context.is_idle(now));
            let stays = useful && !context.is_expired(now);
            if !stays {
                discount(context);
            }
            stays
        });
        Metrics::add(&self.metrics.contexts_expired, (before - stripe.len()) as u64);
    }

    fn make_room(&self, stripe: &mut ContextStripe, now: Duration) {
        self.remove_expired(stripe, now);
        if stripe.len() < self.stripe_max.load(Relaxed) {
            return;
        }
        let count = (stripe.len() / EVICTED_PART).max(1);
        for handle in least_useful(stripe, count) {
            stripe.remove(&handle).iter().for_each(|context| discount(context));
        }
        Metrics::add(&self.metrics.contexts_evicted, count as u64);
    }
}

/// Removes a context from the count of its principal.
fn discount(context: &Context) {
    if let Some(tenant) = context.tenant() {
        tenant.remove_context(*context.handle().as_bytes());
    }
}

/// Chooses the contexts to evict. A context ranks lower, the more contexts its principal has that
/// are more useful, so that the principals with the most contexts lose some.
fn least_useful(stripe: &ContextStripe, count: usize) -> Vec<Handle> {
    let mut order: Vec<_> = stripe.values().map(|context| (context.usefulness(), context)).collect();
    order.sort_unstable_by_key(|(usefulness, _)| Reverse(*usefulness));
    let mut of_principal: HashMap<&str, usize> = HashMap::new();
    let mut ranked: Vec<_> = order
        .into_iter()
        .map(|(usefulness, context)| {
            let rank = of_principal.entry(context.principal()).or_default();
            *rank += 1;
            (Reverse(*rank), usefulness, context.handle())
        })
        .collect();
    ranked.sort_unstable_by_key(|(rank, usefulness, _)| (*rank, *usefulness));
    ranked.into_iter().take(count).map(|(.., handle)| handle).collect()
}

// A thread that panics while it holds a stripe leaves a sound map behind.
fn read(stripe: &RwLock<ContextStripe>) -> RwLockReadGuard<'_, ContextStripe> {
    stripe.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(stripe: &RwLock<ContextStripe>) -> RwLockWriteGuard<'_, ContextStripe> {
    stripe.write().unwrap_or_else(PoisonError::into_inner)
}
