//! Drains: the server takes no new clients, and ends when the last one has left.

use super::http::Author;
use runtime::NfsService;
use signal_hook::consts::SIGTERM;
use std::sync::Arc;
use std::time::Duration;

/// How often a drain looks for clients.
const INTERVAL: Duration = Duration::from_millis(500);

/// Starts a drain for `author`, and returns a line for the administrator.
///
/// # Errors
/// When the system gives no thread; then nothing changes.
pub(super) fn start(service: Arc<NfsService>, author: Author) -> std::io::Result<String> {
    let (engine, now) = (service.server().engine(), service.server().now());
    let left = engine.clients_with_lease(now);
    let line = format!("no new clients are served; the server ends when the last of {left} has left");
    if engine.is_draining() {
        return Ok(line);
    }
    engine.set_draining(true);
    let watched = service.clone();
    let thread = std::thread::Builder::new().name("drain".into());
    if let Err(error) = thread.spawn(move || end_with_last_client(&watched)) {
        engine.set_draining(false);
        return Err(error);
    }
    tracing::warn!("drain by {author}: {line}");
    Ok(line)
}

/// Ends a drain for `author`, and returns a line for the administrator.
pub(super) fn cancel(service: &NfsService, author: Author) -> String {
    service.server().engine().set_draining(false);
    let line = "new clients are served";
    tracing::warn!("drain cancelled by {author}: {line}");
    line.to_owned()
}

/// Ends the server, as SIGTERM does, when no client has a lease, unless the drain is cancelled.
fn end_with_last_client(service: &NfsService) {
    let server = service.server();
    while server.engine().is_draining() {
        if server.engine().clients_with_lease(server.now()) == 0 {
            tracing::info!("the last client has left");
            let _ = signal_hook::low_level::raise(SIGTERM);
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}
