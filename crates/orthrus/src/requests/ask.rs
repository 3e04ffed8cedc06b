//! The side of a request that asks.

use super::{AdminReply, AdminRequest, open_folder, socket_in};
use anyhow::{Context, bail};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the server may take for its reply: the longest wait for a lookup, and some more.
const REPLY_TIME_MAX: Duration = Duration::from_secs(40);
/// Bytes of a reply from the server: a user with a million groups has fewer.
const REPLY_SIZE_MAX: u64 = 16 << 20;

/// Asks the server of a state folder. Returns `None`, with the reason, if no server can be asked.
///
/// # Errors
/// The server is there and gives no answer.
pub(crate) fn ask(state_dir: &Path, request: &AdminRequest) -> anyhow::Result<Result<AdminReply, String>> {
    let connect = || UnixStream::connect(socket_in(&open_folder(state_dir)?));
    let mut stream = match connect() {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(Err(format!("no server runs in {}", state_dir.display())));
        }
        Err(error) => {
            return Ok(Err(format!("the server of {} cannot be asked: {error}", state_dir.display())));
        }
    };
    let mut exchange = || -> anyhow::Result<AdminReply> {
        stream.set_read_timeout(Some(REPLY_TIME_MAX))?;
        stream.set_write_timeout(Some(REPLY_TIME_MAX))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut reply = Vec::new();
        let sent = stream.write_all(&line);
        let end = sent.and_then(|()| Read::take(&mut stream, REPLY_SIZE_MAX).read_to_end(&mut reply));
        match end.map_err(|error| error.kind()) {
            Ok(1..) => Ok(serde_json::from_slice(&reply)?),
            Ok(0) | Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                bail!("it closed the connection: only root and its own user may ask, four at once")
            }
            Err(kind) => bail!(kind),
        }
    };
    let reply = exchange().with_context(|| {
        format!("the server of {} gave no answer (--offline does without it)", state_dir.display())
    })?;
    Ok(Ok(reply))
}
