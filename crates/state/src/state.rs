//! The whole state of one server.

use crate::clients::Client;
use crate::files::FileState;
use crate::grace::Grace;
use crate::hash::Keyed;
use crate::locks::LockState;
use crate::opens::{Open, Owner};
use crate::sessions::Session;
use crate::slab::{Key, Slab};
use crate::{ClientKey, Clientid4, Effect, Limits};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// What one start of the server is given.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Differs between any two starts: the seconds since 1970, say. Goes into client ids, session ids and stateids, so
    /// that those of an earlier start are recognized as stale.
    pub epoch: u32,
    /// A random key: for the hash table that clients fill, and to make client ids hard to guess.
    pub hash_key: [u8; 16],
    /// co_ownerid of each client that was recorded when the server stopped (see [`Effect::RecordClient`]). When there is
    /// none, no grace period is needed.
    pub prior_clients: Vec<Vec<u8>>,
}

/// How much there is of everything, for metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Client records, unconfirmed ones included.
    pub clients: usize,
    /// Sessions.
    pub sessions: usize,
    /// Opens.
    pub opens: usize,
    /// Lock stateids.
    pub lock_stateids: usize,
    /// Locked ranges.
    pub ranges: usize,
    /// Files with state.
    pub files: usize,
    /// Bytes of cached replies.
    pub reply_cache: usize,
    /// Bytes of cached replies that sessions may come to.
    pub reply_cache_reserved: usize,
}

/// Clients, sessions, opens and locks of one server: `F` names a file (export and handle bytes), `O` is what the server
/// attaches to an open (an `Arc` of the backend's open file).
#[derive(Debug)]
pub struct State<F, O> {
    pub(crate) limits: Limits,
    pub(crate) epoch: u32,
    pub(crate) effects: Vec<Effect<F, O>>,
    pub(crate) grace: Grace,

    pub(crate) clients: Slab<Client>,
    pub(crate) clients_by_id: BTreeMap<Clientid4, ClientKey>,
    /// At most one confirmed and one unconfirmed record for each co_ownerid (RFC 8881 section 18.35.4).
    pub(crate) confirmed: BTreeMap<Arc<[u8]>, ClientKey>,
    pub(crate) unconfirmed: BTreeMap<Arc<[u8]>, ClientKey>,
    pub(crate) clientid_counter: u32,
    pub(crate) clientid_mask: u32,

    pub(crate) sessions: Slab<Session>,
    pub(crate) connections: BTreeMap<u64, Vec<Key>>,
    pub(crate) reply_cache: usize,
    pub(crate) reply_cache_reserved: usize,

    pub(crate) files: Slab<FileState<F>>,
    pub(crate) files_by_name: HashMap<F, Key, Keyed>,
    /// Open owners and lock owners; they live as long as they have opens or lock stateids.
    pub(crate) owners: Slab<Owner>,
    pub(crate) opens: Slab<Open<O>>,
    /// By the indices of open owner and file.
    pub(crate) opens_by_owner: BTreeMap<(u32, u32), Key>,
    pub(crate) locks: Slab<LockState>,
    /// By the indices of lock owner and open.
    pub(crate) locks_by_owner: BTreeMap<(u32, u32), Key>,
    pub(crate) ranges: usize,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Starts with nothing; the grace period begins at `now` if there are prior clients.
    pub fn new(limits: Limits, boot: Boot, now: Duration) -> Self {
        let grace = Grace::new(boot.prior_clients, now + limits.grace);
        let [a, b, c, d, ..] = boot.hash_key;
        Self {
            limits,
            epoch: boot.epoch,
            effects: Vec::new(),
            grace,
            clients: Slab::new(),
            clients_by_id: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            clientid_counter: 0,
            clientid_mask: u32::from_be_bytes([a, b, c, d]),
            sessions: Slab::new(),
            connections: BTreeMap::new(),
            reply_cache: 0,
            reply_cache_reserved: 0,
            files: Slab::new(),
            files_by_name: HashMap::with_hasher(Keyed(boot.hash_key)),
            owners: Slab::new(),
            opens: Slab::new(),
            opens_by_owner: BTreeMap::new(),
            locks: Slab::new(),
            locks_by_owner: BTreeMap::new(),
            ranges: 0,
        }
    }

    /// Returns the limits it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes what there is to do since the last call, in order. Handle it after the lock is released, but
    /// [`Effect::RecordClient`] and [`Effect::ForgetClient`] before the reply is sent.
    pub fn take_effects(&mut self) -> Vec<Effect<F, O>> {
        std::mem::take(&mut self.effects)
    }

    /// Counts what there is.
    pub fn counts(&self) -> Counts {
        Counts {
            clients: self.clients.len(),
            sessions: self.sessions.len(),
            opens: self.opens.len(),
            lock_stateids: self.locks.len(),
            ranges: self.ranges,
            files: self.files.len(),
            reply_cache: self.reply_cache,
            reply_cache_reserved: self.reply_cache_reserved,
        }
    }
}
