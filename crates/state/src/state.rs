//! The whole state of one server.

use crate::{Effect, Limits};
use std::hash::Hash;
use std::time::Duration;

/// What one start of the server is given.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Differs between any two starts: the seconds since 1970, say. Goes into client ids, session ids and stateids, so
    /// that those of an earlier start are recognized as stale.
    pub epoch: u32,
    /// A random key for hash tables that clients fill.
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
    pub(crate) boot: Boot,
    pub(crate) effects: Vec<Effect<F, O>>,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Starts with nothing; the grace period begins at `now` if there are prior clients.
    pub fn new(limits: Limits, boot: Boot, now: Duration) -> Self {
        let _ = now;
        Self { limits, boot, effects: Vec::new() }
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
        Counts::default()
    }
}
