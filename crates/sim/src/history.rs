//! What the clients saw: calls and replies with their times, and the faults that an onlooker knows
//! of. The checker has nothing else, but for the contents of the disk at the end.

use crate::plan::LEASE;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A property that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The property.
    pub property: &'static str,
    /// How it is violated.
    pub what: String,
    /// The events that show it, in order.
    pub events: Vec<String>,
}

/// Events of a violation that are shown.
const EVENTS_SHOWN: usize = 40;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.what)?;
        let left_out = self.events.len().saturating_sub(EVENTS_SHOWN);
        if left_out > 0 {
            write!(f, "\n    ({left_out} earlier ones are left out)")?;
        }
        self.events.iter().skip(left_out).try_for_each(|event| write!(f, "\n    {event}"))
    }
}

/// What is done with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is made, and must not be there; a repetition with the same tag counts as the first if
    /// `repeats`.
    Create {
        /// What it then names.
        tag: u64,
        /// Whether its own repetition finds what it has made.
        repeats: bool,
    },
    /// Something is renamed to it, whatever was there.
    Put {
        /// What it then names.
        tag: u64,
    },
    /// It goes, by REMOVE or as the source of RENAME.
    Take,
    /// It is looked up.
    Look,
    /// The machine loses its power, and undoes what was not acknowledged. Only the checker has it.
    PowerLoss,
}

/// An operation on a name.
#[derive(Clone, Debug)]
pub(crate) struct NameOp {
    /// Who.
    pub client: usize,
    /// On which path.
    pub path: String,
    /// What.
    pub act: Act,
    /// When it was called.
    pub begin: Duration,
    /// When it was answered, or could not be carried out any more.
    pub end: Option<Duration>,
    /// Whether it succeeded; `None` when nobody knows.
    pub done: Option<bool>,
    /// Whether nobody waits for the answer any more.
    pub lost: bool,
}

/// A write of whole blocks of a file that one worker writes.
#[derive(Clone, Debug)]
pub(crate) struct WriteOp {
    /// The file.
    pub file: u64,
    /// The first block and how many.
    pub blocks: (usize, usize),
    /// What stands in every block.
    pub id: u64,
    /// When it was called first.
    pub begin: Duration,
    /// When it was answered.
    pub acked: Option<Duration>,
    /// When the client knew it to be on stable storage.
    pub durable: Option<Duration>,
}

/// A read of a block.
#[derive(Clone, Debug)]
pub(crate) struct ReadOp {
    /// Who.
    pub client: usize,
    /// The file.
    pub file: u64,
    /// The block.
    pub block: usize,
    /// What stood there; `None` for what no client writes.
    pub id: Option<u64>,
    /// When it was called.
    pub begin: Duration,
    /// When it was answered.
    pub end: Duration,
}

/// A locked byte, for as long as its owner could be sure of it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// Client, life and worker.
    pub owner: (usize, u32, usize),
    /// The file.
    pub file: u64,
    /// The byte.
    pub cell: usize,
    /// Whether others are excluded that read.
    pub write: bool,
    /// From the reply to LOCK on.
    pub from: Duration,
    /// To the call of LOCKU, or the end of the lease.
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
    /// The bits that others may not have.
    pub deny: u32,
    /// From the reply to OPEN on.
    pub from: Duration,
    /// To the call of CLOSE, or the end of the lease.
    pub until: Option<Duration>,
}

/// A delegation, for as long as its holder knows that the server had not revoked it.
#[derive(Clone, Debug)]
pub(crate) struct DelegationHold {
    /// Client and life.
    pub client: (usize, u32),
    /// The hash of the file's path.
    pub file: u64,
    /// Whether it is one for writing.
    pub write: bool,
    /// The size that the holder says in CB_GETATTR.
    pub size: u64,
    /// From the reply to OPEN on.
    pub from: Duration,
    /// To the call of the last SEQUENCE that was answered without a word of revoked state, before
    /// the call of DELEGRETURN.
    pub until: Duration,
}

/// A size that a client without a delegation has got.
#[derive(Clone, Debug)]
pub(crate) struct SizeLook {
    /// Client and life.
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
    /// Who.
    pub client: usize,
    /// The record.
    pub id: u64,
    /// When it was begun.
    pub begin: Duration,
    /// When it was on stable storage, still under the lock.
    pub acked: Option<Duration>,
}

/// All of it.
#[derive(Default)]
pub(crate) struct History {
    /// When the server crashed.
    pub crashes: Vec<Duration>,
    /// When its machine lost its power as well.
    pub power_losses: Vec<Duration>,
    /// When it started.
    pub starts: Vec<Duration>,
    /// When its clock jumped, and how far.
    pub jumps: Vec<(Duration, Duration)>,
    /// Names.
    pub names: Vec<NameOp>,
    /// Writes.
    pub writes: Vec<WriteOp>,
    /// Reads.
    pub reads: Vec<ReadOp>,
    /// Locks.
    pub holds: Vec<Hold>,
    /// Share reservations of all opens.
    pub shares: Vec<ShareHold>,
    /// Delegations of all clients.
    pub delegations: Vec<DelegationHold>,
    /// Sizes that clients have asked for.
    pub sizes: Vec<SizeLook>,
    /// Records.
    pub appends: Vec<Append>,
    /// Files whose names are known to be on stable storage: a client has heard that it made them.
    pub stable_files: BTreeSet<u64>,
    /// What a client met with that must not be.
    pub complaints: Vec<Violation>,
}

impl History {
    /// Notes what must not be.
    pub(crate) fn complain(&mut self, property: &'static str, what: String, now: Duration) {
        let events = vec![crate::trace::line(now, format_args!("{what}"))];
        self.complaints.push(Violation { property, what, events });
    }

    /// How far the server's clock has jumped between two times.
    fn jumped(&self, from: Duration, to: Duration) -> Duration {
        self.jumps.iter().filter(|(at, _)| *at > from && *at <= to).map(|(_, jump)| *jump).sum()
    }

    /// When a lease ends at the earliest that was renewed then: where the server's clock jumps, it
    /// ends earlier.
    pub(crate) fn lease_end(&self, renewed: Duration) -> Duration {
        let mut end = renewed + LEASE;
        for (at, jump) in self.jumps.iter().filter(|(at, _)| *at > renewed) {
            if *at < end {
                end = end.saturating_sub(*jump).max(*at);
            }
        }
        end
    }

    /// Whether a client whose lease was renewed last at `renewed` may reclaim for certain when it
    /// is answered at `now`: it held the lease when the server crashed first, and no grace period
    /// since then was over.
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

    /// Notes that nobody waits for the answer of an operation any more.
    pub(crate) fn lose(&mut self, at: usize) {
        if let Some(op) = self.names.get_mut(at) {
            op.lost = true;
        }
    }

    /// The same of all operations of a client.
    pub(crate) fn lose_all(&mut self, client: usize) {
        self.names
            .iter_mut()
            .filter(|op| op.client == client && op.end.is_none())
            .for_each(|op| op.lost = true);
    }

    /// Notes that what was lost of a client's cannot be carried out any more: its sessions of
    /// before are gone.
    pub(crate) fn settle(&mut self, client: usize, now: Duration) {
        let lost = self.names.iter_mut().filter(|op| op.client == client && op.lost && op.end.is_none());
        lost.for_each(|op| op.end = Some(now));
    }
}
