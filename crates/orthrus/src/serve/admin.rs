//! Answers the requests of administrators at a private socket in the state folder.
//!
//! A request has a thread of its own, so that a lookup that it waits for delays nothing else.

use crate::requests::{self, AdminReply, AdminRequest};
use nix::unistd::geteuid;
use rustix::net::sockopt::socket_peercred;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections to the administrator's socket at once; further ones are closed unread.
const ADMIN_CONNECTIONS_MAX: usize = 4;
/// Bytes of a request to the administrator's socket; a longer one is refused.
const ADMIN_REQUEST_MAX: usize = 4 << 10;
/// How long an administrator's program may take to send its request, and to read the reply.
const ADMIN_TIME_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system gives no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers the request of the user with a user ID, on a thread that may wait.
pub(super) type Answer = dyn Fn(AdminRequest, u32) -> AdminReply + Send + Sync;

/// Starts the thread that answers requests, for as long as the process lives. A server without the
/// socket still serves, so a failure is only logged.
pub(super) fn listen(state_dir: &Path, answer: Box<Answer>) {
    let start = || -> io::Result<()> {
        let socket = bind(state_dir)?;
        let run = move || accept_all(&socket, &Arc::from(answer));
        std::thread::Builder::new().name("admin".into()).spawn(run).map(drop)
    };
    if let Err(error) = start() {
        tracing::warn!(
            "no socket for `orthrus id`, `orthrus clients` and others in {}: {error}",
            state_dir.display()
        );
    }
}

/// Binds the socket. The state folder is private and locked, so a socket that is there is of a
/// server that has ended.
fn bind(state_dir: &Path) -> io::Result<UnixListener> {
    let folder = requests::open_folder(state_dir)?;
    let path = requests::socket_in(&folder);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

fn accept_all(socket: &UnixListener, answer: &Arc<Answer>) {
    // Each connection holds a clone.
    let places = Arc::new(());
    loop {
        let stream = match socket.accept() {
            Ok((stream, _)) => stream,
            Err(_) => {
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let Some(asker) = asker(&stream) else { continue };
        if Arc::strong_count(&places) > ADMIN_CONNECTIONS_MAX {
            continue;
        }
        let (place, answer) = (places.clone(), answer.clone());
        let run = move || {
            if let Err(error) = serve(&stream, asker, &*answer) {
                tracing::debug!("a request of an administrator failed: {error}");
            }
            drop(place);
        };
        // Without a thread the connection is closed, and the program reports it.
        let _ = std::thread::Builder::new().name("admin-request".into()).spawn(run);
    }
}

/// Returns the user ID of the peer, if it is that of root or of the server's own user.
fn asker(stream: &UnixStream) -> Option<u32> {
    let admitted = |uid: u32| uid == 0 || uid == geteuid().as_raw();
    match socket_peercred(stream) {
        Ok(peer) if admitted(peer.uid.as_raw()) => Some(peer.uid.as_raw()),
        Ok(peer) => {
            tracing::warn!("user {} may not ask at the administrator's socket", peer.uid.as_raw());
            None
        }
        Err(_) => None,
    }
}

/// Reads the request of a connection and replies to it.
fn serve(mut stream: &UnixStream, asker: u32, answer: &Answer) -> io::Result<()> {
    let reply = match read_request(stream)? {
        Ok(request) => answer(request, asker),
        Err(why) => AdminReply::Error(why),
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    stream.set_write_timeout(Some(ADMIN_TIME_MAX))?;
    stream.write_all(&line)
}

/// Reads the line of a request; the inner error says why it is none.
fn read_request(mut stream: &UnixStream) -> io::Result<Result<AdminRequest, String>> {
    let end = Instant::now() + ADMIN_TIME_MAX;
    let (mut line, mut piece) = (Vec::new(), [0; 512]);
    while !line.contains(&b'\n') {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => line.extend_from_slice(piece.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if line.len() > ADMIN_REQUEST_MAX {
            return Ok(Err(format!("a request has at most {ADMIN_REQUEST_MAX} bytes")));
        }
    }
    Ok(serde_json::from_slice(&line).map_err(|error| format!("no request: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    /// Sends bytes to a socket whose answers repeat the principal; returns the reply's line.
    fn ask(folder: &Path, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(folder.join(requests::SOCKET)).unwrap();
        // The server may close while a long request is being sent.
        let _ = stream.write_all(bytes);
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        line
    }

    fn echo() -> Box<Answer> {
        Box::new(|request, asker| match request {
            AdminRequest::Id { principal } if asker == geteuid().as_raw() => AdminReply::Error(principal),
            _ => unreachable!("the tests ask for nothing else"),
        })
    }

    #[test]
    fn a_request_is_one_line_of_bounded_length() {
        let folder = tempfile::tempdir().unwrap();
        listen(folder.path(), echo());
        let mode = std::fs::metadata(folder.path().join(requests::SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let line = b"{\"request\":\"id\",\"principal\":\"alice@R\"}\n";
        assert_eq!(ask(folder.path(), line), "{\"error\":\"alice@R\"}\n");
        for garbage in [&b"{}\n"[..], b"\n", b"\xff\n", b"{\"request\":\"halt\"}\n"] {
            assert!(ask(folder.path(), garbage).contains("no request"));
        }
        assert!(ask(folder.path(), &[b' '; 5000]).contains("at most 4096 bytes"));
    }

    #[test]
    fn further_connections_are_closed_and_a_former_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        listen(folder.path(), echo());
        listen(folder.path(), echo());
        let connect = || UnixStream::connect(folder.path().join(requests::SOCKET)).unwrap();
        let silent: Vec<_> = (0..ADMIN_CONNECTIONS_MAX).map(|_| connect()).collect();
        let line = b"{\"request\":\"id\",\"principal\":\"x\"}\n";
        assert_eq!(ask(folder.path(), line), "", "it is closed unread");
        drop(silent);
        let end = Instant::now() + Duration::from_secs(10);
        while ask(folder.path(), line).is_empty() {
            assert!(Instant::now() < end, "the places are free again");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
