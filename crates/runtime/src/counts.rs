//! Counters of the pools and of the group commit.

/// A pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Its threads, busy or idle.
    pub threads: usize,
    /// Tasks that wait for one of them.
    pub waiting: usize,
}

/// The changes that a group commit writes to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitCounts {
    /// Calls that wait for their changes now.
    pub waiting: usize,
    /// Synchronisations since the start, each for a group of calls.
    pub syncs: u64,
    /// Calls whose changes these have covered.
    pub committed: u64,
}

/// The calls and copies outside of the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Calls that may wait for a disk.
    pub disk: PoolCounts,
    /// Calls that create contexts.
    pub contexts: PoolCounts,
    /// Copies that continue after the reply to COPY.
    pub copies: PoolCounts,
    /// Calls that wait for a client's answer to a callback.
    pub answers_waiting: usize,
    /// Calls whose changes must be on disk before their replies.
    pub commit: CommitCounts,
}
