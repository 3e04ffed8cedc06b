//! A client without sockets: it makes the records of calls and looks at replies.

use super::inside::{KEY, UID};
use anyhow::{Context, ensure};
use krb5::{ContextKeys, Enctype, Role};
use nfs4::{Compound4Args, Compound4Res, NfsArgop4, Nfsstat4};
use rpc::gss::{GssCredential, InitRes, RpcGssProcT, RpcGssServiceT};
use rpc::{AuthSys, CallHeader, ConnectionId, OpaqueAuth, RECORD_MARK_LEN, ReplyHeader};
use server::dispatch::{Action, Scratch, Server};
use server::engine::Nfs;
use std::net::SocketAddr;
use xdr::{Decode, Decoder, Encode, Encoder};

/// Program, version and procedure of COMPOUND.
const COMPOUND: (u32, u32, u32) = (nfs4::NFS4_PROGRAM, nfs4::NFS_V4, nfs4::NFSPROC4_COMPOUND);
const NULL: (u32, u32, u32) = (nfs4::NFS4_PROGRAM, nfs4::NFS_V4, nfs4::NFSPROC4_NULL);

/// One call of a tick.
pub(super) type RawCall = (ConnectionId, SocketAddr, Vec<u8>);

/// The client of a connection.
pub(super) struct ShardCaller {
    connection: ConnectionId,
    context: Option<ClientContext>,
    xid: u32,
}

struct ClientContext {
    keys: ContextKeys,
    handle: Vec<u8>,
    sequence: u32,
}

impl ShardCaller {
    /// A caller by AUTH_SYS.
    pub(super) fn sys(connection: u64) -> Self {
        Self { connection: ConnectionId(connection), context: None, xid: 0 }
    }

    /// Makes a context at the server; calls are then made with it, and with service none.
    pub(super) fn establish(&mut self, server: &Server<Nfs>, scratch: &mut Scratch) -> anyhow::Result<()> {
        let credential = GssCredential {
            procedure: RpcGssProcT::RPCSEC_GSS_INIT,
            sequence: 0,
            service: RpcGssServiceT::rpc_gss_svc_none,
            handle: &[],
        };
        let mut body = Encoder::new();
        credential.encode(&mut body);
        let mut call = Encoder::new();
        CallHeader::encode_signed(&mut call, 1, NULL, &OpaqueAuth::gss(body.as_slice()));
        OpaqueAuth::NONE.encode(&mut call);
        call.opaque(b"a token");
        let reply = answer(server, scratch, self.request(call.into_vec()))?;
        let result = InitRes::decode(&mut Decoder::new(results(&reply)?))?;
        let keys = ContextKeys::new(Enctype::Aes256CtsHmacSha1_96, &KEY, Role::Initiator, true)
            .map_err(|_| anyhow::anyhow!("no keys"))?;
        self.context = Some(ClientContext { keys, handle: result.handle.to_vec(), sequence: 0 });
        Ok(())
    }

    fn request(&self, record: Vec<u8>) -> RawCall {
        (self.connection, SocketAddr::from(([127, 0, 0, 1], 1023)), record)
    }

    /// Makes the record of a COMPOUND.
    pub(super) fn call(&mut self, arguments: &[u8]) -> RawCall {
        self.xid = self.xid.wrapping_add(1);
        let (mut body, mut call) = (Encoder::new(), Encoder::new());
        if let Some(context) = &mut self.context {
            context.sequence += 1;
            let credential = GssCredential {
                procedure: RpcGssProcT::RPCSEC_GSS_DATA,
                sequence: context.sequence,
                service: RpcGssServiceT::rpc_gss_svc_none,
                handle: &context.handle,
            };
            credential.encode(&mut body);
            CallHeader::encode_signed(&mut call, self.xid, COMPOUND, &OpaqueAuth::gss(body.as_slice()));
            let mic = context.keys.mic(u64::from(context.sequence), call.as_slice());
            OpaqueAuth::gss(&mic).encode(&mut call);
        } else {
            AuthSys::new(0, b"here", UID, UID, &[]).encode(&mut body);
            CallHeader::encode_signed(&mut call, self.xid, COMPOUND, &OpaqueAuth::sys(body.as_slice()));
            OpaqueAuth::NONE.encode(&mut call);
        }
        call.raw(arguments);
        self.request(call.into_vec())
    }

    /// Makes one call and returns its results; all operations must succeed.
    pub(super) fn run(
        &mut self,
        server: &Server<Nfs>,
        scratch: &mut Scratch,
        operations: Vec<NfsArgop4<'_>>,
    ) -> anyhow::Result<Compound4Res<'static>> {
        let request = self.call(&compound(operations));
        let reply = answer(server, scratch, request)?;
        let decoded = Compound4Res::decode(&mut Decoder::new(results(&reply)?))?.into_owned();
        ensure!(decoded.status == Nfsstat4::NFS4_OK, "{:?}", decoded.resarray);
        Ok(decoded)
    }
}

/// Encodes COMPOUND4args with these operations.
pub(super) fn compound(operations: Vec<NfsArgop4<'_>>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    Compound4Args { tag: b"".into(), minorversion: 1, argarray: operations }.encode(&mut encoder);
    encoder.into_vec()
}

fn answer(server: &Server<Nfs>, scratch: &mut Scratch, request: RawCall) -> anyhow::Result<Vec<u8>> {
    let mut reply = None;
    server.tick(scratch, [request], &mut |_, action| {
        if let Action::Send(bytes) = action {
            reply = Some(bytes);
        }
    });
    reply.context("no answer")
}

/// Returns the results in a reply as the server sends it.
fn results(reply: &[u8]) -> anyhow::Result<&[u8]> {
    let reply = reply.get(RECORD_MARK_LEN..).context("no reply")?;
    match ReplyHeader::parse(reply) {
        Ok(ReplyHeader::Accepted { results_at, .. }) => reply.get(results_at..).context("no results"),
        other => anyhow::bail!("not accepted: {other:?}"),
    }
}

/// Says whether the COMPOUND of a reply went well.
///
/// # Errors
/// When it did not.
pub(super) fn check(reply: &[u8]) -> anyhow::Result<()> {
    let status = Decoder::new(results(reply)?).u32()?;
    ensure!(status == Nfsstat4::NFS4_OK as u32, "a call failed with status {status}");
    Ok(())
}
