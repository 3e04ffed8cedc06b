//! An onlooker on the network: sends copies of calls, and checks that the server executes none (RFC
//! 2203 section 5.3.3.1).
//!
//! The onlooker has no keys. It reads the credentials of calls, and sees which calls the server
//! accepts.

use crate::rng::Rng;
use rpc::gss::{GssCredential, InitRes, RpcGssProcT};
use rpc::{Accepted, AuthFlavor, Message, ReplyHeader};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use xdr::{Decode, Decoder};

/// Calls that the onlooker remembers for copies.
const COPIES_KEPT: usize = 64;

/// The calls and contexts that have crossed the network.
#[derive(Default)]
pub(crate) struct Onlooker {
    /// The number of the server's restarts.
    life: u32,
    contexts: BTreeMap<Vec<u8>, ObservedContext>,
    /// Calls that the server has received and not answered, by connection and XID.
    received: BTreeMap<(u64, u32), ObservedCall>,
    /// The last calls that the server has executed.
    executed: VecDeque<ObservedCall>,
    /// Connections on which the onlooker sends copies.
    own: BTreeSet<u64>,
}

/// A context as it looks from outside.
struct ObservedContext {
    life: u32,
    window: u32,
    /// The highest sequence number of a call that was executed.
    highest: u32,
}

/// A call by RPCSEC_GSS.
struct ObservedCall {
    host: usize,
    procedure: RpcGssProcT,
    handle: Vec<u8>,
    sequence: u32,
    /// The highest number that was executed in the context when this call arrived.
    highest_before: u32,
    record: Vec<u8>,
}

/// A copy of an executed call.
pub(crate) struct CopiedCall {
    /// The client that has sent it first.
    pub host: usize,
    /// The call as it was sent.
    pub record: Vec<u8>,
}

impl Onlooker {
    /// Notes a restart of the server, which ends its contexts.
    pub(crate) fn restart(&mut self) {
        self.life += 1;
        self.received.clear();
    }

    /// Notes a call that reaches the server.
    pub(crate) fn received(&mut self, connection: u64, host: usize, record: &[u8]) {
        let Ok(Message::Call(header)) = Message::parse(record) else { return };
        if header.credential.known_flavor() != Some(AuthFlavor::RPCSEC_GSS) {
            return;
        }
        let Ok(credential) = GssCredential::parse(header.credential.body) else { return };
        let (procedure, sequence, handle) =
            (credential.procedure, credential.sequence, credential.handle.to_vec());
        let highest_before = self.contexts.get(&handle).map_or(0, |context| context.highest);
        let record = record.to_vec();
        let call = ObservedCall { host, procedure, handle, sequence, highest_before, record };
        self.received.insert((connection, header.xid), call);
    }

    /// Notes a reply of the server. Returns the property that it violates, and how.
    pub(crate) fn replied(&mut self, connection: u64, record: &[u8]) -> Option<(&'static str, String)> {
        let reply = ReplyHeader::parse(record).ok()?;
        let call = self.received.remove(&(connection, reply.xid()))?;
        let ReplyHeader::Accepted { status: Accepted::Success, results_at, .. } = reply else { return None };
        match call.procedure {
            RpcGssProcT::RPCSEC_GSS_INIT => {
                let result = InitRes::decode(&mut Decoder::new(record.get(results_at..)?)).ok()?;
                let (life, window) = (self.life, result.seq_window);
                let context = ObservedContext { life, window, highest: 0 };
                self.contexts.insert(result.handle.to_vec(), context);
                None
            }
            RpcGssProcT::RPCSEC_GSS_DATA => self.executed(connection, call),
            _ => None,
        }
    }

    fn executed(&mut self, connection: u64, call: ObservedCall) -> Option<(&'static str, String)> {
        let context = self.contexts.get_mut(&call.handle)?;
        let property = if context.life != self.life {
            Some("a context ends with its server")
        } else if self.own.contains(&connection) {
            Some("a sequence number is used once")
        } else if call.highest_before >= call.sequence.saturating_add(context.window) {
            Some("a call below the window is dropped")
        } else {
            None
        };
        let (host, sequence) = (call.host, call.sequence);
        context.highest = context.highest.max(sequence);
        self.executed.push_back(call);
        if self.executed.len() > COPIES_KEPT {
            self.executed.pop_front();
        }
        property.map(|property| (property, format!("call {sequence} of client {host} is executed")))
    }

