//! Connects from a privileged port, which servers require of AUTH_SYS callers.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The ports to try, the same as Linux's own client (sunrpc.min_resvport, max_resvport).
const PORTS: RangeInclusive<u16> = 665..=1023;

/// Connects from a low port of `source`, or from any port if this process may not bind low ones or
/// none is free. Without `source` the kernel chooses the address.
///
/// # Errors
/// The same as [`TcpStream::connect_timeout`], and an error if this machine lacks the address.
pub(crate) fn connect_low(
    source: Option<IpAddr>,
    address: &SocketAddr,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let first = u16::try_from(getrandom::u32().unwrap_or_default() % u32::from(count())).unwrap_or_default();
    for step in 0..count() {
        let port = PORTS.start() + (first + step) % count();
        match connect_from(source, port, address, timeout) {
            Ok(stream) => return Ok(stream),
            // Another socket has the port, or the same pair of port and server.
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
            Err(Errno::ACCESS | Errno::PERM) => break,
            Err(cause) => return Err(cause.into()),
        }
    }
    connect_any(source, address, timeout)
}

/// Connects from any port of `source`.
///
/// # Errors
/// The same as [`connect_low`].
pub(crate) fn connect_any(
    source: Option<IpAddr>,
    address: &SocketAddr,
    timeout: Duration,
) -> io::Result<TcpStream> {
    match source {
        None => TcpStream::connect_timeout(address, timeout),
        Some(_) => Ok(connect_from(source, 0, address, timeout)?),
    }
}

/// Returns whether this process may bind low ports, so that a server accepts its AUTH_SYS calls.
pub fn may_use_low_port() -> bool {
    PORTS.rev().any(|port| bound(port, IpAddr::V4(Ipv4Addr::LOCALHOST)).is_ok())
}

const fn count() -> u16 {
    *PORTS.end() - *PORTS.start() + 1
}

fn bound(port: u16, address: IpAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // One port may carry a connection to each server, and a new one while the last is in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket)
}

fn connect_from(
    source: Option<IpAddr>,
    port: u16,
    address: &SocketAddr,
    timeout: Duration,
) -> rustix::io::Result<TcpStream> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = bound(port, source.unwrap_or(any))?;
    match connect(&socket, address) {
        Err(Errno::INPROGRESS) => finish(&socket, timeout)?,
        other => other?,
    }
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket.into())
}

/// Waits until the connection is established. A signal does not end the wait.
fn finish(socket: &OwnedFd, timeout: Duration) -> rustix::io::Result<()> {
    let began = Instant::now();
    let mut asked = [PollFd::new(socket, PollFlags::OUT)];
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        match poll(&mut asked, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return sockopt::socket_error(socket)?,
            Err(cause) => return Err(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn connections_come_from_low_ports_where_the_process_may_have_them_and_always_come() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let low = may_use_low_port();
        let mut kept = Vec::new();
        // More connections than ports: the rest come from other ports.
        for index in 0..count() + 20 {
            let near = connect_low(None, &address, Duration::from_secs(30)).unwrap();
            let (far, peer) = listener.accept().unwrap();
            assert_eq!(near.local_addr().unwrap(), peer);
            assert!(!low || index > 0 || PORTS.contains(&peer.port()), "{peer}");
            kept.push((near, far));
        }
        let high = kept.iter().filter(|(near, _)| !PORTS.contains(&near.local_addr().unwrap().port()));
        assert!(high.count() >= 20);
    }

    #[test]
    fn connections_come_from_the_address_that_is_asked_for() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let source = IpAddr::from([127, 0, 0, 2]);
        for connect in [connect_low, connect_any] {
            let near = connect(Some(source), &address, Duration::from_secs(30)).unwrap();
            assert_eq!(near.local_addr().unwrap().ip(), source);
        }
    }

    #[test]
    fn a_port_without_listener_refuses() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = connect_low(None, &address, Duration::from_secs(30)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
