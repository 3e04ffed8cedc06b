//! Holding the network layer still while the next process of the server takes over.
//!
//! First the acceptor pauses and the shards drain: they serve no further request, and send the
//! replies of deferred calls. When no call is left they park, and each gives images of its
//! connections. If the next process fails they serve again as if nothing had happened.

use crate::image::ConnectionImage;
use rustix::fd::OwnedFd;
use std::io;
use std::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Release},
};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The phase that a thread is to be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShardPhase {
    /// It serves its connections.
    #[default]
    Serve,
    /// It begins nothing, and ends what has begun.
    Drain,
    /// It does nothing, and changes nothing.
    Park,
}

impl ShardPhase {
    const ALL: [Self; 3] = [Self::Serve, Self::Drain, Self::Park];
}

/// The images of a shard's connections, with their sockets.
pub(crate) type Exported = Vec<(ConnectionImage, OwnedFd)>;

#[derive(Debug, Default)]
struct PhaseProgress {
    reached: ShardPhase,
    /// An export that was asked for, and its result.
    asked: bool,
    exported: Option<io::Result<Exported>>,
}

/// The phase of one thread: another thread sets it, and waits until it is reached.
#[derive(Debug)]
pub(crate) struct Stillness {
    wanted: AtomicU8,
    progress: Mutex<PhaseProgress>,
    changed: Condvar,
}

impl Stillness {
    pub(crate) fn new(phase: ShardPhase) -> Self {
        Self { wanted: AtomicU8::new(phase as u8), progress: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PhaseProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the phase that the thread is to be in.
    pub(crate) fn wanted(&self) -> ShardPhase {
        ShardPhase::ALL.get(usize::from(self.wanted.load(Acquire))).copied().unwrap_or_default()
    }

    /// Sets the phase; the caller then wakes the thread. From an earlier phase on, the thread has
    /// to reach later ones anew.
    pub(crate) fn want(&self, phase: ShardPhase) {
        let mut progress = self.lock();
        self.wanted.store(phase as u8, Release);
        progress.reached = progress.reached.min(phase);
        drop(progress);
        self.changed.notify_all();
    }

    /// Notes that the thread has reached a phase, unless an earlier one is wanted by now.
    pub(crate) fn reach(&self, phase: ShardPhase) {
        let mut progress = self.lock();
        if progress.reached != phase && phase <= self.wanted() {
            progress.reached = phase;
            self.changed.notify_all();
        }
    }

    /// Waits until the thread has reached the phase, or a later one; false if it has not in time.
    pub(crate) fn wait_for(&self, phase: ShardPhase, until: Instant) -> bool {
        self.wait(until, |progress| progress.reached >= phase).is_some()
    }

    fn wait(
        &self,
        until: Instant,
        is_there: impl Fn(&PhaseProgress) -> bool,
    ) -> Option<MutexGuard<'_, PhaseProgress>> {
        let mut progress = self.lock();
        while !is_there(&progress) {
            let rest = until.checked_duration_since(Instant::now())?;
            let waited = self.changed.wait_timeout(progress, rest);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Some(progress)
    }

    /// Parks the thread until it is to serve or to end, and runs exports meanwhile.
    pub(crate) fn park(&self, ends: impl Fn() -> bool, mut export: impl FnMut() -> io::Result<Exported>) {
        let mut progress = self.lock();
        while self.wanted() == ShardPhase::Park && !ends() {
            if progress.reached != ShardPhase::Park {
                // Also again, if another phase was wanted for a moment.
                progress.reached = ShardPhase::Park;
                self.changed.notify_all();
            }
            if std::mem::take(&mut progress.asked) {
                drop(progress);
                let exported = export();
                progress = self.lock();
                progress.exported = Some(exported);
                self.changed.notify_all();
                continue;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes a parked thread that is to end.
    pub(crate) fn wake(&self) {
        let _progress = self.lock();
        self.changed.notify_all();
    }

    /// Asks a parked thread for its images.
    pub(crate) fn ask(&self) {
        let mut progress = self.lock();
        (progress.asked, progress.exported) = (true, None);
        self.changed.notify_all();
    }

    /// Waits for the images that the thread was asked for.
    pub(crate) fn answer(&self, until: Instant) -> io::Result<Exported> {
        let answered = self.wait(until, |progress| progress.exported.is_some());
        let exported = answered.and_then(|mut progress| progress.exported.take());
        exported.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}
