//! Finds the local user at the other end of a connection from this machine.
//!
//! The kernel knows the owner of each socket. A user cannot create sockets of another user: the id
//! is that of the creating process. Only connections within one network namespace are found.
//!
//! sock_diag answers about a single socket (`diag.rs`). Where the kernel has it not, or a sandbox
//! forbids it, the list of all sockets is read instead (`list.rs`).

mod diag;
mod list;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether sock_diag has found a socket. Before, its ENOENT can also mean that the kernel lacks it.
static DIAG_WORKS: AtomicBool = AtomicBool::new(false);

/// A socket that the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownSocket {
    user: u32,
    /// Whether a process has it, and neither end has closed the connection. The kernel does not
    /// name the owner of other sockets.
    is_open: bool,
}

impl KnownSocket {
    fn owner(self) -> Option<u32> {
        self.is_open.then_some(self.user)
    }
}

/// Returns the user id of the socket at `peer`, connected to `own`; `None` if no socket is found or
/// it was closed.
///
/// # Errors
/// An I/O error if the kernel does not answer.
pub fn owner(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    let (peer, own) = (plain(peer), plain(own));
    let found = match diag::find(peer, own) {
        Ok(Some(socket)) => {
            DIAG_WORKS.store(true, Relaxed);
            Some(socket)
        }
        Ok(None) if DIAG_WORKS.load(Relaxed) => None,
        Ok(None) | Err(_) => list::find(peer, own)?,
    };
    Ok(found.and_then(KnownSocket::owner))
}

/// Converts an IPv4-mapped IPv6 address, as sockets of both families have it, to IPv4.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    fn connected(address: &str) -> Option<(TcpListener, TcpStream, SocketAddr, SocketAddr)> {
        let listener = TcpListener::bind(address).ok()?;
        let own = listener.local_addr().unwrap();
        let client = TcpStream::connect(own).unwrap();
        let peer = client.local_addr().unwrap();
        Some((listener, client, peer, own))
    }

    /// Both ways to ask, as far as the kernel has them.
    fn answers(peer: SocketAddr, own: SocketAddr) -> Vec<Option<u32>> {
        let (peer, own) = (plain(peer), plain(own));
        let listed = list::find(peer, own).unwrap().and_then(KnownSocket::owner);
        let diagnosed = diag::find(peer, own).map(|found| found.and_then(KnownSocket::owner));
        [Some(listed), diagnosed.ok()].into_iter().flatten().collect()
    }

    #[test]
    fn a_connection_of_this_process_is_its_users() {
        let me = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((_listener, _client, peer, own)) = connected(address) else {
                println!("skipped: this machine has no {address}");
                continue;
            };
            assert_eq!(owner(peer, own).unwrap(), Some(me), "{address}");
            assert_eq!(owner(own, own).unwrap(), None, "that is no connection");
            for answer in answers(peer, own) {
                assert_eq!(answer, Some(me), "{address}");
            }
            assert!(answers(own, own).iter().all(Option::is_none), "that is no connection");
        }
    }

    #[test]
    fn a_listener_of_both_families_has_ipv4_connections_with_owners() {
        let Ok(listener) = TcpListener::bind("[::]:0") else {
            println!("skipped: this machine has no IPv6");
            return;
        };
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, peer) = listener.accept().unwrap();
        assert!(peer.is_ipv6());
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(owner(peer, server.local_addr().unwrap()).unwrap(), Some(me));
    }

    #[test]
    fn a_closed_connection_has_no_owner() {
        // The kernel lists user 0 for sockets without a process.
        let (listener, client, peer, own) = connected("127.0.0.1:0").unwrap();
        let (_server, _) = listener.accept().unwrap();
        drop(client);
        let end = Instant::now() + Duration::from_secs(30);
        while owner(peer, own).unwrap().is_some() || answers(peer, own).iter().any(Option::is_some) {
            assert!(Instant::now() < end, "it is still somebody's");
        }
    }
}
