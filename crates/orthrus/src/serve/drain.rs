//! Drains: the server takes no new clients, and ends when the last one has left.

use super::http::Author;
use runtime::{Gate, NfsService};
use signal_hook::consts::SIGTERM;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a drain looks for clients.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long a drain that finds no client waits before it ends the server: nothing starts the server
/// again, so there has to be time to cancel.
const CANCEL_TIME: Duration = Duration::from_secs(10);

/// Starts a drain for `author`, and returns a line for the administrator.
///
/// # Errors
/// When the system gives no thread; then nothing changes.
pub(super) fn start(service: &Arc<NfsService>, gate: &Arc<Gate>, author: Author) -> std::io::Result<String> {
    let (engine, now) = (service.server().engine(), service.server().now());
    let left = engine.clients_with_lease(now);
    let end = match left {
        0 => format!("no client is left, so the server ends in {} s", CANCEL_TIME.as_secs()),
        _ => format!("the server ends when the last of {left} has left"),
    };
    let line = format!("no new clients are served; {end}");
    if engine.is_draining() {
        return Ok(line);
    }
    engine.set_draining(true);
    if let Err(error) = watch(service, gate) {
        engine.set_draining(false);
        return Err(error);
    }
    tracing::warn!("drain by {author}: {line}");
    Ok(line)
}

/// Goes on with the drain of the process before, if there is one.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn resume(service: &Arc<NfsService>, gate: &Arc<Gate>) -> std::io::Result<()> {
    if service.server().engine().is_draining() { watch(service, gate) } else { Ok(()) }
}

fn watch(service: &Arc<NfsService>, gate: &Arc<Gate>) -> std::io::Result<()> {
    let (service, gate) = (service.clone(), gate.clone());
    let watch = move || end_with_last_client(&service, &gate);
    std::thread::Builder::new().name("drain".into()).spawn(watch).map(drop)
}

/// Ends a drain for `author`, and returns a line for the administrator.
pub(super) fn cancel(service: &NfsService, author: Author) -> String {
    let engine = service.server().engine();
    if !engine.is_draining() {
        return "there is no drain: new clients are served".to_owned();
    }
    engine.set_draining(false);
    let line = "new clients are served";
    tracing::warn!("drain cancelled by {author}: {line}");
    line.to_owned()
}

/// Ends the server, as SIGTERM does, when no client has a lease, unless the drain is cancelled.
fn end_with_last_client(service: &NfsService, gate: &Gate) {
    let (server, begin) = (service.server(), Instant::now());
    let mut had_clients = false;
    while server.engine().is_draining() {
        // Another process may have taken over: then this waits for ever.
        let inside = gate.enter();
        let left = server.engine().clients_with_lease(server.now());
        had_clients |= left > 0;
        if is_over(left, had_clients, begin.elapsed()) {
            tracing::info!("the last client has left");
            let _ = signal_hook::low_level::raise(SIGTERM);
            return;
        }
        drop(inside);
        std::thread::sleep(INTERVAL);
    }
}

/// Returns whether a drain that began `passed` ago ends the server.
fn is_over(left: usize, had_clients: bool, passed: Duration) -> bool {
    left == 0 && (had_clients || passed >= CANCEL_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_without_clients_leaves_time_to_cancel() {
        let soon = Duration::from_millis(1);
        assert!(!is_over(0, false, soon) && is_over(0, false, CANCEL_TIME));
        assert!(!is_over(1, true, CANCEL_TIME) && is_over(0, true, soon));
    }
}
