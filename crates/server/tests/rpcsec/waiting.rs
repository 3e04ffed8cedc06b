//! Deferred calls: run on another thread, answered by a later tick.

use crate::client::{Client, INTEGRITY, NONE, PRIVACY, SERVICES, init_call};
use crate::server::{CONNECTION, Host, token};
use identity::Mapper;
use krb5::Enctype;
use nfs4::Nfsstat4;
use orthrus_server::compound::CompoundStatus;
use orthrus_server::dispatch::{
    Action, CompletedCall, DeferredCall, DeferredOutcome, Engine, ReplySink, Server,
};
use orthrus_server::engine::WaitsFor;
use orthrus_server::engine::{Call, CompoundOutcome, WaitPolicy};
use orthrus_server::metrics::RequestSubject;
use rpc::ConnectionId;
use std::time::Duration;
use xdr::Encoder;

const ETYPE: Enctype = Enctype::Aes256CtsHmacSha384_192;

/// The arguments of a call that blocks, and that no reply can end early.
const SEQUENCED: &[u8] = b"slow and sequenced";

/// Echoes arguments, and blocks first if they begin with "slow".
#[derive(Default)]
pub(crate) struct SlowNames {
    /// The accounts that give AUTH_SYS callers their groups.
    pub accounts: Option<Mapper>,
}

/// Runs a deferred call on the calling thread, for all lanes that it waits in.
pub(crate) fn execute_and_sync<E: Engine>(
    server: &Server<E>,
    mut deferred: DeferredCall<E::Suspended>,
) -> CompletedCall {
    loop {
        match server.execute_deferred(deferred) {
            DeferredOutcome::Completed(completed) => return completed,
            DeferredOutcome::Suspended(suspended) => deferred = suspended,
            DeferredOutcome::Uncommitted(deferred) => {
                let outcome = server.sync(&deferred);
                return server.complete(deferred, outcome);
            }
        }
    }
}

/// The part of the reply that a [`SlowNames`] call has made before it stopped.
#[derive(Debug)]
pub(crate) struct Half;

impl WaitsFor for Half {
    fn lane(&self) -> u32 {
        1
    }
}

const OUTCOME: CompoundOutcome = CompoundOutcome {
    status: Nfsstat4::NFS4_OK,
    operations: 1,
    replayed: false,
    subject: RequestSubject::NONE,
    expensive: false,
    export: None,
};

impl Engine for SlowNames {
    type Suspended = Half;

    fn compound(&self, call: &Call<'_>, reply: &mut Encoder, policy: WaitPolicy) -> CompoundStatus<Half> {
        if policy == WaitPolicy::Suspends && call.args.starts_with(b"slow") {
            reply.raw(b"half");
            return CompoundStatus::Deferred(Half);
        }
        reply.raw(call.args);
        CompoundStatus::Done(OUTCOME)
    }

    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, _: Half) -> CompoundOutcome {
        reply.raw(call.args);
        OUTCOME
    }

    fn decline(&self, call: &Call<'_>, reply: &mut Encoder, _: Half) -> Option<CompoundOutcome> {
        reply.raw(b"late");
        (call.args != SEQUENCED).then_some(OUTCOME)
    }

    fn sys_accounts(&self) -> Option<&Mapper> {
        self.accounts.as_ref()
    }

    fn connection_closed(&self, _: ConnectionId) {}

    fn housekeeping(&self, _: Duration) {}
}

/// Keeps deferred calls, as long as there is room.
pub(crate) struct Elsewhere {
    room: usize,
    pub deferred: Vec<DeferredCall<Half>>,
    replies: Vec<(ConnectionId, Action)>,
}

impl ReplySink<Half> for Elsewhere {
    fn reply(&mut self, connection: ConnectionId, action: Action) {
        self.replies.push((connection, action));
    }

    fn can_defer(&self) -> bool {
        true
    }

    fn defer(&mut self, deferred: DeferredCall<Half>) -> Result<(), DeferredCall<Half>> {
        if self.deferred.len() >= self.room {
            return Err(deferred);
        }
        self.deferred.push(deferred);
        Ok(())
    }
}

impl Elsewhere {
    pub(crate) fn with_room(room: usize) -> Self {
        Self { room, deferred: Vec::new(), replies: Vec::new() }
    }

    fn last_reply(&mut self) -> Vec<u8> {
        match self.replies.pop() {
            Some((CONNECTION, Action::Send(reply))) => reply[4..].to_vec(),
            other => panic!("no reply: {other:?}"),
        }
    }

    /// Runs the deferred calls on another thread, and answers them by a tick without other calls.
    fn execute(&mut self, host: &mut Host<SlowNames>) {
        let server = &host.server;
        let work = |deferred: Vec<_>| {
            deferred.into_iter().map(|deferred| execute_and_sync(server, deferred)).collect::<Vec<_>>()
        };
        let deferred = std::mem::take(&mut self.deferred);
        let completed = std::thread::scope(|scope| scope.spawn(|| work(deferred)).join().expect("no defect"));
        completed.into_iter().for_each(|completed| host.take_completed(completed));
        host.tick_into(Vec::new(), self);
    }
}

