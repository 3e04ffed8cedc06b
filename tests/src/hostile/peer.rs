//! A connection of the hostile peer, from an address that no export admits.

use client::{Compound, Head, Protection};
use nfs4::*;
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use xdr::{Encode, Encoder};

/// The address of the peer; the honest client has 127.0.0.1.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// How long a read or write may take before the peer looks whether it must stop.
const PATIENCE: Duration = Duration::from_millis(100);

/// Connects from [`ADDRESS`]; `None` where the server or the kernel refuses.
pub(super) fn connect(server: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::from((ADDRESS, 0)).into()).ok()?;
    socket.connect_timeout(&server.into(), PATIENCE).ok()?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

/// Reads and discards the received bytes. Returns `None` when the server has closed the connection.
pub(super) fn drain(stream: &mut TcpStream, scratch: &mut [u8]) -> Option<usize> {
    match stream.read(scratch) {
        Ok(0) => None,
        Ok(count) => Some(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(0),
        Err(_) => None,
    }
}

/// Writes bytes. `None` when the server has closed the connection or does not take them.
pub(super) fn send(stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).ok()
}

/// A record mark for a record of `length` bytes.
pub(super) fn mark(length: u32) -> [u8; 4] {
    (0x8000_0000 | length).to_be_bytes()
}

fn sys() -> Protection {
    let mut body = Encoder::new();
    body.u32(1).opaque(b"hostile").u32(0).u32(0).u32(0);
    Protection::Plain { flavor: 1, body: body.into_vec().into() }
}

fn gss(procedure: RpcGssProcT, handle: &[u8]) -> Protection {
    let mut body = Encoder::new();
    let service = RpcGssServiceT::rpc_gss_svc_none;
    GssCredential { procedure, sequence: 1, service, handle }.encode(&mut body);
    Protection::Plain { flavor: 6, body: body.into_vec().into() }
}

fn record(head: &Head, arguments: &[u8]) -> Vec<u8> {
    head.record(arguments).expect("no randomness is needed")
}

/// A NULL call without credential.
pub(super) fn null(xid: u32) -> Vec<u8> {
    record(&Head::nfs(xid, NFSPROC4_NULL, Protection::Plain { flavor: 0, body: Vec::new().into() }), &[])
}

/// RPCSEC_GSS_INIT with a token.
pub(super) fn init(xid: u32, token: &[u8]) -> Vec<u8> {
    let mut arguments = Encoder::new();
    arguments.opaque(token);
    record(&Head::nfs(xid, NFSPROC4_NULL, gss(RpcGssProcT::RPCSEC_GSS_INIT, &[])), arguments.as_slice())
}

/// A call of a context that the server never made.
pub(super) fn unknown_context(xid: u32) -> Vec<u8> {
    let handle = u128::from(xid).to_be_bytes();
    record(&Head::nfs(xid, NFSPROC4_COMPOUND, gss(RpcGssProcT::RPCSEC_GSS_DATA, &handle)), &[])
}

/// A COMPOUND by AUTH_SYS as uid 0.
pub(super) fn compound(xid: u32, compound: Compound) -> Vec<u8> {
    record(&Head::nfs(xid, NFSPROC4_COMPOUND, sys()), &compound.into_arguments())
}

/// EXCHANGE_ID of a new owner.
pub(super) fn exchange_id(xid: u32) -> Vec<u8> {
    let mut call = Compound::sessionless(1);
    call.operation(&NfsArgop4::OP_EXCHANGE_ID(ExchangeId4Args {
        eia_clientowner: ClientOwner4 {
            co_verifier: [7; 8],
            co_ownerid: format!("hostile {xid}").into_bytes().into(),
        },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::SP4_NONE,
        eia_client_impl_id: Vec::new(),
    }));
    compound(xid, call)
}

/// SETCLIENTID of a new owner (NFSv4.0).
pub(super) fn setclientid(xid: u32) -> Vec<u8> {
    let mut call = Compound::sessionless(0);
    call.operation(&NfsArgop4::OP_SETCLIENTID(Setclientid4Args {
        client: NfsClientId4 { verifier: [7; 8], id: format!("hostile {xid}").into_bytes().into() },
        callback: CbClient4 {
            cb_program: 0x4000_0000,
            cb_location: Netaddr4 { na_r_netid: b"tcp".into(), na_r_addr: b"127.0.0.9.3.32".into() },
        },
        callback_ident: 1,
    }));
    compound(xid, call)
}

/// CREATE_SESSION of a client ID, with the largest reply cache that can be asked for.
pub(super) fn create_session(xid: u32, client_id: u64, sequence: u32) -> Vec<u8> {
    let channel = ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 20,
        ca_maxresponsesize: 1 << 20,
        ca_maxresponsesize_cached: 1 << 20,
        ca_maxoperations: 128,
        ca_maxrequests: 128,
        ca_rdma_ird: Vec::new(),
    };
    let mut call = Compound::sessionless(1);
    call.operation(&NfsArgop4::OP_CREATE_SESSION(CreateSession4Args {
        csa_clientid: client_id,
        csa_sequence: sequence,
        csa_flags: 0,
        csa_fore_chan_attrs: channel.clone(),
        csa_back_chan_attrs: channel,
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: Vec::new(),
    }));
    compound(xid, call)
}

/// SEQUENCE of a session that the server never made.
pub(super) fn unknown_session(xid: u32) -> Vec<u8> {
    let mut call = Compound::sessionless(1);
    call.operation(&NfsArgop4::OP_SEQUENCE(Sequence4Args {
        sa_sessionid: u128::from(xid).to_be_bytes(),
        sa_sequenceid: 1,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: false,
    }));
    compound(xid, call)
}

/// A COMPOUND of NFSv4.0 with many LOOKUPs below the root, which needs no session.
pub(super) fn lookups(xid: u32) -> Vec<u8> {
    let mut call = Compound::sessionless(0);
    for _ in 0..30 {
        call.putrootfh().lookup(b"export");
    }
    compound(xid, call)
}
