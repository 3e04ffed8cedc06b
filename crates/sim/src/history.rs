//! The history of a run: calls and replies of clients with their times, and the faults. The checker
//! sees only this, and the content of the disk at the end.

use crate::plan::LEASE;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A violated property, with the events that show it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The name of the property.
    pub property: &'static str,
    /// The description of the violation.
    pub detail: String,
    /// The events that show it, in order.
    pub events: Vec<String>,
}

/// Events of a violation that are shown.
const EVENTS_SHOWN: usize = 40;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.detail)?;
        let left_out = self.events.len().saturating_sub(EVENTS_SHOWN);
        if left_out > 0 {
            write!(f, "\n    ({left_out} earlier ones are left out)")?;
        }
        self.events.iter().skip(left_out).try_for_each(|event| write!(f, "\n    {event}"))
    }
}

/// The kind of an operation on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Creates the name, which must not exist. With `repeats`, a repetition with the same tag
    /// succeeds like the first one.
    Create {
        /// The number of the new object.
        tag: u64,
        /// Whether a repetition finds its own object.
        repeats: bool,
    },
    /// Renames an object to the name, and replaces one that has it.
    Put {
        /// The number of the renamed object.
        tag: u64,
    },
    /// Removes the name, by REMOVE or as the source of RENAME.
    Take,
    /// Looks the name up.
    Look,
    /// A power failure, which undoes changes without a reply. Only the checker adds it.
    PowerLoss,
}

/// An operation on a name.
#[derive(Clone, Debug)]
pub(crate) struct NameOp {
    /// The client that has called it.
    pub client: usize,
    /// The path from the export's root.
    pub path: String,
    /// The kind of the operation.
    pub act: Act,
    /// The time of the call.
    pub begin: Duration,
    /// The time of the reply, or from which on the server cannot execute it.
    pub end: Option<Duration>,
    /// Whether it succeeded; `None` without a reply.
    pub done: Option<bool>,
    /// Whether the client has stopped waiting for the reply.
    pub lost: bool,
}

/// A write of whole blocks of a file with one writer.
#[derive(Clone, Debug)]
pub(crate) struct WriteOp {
    /// The hash of the file's path.
    pub file: u64,
    /// The first block, and the number of blocks.
    pub blocks: (usize, usize),
    /// The number that fills every block.
    pub id: u64,
    /// The time of the first call.
    pub begin: Duration,
    /// The time of the reply.
    pub acked: Option<Duration>,
    /// The time since when the client knows that it is on stable storage.
    pub durable: Option<Duration>,
}

/// A read of a block.
#[derive(Clone, Debug)]
pub(crate) struct ReadOp {
    /// The client that has read it.
    pub client: usize,
    /// The hash of the file's path.
    pub file: u64,
    /// The index of the block.
    pub block: usize,
    /// The number that fills the block; `None` if it is not of one write.
    pub id: Option<u64>,
    /// The time of the call.
    pub begin: Duration,
    /// The time of the reply.
    pub end: Duration,
}

/// A locked byte, for as long as its owner could be sure of it.
#[derive(Clone, Debug)]
pub(crate) struct LockHold {
    /// Client, life and worker.
    pub owner: (usize, u32, usize),
    /// The hash of the file's path.
    pub file: u64,
    /// The offset of the byte.
    pub cell: usize,
    /// Whether the lock is for writing, which excludes readers as well.
    pub write: bool,
    /// The time of the reply to LOCK.
    pub from: Duration,
    /// The time of the call of LOCKU, or the end of the lease.
    pub until: Option<Duration>,
}

/// A share reservation, for as long as its owner could be sure of it.
#[derive(Clone, Debug)]
pub(crate) struct ShareHold {
    /// Client, life and worker.
    pub owner: (usize, u32, usize),
    /// The hash of the file's path.
    pub file: u64,
    /// The access bits: READ 1, WRITE 2.
    pub access: u32,
    /// The access bits that it denies to others.
    pub deny: u32,
    /// The time of the reply to OPEN.
    pub from: Duration,
    /// The time of the call of CLOSE, or the end of the lease.
    pub until: Option<Duration>,
}

/// A delegation, for as long as its holder knows that it is not revoked.
#[derive(Clone, Debug)]
pub(crate) struct DelegationHold {
    /// The client and its life.
    pub client: (usize, u32),
    /// The hash of the file's path.
    pub file: u64,
    /// Whether it is a write delegation.
    pub write: bool,
    /// The size that the holder returns in CB_GETATTR.
    pub size: u64,
    /// The time of the reply to OPEN.
    pub from: Duration,
    /// The time of the last call of SEQUENCE before DELEGRETURN whose reply reports no revoked
    /// state.
    pub until: Duration,
}

