//! Drains: the server takes no new clients, and ends when the last one has left.

use super::http::Author;
use runtime::{Gate, NfsService};
use signal_hook::consts::SIGTERM;
use std::sync::Arc;
use std::time::Duration;

/// How often a drain looks for clients.
const INTERVAL: Duration = Duration::from_millis(500);

/// Starts a drain for `author`, and returns a line for the administrator.
///
/// # Errors
/// When the system gives no thread; then nothing changes.
pub(super) fn start(service: &Arc<NfsService>, gate: &Arc<Gate>, author: Author) -> std::io::Result<String> {
    let (engine, now) = (service.server().engine(), service.server().now());
    let left = engine.clients_with_lease(now);
    let line = format!("no new clients are served; the server ends when the last of {left} has left");
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
    let server = service.server();
    while server.engine().is_draining() {
        // Another process may have taken over: then this waits for ever.
        let inside = gate.enter();
        if server.engine().clients_with_lease(server.now()) == 0 {
            tracing::info!("the last client has left");
            let _ = signal_hook::low_level::raise(SIGTERM);
            return;
        }
        drop(inside);
        std::thread::sleep(INTERVAL);
    }
}
