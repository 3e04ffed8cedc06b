//! Signals that end a long command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Becomes true at Ctrl-C, SIGTERM or the end of the terminal; Ctrl-C or SIGTERM after that ends
/// the program at once.
///
/// # Errors
/// When signals cannot be caught.
pub(super) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    // A terminal that ends sends it twice at times: the kernel does, and then the shell.
    if !ignores_hangup() {
        signal_hook::flag::register(SIGHUP, stop.clone())?;
    }
    Ok(stop)
}

/// Returns whether the program was started to outlive its terminal, as `nohup` does.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Waits until the flag is set.
pub(super) fn wait_for(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
}
