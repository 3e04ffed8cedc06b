//! Finds a socket in the list of all TCP sockets, /proc/net/tcp.

use super::KnownSocket;
use std::io;
use std::net::SocketAddr;

/// Number of reads of the list. The kernel returns it in pieces, and can skip a line while other
/// connections open and close.
const READS_MAX: usize = 8;
/// The state of a connection that neither end has closed.
const ESTABLISHED: &str = "01";
/// The inode number in the line of a socket without a process.
const NO_INODE: &str = "0";

/// Finds the socket at `peer`, connected to `own`.
///
/// # Errors
/// The list cannot be read.
pub(super) fn find(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<KnownSocket>> {
    let file = if peer.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let wanted = [written(peer), written(own)];
    for _ in 0..READS_MAX {
        let list = std::fs::read_to_string(file)?;
        let found = list.lines().find_map(|line| line_socket(line, &wanted));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Parses a line if it belongs to this connection.
fn line_socket(line: &str, wanted: &[String; 2]) -> Option<KnownSocket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields.as_slice() else { return None };
    if [local, remote] != [&wanted[0], &wanted[1]] {
        return None;
    }
    Some(KnownSocket { user: user.parse().ok()?, is_open: *state == ESTABLISHED && *inode != NO_INODE })
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

    #[test]
    fn lines_of_other_states_and_without_a_socket_name_no_owner() {
        let wanted = ["0100007F:1234".to_owned(), "0100007F:0801".to_owned()];
        let line = |state: &str, inode: &str| {
            format!(
                "   3: 0100007F:1234 0100007F:0801 {state} 00000000:00000000 00:00000000 00000000  1000 0 {inode} 1 0 20 4 30 10 -1"
            )
        };
        assert_eq!(line_socket(&line("01", "77"), &wanted).unwrap().owner(), Some(1000));
        for (state, inode) in [("01", "0"), ("04", "0"), ("05", "0"), ("06", "0"), ("08", "77")] {
            assert_eq!(line_socket(&line(state, inode), &wanted).unwrap().owner(), None, "{state} {inode}");
        }
        assert_eq!(line_socket("  sl  local_address rem_address   st", &wanted), None);
        assert_eq!(line_socket(&line("01", "77"), &[wanted[1].clone(), wanted[0].clone()]), None);
    }
}
