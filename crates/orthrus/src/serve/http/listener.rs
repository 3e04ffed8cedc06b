//! Sockets of HTTP endpoints, and the places of their connections.

use super::serve_connection;
use crate::serve::web::{HANDSHAKE_TIME_MAX, TlsFiles};
use axum::{Extension, Router};
use net::Admission;
use nix::unistd::geteuid;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// How long to wait when the system gives no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The user of a program that is connected to a Unix socket, by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    uid: u32,
}

impl Author {
    /// Returns whether the user is root or that of the server, which alone may ask.
    pub(crate) fn is_admitted(self) -> bool {
        self.uid == 0 || self.uid == geteuid().as_raw()
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}", self.uid)
    }
}

/// A mark of a connection whose answer goes on until the peer has enough.
#[derive(Clone, Default)]
pub(crate) struct EndlessAnswer(Arc<AtomicBool>);

impl EndlessAnswer {
    /// Lifts the limit of the connection's time.
    pub(crate) fn begin(&self) {
        self.0.store(true, Relaxed);
    }
}

/// The socket of an endpoint.
pub(crate) enum HttpListener {
    /// A Unix socket. Requests have an [`Author`] and an [`EndlessAnswer`] among their extensions.
    Unix(UnixListener),
    /// A TCP socket, with a rule for peers. Others are closed before anything is read from them.
    Tcp(TcpListener, Option<Box<Admission>>),
    /// The same, and connections begin with a TLS handshake.
    Tls(TcpListener, Option<Box<Admission>>, Arc<TlsFiles>),
}

/// A bound socket, its requests and its limits.
pub(crate) struct HttpEndpoint {
    /// Where it listens; the socket does not block.
    pub(crate) listener: HttpListener,
    /// The answers to requests.
    pub(crate) router: Router,
    /// Connections at once; a further one takes the place of the oldest.
    pub(crate) connections_max: usize,
    /// How long a peer may take, from connecting to having read the answer.
    pub(crate) time_max: Duration,
}

/// A connection that is served to its end.
type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

impl HttpEndpoint {
    /// Accepts and serves connections for ever.
    pub(super) async fn serve(self) {
        let Self { listener, router, connections_max, time_max } = self;
        let places = ConnectionPlaces {
            connections: JoinSet::new(),
            oldest: VecDeque::new(),
            connections_max,
            time_max,
        };
        let served = match listener {
            HttpListener::Unix(socket) => serve_unix(socket, &router, places).await,
            HttpListener::Tcp(socket, admission) => serve_tcp(socket, admission, &router, places).await,
            HttpListener::Tls(socket, admission, files) => {
                serve_tls(socket, admission, &files, &router, places).await
            }
        };
        if let Err(error) = served {
            tracing::error!("an HTTP endpoint cannot be served: {error}");
        }
    }
}

/// Serves connections of a Unix socket, with the author of requests among their extensions.
async fn serve_unix(socket: UnixListener, router: &Router, mut places: ConnectionPlaces) -> io::Result<()> {
    let socket = tokio::net::UnixListener::from_std(socket)?;
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                // The kernel knows the peer of each connection.
                let Ok(peer) = stream.peer_cred() else { continue };
                let endless = EndlessAnswer::default();
                let layer = (Extension(Author { uid: peer.uid() }), Extension(endless.clone()));
                let router = router.clone().layer(layer);
                places.add(Box::pin(serve_connection(stream, router)), &endless);
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Serves connections of a TCP socket that the rule admits.
async fn serve_tcp(
    socket: TcpListener,
    admission: Option<Box<Admission>>,
    router: &Router,
    mut places: ConnectionPlaces,
) -> io::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    loop {
        match socket.accept().await {
            Ok((stream, peer)) => {
                if is_admitted(&stream, peer, admission.as_deref()) {
                    places.add(Box::pin(serve_connection(stream, router.clone())), &EndlessAnswer::default());
                }
            }
            Err(error) => pause(&error).await,
        }
    }
}

fn is_admitted(stream: &TcpStream, peer: SocketAddr, admission: Option<&Admission>) -> bool {
    let admits = |own| admission.is_none_or(|admission| admission(peer, own));
    stream.local_addr().is_ok_and(admits)
}

/// Serves connections of a TCP socket over TLS.
async fn serve_tls(
    socket: TcpListener,
    admission: Option<Box<Admission>>,
    files: &TlsFiles,
    router: &Router,
    mut places: ConnectionPlaces,
) -> io::Result<()> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    loop {
        match socket.accept().await {
            Ok((stream, peer)) => {
                if !is_admitted(&stream, peer, admission.as_deref()) {
                    continue;
                }
                let acceptor = TlsAcceptor::from(files.current());
                let router = router.clone();
                let connection = Box::pin(async move {
                    match tokio::time::timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => serve_connection(stream, router).await,
                        Ok(Err(error)) => tracing::debug!(%peer, "a TLS handshake failed: {error}"),
                        Err(_) => {}
                    }
                });
                places.add(connection, &EndlessAnswer::default());
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Waits after a failure to accept, and logs it unless the process ends.
async fn pause(error: &io::Error) {
    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) {
        return;
    }
    // These two mean that the process ends, and has let go of its sockets.
    let ends = [Errno::NOTSOCK, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
    if !ends.contains(&error.raw_os_error()) {
        tracing::warn!("an HTTP connection cannot be accepted: {error}");
    }
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// The connections of an endpoint.
struct ConnectionPlaces {
    connections: JoinSet<()>,
    /// The handles of the connections, the oldest first.
    oldest: VecDeque<AbortHandle>,
    connections_max: usize,
    time_max: Duration,
}

impl ConnectionPlaces {
    /// Serves a connection for a limited time, unless its answer is endless. Without a place for
    /// it, the oldest one is closed.
    fn add(&mut self, mut connection: Connection, endless: &EndlessAnswer) {
        while self.connections.try_join_next().is_some() {}
        self.oldest.retain(|handle| !handle.is_finished());
        if self.oldest.len() >= self.connections_max
            && let Some(oldest) = self.oldest.pop_front()
        {
            oldest.abort();
        }
        let (time_max, endless) = (self.time_max, endless.clone());
        let serve = async move {
            if tokio::time::timeout(time_max, &mut connection).await.is_err() && endless.0.load(Relaxed) {
                connection.await;
            }
        };
        self.oldest.push_back(self.connections.spawn(serve));
    }
}

/// Binds a TCP socket for an endpoint.
///
/// # Errors
/// The system's.
pub(crate) fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Takes over the listening socket of another process.
///
/// # Errors
/// The system's.
pub(crate) fn inherit_tcp(socket: OwnedFd) -> io::Result<TcpListener> {
    let socket = TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    Ok(socket)
}
