//! Periodic work, and the report of all counters.

use crate::{Executor, Gate, NfsService, ServiceCounts};
use net::{Running, Stats};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::Exports;

/// The interval of the checks of leases and contexts.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a step of work that goes on at once, at least.
const STEP_PAUSE_MIN: Duration = Duration::from_millis(1);
/// The interval at which backends release resources that were not used since the last trim. The
/// space of removed files is free after two intervals.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);

/// The fall in the connections' memory, in bytes, after which freed memory goes back to the system.
const RELEASE_MIN: usize = 16 << 20;

/// Starts the thread that ends expired leases and contexts, recalls delegations that local programs
/// wait for, and trims the backends of all exports. Calls `release_memory` after the connections
/// have freed much memory. Its rounds wait while `gate` is closed.
///
/// # Errors
/// The system cannot start another thread.
pub fn start(
    service: Arc<NfsService>,
    exports: Arc<Exports>,
    stats: Arc<Stats>,
    gate: Arc<Gate>,
    release_memory: fn(),
) -> std::io::Result<()> {
    let run = move || {
        let mut next_trim = Instant::now() + TRIM_INTERVAL;
        let mut peak = 0;
        loop {
            wait(&service, &gate);
            let trims = Instant::now() >= next_trim;
            if trims {
                next_trim = Instant::now() + TRIM_INTERVAL;
            }
            inside(&gate, || round(&service, &exports, trims));
            if has_fallen(&mut peak, stats.held_bytes()) {
                release_memory();
            }
        }
    };
    std::thread::Builder::new().name("housekeeping".into()).spawn(run).map(drop)
}

/// Does work inside of the gate; `None` after a panic. Without this thread no lease would ever
/// expire, so a panic must not end it.
fn inside<R>(gate: &Gate, work: impl FnOnce() -> R) -> Option<R> {
    let _inside = gate.enter();
    let done = catch_unwind(AssertUnwindSafe(work));
    done.inspect_err(|_| tracing::error!("a defect of the server cut its housekeeping short")).ok()
}

/// Waits for the next round, or for a delegation that a local program waits for. Meanwhile goes on
/// to unlock ranges of files with very many locks, half of the time at most: between two steps
/// clients lock these files, and an upgrade closes the gate.
fn wait(service: &NfsService, gate: &Gate) {
    let next = Instant::now() + INTERVAL;
    let server = service.server();
    loop {
        let began = Instant::now();
        let goes_on = inside(gate, || server.engine().unlock_late(server.now())).unwrap_or_default();
        let rest = next.saturating_duration_since(Instant::now());
        let pause = if goes_on { began.elapsed().max(STEP_PAUSE_MIN).min(rest) } else { rest };
        if rest.is_zero() || server.engine().wait_for_breaks(pause) {
            return;
        }
    }
}

/// Returns whether connections hold far less memory than at their last peak, and then resets the
/// peak.
fn has_fallen(peak: &mut usize, held: usize) -> bool {
    *peak = held.max(*peak);
    let fallen = *peak - held >= RELEASE_MIN && held <= *peak / 2;
    if fallen {
        *peak = held;
    }
    fallen
}

/// Runs one round: ends expired state, resumes calls whose wait has ended, and trims the backends.
pub fn round<E: Executor>(service: &NfsService<E>, exports: &Exports, trims: bool) {
    service.server().housekeeping();
    service.wake(Some(service.server().now()));
    if trims {
        exports.snapshot().iter().for_each(|export| export.backend.trim());
    }
}

/// Logs every counter for SIGUSR1: one line per layer.
pub fn report(service: &NfsService, running: &Running) {
    tracing::info!("network: {}", line(&running.stats().snapshot()));
    tracing::info!("calls: {}", line(&service.server().metrics().snapshot()));
    tracing::info!("behind: {}", service.server().metrics().lags);
    let ServiceCounts { disk, contexts, copies, answers_waiting, commit } = service.counts();
    let waiting = [
        ("disk_threads", disk.threads),
        ("disk_waiting", disk.waiting),
        ("context_threads", contexts.threads),
        ("contexts_waiting", contexts.waiting),
        ("answers_waiting", answers_waiting),
        ("copy_threads", copies.threads),
        ("copies_waiting", copies.waiting),
        ("changes_committing", commit.waiting),
    ];
    let commits = [("change_syncs", commit.syncs), ("changes_committed", commit.committed)];
    tracing::info!("waiting: {} {}", line(&waiting), line(&commits));
    let contexts = service.server().rpcsec().map_or(0, |rpcsec| rpcsec.contexts().len());
    let copies = service.server().engine().offload_counts();
    let copies = [
        ("copies_begun", copies.begun),
        ("bytes_copied", copies.bytes),
        ("offloads_answered", copies.answered),
    ];
    tracing::info!("copies: {}", line(&copies));
    let counts = service.server().engine().counts();
    let held = [
        ("contexts", contexts),
        ("clients", counts.clients),
        ("sessions", counts.sessions),
        ("opens", counts.opens),
        ("lock_stateids", counts.lock_stateids),
        ("ranges", counts.ranges),
        ("delegations", counts.delegations),
        ("copies", counts.copies),
        ("files", counts.files),
        ("owners", counts.owners),
        ("reply_cache", counts.reply_cache),
        ("session_memory", counts.session_memory),
    ];
    tracing::info!("held: {}", line(&held));
}

fn line<N: std::fmt::Display>(counters: &[(&'static str, N)]) -> String {
    let counters: Vec<String> = counters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    counters.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_released_once_after_each_peak_and_not_for_little() {
        let mut peak = 0;
        let held = [0, 10, 40, 30, 25, 15, 15, 0, 60, 0, 0, 10, 0].map(|held| held << 20);
        let released = held.map(|held| has_fallen(&mut peak, held));
        let at = |index: usize| released[index];
        assert_eq!((0..held.len()).filter(|index| at(*index)).collect::<Vec<_>>(), [5, 9], "{released:?}");
    }

    #[test]
    fn counters_stand_in_one_line_with_their_names() {
        assert_eq!(line(&[("calls", 3), ("compounds", 2)]), "calls=3 compounds=2");
    }
}
