//! The interface to the layer above: requests, replies, and the [`Service`] trait.

use crate::{CompletionEvent, CompletionSender, WeightedTenant};
use pipes::Attachment;
use rpc::ConnectionId;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// A complete record from a peer.
#[derive(Debug)]
pub struct Request {
    /// The connection on which it arrived.
    pub connection: ConnectionId,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The record without its marks.
    pub record: Vec<u8>,
}

/// The action on a connection after a request.
#[derive(Debug)]
pub enum Action {
    /// Sends a record. Its first four bytes are room for the record mark, which the network layer
    /// fills in.
    Send(Vec<u8>),
    /// Sends a record with file data that is not in its buffer.
    SendAttached(Vec<u8>, Attachment),
    /// Closes the connection after earlier replies have been sent.
    Close,
    /// Marks the connection as trusted: the peer has proved its identity, or an export admits its
    /// address. Trusted connections are served before others, and closed last if memory or the
    /// connection table is short. The first tenant of a connection is the one that it counts for.
    Trust(WeightedTenant),
    /// Serves the connection behind interactive ones for a while, as after a deferred call: its
    /// last call cost several times a cached read.
    Yield,
    /// Reads and serves nothing for this time: the peer is over a limit of its rate.
    Pause(Duration),
    /// Defers the call, which must return through the shard's [`CompletionSender`] exactly once.
    /// Until then it holds this many bytes.
    Defer(usize),
}

/// The answer to a request; a request can also have none.
#[derive(Debug)]
pub struct Reply {
    /// The connection to answer on.
    pub connection: ConnectionId,
    /// The action to take.
    pub action: Action,
    /// The class under which the time of sending is counted, below
    /// [`CLASSES_MAX`](crate::CLASSES_MAX).
    pub class: u8,
}

/// Handles the records of all connections.
pub trait Service: Send + Sync + 'static {
    /// Scratch memory of one shard.
    type Shard: Send;

    /// Result of a deferred call.
    type Completed: Send + 'static;

    /// A step of a deferred call.
    type Step: Send + 'static;

    /// Creates the scratch memory of a new shard. Deferred calls return through `sink`. The service
    /// may store the number of its running operation in `operation`, for the log of a hanging shard
    /// (see [`Service::operation_name`]).
    fn shard(&self, sink: &CompletionSender<Self::Completed>, operation: &Arc<AtomicU32>) -> Self::Shard;

    /// Returns the name of an operation number; empty if there is none.
    fn operation_name(&self, _operation: u32) -> &'static str {
        ""
    }

    /// Receives the time at which the shard woke for the requests of the next ticks.
    fn note_wakeup(&self, _shard: &mut Self::Shard, _at: Instant) {}

    /// Handles the records of a tick in arrival order, and completed deferred calls, and appends
    /// the replies. Drains `requests` and `completions`.
    ///
    /// Long work calls `pause` about every 50 µs, with the replies so far. The shard then sends
    /// these and serves interactive connections, through this function and with other scratch
    /// memory. `pause` returns the time that this took, without polls. The caller must hold no
    /// lock.
    fn tick(
        &self,
        shard: &mut Self::Shard,
        requests: &mut Vec<Request>,
        completions: &mut Vec<CompletionEvent<Self::Completed>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    );

    /// Moves the steps that the last tick has left for the shard's own thread to the end of
    /// `steps`.
    fn take_steps(&self, shard: &mut Self::Shard, steps: &mut VecDeque<Self::Step>);

    /// Returns whether a step is brief enough for the thread of a shard. If the shard is `alone`
    /// with it, no other step waits, and no other kind of connection has had work for a while.
    fn is_brief(&self, step: &Self::Step, alone: bool) -> bool;

    /// Runs a step, and returns the step that follows it. It may block the calling thread.
    fn run_step(&self, step: Self::Step) -> Option<Self::Step>;

    /// Returns the connection of the call that a step is for, if it is for one alone.
    fn connection(&self, step: &Self::Step) -> Option<ConnectionId>;

    /// Runs a step and the steps that follow it on another thread.
    ///
    /// # Errors
    /// Returns the step if no other thread can run it.
    fn hand_over(&self, step: Self::Step) -> Result<(), Self::Step>;

    /// Handles the end of a connection. No request of it follows. The end is reported again after
    /// each deferred call that completes later.
    fn closed(&self, connection: ConnectionId);
}
