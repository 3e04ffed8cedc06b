//! The pause between starts of a member that fail.
//!
//! A start for whose clients there is state to reclaim begins a grace period, in which no member
//! grants new opens and locks, and its signs of life hold the period up. The service manager starts
//! a server again within a second: a lasting defect, such as an export that cannot be mounted,
//! would stop all members for ever. So a start that follows such a failure at once waits before it
//! takes the name, longer after each failure in a row, and the others go on without it.

use crate::logging;
use crate::serve::state_dir::{read, replace};
use crate::service_manager::{START_INTERVAL, ServiceManager};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The file of the state folder with the number of starts in a row that have failed.
const NAME: &str = "failed-starts";
/// Bytes of the file with the number of failed starts.
const FILE_SIZE_MAX: u64 = 16;
/// The time after a failure in which a service manager starts the server again. Administrators take
/// longer, and need not wait.
const RESTART_TIME: Duration = Duration::from_secs(10);
/// The pause after the first failure in a row; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// The longest pause between two starts of a member that fail. The grace period that such a start
/// begins takes a small part of it.
const START_PAUSE_MAX: Duration = Duration::from_secs(600);
/// The time after which the next failure begins a new row.
const ROW_TIME: Duration = Duration::from_secs(3600);

/// Whether this process has taken the name of the member.
static HAS_NAME: AtomicBool = AtomicBool::new(false);

/// Notes that this process has taken the name of the member.
pub(super) fn note_name() {
    HAS_NAME.store(true, Relaxed);
}

/// Starts in a row that have failed, and the time since the last.
struct FailedStarts {
    count: u32,
    age: Duration,
}

impl FailedStarts {
    fn read(state_dir: &Path) -> Option<Self> {
        let path = state_dir.join(NAME);
        let count = read(&path, FILE_SIZE_MAX).ok()??.trim().parse().ok()?;
        let age = path.metadata().ok()?.modified().ok()?.elapsed().ok()?;
        Some(Self { count, age }).filter(|failed| failed.age < ROW_TIME)
    }

    /// Returns how long the next start waits.
    fn pause(&self) -> Duration {
        let doubled = 2u32.saturating_pow(self.count.saturating_sub(1));
        let pause = PAUSE_MIN.saturating_mul(doubled).min(START_PAUSE_MAX);
        if self.age < RESTART_TIME { pause } else { Duration::ZERO }
    }
}

/// Notes that the start of this process has failed, if it has taken the name of the member.
pub(in crate::serve) fn note_failure(state_dir: &Path) {
    if HAS_NAME.load(Relaxed) {
        count_failure(state_dir);
    }
}

fn count_failure(state_dir: &Path) {
    let before = FailedStarts::read(state_dir).map_or(0, |failed| failed.count);
    let count = before.saturating_add(1);
    if let Err(error) = replace(state_dir, NAME, format!("{count}\n").as_bytes()) {
        tracing::warn!("{}: {error}", state_dir.join(NAME).display());
    }
}

/// Forgets the starts that have failed, after one that has succeeded.
pub(super) fn forget(state_dir: &Path) {
    let _ = std::fs::remove_file(state_dir.join(NAME));
}

/// Waits if a start has failed just now. SIGTERM and SIGINT end the process meanwhile.
pub(super) fn wait(state_dir: &Path, manager: &ServiceManager) {
    let Some(failed) = FailedStarts::read(state_dir) else { return };
    let pause = failed.pause();
    if pause.is_zero() {
        return;
    }
    let (say, over) = channel();
    end_by_signal(&say);
    let why = format!("{} s after {} failed start(s)", pause.as_secs(), failed.count);
    tracing::warn!(
        "cluster: waiting {why}, since each can begin a grace period for all members; \"systemctl restart\" starts at \
         once"
    );
    start("pause", move || {
        std::thread::sleep(pause);
        let _ = say.send(false);
    });
    let is_to_end = manager.wait_for_start(&over, START_INTERVAL, || format!("waiting {why}"));
    if is_to_end == Ok(true) {
        logging::flush();
        vfs_local::exit_at_once(0);
    }
}

/// Starts a thread, which the process does not wait for.
fn start(name: &str, run: impl FnOnce() + Send + 'static) {
    let _ = std::thread::Builder::new().name(name.into()).spawn(run);
}

/// Says when a signal asks the process to end. From here on, it ends the process in no other way.
fn end_by_signal(say: &Sender<bool>) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let say = say.clone();
    start("signals", move || {
        if signals.forever().next().is_some() {
            let _ = say.send(true);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_start_at_once_after_a_failure_waits_and_longer_after_each() {
        let pause = |count, age| FailedStarts { count, age: Duration::from_secs(age) }.pause().as_secs();
        assert_eq!([1, 2, 3, 7, 8, 100].map(|count| pause(count, 1)), [5, 10, 20, 320, 600, 600]);
        assert_eq!(pause(3, RESTART_TIME.as_secs()), 0, "an administrator");
    }

    #[test]
    fn failures_are_counted_until_a_start_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let count = || FailedStarts::read(folder.path()).map(|failed| failed.count);
        assert_eq!(count(), None);
        count_failure(folder.path());
        count_failure(folder.path());
        assert_eq!(count(), Some(2));
        forget(folder.path());
        assert_eq!(count(), None);
        std::fs::write(folder.path().join(NAME), "damaged").unwrap();
        assert_eq!(count(), None);
        count_failure(folder.path());
        assert_eq!(count(), Some(1), "the damaged file is replaced");
    }
}
