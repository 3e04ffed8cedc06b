//! Calls that may never return, kept off shared threads.
//!
//! A file system that another process or another machine serves can block a call for ever, also
//! calls that housekeeping and shards make: close(2) flushes data and drops locks. A separate
//! thread runs them.

mod held_ranges;
mod locks;

pub use held_ranges::LockChange;
pub use locks::ForeignLocks;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, SendError, Sender},
    },
    thread,
    time::Duration,
};

/// A call that may hang.
type ForeignCall = Box<dyn FnOnce() + Send>;

/// Runs the calls of one file system in order, on a thread that starts with the first call and ends
/// with the last owner of this value.
#[derive(Debug, Default)]
pub struct ForeignThread {
    calls: OnceLock<Option<Sender<ForeignCall>>>,
    /// A caller gave up waiting, and the thread has finished no call since.
    is_stuck: Arc<AtomicBool>,
}

impl ForeignThread {
    /// Queues a call. Where the system gives no thread, the calling thread runs it.
    pub fn send(&self, call: ForeignCall) {
        let calls = self.calls.get_or_init(|| {
            let (sender, receiver) = mpsc::channel::<ForeignCall>();
            let is_stuck = Arc::clone(&self.is_stuck);
            let run = move || {
                for call in receiver {
                    call();
                    is_stuck.store(false, Relaxed);
                }
            };
            thread::Builder::new().name("foreign".into()).spawn(run).is_ok().then_some(sender)
        });
        match calls {
            Some(calls) => {
                if let Err(SendError(call)) = calls.send(call) {
                    call();
                }
            }
            None => call(),
        }
    }

    /// Returns whether calls are queued behind one that hangs.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Relaxed)
    }

    /// Runs a call after the queued ones, and returns its result.
    ///
    /// `None` if it has not returned within `patience`, or the thread was stuck already. The call
    /// remains queued, so callers bound the calls that they make while the thread is stuck.
    pub fn run<R: Send + 'static>(
        &self,
        patience: Duration,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.send(Box::new(move || {
            // The caller may have stopped waiting.
            let _ = sender.send(call());
        }));
        let patience = if self.is_stuck() { Duration::ZERO } else { patience };
        let result = receiver.recv_timeout(patience).ok();
        if result.is_none() {
            self.is_stuck.store(true, Relaxed);
        }
        result
    }

    /// Like [`ForeignThread::run`], for a call that is not worth queueing while the thread is
    /// stuck.
    pub fn ask<R: Send + 'static>(
        &self,
        patience: Duration,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        if self.is_stuck() { None } else { self.run(patience, call) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn calls_run_in_order_on_one_other_thread() {
        let foreign = ForeignThread::default();
        let first = foreign.run(LONG, || thread::current().id()).unwrap();
        let second = foreign.run(LONG, || thread::current().id()).unwrap();
        assert_eq!(first, second);
        assert_ne!(first, thread::current().id());
    }

    #[test]
    fn a_stuck_call_delays_one_caller_and_runs_later_ones_when_it_returns() {
        let foreign = ForeignThread::default();
        let (release, released) = mpsc::channel::<()>();
        assert_eq!(foreign.run(Duration::from_millis(1), move || released.recv().is_ok()), None);
        let (say, said) = mpsc::channel();
        // The patience would exceed any test's if the thread were not known to be stuck.
        assert_eq!(foreign.run(Duration::MAX, move || say.send(()).is_ok()), None);
        release.send(()).unwrap();
        said.recv_timeout(LONG).unwrap();
    }
}
