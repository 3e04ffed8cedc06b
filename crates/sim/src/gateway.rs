//! Opens the calls and replies of all security contexts at the server's edge, and seals them again.
//!
//! Deliberate faults need it: they change bodies that are protected, and give calls other sequence
//! numbers or contexts, so that the server's own checks pass.

use crate::kerberos::{GssMessage, SimRealm};
use crate::mutation::Mutation;
use krb5::{ContextKeys, Role};
use rpc::gss::{GssCredential, InitRes, RpcGssProcT, RpcGssServiceT, TOKEN_SIZE_MAX, init_argument};
use rpc::{Accepted, AuthFlavor, CallHeader, Message, OpaqueAuth, ReplyHeader};
use std::collections::BTreeMap;
use xdr::{Decode, Decoder, Encoder};

/// A connection and the XID of a call on it.
type CallKey = (u64, u32);

/// Both ends of all contexts.
pub(crate) struct Gateway {
    realm: SimRealm,
    mutation: Mutation,
    /// The number of the server's restarts.
    life: u32,
    /// The tickets of INIT calls without a reply.
    tickets: BTreeMap<CallKey, Vec<u8>>,
    /// The contexts of this and all former lives of the server, by handle.
    contexts: BTreeMap<Vec<u8>, BothEnds>,
    /// Calls without a reply.
    calls: BTreeMap<CallKey, OpenedCall>,
}

/// A context with the keys of both ends.
struct BothEnds {
    principal: String,
    life: u32,
    initiator: ContextKeys,
    acceptor: ContextKeys,
    /// The highest number that the server has seen.
    last: u32,
}

/// A call between its opening and its reply.
#[derive(Clone)]
pub(crate) struct OpenedCall {
    service: RpcGssServiceT,
    /// Handle and sequence number of the client.
    sent: (Vec<u8>, u32),
    /// Handle and sequence number that the server sees.
    seen: (Vec<u8>, u32),
    status: Accepted,
}

impl Gateway {
    /// Makes a gateway that knows no contexts.
    pub(crate) fn new(realm: SimRealm, mutation: Mutation) -> Self {
        let (tickets, contexts, calls) = Default::default();
        Self { realm, mutation, life: 0, tickets, contexts, calls }
    }

    /// Notes a restart of the server, which ends its contexts.
    pub(crate) fn restart(&mut self) {
        self.life += 1;
        self.tickets.clear();
        self.calls.clear();
    }

    /// Opens a call of a known context. Other records come back as they are.
    pub(crate) fn open_call(&mut self, connection: u64, record: Vec<u8>) -> (Vec<u8>, Option<OpenedCall>) {
        let opened = match Message::parse(&record) {
            Ok(Message::Call(header)) if is_gss(&header) => self.open(connection, &header, &record),
            _ => None,
        };
        match opened {
            Some((plain, call)) => (plain, Some(call)),
            None => (record, None),
        }
    }

    fn open(
        &mut self,
        connection: u64,
        header: &CallHeader<'_>,
        record: &[u8],
    ) -> Option<(Vec<u8>, OpenedCall)> {
        let credential = GssCredential::parse(header.credential.body).ok()?;
        let (head, arguments) = record.split_at(header.arguments_at);
        if credential.procedure == RpcGssProcT::RPCSEC_GSS_INIT {
            let ticket = init_argument(arguments, TOKEN_SIZE_MAX).ok()?;
            self.tickets.insert((connection, header.xid), ticket.to_vec());
        }
        if credential.procedure != RpcGssProcT::RPCSEC_GSS_DATA {
            return None;
        }
        let (service, sequence) = (credential.service, credential.sequence);
        let keys = &self.contexts.get(credential.handle)?.acceptor;
        let plain = GssMessage { keys, service, sequence }.open(record, header.arguments_at).ok()?;
        let sent = (credential.handle.to_vec(), sequence);
        let seen = self.seen(&sent)?;
        Some(([head, &plain].concat(), OpenedCall { service, sent, seen, status: Accepted::Success }))
    }

