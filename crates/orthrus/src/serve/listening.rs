//! The sockets of the server: bound here, passed by the service manager (sd_listen_fds(3)), or
//! taken from the process before.

use super::http_listeners::HttpListeners;
use super::same_user;
use super::upgrade::Inherited;
use crate::config::Settings;
use anyhow::{Context, anyhow, bail};
use listenfd::ListenFd;
use net::{ListenError, Listener};
use rustix::net::sockopt::socket_acceptconn;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// The sockets of a server that does not serve yet.
pub(super) struct OpenedSockets {
    /// The port of NFS.
    pub(super) listener: Listener,
    /// Whether the service manager passed it, to this process or to one before.
    pub(super) passed: bool,
    pub(super) http: HttpListeners,
}

impl OpenedSockets {
    /// Opens the sockets that the settings name; those of a process that is taken over are used as
    /// far as the settings still name them.
    ///
    /// # Errors
    /// An address cannot be bound, or the manager passes something else than one TCP socket; names
    /// the remedy.
    pub(super) fn open(settings: &Settings, inherited: Option<&mut Inherited>) -> anyhow::Result<Self> {
        let held = inherited.as_ref().map(|inherited| inherited.addresses());
        let opened = Self::open_all(settings, inherited);
        opened.map_err(|error| match held {
            Some(held) if is_in_use(&error) => needs_restart(settings, held).unwrap_or(error),
            _ => error,
        })
    }

    fn open_all(settings: &Settings, mut inherited: Option<&mut Inherited>) -> anyhow::Result<Self> {
        let passed = inherited.as_ref().is_some_and(|inherited| inherited.is_passed());
        let taken = inherited.as_mut().and_then(|inherited| inherited.listener(settings.listen));
        let (mut listener, passed) = match taken {
            Some(socket) => (Listener::inherit(socket).context("the listening socket")?, passed),
            None => listen(settings)?,
        };
        if settings.same_user {
            listener.admit(same_user::admission());
        }
        Ok(Self { listener, passed, http: HttpListeners::open(settings, inherited)? })
    }
}

/// Returns whether an address was in use.
fn is_in_use(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(ListenError::InUse(_)))
            || cause.downcast_ref().is_some_and(|cause: &std::io::Error| cause.kind() == ErrorKind::AddrInUse)
    })
}

/// Returns the fault of an address that the next process cannot bind, since the old one listens at
/// another address with its port.
fn needs_restart(settings: &Settings, held: [Option<SocketAddr>; 3]) -> Option<anyhow::Error> {
    let asked = [Some(settings.listen), settings.metrics, settings.web];
    let new = asked.iter().zip(&held).filter(|(asked, held)| asked != held);
    new.filter_map(|(asked, _)| *asked).find_map(|asked| {
        let other = held.iter().flatten().find(|held| held.port() == asked.port())?;
        Some(anyhow!("the running server listens at {other}, and a change to {asked} needs a restart"))
    })
}

/// Takes the socket that the service manager passes, or else binds the configured address. Returns
/// which it was, too.
fn listen(settings: &Settings) -> anyhow::Result<(Listener, bool)> {
    let mut passed = ListenFd::from_env();
    match passed.len() {
        0 => Ok((Listener::bind(settings.listen)?, false)),
        1 => {
            let socket =
                passed.take_tcp_listener(0).context("the socket unit passes no listening TCP socket")?;
            let socket = socket.context("the socket unit passes its socket to another process")?;
            if !socket_acceptconn(&socket).context("the socket of the socket unit")? {
                bail!(
                    "the socket of the socket unit does not listen any more; use \"systemctl restart orthrus.socket\""
                );
            }
            let listener = Listener::inherit(socket.into()).context("the socket of the socket unit")?;
            tracing::info!("the service manager listens at {}; `listen` is not used", listener.address());
            Ok((listener, true))
        }
        count => bail!("the socket unit passes {count} sockets; the server takes one: use one ListenStream="),
    }
}
