//! The sockets of the server. Its port is bound here, or passed by the service manager
//! (sd_listen_fds(3)).

use super::metrics::MetricsListener;
use super::web::WebListener;
use super::{bind_metrics, same_user};
use crate::config::Settings;
use anyhow::{Context, bail};
use listenfd::ListenFd;
use net::Listener;

/// The TCP sockets of the server, which serve nothing yet.
pub(super) struct BoundSockets {
    pub(super) listener: Listener,
    pub(super) metrics: Option<MetricsListener>,
    pub(super) page: Option<WebListener>,
}

impl BoundSockets {
    /// Binds the sockets. They admit the programs of the server's user alone, if the settings say
    /// so.
    ///
    /// # Errors
    /// An address that cannot be bound; names the remedy.
    pub(super) fn bind(settings: &Settings) -> anyhow::Result<Self> {
        let mut listener = listen(settings)?;
        let mut metrics = settings.metrics.map(bind_metrics).transpose()?;
        let mut page = WebListener::bind(settings)?;
        if settings.same_user {
            listener.admit(same_user::admission());
            metrics.iter_mut().for_each(|endpoint| endpoint.admit(same_user::admission()));
            page.iter_mut().for_each(|endpoint| endpoint.admit(same_user::admission()));
        }
        Ok(Self { listener, metrics, page })
    }
}

/// Takes the socket that the service manager passes, or else binds the configured address.
///
/// # Errors
/// The address cannot be bound, or the manager passes something else than one TCP socket; names the
/// remedy.
fn listen(settings: &Settings) -> anyhow::Result<Listener> {
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
