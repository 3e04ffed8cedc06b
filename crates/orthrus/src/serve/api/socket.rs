//! The socket of the API in the state directory.

use super::{ApiParts, router};
use crate::api;
use crate::serve::http::{HttpEndpoint, HttpListener};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Connections to the administrator's socket at once; a further one takes the place of the oldest.
const ADMIN_CONNECTIONS_MAX: usize = 16;
/// How long a request of an administrator may take: to send it, the longest lookup, and to read the
/// answer.
const ADMIN_TIME_MAX: Duration = Duration::from_secs(45);

/// Makes the endpoint of the API.
///
/// # Errors
/// The socket cannot be made.
pub(in crate::serve) fn endpoint(state_dir: &Path, parts: Arc<ApiParts>) -> io::Result<HttpEndpoint> {
    Ok(HttpEndpoint {
        listener: HttpListener::Unix(bind(state_dir)?),
        router: router(parts),
        connections_max: ADMIN_CONNECTIONS_MAX,
        time_max: ADMIN_TIME_MAX,
    })
}

/// Binds the socket. The state directory is private and locked, so a socket that is there is of a
/// server that has ended.
pub(super) fn bind(state_dir: &Path) -> io::Result<UnixListener> {
    let folder = api::open_folder(state_dir)?;
    let path = api::socket_in(&folder);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
