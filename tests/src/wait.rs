//! Waits for conditions. Each has an end, since a test that hangs names no cause.

use std::time::{Duration, Instant};

/// The longest wait for an event that takes no time on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds, and panics with its name after a minute.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    found(what, || holds().then_some(()));
}

/// Waits until `find` returns a value, and panics with its name after a minute.
#[track_caller]
pub fn found<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = find() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
