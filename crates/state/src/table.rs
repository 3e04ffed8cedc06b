//! Tables that many threads use at once, in stripes with locks of their own.

use crate::order::{Guard, Leaf, LeafLevel};
use crate::slab::{Slab, SlabKey};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;

pub(crate) mod image;

/// Independent parts of a table; a power of two. With many more stripes than threads these seldom
/// meet.
const STRIPES: usize = if cfg!(feature = "shuttle") { 4 } else { 64 };

/// Bits of an index that name the stripe.
const STRIPE_BITS: u32 = STRIPES.trailing_zeros();

/// A stripe has cache lines of its own, so that one lock does not slow down its neighbour.
#[derive(Debug)]
#[repr(align(64))]
struct Stripe<K>(K);

/// The locks `K` of a table in stripes.
#[derive(Debug)]
pub(crate) struct Stripes<K>(Box<[Stripe<K>]>);

impl<K> Stripes<K> {
    pub(crate) fn new(mut lock: impl FnMut() -> K) -> Self {
        Self((0..STRIPES).map(|_| Stripe(lock())).collect())
    }

    /// Returns the lock for a hash or number, by its lowest bits.
    pub(crate) fn of(&self, number: u64) -> &K {
        // The remainder is below the number of stripes.
        &self.0[(number % STRIPES as u64) as usize].0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

/// A slab in stripes. A closure that is passed to a method runs under the lock of a stripe.
#[derive(Debug)]
pub(crate) struct Table<T> {
    stripes: Stripes<Leaf<RwLock<Slab<T>>>>,
}

/// The key in the table for a key in one of its stripes.
fn outer(stripe: usize, key: SlabKey) -> SlabKey {
    SlabKey { index: key.index << STRIPE_BITS | stripe as u32, generation: key.generation }
}

/// The key in its stripe for a key in the table.
fn inner(key: SlabKey) -> SlabKey {
    SlabKey { index: key.index >> STRIPE_BITS, generation: key.generation }
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { stripes: Stripes::new(|| Leaf::new(RwLock::new(Slab::new()))) }
    }

    fn read_stripe(&self, index: u32) -> Guard<RwLockReadGuard<'_, Slab<T>>, LeafLevel> {
        self.stripes.of(index.into()).read()
    }

    fn write_stripe(&self, index: u32) -> Guard<RwLockWriteGuard<'_, Slab<T>>, LeafLevel> {
        self.stripes.of(index.into()).write()
    }

    /// `turn` chooses the stripe.
    pub(crate) fn insert(&self, turn: u32, value: T) -> SlabKey {
        outer(turn as usize % STRIPES, self.write_stripe(turn).insert(value))
    }

    pub(crate) fn read<R>(&self, key: SlabKey, run: impl FnOnce(&T) -> R) -> Option<R> {
        self.read_stripe(key.index).get(inner(key)).map(run)
    }

    pub(crate) fn write<R>(&self, key: SlabKey, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.write_stripe(key.index).get_mut(inner(key)).map(run)
    }

    /// Reads the present entry at this index, of any generation.
    pub(crate) fn read_at<R>(&self, index: u32, run: impl FnOnce(&T) -> R) -> Option<R> {
        self.read_stripe(index).at(index >> STRIPE_BITS).map(run)
    }

    pub(crate) fn remove(&self, key: SlabKey) -> Option<T> {
        self.write_stripe(key.index).remove(inner(key))
    }

    /// Counts the entries, stripe by stripe.
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.read().len()).sum()
    }

    /// Runs a closure on every entry, stripe by stripe.
    pub(crate) fn each(&self, mut run: impl FnMut(SlabKey, &T)) {
        for (number, stripe) in self.stripes.iter().enumerate() {
            stripe.read().iter().for_each(|(key, value)| run(outer(number, key), value));
        }
    }
}

impl<T: Clone> Table<T> {
    pub(crate) fn get(&self, key: SlabKey) -> Option<T> {
        self.read(key, T::clone)
    }
}

impl<T> Table<Arc<T>> {
    /// Inserts and returns the result of `make`, which gets the new key.
    pub(crate) fn insert_with(&self, turn: u32, make: impl FnOnce(SlabKey) -> Arc<T>) -> Arc<T> {
        let mut slab = self.write_stripe(turn);
        let value = make(outer(turn as usize % STRIPES, slab.next_key()));
        slab.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_back_to_their_stripe_and_never_to_a_later_value() {
        let table = Table::new();
        let keys: Vec<SlabKey> = (0..1000).map(|n| table.insert(n, n)).collect();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(table.get(*key), Some(n as u32));
            assert_eq!(table.read_at(key.index, |value| *value), Some(n as u32));
        }
        assert_eq!(table.remove(keys[70]), Some(70));
        let again = table.insert(70, 7);
        assert_eq!((again.index, table.get(keys[70])), (keys[70].index, None));
        assert_eq!((table.get(again), table.len()), (Some(7), 1000));
    }
}
