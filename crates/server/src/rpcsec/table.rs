//! All established contexts.

use super::context::{Context, Handle, SharedContext};
use crate::metrics::Metrics;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Parts of the table, each with a lock of its own.
const STRIPES_MAX: usize = 16;

/// Below this many contexts a stripe would be evicted unevenly.
const STRIPE_CONTEXTS_MIN: usize = 64;

/// The part of a full stripe that makes room at once, so that the search for the least useful is
/// paid once for many.
const EVICTED_PART: usize = 16;

type Stripe = HashMap<Handle, SharedContext, BuildHasherDefault<HandleHasher>>;

/// Takes what a handle says of itself for its hash.
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
/// A context is found by any connection, whichever it was created on. Contexts that are not used go
/// after some minutes. When the table is full, the principals with the most contexts make room: of
/// theirs, contexts that never carried a call go first, the oldest before others, then those that
/// were used longest ago. A client whose context is gone hears RPCSEC_GSS_CREDPROBLEM and makes a
/// new one. Handles are random and so fill the stripes evenly: with the default limit eviction
/// begins between 95 % and 100 % of it, and never later.
pub struct ContextTable {
    stripes: Box<[RwLock<Stripe>]>,
    stripe_max: usize,
    next_id: AtomicU64,
    next_sweep: AtomicUsize,
    metrics: Arc<Metrics>,
}

impl ContextTable {
    /// Makes an empty table for at most `contexts_max` contexts (at least one).
    pub fn new(contexts_max: usize, metrics: Arc<Metrics>) -> Self {
        let contexts_max = contexts_max.max(1);
        let stripes = (contexts_max / STRIPE_CONTEXTS_MIN).clamp(1, STRIPES_MAX);
        Self {
            stripes: (0..stripes).map(|_| RwLock::default()).collect(),
            stripe_max: (contexts_max / stripes).max(1),
            next_id: AtomicU64::new(1),
            next_sweep: AtomicUsize::new(0),
            metrics,
        }
    }

    /// Finds a context that has not expired; one that has is removed.
    pub fn find(&self, handle: Handle, now: Duration) -> Option<Arc<Context>> {
        let stripe = self.stripe(handle)?;
        let found = Arc::clone(read(stripe).get(&handle)?);
        if found.is_expired(now) {
            if write(stripe).remove(&handle).is_some() {
                Metrics::add(&self.metrics.contexts_expired, 1);
            }
            return None;
        }
        Some(found)
    }

    /// A number for a new context, given once while the server runs.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Stores a context: from now on every connection finds it.
    pub(crate) fn insert(&self, context: SharedContext, now: Duration) {
        let Some(stripe) = self.stripe(context.handle()) else { return };
        let mut stripe = write(stripe);
        if stripe.len() >= self.stripe_max {
            self.make_room(&mut stripe, now);
        }
        stripe.insert(context.handle(), context);
        Metrics::add(&self.metrics.contexts_created, 1);
    }

    /// Removes a context on its owner's demand; calls that are under way finish.
    pub(crate) fn destroy(&self, handle: Handle) {
        let removed = self.stripe(handle).and_then(|stripe| write(stripe).remove(&handle));
        if removed.is_some() {
            Metrics::add(&self.metrics.contexts_destroyed, 1);
        }
    }

    /// Keeps a context from going for lack of calls.
    pub(crate) fn touch(&self, handle: Handle, now: Duration) {
        if let Some(context) = self.stripe(handle).and_then(|stripe| read(stripe).get(&handle).cloned()) {
            context.touch(now);
        }
    }

    /// Removes what has expired or was not used for long from one part of the table; about once a
    /// second goes through all of it in well under a minute.
    pub fn sweep(&self, now: Duration) {
        let turn = self.next_sweep.fetch_add(1, Relaxed) % self.stripes.len();
        if let Some(stripe) = self.stripes.get(turn) {
            self.remove_expired(&mut write(stripe), now);
        }
    }

    /// The number of contexts held.
    pub fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| read(stripe).len()).sum()
    }

    /// Whether no context is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stripe(&self, handle: Handle) -> Option<&RwLock<Stripe>> {
        let [first, second, ..] = *handle.as_bytes();
        self.stripes.get(usize::from(u16::from_be_bytes([first, second])) % self.stripes.len())
    }

    fn remove_expired(&self, stripe: &mut Stripe, now: Duration) {
        let before = stripe.len();
        stripe.retain(|_, context| !context.is_expired(now) && !context.is_idle(now));
        Metrics::add(&self.metrics.contexts_expired, (before - stripe.len()) as u64);
    }

    fn make_room(&self, stripe: &mut Stripe, now: Duration) {
        self.remove_expired(stripe, now);
        if stripe.len() < self.stripe_max {
            return;
        }
        let count = (stripe.len() / EVICTED_PART).max(1);
        for handle in least_useful(stripe, count) {
            stripe.remove(&handle);
        }
        Metrics::add(&self.metrics.contexts_evicted, count as u64);
    }
}

/// Chooses contexts that make room. A context counts the less, the more contexts its principal has
/// that are more useful: so that they go which make a principal the one with the most.
fn least_useful(stripe: &Stripe, count: usize) -> Vec<Handle> {
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

// A thread that panicked while it held a stripe left it as a map that is still sound.
fn read(stripe: &RwLock<Stripe>) -> RwLockReadGuard<'_, Stripe> {
    stripe.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(stripe: &RwLock<Stripe>) -> RwLockWriteGuard<'_, Stripe> {
    stripe.write().unwrap_or_else(PoisonError::into_inner)
}
