//! The lock order of this crate, as types: a wrong order does not compile.
//!
//! A lock is [`Ordered`] or a [`Leaf`]. An ordered lock has a [`Level`], and taking it needs a
//! [`Held`] of a lower level: a token without a size that says which locks the thread may still
//! take. A call begins with [`Held::nothing`]. Each guard lends the token for the levels above its
//! own, and borrows the token that it was taken with until it goes. So no call holds two locks of
//! one level, such as two stripes of the files.
//!
//! A leaf needs no token, since nothing is locked under it. Debug builds check this at each lock,
//! and also that a call does not begin while its thread holds a lock.
//!
//! The state of a client precedes that of a file:
//!
//! ```
//! use orthrus_state::order::{ClientLevel, FileLevel, Held, Ordered};
//! use std::sync::{Mutex, RwLock};
//!
//! let client: Ordered<Mutex<u32>, ClientLevel> = Ordered::new(Mutex::new(1));
//! let file: Ordered<RwLock<u32>, FileLevel> = Ordered::new(RwLock::new(2));
//! let held = &mut Held::nothing();
//! let mut client = client.lock(held);
//! let file = file.read(client.below());
//! assert_eq!(*file, 2);
//! ```
//!
//! The same locks in the other order are an error:
//!
//! ```compile_fail,E0277
//! use orthrus_state::order::{ClientLevel, FileLevel, Held, Ordered};
//! use std::sync::{Mutex, RwLock};
//!
//! let client: Ordered<Mutex<u32>, ClientLevel> = Ordered::new(Mutex::new(1));
//! let file: Ordered<RwLock<u32>, FileLevel> = Ordered::new(RwLock::new(2));
//! let held = &mut Held::nothing();
//! let mut file = file.read(held);
//! let client = client.lock(file.below());
//! assert_eq!(*file, 2);
//! ```
//!
//! One token serves for one lock after another:
//!
//! ```
//! use orthrus_state::order::{FileLevel, Held, Ordered};
//! use std::sync::RwLock;
//!
//! let stripes = [1, 2].map(|stripe| Ordered::<_, FileLevel>::new(RwLock::new(stripe)));
//! let held = &mut Held::nothing();
//! let one = *stripes[0].read(held);
//! let other = *stripes[1].read(held);
//! assert_eq!(one + other, 3);
//! ```
//!
//! It does not serve for two locks at once:
//!
//! ```compile_fail,E0499
//! use orthrus_state::order::{FileLevel, Held, Ordered};
//! use std::sync::RwLock;
//!
//! let stripes = [1, 2].map(|stripe| Ordered::<_, FileLevel>::new(RwLock::new(stripe)));
//! let held = &mut Held::nothing();
//! let one = stripes[0].read(held);
//! let other = stripes[1].read(held);
//! assert_eq!(*one + *other, 3);
//! ```

use crate::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A step of the lock order.
pub trait Level {
    /// Grows along the order; zero holds nothing.
    const RANK: u8;
}

/// Holds for a level from which a lock of level `L` may be taken.
#[diagnostic::on_unimplemented(message = "the lock order has no {L} under {Self}")]
pub trait Before<L>: Level {}

