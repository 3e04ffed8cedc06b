//! The listener and the acceptor, which distributes new connections to the shards.

use crate::allowance::Allowance;
use crate::image::{InheritedConnections, NetImage};
use crate::ledger::BUSY_TIME;
use crate::mailbox::{Arrival, export_all, wait_all, want_all};
use crate::outgoing::connection_id;
use crate::owner::plain;
use crate::relief::{Relief, ReliefBell};
use crate::shard::{Shard, ShardHandle, ShardParts};
use crate::shared::SharedParts;
use crate::stillness::{ShardPhase, Stillness};
use crate::{Limits, Outgoing, Service, Shards, Stats};
use rpc::ConnectionId;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::cmp::Reverse;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that wait in the kernel to be accepted.
const BACKLOG_MAX: i32 = 4096;
/// Connections that are accepted before the acceptor checks its allowance.
const BATCH_MAX: usize = 32;
/// Pause of the acceptor when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The reason why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another program uses the port.
    #[error(
        "{0} is in use by another program, which `ss -tlnp` shows; stop it, or choose another address with --listen"
    )]
    InUse(SocketAddr),
    /// The NFS server of the kernel uses the port.
    #[error("{0} is in use by the NFS server of the kernel; stop it: systemctl disable --now nfs-server")]
    KernelServer(SocketAddr),
    /// A port below 1024 needs a privilege.
    #[error(
        "no permission for {0}; run as root, grant CAP_NET_BIND_SERVICE, or choose a port from 1024 up with --listen"
    )]
    Permission(SocketAddr),
    /// The machine has no such address.
    #[error("{0} is not an address of this machine; `ip address` lists them{brackets}", brackets = brackets(*.0))]
    NoAddress(SocketAddr),
    /// Any other error of the system.
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, io::Error),
}

/// Decides from the peer's and the server's address whether a new connection is served.
pub type Admission = dyn Fn(SocketAddr, SocketAddr) -> bool + Send;

/// A bound port that does not accept connections yet.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    admission: Option<Box<Admission>>,
}

impl Listener {
    /// Binds a TCP port. The IPv6 address `::` accepts IPv4 as well.
    ///
    /// # Errors
    /// [`ListenError`], which names the address and the remedy.
    pub fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let socket = bind_socket(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse if kernel_serves(address.port()) => ListenError::KernelServer(address),
            io::ErrorKind::AddrInUse => ListenError::InUse(address),
            io::ErrorKind::PermissionDenied => ListenError::Permission(address),
            io::ErrorKind::AddrNotAvailable => ListenError::NoAddress(address),
            _ => ListenError::Other(address, error),
        })?;
        let address = socket.local_addr().map_err(|error| ListenError::Other(address, error))?;
        Ok(Self { socket, address, admission: None })
    }

    /// Takes over a listening socket, such as that of the previous process.
    ///
    /// # Errors
    /// The descriptor is no TCP socket.
    pub fn inherit(socket: OwnedFd) -> io::Result<Self> {
        let socket = TcpListener::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self { address: socket.local_addr()?, socket, admission: None })
    }

    /// Returns the bound address; for port 0, with the port that the kernel chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the check of new connections. The acceptor's thread runs it, and closes refused
    /// connections before anything is read from them.
    pub fn admit(&mut self, admission: Box<Admission>) {
        self.admission = Some(admission);
    }

    /// Starts `shards` threads and the acceptor.
    ///
    /// # Errors
    /// An I/O error if the system has no threads or descriptors left.
    pub fn start<S: Service>(self, service: Arc<S>, shards: usize, limits: Limits) -> io::Result<Running> {
        self.start_in(ShardPhase::Serve, service, shards, limits, None)
    }

    /// As [`Listener::start`], with the connections of another process, which spread over the
    /// shards. Nothing is read, sent or accepted before [`Running::thaw`].
    ///
    /// # Errors
    /// As [`Listener::start`].
    pub fn start_parked<S: Service>(
        self,
        service: Arc<S>,
        shards: usize,
        limits: Limits,
        inherited: InheritedConnections,
    ) -> io::Result<Running> {
        self.start_in(ShardPhase::Park, service, shards, limits, Some(inherited))
    }

    fn start_in<S: Service>(
        self,
        phase: ShardPhase,
        service: Arc<S>,
        shards: usize,
        limits: Limits,
        inherited: Option<InheritedConnections>,
    ) -> io::Result<Running> {
        let shared = Arc::new(SharedParts::new(limits));
        let (stats, bell) = (shared.stats.clone(), Arc::new(ReliefBell::default()));
        let parts = ShardParts { service: service.clone(), shared: shared.clone(), bell };
        let (handles, heir) = (spawn(&parts, shards, phase)?, service.clone());
        let relief = relieve(&handles, &parts)?;
        let activities = handles.iter().map(ShardHandle::activity).collect();
        let shards = Shards::new(service, activities, shared.ledger.clone());
        let (watch, stop_watch) = channel();
        {
            let (shards, stats) = (shards.clone(), stats.clone());
            let run = move || shards.watch(&stats, &stop_watch);
            std::thread::Builder::new().name("watchdog".into()).spawn(run)?;
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let accepted = inherited.as_ref().map_or(0, |inherited| inherited.image.accepted);
        let stop = Arc::new(Stop {
            flag: AtomicBool::new(false),
            wake,
            stillness: Stillness::new(phase),
            accepted: AtomicU64::new(accepted),
        });
        let outgoing = Outgoing::new(handles.iter().map(ShardHandle::mailbox), shared.routes.clone());
        let (socket, admission) = (self.socket, self.admission);
        let listener = Mutex::new(Some(socket.try_clone()?));
        let acceptor = ConnectionAcceptor { socket, admission, shards: handles, relief, shared };
        if let Some(inherited) = inherited {
            acceptor.inherit(inherited, |dropped| heir.closed(dropped))?;
        }
        let thread = {
            let stop = stop.clone();
            std::thread::Builder::new().name("accept".into()).spawn(move || acceptor.run(&stop))?
        };
        let address = self.address;
        let thread = Mutex::new(Some(thread));
        Ok(Running { stop, thread, stats, outgoing, shards, _watch: watch, address, listener })
    }
}