    /// Returns the handle and the sequence number under which the server sees a call.
    fn seen(&mut self, sent: &(Vec<u8>, u32)) -> Option<(Vec<u8>, u32)> {
        let (handle, sequence) = sent;
        let is_current = self.contexts.get(handle)?.life == self.life;
        let handle = if is_current { handle.clone() } else { self.successor(handle)? };
        let context = self.contexts.get_mut(&handle)?;
        let renumbers = !is_current || self.mutation == Mutation::GssWindowIgnored;
        let number = if renumbers { context.last + 1 } else { *sequence };
        context.last = context.last.max(number);
        Some((handle, number))
    }

    /// Returns the handle of the current context of a former context's principal, if the mutation
    /// keeps contexts.
    fn successor(&self, former: &[u8]) -> Option<Vec<u8>> {
        let principal = &self.contexts.get(former)?.principal;
        let keeps = self.mutation == Mutation::ContextKept;
        let mut all = self.contexts.iter().filter(|(_, context)| keeps && context.life == self.life);
        all.find(|(_, context)| context.principal == *principal).map(|(handle, _)| handle.clone())
    }

    /// Seals a call with its body, which may have changed.
    pub(crate) fn seal_call(&mut self, connection: u64, record: Vec<u8>, call: OpenedCall) -> Vec<u8> {
        let (Ok(Message::Call(header)), Some(context)) =
            (Message::parse(&record), self.contexts.get(&call.seen.0))
        else {
            return record;
        };
        let (handle, sequence) = &call.seen;
        let message = GssMessage { keys: &context.initiator, service: call.service, sequence: *sequence };
        let arguments = record.get(header.arguments_at..).unwrap_or_default();
        let sealed = message.call(header.xid, RpcGssProcT::RPCSEC_GSS_DATA, handle, arguments);
        self.calls.insert((connection, header.xid), call);
        sealed
    }

    /// Opens a reply to an opened call, so that it looks like one by AUTH_SYS. Other records come
    /// back as they are.
    pub(crate) fn open_reply(&mut self, connection: u64, record: Vec<u8>) -> (Vec<u8>, Option<OpenedCall>) {
        let Ok(ReplyHeader::Accepted { xid, status, results_at, .. }) = ReplyHeader::parse(&record) else {
            return (record, None);
        };
        let key = (connection, xid);
        if let Some(ticket) = self.tickets.remove(&key) {
            self.learn(&ticket, record.get(results_at..).unwrap_or_default());
        }
        let Some(mut call) = self.calls.remove(&key) else { return (record, None) };
        let Some(context) = self.contexts.get(&call.seen.0) else { return (record, None) };
        call.status = status;
        let message = GssMessage { keys: &context.initiator, service: call.service, sequence: call.seen.1 };
        let mut plain = Encoder::new();
        status.encode(&mut plain, xid, &OpaqueAuth::NONE);
        if status == Accepted::Success {
            let Ok(results) = message.open(&record, results_at) else { return (record, None) };
            plain.raw(&results);
        }
        (plain.into_vec(), Some(call))
    }

    /// Learns a new context from the reply to INIT.
    fn learn(&mut self, ticket: &[u8], results: &[u8]) {
        let Ok(result) = InitRes::decode(&mut Decoder::new(results)) else { return };
        let Some(principal) = self.realm.principal_of(ticket) else { return };
        let [initiator, acceptor] =
            [Role::Initiator, Role::Acceptor].map(|role| self.realm.keys(ticket, role));
        let (principal, life) = (principal.to_owned(), self.life);
        let context = BothEnds { principal, life, initiator, acceptor, last: 0 };
        self.contexts.insert(result.handle.to_vec(), context);
    }

    /// Seals a reply for the client.
    pub(crate) fn seal_reply(&self, record: &[u8], call: &OpenedCall) -> Vec<u8> {
        let (Ok(ReplyHeader::Accepted { xid, results_at, .. }), Some(context)) =
            (ReplyHeader::parse(record), self.contexts.get(&call.sent.0))
        else {
            return record.to_vec();
        };
        let message = GssMessage { keys: &context.acceptor, service: call.service, sequence: call.sent.1 };
        message.reply(xid, call.status, record.get(results_at..).unwrap_or_default())
    }
}

fn is_gss(header: &CallHeader<'_>) -> bool {
    header.credential.known_flavor() == Some(AuthFlavor::RPCSEC_GSS)
}
