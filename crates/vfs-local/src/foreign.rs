//! Calls that may never return, kept off shared threads.
//!
//! On a file system that another process (FUSE) or another machine serves, close(2) can block for
//! ever: it flushes data and drops locks. Housekeeping and shards drop descriptors, so a separate
//! thread closes descriptors of such a file system.
#![allow(unsafe_code, reason = "closes raw descriptors")]

use crate::kind::Kind;
use std::{
    mem::ManuallyDrop,
    ops::Deref,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
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
pub(crate) struct ForeignThread {
    calls: OnceLock<Option<Sender<ForeignCall>>>,
    /// A caller gave up waiting, and the thread has finished no call since.
    is_stuck: Arc<AtomicBool>,
}

impl ForeignThread {
    /// Returns a thread for a file system that may hang, and `None` for others.
    pub(crate) fn for_kind(kind: Kind) -> Option<Arc<Self>> {
        (kind == Kind::Foreign).then(Arc::default)
    }

    /// Queues a call. Where the system gives no thread, the calling thread runs it.
    fn send(&self, call: ForeignCall) {
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

    /// Runs a call after the queued ones, and returns its result.
    ///
    /// `None` if it has not returned within `patience`, or the thread was stuck already. The call
    /// remains queued.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        patience: Duration,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.send(Box::new(move || {
            // The caller may have stopped waiting.
            let _ = sender.send(call());
        }));
        let patience = if self.is_stuck.load(Relaxed) { Duration::ZERO } else { patience };
        let result = receiver.recv_timeout(patience).ok();
        if result.is_none() {
            self.is_stuck.store(true, Relaxed);
        }
        result
    }

    /// Like [`ForeignThread::run`], for a call that is not worth queueing while the thread is
    /// stuck.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        patience: Duration,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        if self.is_stuck.load(Relaxed) { None } else { self.run(patience, call) }
    }
}

/// A descriptor that its dropper closes, or the thread of a file system that may hang.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    thread: Option<Arc<ForeignThread>>,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, thread: Option<&Arc<ForeignThread>>) -> Self {
        Self { fd: ManuallyDrop::new(fd), thread: thread.cloned() }
    }

    /// Returns the thread that closes it.
    pub(crate) fn thread(&self) -> Option<&Arc<ForeignThread>> {
        self.thread.as_ref()
    }
}

impl Deref for Descriptor {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the value is being dropped, and nothing uses the field after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        match &self.thread {
            Some(thread) => thread.send(Box::new(move || drop(fd))),
            None => drop(fd),
        }
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

    #[test]
    fn a_descriptor_of_a_stuck_file_system_is_dropped_without_waiting() {
        let foreign = ForeignThread::for_kind(Kind::Foreign).unwrap();
        let (release, released) = mpsc::channel::<()>();
        foreign.run(Duration::from_millis(1), move || released.recv().is_ok());
        let (mut end, kept) = std::io::pipe().unwrap();
        drop(Descriptor::new(kept.into(), Some(&foreign)));
        release.send(()).unwrap();
        // The pipe ends when its last writer is closed.
        assert_eq!(std::io::Read::read(&mut end, &mut [0]).unwrap(), 0);
    }
}
