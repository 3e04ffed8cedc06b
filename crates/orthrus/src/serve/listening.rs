//! The port of the server: bound here, or passed by the service manager (sd_listen_fds(3)).

use crate::config::Settings;
use anyhow::{Context, bail};
use listenfd::ListenFd;
use net::Listener;

/// Takes the socket that the service manager passes, or else binds the configured address.
///
/// # Errors
/// The address cannot be bound, or the manager passes something else than one TCP socket; names the
/// remedy.
pub(super) fn listen(settings: &Settings) -> anyhow::Result<Listener> {
    let mut passed = ListenFd::from_env();
    match passed.len() {
        0 => Ok(Listener::bind(settings.listen)?),
        1 => {
            let socket =
                passed.take_tcp_listener(0).context("the socket unit passes no listening TCP socket")?;
            let socket = socket.context("the socket unit passes its socket to another process")?;
            let listener = Listener::inherit(socket.into()).context("the socket of the socket unit")?;
            tracing::info!("the service manager listens at {}; `listen` is not used", listener.address());
            Ok(listener)
        }
        count => bail!("the socket unit passes {count} sockets; the server takes one: use one ListenStream="),
    }
}
