//! Calls as their callers see them.

use std::time::Duration;

use crate::error::Error;
use crate::reply::Reply;

/// Identifies a submitted call within its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Options of one call that override those of its client.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The time limit of the call. `None` stands for that of the client,
    /// [`Options::call_timeout`](crate::Options::call_timeout).
    pub timeout: Option<Duration>,
    /// The caller's own value, which is copied to the completion.
    pub tag: u64,
}

/// The outcome of a submitted call.
#[derive(Debug)]
pub struct Completion {
    /// The ticket that the submission returned.
    pub ticket: Ticket,
    /// The value of [`CallOptions::tag`].
    pub tag: u64,
    /// The reply. A COMPOUND with a failed operation is a reply, too: see [`Reply::check`].
    pub result: Result<Reply, Error>,
}