/// Starts the threads of the shards.
fn spawn<S: Service>(
    parts: &ShardParts<S>,
    shards: usize,
    phase: ShardPhase,
) -> io::Result<Vec<ShardHandle<S>>> {
    (0..shards.max(1)).map(|index| Shard::spawn(index, parts, phase)).collect()
}

/// Starts the thread that relieves shards whose threads block.
fn relieve<S: Service>(shards: &[ShardHandle<S>], parts: &ShardParts<S>) -> io::Result<Relief> {
    let (seats, stats) = (shards.iter().map(ShardHandle::seat).collect(), parts.shared.stats.clone());
    Relief::start(seats, parts.bell.clone(), move |index, shard: Box<Shard<S>>| {
        Stats::add(&stats.relieved, 1);
        let continued = shard.continue_on_thread(index);
        continued.map_err(|(shard, error)| {
            tracing::debug!("no thread for shard {index}, whose thread is blocked: {error}");
            shard
        })
    })
}

fn bind_socket(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG_MAX)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The ports of the kernel's NFS server, while it runs.
const KERNEL_PORTS: &str = "/proc/fs/nfsd/portlist";

/// Returns whether the kernel's NFS server listens at a TCP port. No program owns its sockets.
fn kernel_serves(port: u16) -> bool {
    std::fs::read_to_string(KERNEL_PORTS).is_ok_and(|ports| is_listed(&ports, port))
}

/// Returns whether a list such as that of [`KERNEL_PORTS`] has a TCP port.
fn is_listed(ports: &str, port: u16) -> bool {
    ports.lines().any(|line| line.split_once(' ') == Some(("tcp", &port.to_string())))
}

/// Returns the remedy for an IPv6 address that may have taken its port for a part of it.
fn brackets(address: SocketAddr) -> &'static str {
    match address {
        SocketAddr::V4(_) => "",
        SocketAddr::V6(_) => "; an address with a port needs brackets, such as [::1]:2049",
    }
}

struct Stop {
    flag: AtomicBool,
    wake: OwnedFd,
    stillness: Stillness,
    /// Connections accepted so far.
    accepted: AtomicU64,
}

