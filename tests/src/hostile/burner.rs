//! Threads that burn as much processor time as a flood's sender did, and send nothing.

use nix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread burns its part of a slice and sleeps through the rest.
const SLICE: Duration = Duration::from_millis(4);

/// Processor time that the threads of a flood took.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedTime {
    /// Processor time by time.
    pub cores: f64,
    /// Threads it was spread over.
    pub threads: usize,
}

/// Processor time of the calling thread.
pub(super) fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Threads that burn processor time.
pub(super) struct Burner {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burner {
    /// Starts threads that burn as much time as `used`.
    pub(super) fn start(used: UsedTime) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let share = (used.cores / used.threads.max(1) as f64).min(1.0);
        let burn = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || burn(share, &stop))
        };
        let threads = (0..used.threads).map(burn).collect();
        Self { stop, threads }
    }

    /// Stops and waits for the threads.
    pub(super) fn stop(self) {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Burns `share` of a core: as much behind as it fell while others ran, it catches up.
fn burn(share: f64, stop: &AtomicBool) {
    let (begin, first) = (Instant::now(), thread_time());
    while !stop.load(Relaxed) {
        let due = begin.elapsed().mul_f64(share);
        match (thread_time() - first) < due {
            true => (0..2000).for_each(|turn| _ = std::hint::black_box(turn)),
            false => std::thread::sleep(SLICE.mul_f64((1.0 - share).max(0.1))),
        }
    }
}