/// A size that a client without a delegation has read.
#[derive(Clone, Debug)]
pub(crate) struct SizeLook {
    /// The client and its life.
    pub client: (usize, u32),
    /// The hash of the file's path.
    pub file: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the call.
    pub begin: Duration,
    /// The time of the reply.
    pub end: Duration,
}

/// A record that was appended to a file under a lock.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    /// The client that has appended it.
    pub client: usize,
    /// The number of the record.
    pub id: u64,
    /// The time of the first call.
    pub begin: Duration,
    /// The time at which it was on stable storage, still under the lock.
    pub acked: Option<Duration>,
}

/// The events of a run that the checker sees.
#[derive(Default)]
pub(crate) struct History {
    /// The times at which the server crashed.
    pub crashes: Vec<Duration>,
    /// The times at which its machine lost its power as well.
    pub power_losses: Vec<Duration>,
    /// The times at which the server started.
    pub starts: Vec<Duration>,
    /// The times at which its clock jumped, and the distances.
    pub jumps: Vec<(Duration, Duration)>,
    /// The IDs of clients that had not freed a revoked delegation at a crash, and so may not
    /// reclaim (RFC 8881 section 8.4.3).
    pub unfreed: BTreeSet<u64>,
    /// Operations on names, in the order of their calls.
    pub names: Vec<NameOp>,
    /// Writes to files with one writer.
    pub writes: Vec<WriteOp>,
    /// Reads of blocks of these files.
    pub reads: Vec<ReadOp>,
    /// Locks of single bytes.
    pub holds: Vec<LockHold>,
    /// Share reservations of all opens.
    pub shares: Vec<ShareHold>,
    /// Delegations of all clients.
    pub delegations: Vec<DelegationHold>,
    /// Sizes that clients have read.
    pub sizes: Vec<SizeLook>,
    /// Records that clients have begun to append.
    pub appends: Vec<Append>,
    /// Files with a name on stable storage: a client got the reply to the OPEN that created them.
    pub stable_files: BTreeSet<u64>,
    /// Violations that clients have seen in replies.
    pub complaints: Vec<Violation>,
}

impl History {
    /// Notes a violation that a client has seen.
    pub(crate) fn complain(&mut self, property: &'static str, detail: String, now: Duration) {
        let events = vec![crate::trace::line(now, format_args!("{detail}"))];
        self.complaints.push(Violation { property, detail, events });
    }

    /// Returns the distance by which the server's clock has jumped between two times.
    fn jumped(&self, from: Duration, to: Duration) -> Duration {
        self.jumps.iter().filter(|(at, _)| *at > from && *at <= to).map(|(_, jump)| *jump).sum()
    }

    /// Returns the earliest end of a lease that was renewed at a time. A jump of the server's clock
    /// shortens it.
    pub(crate) fn lease_end(&self, renewed: Duration) -> Duration {
        let mut end = renewed + LEASE;
        for (at, jump) in self.jumps.iter().filter(|(at, _)| *at > renewed) {
            if *at < end {
                end = end.saturating_sub(*jump).max(*at);
            }
        }
        end
    }

    /// Returns whether the server must let a client reclaim that is answered at `now`. Its lease,
    /// renewed last at `renewed`, had not ended at the first crash, and no grace period has ended
    /// since then.
    pub(crate) fn may_reclaim(&self, renewed: Duration, now: Duration, grace: Duration) -> bool {
        let crashes: Vec<Duration> = self.crashes.iter().copied().filter(|crash| *crash >= renewed).collect();
        let Some(first) = crashes.first() else { return false };
        let ends = crashes.iter().skip(1).copied().chain([now]);
        *first < self.lease_end(renewed)
            && ends.zip(&crashes).all(|(end, crash)| {
                let start = self.starts.iter().copied().find(|start| start > crash);
                start.is_none_or(|start| end.saturating_sub(start) + self.jumped(start, end) < grace)
            })
    }

    /// Notes that a client has stopped waiting for the reply to an operation.
    pub(crate) fn lose(&mut self, at: usize) {
        if let Some(op) = self.names.get_mut(at) {
            op.lost = true;
        }
    }

    /// Notes the same for all operations of a client.
    pub(crate) fn lose_all(&mut self, client: usize) {
        self.names
            .iter_mut()
            .filter(|op| op.client == client && op.end.is_none())
            .for_each(|op| op.lost = true);
    }

    /// Notes that the server cannot execute the lost operations of a client any more: its former
    /// sessions are gone.
    pub(crate) fn end_lost(&mut self, client: usize, now: Duration) {
        let lost = self.names.iter_mut().filter(|op| op.client == client && op.lost && op.end.is_none());
        lost.for_each(|op| op.end = Some(now));
    }
}