impl Stop {
    /// Wakes the thread of the acceptor.
    fn ring(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A running server; dropping it stops it.
pub struct Running {
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stats: Arc<Stats>,
    outgoing: Outgoing,
    shards: Shards,
    /// Dropping it ends the watchdog.
    _watch: Sender<()>,
    address: SocketAddr,
    /// The listening socket, until the server stops.
    listener: Mutex<Option<TcpListener>>,
}

impl Running {
    /// Accepts nothing more, and begins no further call. Deferred calls go on, and are answered.
    /// Returns false if a thread has not come to this by then; [`Running::thaw`] undoes it in any
    /// case.
    pub fn drain(&self, until: Instant) -> bool {
        self.stop.stillness.want(ShardPhase::Park);
        self.stop.ring();
        want_all(self.outgoing.shards(), ShardPhase::Drain);
        self.stop.stillness.wait_for(ShardPhase::Park, until)
            && wait_all(self.outgoing.shards(), ShardPhase::Drain, until)
    }

    /// Parks all shards, which drain and have no deferred calls left. Connections that hold more
    /// memory than a handover may copy are closed.
    pub fn park(&self, until: Instant) -> bool {
        // No call is left whose reply could follow, and parking closes these connections.
        self.shards.make_room_for_handover();
        want_all(self.outgoing.shards(), ShardPhase::Park);
        wait_all(self.outgoing.shards(), ShardPhase::Park, until)
    }

    /// Makes an image of all connections of parked shards.
    ///
    /// # Errors
    /// A call that is in progress after all, an error of the kernel's, or no answer by then.
    pub fn image(&self, until: Instant) -> io::Result<InheritedConnections> {
        let (connections, sockets) = export_all(self.outgoing.shards(), until)?.into_iter().unzip();
        let accepted = self.stop.accepted.load(Ordering::Acquire);
        Ok(InheritedConnections { image: NetImage { accepted, connections }, sockets })
    }

    /// Serves again, or for the first time.
    pub fn thaw(&self) {
        want_all(self.outgoing.shards(), ShardPhase::Serve);
        self.stop.stillness.want(ShardPhase::Serve);
        self.stop.ring();
    }

    /// Returns a copy of the listening socket.
    ///
    /// # Errors
    /// The server has stopped, or no descriptor is left.
    pub fn listener(&self) -> io::Result<OwnedFd> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        listener.as_ref().ok_or(io::ErrorKind::NotConnected)?.as_fd().try_clone_to_owned()
    }

    /// Returns the counters of the server.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Returns the sender of records that answer no request.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// Returns the shards with their activity; valid after [`Running::stop`] as well.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets each shard finish its tick, and closes all connections.
    pub fn stop(&self) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.stop.flag.store(true, Ordering::Release);
        self.stop.stillness.wake();
        self.stop.ring();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Accepts connections, all of which are strangers. While trusted clients are active it has an
/// [`Allowance`] of time like each shard's strangers. Further connections wait in the kernel.
struct ConnectionAcceptor<S: Service> {
    socket: TcpListener,
    admission: Option<Box<Admission>>,
    shards: Vec<ShardHandle<S>>,
    relief: Relief,
    shared: Arc<SharedParts>,
}

impl<S: Service> ConnectionAcceptor<S> {
    fn run(self, stop: &Stop) {
        let mut allowance = Allowance::new(Instant::now());
        while !stop.flag.load(Ordering::Acquire) {
            if stop.stillness.wanted() != ShardPhase::Serve {
                stop.stillness.park(|| stop.flag.load(Ordering::Acquire), || Ok(Vec::new()));
                stop.stillness.reach(ShardPhase::Serve);
                continue;
            }
            let is_busy = self.shared.ledger.is_busy();
            let wait = match is_busy {
                // The server may become idle before the allowance opens.
                true => allowance.wait(Instant::now()).min(BUSY_TIME),
                false => Duration::ZERO,
            };
            match self.wait(stop, wait) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => tracing::error!("waiting for connections failed: {error}"),
            }
            if wait.is_zero() {
                let start = Instant::now();
                self.accept_batch(&stop.accepted);
                let now = Instant::now();
                if is_busy {
                    allowance.spend(now, now.saturating_duration_since(start));
                }
            }
        }
        // Stop all shards before joining any: one that hangs must not delay the others.
        self.shards.iter().for_each(ShardHandle::stop);
        drop(self.socket);
        self.shards.into_iter().for_each(ShardHandle::join);
        // Until here a shard may have to be relieved in order to end.
        drop(self.relief);
    }

    /// Waits for a connection, or for `pause` if that is not zero, or until the server stops.
    fn wait(&self, stop: &Stop, pause: Duration) -> rustix::io::Result<usize> {
        let wake = PollFd::new(&stop.wake, PollFlags::IN);
        let waited = match pause {
            Duration::ZERO => poll(&mut [wake, PollFd::new(&self.socket, PollFlags::IN)], None),
            pause => poll(&mut [wake], Timespec::try_from(pause).ok().as_ref()),
        };
        let _ = rustix::io::read(&stop.wake, &mut [0u8; 8]);
        waited
    }

    fn accept_batch(&self, count: &AtomicU64) {
        for _ in 0..BATCH_MAX {
            match self.socket.accept() {
                Ok((stream, peer)) => {
                    self.deal_out(count.fetch_add(1, Ordering::AcqRel) + 1, stream, plain(peer));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.shared.stats.log_unaccepted(&error);
                    if is_out_of_descriptors(&error) {
                        self.shared
                            .ledger
                            .evict_stranger("the server has no descriptor left for a newer connection");
                    }
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn deal_out(&self, count: u64, stream: TcpStream, peer: SocketAddr) {
        if !self.admits(&stream, peer) {
            Stats::add(&self.shared.stats.refused, 1);
            return;
        }
        if let Err(error) = prepare(&stream) {
            tracing::debug!("connection from {peer} closed before it was served: {error}");
            return;
        }
        let Some((index, shard)) = self.next_shard(count) else { return };
        let id = connection_id(index, count);
        let account = match self.shared.ledger.open(id, count, peer, shard.mailbox()) {
            Ok(account) => account,
            Err(full) => {
                Stats::add(&self.shared.stats.refused, 1);
                self.shared.stats.log_refused(peer, full);
                return;
            }
        };
        Stats::add(&self.shared.stats.accepted, 1);
        self.shared.stats.connections.fetch_add(1, Ordering::Relaxed);
        shard.add(Arrival { id, stream, account, inherited: None });
    }

    /// Takes turns among the shards with the fewest connections, so that those of one client
    /// spread.
    fn next_shard(&self, count: u64) -> Option<(usize, &ShardHandle<S>)> {
        let turn = usize::try_from(count).unwrap_or(0) % self.shards.len();
        let (before, from) = self.shards.split_at(turn);
        let numbered = (turn..).zip(from).chain((0..).zip(before));
        numbered.min_by_key(|(_, shard)| shard.connections())
    }

    /// Deals out the connections of another process, which keep their numbers. If there is no
    /// longer room for all, `drops` strangers first, the oldest before the others.
    fn inherit(&self, inherited: InheritedConnections, drops: impl Fn(ConnectionId)) -> io::Result<()> {
        let InheritedConnections { image, sockets } = inherited;
        let mut connections: Vec<_> = image.connections.into_iter().zip(sockets).collect();
        connections.sort_by_key(|(image, _)| (!image.trusted, Reverse(image.order)));
        let room = self.shared.ledger.connections_max().min(connections.len());
        for (image, _) in connections.drain(room..) {
            Stats::add(&self.shared.stats.refused, 1);
            drops(ConnectionId(image.id));
        }
        for (image, socket) in connections {
            let (id, order, peer) = (ConnectionId(image.id), image.order, plain(image.peer));
            let stream = TcpStream::from(socket);
            stream.set_nonblocking(true)?;
            let Some((index, shard)) = self.next_shard(order) else { continue };
            let Ok(account) = self.shared.ledger.open(id, order, peer, shard.mailbox()) else { continue };
            if image.trusted {
                self.shared.ledger.trust(&account);
            }
            self.shared.stats.connections.fetch_add(1, Ordering::Relaxed);
            self.shared.routes.add(image.id, index);
            shard.add(Arrival { id, stream, account, inherited: Some(image) });
        }
        Ok(())
    }
}

impl<S: Service> ConnectionAcceptor<S> {
    fn admits(&self, stream: &TcpStream, peer: SocketAddr) -> bool {
        let Some(admission) = &self.admission else { return true };
        stream.local_addr().is_ok_and(|own| admission(peer, own))
    }
}

/// Returns whether the process or the system has no descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    errors.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Sets socket options. Replies are sent completely, so Nagle's algorithm would only delay them;
/// keep-alive detects dead peers.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_server_is_known_by_its_ports() {
        let ports = "rdma 20049\ntcp 2049\nudp 2050\ntcp 2049\n";
        assert!(is_listed(ports, 2049));
        assert!(!is_listed(ports, 204) && !is_listed(ports, 2050) && !is_listed(ports, 20049));
    }

    #[test]
    fn an_ipv6_address_that_is_foreign_may_lack_brackets() {
        let foreign = |text: &str| ListenError::NoAddress(text.parse().unwrap()).to_string();
        assert!(foreign("[::1:2049]:2049").ends_with("such as [::1]:2049"));
        assert!(!foreign("192.0.2.1:2049").contains("brackets"));
    }
}
