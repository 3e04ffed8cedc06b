//! Finds the local user at the other end of a connection from this machine.
//!
//! The kernel lists the owner of each socket in /proc/net/tcp. A user cannot create sockets of
//! another user: the id is that of the creating process. Only connections within one network
//! namespace are found.

use std::io;
use std::net::SocketAddr;

/// Number of reads of the list. The kernel returns it in pieces, and can skip a line while other
/// connections open and close.
const READS_MAX: usize = 8;
/// The state of a connection that neither end has closed. Lines in other states do not name the
/// owner.
const ESTABLISHED: &str = "01";
/// The inode number in the line of a socket without a process.
const NO_INODE: &str = "0";

/// Returns the user id of the socket at `peer`, connected to `own`; `None` if no socket is found or
/// it was closed.
///
/// # Errors
/// An I/O error if the kernel's list cannot be read.
pub fn owner(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    let (peer, own) = (plain(peer), plain(own));
    let file = if peer.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let wanted = [written(peer), written(own)];
    for _ in 0..READS_MAX {
        let list = std::fs::read_to_string(file)?;
        if let Some(found) = list.lines().find_map(|line| line_owner(line, &wanted)) {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Parses a line if it belongs to this connection: the socket's user, unless it is closed.
fn line_owner(line: &str, wanted: &[String; 2]) -> Option<Option<u32>> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields.as_slice() else { return None };
    if [local, remote] != [&wanted[0], &wanted[1]] {
        return None;
    }
    let open = *state == ESTABLISHED && *inode != NO_INODE;
    Some(user.parse().ok().filter(|_| open))
}

/// Converts an IPv4-mapped IPv6 address to IPv4, as the list has it.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Formats an address as the list does: in words of the machine's byte order.
fn written(address: SocketAddr) -> String {
    let octets = match address {
        SocketAddr::V4(v4) => v4.ip().octets().to_vec(),
        SocketAddr::V6(v6) => v6.ip().octets().to_vec(),
    };
    let words = octets.as_chunks::<4>().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
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

    #[test]
    fn a_connection_of_this_process_is_its_users() {
        let me = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((_listener, _client, peer, own)) = connected(address) else { continue };
            assert_eq!(owner(peer, own).unwrap(), Some(me), "{address}");
            assert_eq!(owner(own, own).unwrap(), None, "that is no connection");
        }
    }

    #[test]
    fn a_connection_that_was_closed_is_nobodys() {
        // The kernel lists user 0 for sockets without a process.
        let (listener, client, peer, own) = connected("127.0.0.1:0").unwrap();
        let (_server, _) = listener.accept().unwrap();
        drop(client);
        let end = Instant::now() + Duration::from_secs(30);
        while owner(peer, own).unwrap().is_some() {
            assert!(Instant::now() < end, "it is still somebody's");
        }
    }

    #[test]
    fn lines_of_other_states_and_without_a_socket_name_nobody() {
        let wanted = ["0100007F:1234".to_owned(), "0100007F:0801".to_owned()];
        let line = |state: &str, inode: &str| {
            format!(
                "   3: 0100007F:1234 0100007F:0801 {state} 00000000:00000000 00:00000000 00000000  1000 0 {inode} 1 0 20 4 30 10 -1"
            )
        };
        assert_eq!(line_owner(&line("01", "77"), &wanted), Some(Some(1000)));
        for (state, inode) in [("01", "0"), ("04", "0"), ("05", "0"), ("06", "0"), ("08", "77")] {
            assert_eq!(line_owner(&line(state, inode), &wanted), Some(None), "{state} {inode}");
        }
        assert_eq!(line_owner("  sl  local_address rem_address   st", &wanted), None);
        assert_eq!(line_owner(&line("01", "77"), &[wanted[1].clone(), wanted[0].clone()]), None);
    }
}