/// Declares the levels, lowest first, and puts each before all that follow it.
macro_rules! levels {
    ($rank:expr;) => {};
    ($rank:expr; $(#[$doc:meta])* $low:ident; $($(#[$docs:meta])* $high:ident;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $low {}

        impl Level for $low {
            const RANK: u8 = $rank;
        }

        $(impl Before<$high> for $low {})*

        levels! { $rank + 1; $($(#[$docs])* $high;)* }
    };
}

levels! {
    0;
    /// The level of a call that holds no lock.
    NothingHeld;
    /// The registry: clients by name, sessions of a client, the end of leases and of the grace
    /// period. For EXCHANGE_ID, CREATE_SESSION, DESTROY_*, BIND_CONN_TO_SESSION, RECLAIM_COMPLETE,
    /// reclaims and housekeeping.
    RegistryLevel;
    /// The state of a client: its owners, opens and lock stateids. For OPEN, CLOSE, LOCK and
    /// related operations.
    ClientLevel;
    /// The files, in stripes by name: shares, locked ranges and delegations. For the same, LOCKT,
    /// and I/O with special stateids.
    FileLevel;
    /// The connections of a session.
    ConnectionLevel;
    /// The leaves: stripes of tables, slots, and further locks of one lookup or update.
    LeafLevel;
}

/// A thread's token for the locks that follow level `L`. It has no size.
pub struct Held<L>(PhantomData<L>);

impl Held<NothingHeld> {
    /// Returns the token of a call that holds no lock of this crate.
    pub fn nothing() -> Self {
        check_rank(NothingHeld::RANK);
        Self(PhantomData)
    }
}

impl<L> fmt::Debug for Held<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held<{}>", std::any::type_name::<L>())
    }
}

/// A lock `K` at level `L` of the order.
#[derive(Debug)]
pub struct Ordered<K, L> {
    lock: K,
    level: PhantomData<L>,
}

impl<K, L> Ordered<K, L> {
    /// Puts a lock at its level.
    pub const fn new(lock: K) -> Self {
        Self { lock, level: PhantomData }
    }
}

// A thread that panicked did so between steps that each leave the data sound: poisoning means
// nothing here.
impl<T, L: Level> Ordered<Mutex<T>, L> {
    /// Waits for the lock and takes it.
    pub fn lock<'g>(&'g self, _: &'g mut Held<impl Before<L>>) -> Guard<MutexGuard<'g, T>, L> {
        Guard::new(|| self.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock if `wanted`. The token of the guard is the same with and without it.
    pub fn lock_if<'g>(
        &'g self,
        _: &'g mut Held<impl Before<L>>,
        wanted: bool,
    ) -> Guard<Option<MutexGuard<'g, T>>, L> {
        Guard::new(|| wanted.then(|| self.lock.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T, L: Level> Ordered<RwLock<T>, L> {
    /// Takes the lock to read.
    pub fn read<'g>(&'g self, _: &'g mut Held<impl Before<L>>) -> Guard<RwLockReadGuard<'g, T>, L> {
        Guard::new(|| self.lock.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock to write.
    pub fn write<'g>(&'g self, _: &'g mut Held<impl Before<L>>) -> Guard<RwLockWriteGuard<'g, T>, L> {
        Guard::new(|| self.lock.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A lock `K` at the end of the order, for one lookup or update.
#[derive(Debug, Default)]
pub struct Leaf<K>(K);

impl<K> Leaf<K> {
    /// Makes a lock a leaf.
    pub const fn new(lock: K) -> Self {
        Self(lock)
    }
}

impl<T> Leaf<Mutex<T>> {
    /// Waits for the lock and takes it.
    pub fn lock(&self) -> Guard<MutexGuard<'_, T>, LeafLevel> {
        Guard::new(|| self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Leaf<RwLock<T>> {
    /// Takes the lock to read.
    pub fn read(&self) -> Guard<RwLockReadGuard<'_, T>, LeafLevel> {
        Guard::new(|| self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock to write.
    pub fn write(&self) -> Guard<RwLockWriteGuard<'_, T>, LeafLevel> {
        Guard::new(|| self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A guard `G` of a lock, with the token for the levels above `L`.
#[derive(Debug)]
pub struct Guard<G, L> {
    guard: G,
    below: Held<L>,
    _rank: RankMark,
}

impl<G, L: Level> Guard<G, L> {
    fn new(lock: impl FnOnce() -> G) -> Self {
        // First the check: a wrong order would rather wait for ever.
        let _rank = RankMark::enter(L::RANK);
        Self { guard: lock(), below: Held(PhantomData), _rank }
    }

    /// Lends the token for locks under this one.
    pub fn below(&mut self) -> &mut Held<L> {
        &mut self.below
    }
}

impl<G: DerefMut, L> Guard<G, L> {
    /// Lends the data, and the token for locks under this one.
    pub fn split(&mut self) -> (&mut G::Target, &mut Held<L>) {
        (&mut self.guard, &mut self.below)
    }
}

impl<G: Deref, L> Guard<Option<G>, L> {
    /// Lends the data of a lock that was taken, and the token for locks under it.
    pub fn split_if(&mut self) -> (Option<&G::Target>, &mut Held<L>) {
        (self.guard.as_deref(), &mut self.below)
    }
}

impl<G: Deref, L> Deref for Guard<G, L> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, L> DerefMut for Guard<G, L> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Whether locks check their rank. Under shuttle, threads of a test are tasks of one thread.
const CHECKED: bool = cfg!(all(debug_assertions, not(feature = "shuttle")));

thread_local! {
    /// The highest rank that the thread holds, if that is checked.
    static HIGHEST: Cell<u8> = const { Cell::new(0) };
}

/// Restores the highest rank of before a lock when that is released. It has no size in release
/// builds.
#[derive(Debug)]
struct RankMark([u8; CHECKED as usize]);

impl RankMark {
    fn enter(rank: u8) -> Self {
        check_rank(rank);
        Self(std::array::from_fn(|_| HIGHEST.replace(rank)))
    }
}

impl Drop for RankMark {
    fn drop(&mut self) {
        self.0.iter().for_each(|before| HIGHEST.set(*before));
    }
}

fn check_rank(rank: u8) {
    if CHECKED {
        let highest = HIGHEST.get();
        assert!(highest == 0 || highest < rank, "lock of rank {rank} under one of rank {highest}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_as_small_as_that_of_the_lock_in_release_builds() {
        let size = size_of::<Guard<MutexGuard<'_, u64>, FileLevel>>();
        let rank = size_of::<RankMark>().next_multiple_of(size_of::<usize>());
        assert_eq!((size, size_of::<Held<FileLevel>>()), (size_of::<MutexGuard<'_, u64>>() + rank, 0));
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic = "lock of rank 5 under one of rank 5"]
    fn a_leaf_under_a_leaf_panics_in_debug_builds() {
        let leaves = [Leaf::new(Mutex::new(0)), Leaf::new(Mutex::new(0))];
        let _one = leaves[0].lock();
        let _other = leaves[1].lock();
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic = "lock of rank 0 under one of rank 3"]
    fn a_call_that_begins_under_a_lock_panics_in_debug_builds() {
        let file = Ordered::<_, FileLevel>::new(Mutex::new(0));
        let held = &mut Held::nothing();
        let _file = file.lock(held);
        let _ = Held::nothing();
    }

    #[test]
    fn the_order_is_free_again_when_the_guards_are_gone() {
        let client = Ordered::<_, ClientLevel>::new(Mutex::new(0));
        let file = Ordered::<_, FileLevel>::new(RwLock::new(0));
        for _ in 0..2 {
            let held = &mut Held::nothing();
            *file.write(held) += 1;
            let mut client = client.lock(held);
            let (client, held) = client.split();
            *client += *file.read(held);
        }
        assert_eq!(*client.lock(&mut Held::nothing()), 3);
    }
}
