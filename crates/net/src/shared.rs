//! The parts of a server that all its shards and the acceptor share.

use crate::ledger::Ledger;
use crate::outgoing::Routes;
use crate::{Limits, Stats};
use std::sync::Arc;

/// Limits, counters and accounts for the connections of all shards.
pub(crate) struct SharedParts {
    pub(crate) limits: Arc<Limits>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) routes: Arc<Routes>,
}

impl SharedParts {
    pub(crate) fn new(limits: Limits) -> Self {
        let (limits, stats) = (Arc::new(limits), Arc::new(Stats::default()));
        let ledger = Arc::new(Ledger::new(limits.clone(), stats.clone()));
        Self { limits, stats, ledger, routes: Arc::default() }
    }
}
