//! A client without sockets: it makes the records of calls and looks at replies.

use super::inside::{KEY, UID};
use crate::contexts::{init_call, init_result};
use anyhow::{Context, anyhow, ensure};
use client::{Compound, GssCall, GssContext, Head, Protection};
use gss::Established;
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use nfs4::{Compound4Res, NFSPROC4_COMPOUND, NfsArgop4, Nfsstat4};
use rpc::gss::RpcGssServiceT;
use rpc::{AuthFlavor, AuthSys, ConnectionId, RECORD_MARK_LEN, ReplyHeader};
use server::dispatch::{Action, Scratch, Server};
use server::engine::Nfs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use xdr::{Decode, Decoder, Encode, Encoder};

/// One call of a tick.
pub(super) type RawCall = (ConnectionId, SocketAddr, Vec<u8>);

/// The client of a connection.
pub(super) struct ShardCaller {
    connection: ConnectionId,
    /// The credential of AUTH_SYS.
    sys: Arc<[u8]>,
    context: Option<Arc<GssContext>>,
    xid: u32,
}

impl ShardCaller {
    /// A caller by AUTH_SYS.
    pub(super) fn sys(connection: u64) -> Self {
        let mut body = Encoder::new();
        AuthSys::new(0, b"here", UID, UID, &[]).encode(&mut body);
        Self { connection: ConnectionId(connection), sys: body.into_vec().into(), context: None, xid: 0 }
    }

    /// Makes a context at the server; calls are then made with it, and with service none.
    pub(super) fn establish(&mut self, server: &Server<Nfs>, scratch: &mut Scratch) -> anyhow::Result<()> {
        let reply = answer(server, scratch, self.request(init_call(1, b"a token")?))?;
        let result = init_result(&reply)?;
        let keys = ContextKeys::new(
            Enctype::Aes256CtsHmacSha1_96,
            ProtocolKey::AcceptorSubkey(&KEY),
            Role::Initiator,
        )
        .map_err(|_| anyhow!("no keys"))?;
        let established = Established {
            delegated_through: Vec::new(),
            forwarded: None,
            token: Vec::new(),
            principal: String::new(),
            enctype: keys.enctype().etype(),
            keys,
            lifetime: Duration::from_secs(3600),
            send_sequence: 1,
        };
        self.context =
            Some(Arc::new(GssContext::new(established, result.handle.to_vec(), result.seq_window)));
        Ok(())
    }

    /// Takes the mark off a record: shards get records without.
    fn request(&self, mut record: Vec<u8>) -> RawCall {
        (self.connection, SocketAddr::from(([127, 0, 0, 1], 1023)), record.split_off(RECORD_MARK_LEN))
    }

    /// Makes the record of a COMPOUND.
    pub(super) fn call(&mut self, arguments: &[u8]) -> anyhow::Result<RawCall> {
        self.xid = self.xid.wrapping_add(1);
        let protection = match &self.context {
            Some(context) => Protection::Gss(GssCall::new(context.clone(), RpcGssServiceT::rpc_gss_svc_none)),
            None => Protection::Plain { flavor: AuthFlavor::AUTH_SYS as u32, body: self.sys.clone() },
        };
        let record = Head::nfs(self.xid, NFSPROC4_COMPOUND, protection).record(arguments)?;
        Ok(self.request(record))
    }

    /// Makes one call and returns its results; all operations must succeed.
    pub(super) fn run(
        &mut self,
        server: &Server<Nfs>,
        scratch: &mut Scratch,
        operations: &[NfsArgop4<'_>],
    ) -> anyhow::Result<Compound4Res<'static>> {
        let request = self.call(&compound(operations))?;
        let reply = answer(server, scratch, request)?;
        let decoded = Compound4Res::decode(&mut Decoder::new(results(&reply)?))?.into_owned();
        ensure!(decoded.status == Nfsstat4::NFS4_OK, "{:?}", decoded.resarray);
        Ok(decoded)
    }
}

/// Encodes COMPOUND4args with these operations.
pub(super) fn compound(operations: &[NfsArgop4<'_>]) -> Vec<u8> {
    let mut compound = Compound::sessionless(1);
    for operation in operations {
        compound.operation(operation);
    }
    compound.into_arguments()
}

/// Returns the reply to a call, without its mark.
fn answer(server: &Server<Nfs>, scratch: &mut Scratch, request: RawCall) -> anyhow::Result<Vec<u8>> {
    let mut reply = None;
    server.tick(scratch, [request], &mut |_, action| {
        if let Action::Send(mut bytes) = action {
            reply = Some(bytes.split_off(RECORD_MARK_LEN));
        }
    });
    reply.context("no answer")
}

/// Returns the results in a reply.
fn results(reply: &[u8]) -> anyhow::Result<&[u8]> {
    match ReplyHeader::parse(reply) {
        Ok(ReplyHeader::Accepted { results_at, .. }) => reply.get(results_at..).context("no results"),
        other => anyhow::bail!("not accepted: {other:?}"),
    }
}

/// Checks that the COMPOUND of a reply, as the server sends it, went well.
pub(super) fn check(reply: &[u8]) -> anyhow::Result<()> {
    let status = Decoder::new(results(reply.get(RECORD_MARK_LEN..).context("no reply")?)?).u32()?;
    ensure!(status == Nfsstat4::NFS4_OK as u32, "a call failed with status {status}");
    Ok(())
}
