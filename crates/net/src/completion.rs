//! Calls that are carried out elsewhere and answered later.

use rpc::ConnectionId;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What another thread has made of a call that was away.
#[derive(Debug)]
pub struct CompletionEvent<T> {
    /// The connection that the call came on.
    pub connection: ConnectionId,
    /// What [`Action::Away`](crate::Action::Away) said that the call holds, in bytes.
    pub held: usize,
    /// What the service makes the reply from.
    pub item: T,
}

/// Gives calls back to the shard that has their connections, from any thread.
///
/// What comes back after its connection has closed, or after the shard has ended, is dropped.
pub struct CompletionSender<T> {
    waiting: Arc<Mutex<Vec<CompletionEvent<T>>>>,
    ring: Arc<dyn Fn() + Send + Sync>,
}

impl<T> CompletionSender<T> {
    /// Makes the sink of a shard that `ring` wakes; the shard is to take what waits each time it
    /// wakes.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self { waiting: Arc::default(), ring: Arc::new(ring) }
    }

    /// Gives a call back.
    pub fn send(&self, late: CompletionEvent<T>) {
        let first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(late);
            waiting.len() == 1
        };
        // Whoever was first has woken the shard for all that follow until it takes them.
        if first {
            (self.ring)();
        }
    }

    /// Moves what waits behind `into`, in the order in which it was sent.
    pub fn take(&self, into: &mut Vec<CompletionEvent<T>>) {
        into.append(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<T> Clone for CompletionSender<T> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), ring: self.ring.clone() }
    }
}

impl<T> fmt::Debug for CompletionSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompletionSender")
    }
}
