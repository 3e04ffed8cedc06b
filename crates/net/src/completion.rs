//! Calls that other threads execute and that are answered later.

use rpc::ConnectionId;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The result of a deferred call.
#[derive(Debug)]
pub struct CompletionEvent<T> {
    /// The connection of the call.
    pub connection: ConnectionId,
    /// The bytes that the call holds, as in [`Action::Defer`](crate::Action::Defer).
    pub held: usize,
    /// The service's own value, from which it builds the reply.
    pub item: T,
}

/// Returns deferred calls to the shard of their connections, from any thread.
///
/// Completions are dropped if their connection has closed or the shard has ended.
pub struct CompletionSender<T> {
    waiting: Arc<Mutex<Vec<CompletionEvent<T>>>>,
    ring: Arc<dyn Fn() + Send + Sync>,
    /// Whether the shard takes the completions without being woken.
    attended: Arc<AtomicBool>,
}

impl<T> CompletionSender<T> {
    /// Creates the sender of a shard that `ring` wakes. The shard must take waiting completions
    /// each time it wakes.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self { waiting: Arc::default(), ring: Arc::new(ring), attended: Arc::default() }
    }

    /// Sends a completion to the shard.
    pub fn send(&self, completion: CompletionEvent<T>) {
        let first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(completion);
            waiting.len() == 1
        };
        // The first completion wakes the shard for all that follow until it takes them.
        if first && !self.attended.load(Relaxed) {
            (self.ring)();
        }
    }

    /// Promises that the shard takes the waiting completions after the next call with `false`, so
    /// that they need not wake it until then.
    pub(crate) fn attend(&self, attended: bool) {
        // The mutex of the completions orders this with a sender that has read the former value.
        self.attended.store(attended, Relaxed);
    }

    /// Appends the waiting completions to `into` in the order of sending.
    pub fn take(&self, into: &mut Vec<CompletionEvent<T>>) {
        into.append(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<T> Clone for CompletionSender<T> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), ring: self.ring.clone(), attended: self.attended.clone() }
    }
}

impl<T> fmt::Debug for CompletionSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompletionSender")
    }
}
