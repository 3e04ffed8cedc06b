//! Asks the kernel about one socket by sock_diag(7): the time does not depend on their number.

use super::KnownSocket;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;

/// Bytes of an answer about the owner of a local connection, 124 with Linux 6.18.
const ANSWER_BYTES_MAX: usize = 4096;
/// The value of a cookie that stands for any socket.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Finds the socket at `peer`, connected to `own`.
///
/// # Errors
/// The kernel does not answer, or may not be asked.
pub(super) fn find(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<KnownSocket>> {
    let protocol = Some(rustix::net::netlink::SOCK_DIAG);
    let kernel =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    rustix::net::send(&kernel, &question(peer, own), SendFlags::empty())?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    // The kernel has answered before send(2) returns.
    let (_, length) = rustix::net::recv(&kernel, &mut answer, RecvFlags::DONTWAIT)?;
    read(answer.get(..length).unwrap_or_default(), (peer, own))
}

/// Encodes the question for the socket at `peer`.
fn question(peer: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let (family, interface_id) = match peer {
        SocketAddr::V4(_) => (AF_INET, 0),
        SocketAddr::V6(v6) => (AF_INET6, v6.scope_id()),
    };
    let socket_id = SocketId {
        source_port: peer.port(),
        destination_port: own.port(),
        source_address: peer.ip(),
        destination_address: own.ip(),
        interface_id,
        cookie: NO_COOKIE,
    };
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Reads the answer. In place of a connection the kernel can name a listener at the same address.
fn read(answer: &[u8], (peer, own): (SocketAddr, SocketAddr)) -> io::Result<Option<KnownSocket>> {
    let message = NetlinkMessage::<SockDiagMessage>::deserialize(answer).map_err(io::Error::other)?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
            let socket = socket.header;
            let is_wanted = socket.socket_id.source_port == peer.port()
                && socket.socket_id.destination_port == own.port()
                && socket.state == TCP_ESTABLISHED;
            Ok(Some(KnownSocket { user: socket.uid, is_open: is_wanted && socket.inode != 0 }))
        }
        NetlinkPayload::Error(error) if error.raw_code() == -Errno::NOENT.raw_os_error() => Ok(None),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_or_of_another_kind_is_an_error() {
        let [peer, own] = ["127.0.0.1:1", "127.0.0.1:2"].map(|address| address.parse().unwrap());
        let question = question(peer, own);
        for length in 0..question.len() {
            assert!(read(&question[..length], (peer, own)).is_err(), "{length}");
        }
        assert!(read(&question, (peer, own)).is_err(), "that is a question");
    }
}