    /// Chooses a call that the server has executed.
    pub(crate) fn copy(&self, rng: &mut Rng) -> Option<CopiedCall> {
        let call = self.executed.get(rng.below(self.executed.len()))?;
        Some(CopiedCall { host: call.host, record: call.record.clone() })
    }

    /// Notes that only the onlooker uses a connection.
    pub(crate) fn own(&mut self, connection: u64) {
        self.own.insert(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kerberos::{self, GssMessage, SimRealm};
    use krb5::{ContextKeys, Role};
    use rpc::OpaqueAuth;
    use rpc::gss::RpcGssServiceT;
    use std::time::Duration;
    use xdr::{Encode, Encoder};

    const WINDOW: u32 = 64;

    fn reply(xid: u32, results: &impl Encode) -> Vec<u8> {
        let mut encoder = Encoder::new();
        Accepted::Success.encode(&mut encoder, xid, &OpaqueAuth::NONE);
        results.encode(&mut encoder);
        encoder.into_vec()
    }

    /// Makes an onlooker that has seen the creation of a context, and returns its keys.
    fn onlooker() -> (Onlooker, ContextKeys) {
        let realm = SimRealm::new(&mut Rng::new(1), Duration::from_secs(60));
        let ticket = realm.ticket(&kerberos::principal(0), 1);
        let mut onlooker = Onlooker::default();
        onlooker.received(1, 0, &kerberos::init(1, &ticket));
        let seq_window = WINDOW;
        let result = InitRes { handle: b"handle", gss_major: 0, gss_minor: 0, seq_window, gss_token: b"" };
        assert_eq!(onlooker.replied(1, &reply(1, &result)), None);
        (onlooker, realm.keys(&ticket, Role::Initiator))
    }

    fn call(keys: &ContextKeys, sequence: u32) -> Vec<u8> {
        let service = RpcGssServiceT::rpc_gss_svc_none;
        let data = RpcGssProcT::RPCSEC_GSS_DATA;
        GssMessage { keys, service, sequence }.call(sequence, data, b"handle", b"")
    }

    /// Lets the server execute a call on a connection, and returns the violated property.
    fn execute(
        onlooker: &mut Onlooker,
        keys: &ContextKeys,
        connection: u64,
        sequence: u32,
    ) -> Option<&'static str> {
        onlooker.received(connection, 0, &call(keys, sequence));
        onlooker.replied(connection, &reply(sequence, &0u32)).map(|(property, _)| property)
    }

    #[test]
    fn a_copy_is_executed_in_no_life_of_the_server() {
        let (mut onlooker, keys) = onlooker();
        assert_eq!(execute(&mut onlooker, &keys, 1, 5), None);
        let copy = onlooker.copy(&mut Rng::new(1)).unwrap();
        assert_eq!(copy.record, call(&keys, 5));
        onlooker.own(2);
        assert_eq!(execute(&mut onlooker, &keys, 2, 5), Some("a sequence number is used once"));
        onlooker.restart();
        assert_eq!(execute(&mut onlooker, &keys, 3, 6), Some("a context ends with its server"));
    }

    #[test]
    fn a_call_that_arrives_below_the_window_is_not_executed() {
        let (mut onlooker, keys) = onlooker();
        onlooker.received(1, 0, &call(&keys, 2));
        assert_eq!(execute(&mut onlooker, &keys, 1, WINDOW + 1), None);
        assert_eq!(onlooker.replied(1, &reply(2, &0u32)), None, "it arrived in time");
        assert_eq!(execute(&mut onlooker, &keys, 1, 3), None);
        assert_eq!(execute(&mut onlooker, &keys, 1, 1), Some("a call below the window is dropped"));
    }
}