pub(crate) fn host() -> (Host<SlowNames>, Client) {
    let mut host = Host::over(SlowNames::default());
    let client = Client::establish(&mut host, ETYPE, "alice@TEST");
    (host, client)
}

#[test]
fn a_call_that_waits_is_protected_when_it_is_back_and_overtaken_by_later_ones() {
    let (mut host, mut client) = host();
    for service in SERVICES {
        let mut elsewhere = Elsewhere::with_room(1);
        let slow = (CONNECTION, client.call(service, b"slow"));
        let slow_sequence = client.sequence;
        let fast = (CONNECTION, client.call(service, b"fast"));
        host.tick_into(vec![slow, fast], &mut elsewhere);
        assert_eq!(client.open(&elsewhere.last_reply(), client.sequence, service), b"fast");
        assert!(elsewhere.replies.is_empty());
        elsewhere.execute(&mut host);
        assert_eq!(client.open(&elsewhere.last_reply(), slow_sequence, service), b"halfslow");
    }
}

#[test]
fn a_call_without_room_in_the_pool_is_answered_at_once() {
    let (mut host, mut client) = host();
    let mut elsewhere = Elsewhere::with_room(0);
    host.tick_into(vec![(CONNECTION, client.call(PRIVACY, b"slow"))], &mut elsewhere);
    assert_eq!(client.open(&elsewhere.last_reply(), client.sequence, PRIVACY), b"halflate");
}

#[test]
fn a_call_that_no_reply_can_refuse_closes_its_connection() // RFC 7530 section 9.1.7
{
    let (mut host, mut client) = host();
    let mut call = || vec![(CONNECTION, client.call(PRIVACY, SEQUENCED))];
    let mut crowded = Elsewhere::with_room(0);
    host.tick_into(call(), &mut crowded);
    assert_eq!(crowded.replies, [(CONNECTION, Action::Close)]);
    let mut elsewhere = Elsewhere::with_room(1);
    host.tick_into(call(), &mut elsewhere);
    let completed = host.server.decline(elsewhere.deferred.remove(0));
    host.take_completed(completed);
    host.tick_into(Vec::new(), &mut elsewhere);
    assert_eq!(elsewhere.replies, [(CONNECTION, Action::Close)]);
}

#[test]
fn contexts_are_created_elsewhere_and_stored_before_their_reply_is_sent() // RFC 2203 section 5.2.3
{
    let (mut host, _) = host();
    let mut elsewhere = Elsewhere::with_room(1);
    host.tick_into(vec![(CONNECTION, init_call(&token(ETYPE, "bob@TEST")))], &mut elsewhere);
    assert!(elsewhere.replies.is_empty() && elsewhere.deferred[0].is_init());
    let completed = execute_and_sync(&host.server, elsewhere.deferred.remove(0));
    assert_eq!(host.server.rpcsec().expect("Kerberos").contexts().len(), 2);
    host.take_completed(completed);
    host.tick_into(Vec::new(), &mut elsewhere);
    let mut bob = Client::from_reply(&elsewhere.last_reply(), ETYPE);
    let record = bob.call(INTEGRITY, b"data");
    let reply = host.answer(record).expect("an answer");
    assert_eq!(bob.open(&reply, bob.sequence, INTEGRITY), b"data");
}

#[test]
fn a_context_without_room_in_the_pool_is_answered_with_system_err() // RFC 5531 section 9
{
    let (mut host, mut client) = host();
    let mut elsewhere = Elsewhere::with_room(0);
    let flood = (ConnectionId(7), init_call(&token(ETYPE, "bob@TEST")));
    host.tick_into(vec![flood, (CONNECTION, client.call(NONE, b"fast"))], &mut elsewhere);
    let (connection, refusal) = elsewhere.replies.remove(0);
    let Action::Send(refusal) = refusal else { panic!("{refusal:?}") };
    // XID, REPLY, MSG_ACCEPTED, an empty verifier, SYSTEM_ERR.
    let words: Vec<u32> =
        refusal[8..].as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    assert_eq!((connection, words), (ConnectionId(7), vec![1, 0, 0, 0, 5]));
    assert_eq!(client.open(&elsewhere.last_reply(), client.sequence, NONE), b"fast");
}

#[test]
fn a_defect_elsewhere_closes_the_connection_of_its_call() {
    let (mut host, mut client) = host();
    let mut elsewhere = Elsewhere::with_room(1);
    host.tick_into(vec![(CONNECTION, client.call(NONE, b"slow"))], &mut elsewhere);
    let connection = elsewhere.deferred.remove(0).connection();
    host.take_completed(CompletedCall::defect(connection));
    host.tick_into(Vec::new(), &mut elsewhere);
    assert_eq!(elsewhere.replies, [(CONNECTION, Action::Close)]);
}
