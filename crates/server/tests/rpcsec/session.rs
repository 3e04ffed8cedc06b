//! Sessions and contexts have separate lives: one goes on when the other ends.

use crate::client::{CallParts, Client, INTEGRITY, NONE, PRIVACY, denied};
use crate::server::{Host, LIFETIME};
use krb5::Enctype;
use nfs4::*;
use orthrus_server::dispatch::Environment;
use orthrus_server::engine::{Nfs, Start};
use rpc::gss::RpcGssServiceT;
use rpc::{AuthStat, Denied};
use runtime::Builder;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vfs::{Export, ExportTable, Exports, MemoryBackend, MemoryLimits, Timestamp};
use xdr::{Decode, Decoder, Encode, Encoder};

pub(crate) const ETYPE: Enctype = Enctype::Aes256CtsHmacSha384_192;

pub(crate) fn nfs() -> Nfs {
    let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
    let table = ExportTable::new(vec![Export::new("/", backend).unwrap()], Timestamp::default()).unwrap();
    let boot = state::Boot { epoch: 1, hash_key: [7; 16], principal_key: [0; 16], prior_clients: Vec::new() };
    let start = Start { boot, write_verifier: [1; 8], filehandle_key: [2; 16] };
    let next = AtomicU64::new(1);
    let random = move |bytes: &mut [u8]| {
        let number = next.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed).to_ne_bytes();
        bytes.iter_mut().zip(number.iter().cycle()).for_each(|(to, from)| *to = *from);
    };
    let environment = Environment { clock: Box::new(|| Duration::ZERO), random: Box::new(random) };
    Builder::new(Arc::new(Exports::new(table)), start, environment).engine()
}

/// A client of a real server, with a session.
struct SessionClient {
    host: Host<Nfs>,
    client: Client,
    session: Sessionid4,
    slot_sequence: u32,
}

pub(crate) fn compound(operations: Vec<NfsArgop4<'_>>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    Compound4Args { tag: b"".into(), minorversion: 2, argarray: operations }.encode(&mut encoder);
    encoder.into_vec()
}

/// Runs a COMPOUND and returns its results; any other reply fails the test.
pub(crate) fn run(
    host: &mut Host<Nfs>,
    client: &mut Client,
    service: RpcGssServiceT,
    arguments: &[u8],
) -> Vec<u8> {
    let record = client.call(service, arguments);
    let reply = host.answer(record).expect("an answer");
    client.open(&reply, client.sequence, service)
}

pub(crate) fn decoded(results: &[u8]) -> Compound4Res<'_> {
    Compound4Res::decode(&mut Decoder::new(results)).unwrap()
}

pub(crate) fn exchange_id() -> NfsArgop4<'static> {
    NfsArgop4::OP_EXCHANGE_ID(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [5; 8], co_ownerid: b"a client".into() },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::SP4_NONE,
        eia_client_impl_id: Vec::new(),
    })
}

fn create_session(clientid: Clientid4, sequence: Sequenceid4) -> NfsArgop4<'static> {
    NfsArgop4::OP_CREATE_SESSION(create_session_args(clientid, sequence))
}

pub(crate) fn create_session_args(clientid: Clientid4, sequence: Sequenceid4) -> CreateSession4Args<'static> {
    let channel = ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 20,
        ca_maxresponsesize: 1 << 20,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 16,
        ca_maxrequests: 8,
        ca_rdma_ird: Vec::new(),
    };
    CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: 0,
        csa_fore_chan_attrs: channel.clone(),
        csa_back_chan_attrs: channel,
        csa_cb_program: 0,
        csa_sec_parms: vec![CallbackSecParms4::AUTH_NONE],
    }
}

impl SessionClient {
    fn new() -> Self {
        let mut host = Host::over(nfs());
        let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
        let results = run(&mut host, &mut client, INTEGRITY, &compound(vec![exchange_id()]));
        let [NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(made))] = &decoded(&results).resarray[..]
        else {
            panic!("EXCHANGE_ID: {:?}", decoded(&results))
        };
        let create = compound(vec![create_session(made.eir_clientid, made.eir_sequenceid)]);
        let results = run(&mut host, &mut client, INTEGRITY, &create);
        let [NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(made))] =
            &decoded(&results).resarray[..]
        else {
            panic!("CREATE_SESSION: {:?}", decoded(&results))
        };
        let session = made.csr_sessionid;
        Self { host, client, session, slot_sequence: 0 }
    }

    /// Encodes a COMPOUND on slot 0 with the next number of the slot.
    fn on_slot(&mut self, operations: Vec<NfsArgop4<'static>>) -> Vec<u8> {
        self.slot_sequence += 1;
        let sequence = NfsArgop4::OP_SEQUENCE(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: self.slot_sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: true,
        });
        compound([vec![sequence], operations].concat())
    }

    fn run(&mut self, service: RpcGssServiceT, arguments: &[u8]) -> Vec<u8> {
        run(&mut self.host, &mut self.client, service, arguments)
    }

    fn succeeds(&mut self, service: RpcGssServiceT) {
        let arguments = self.on_slot(vec![NfsArgop4::OP_PUTROOTFH, NfsArgop4::OP_GETFH]);
        let results = self.run(service, &arguments);
        assert_eq!(decoded(&results).status, Nfsstat4::NFS4_OK, "{:?}", decoded(&results));
        assert_eq!(decoded(&results).resarray.len(), 3);
    }

    fn renew(&mut self, principal: &str) {
        self.client = Client::establish(&mut self.host, ETYPE, principal);
    }

    /// Calls with the current context, and returns whether the context is refused.
    fn has_lost_its_context(&mut self) -> bool {
        let arguments = self.on_slot(Vec::new());
        self.slot_sequence -= 1;
        let record = self.client.call(PRIVACY, &arguments);
        let reply = self.host.answer(record).expect("an answer");
        denied(&reply) == Denied::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM)
    }
}

#[test]
// RFC 8881 section 2.10.3, RFC 2203 section 5.3.1
fn one_session_is_used_with_every_service_of_one_context() {
    let mut mount = SessionClient::new();
    for service in [PRIVACY, NONE, INTEGRITY, PRIVACY] {
        mount.succeeds(service);
    }
}

#[test]
fn a_session_outlives_a_destroyed_context() // RFC 8881 section 2.10.3
{
    let mut mount = SessionClient::new();
    mount.succeeds(PRIVACY);
    let destroy = mount.client.destroy();
    let reply = mount.host.answer(mount.client.sign(&destroy)).unwrap();
    mount.client.open(&reply, destroy.sequence, NONE);
    assert!(mount.has_lost_its_context());
    mount.renew("alice@TEST");
    mount.succeeds(PRIVACY);
}

#[test]
fn an_open_session_outlives_an_expired_context() // RFC 8881 section 2.10.3
{
    let mut mount = SessionClient::new();
    // The lease is renewed all the time.
    const STEP: Duration = Duration::from_secs(20);
    for _ in 0..LIFETIME.as_secs() / STEP.as_secs() - 1 {
        mount.host.advance(STEP);
        mount.host.server.housekeeping();
        mount.succeeds(INTEGRITY);
    }
    mount.host.advance(STEP);
    assert!(mount.has_lost_its_context());
    mount.renew("alice@TEST");
    mount.succeeds(PRIVACY);
}

#[test]
fn a_retry_by_a_new_context_gets_the_cached_reply() // RFC 8881 section 2.10.6.1
{
    let mut mount = SessionClient::new();
    let arguments = mount.on_slot(vec![NfsArgop4::OP_PUTROOTFH, NfsArgop4::OP_GETFH]);
    let first = mount.run(PRIVACY, &arguments);
    mount.renew("alice@TEST");
    assert_eq!(mount.run(PRIVACY, &arguments), first);
    mount.succeeds(PRIVACY);
}

#[test]
fn another_principal_never_gets_a_cached_reply() // RFC 8881 section 2.10.6.1.3
{
    let mut mount = SessionClient::new();
    let arguments = mount.on_slot(vec![NfsArgop4::OP_PUTROOTFH, NfsArgop4::OP_GETFH]);
    let first = mount.run(PRIVACY, &arguments);
    assert_eq!(decoded(&first).status, Nfsstat4::NFS4_OK);
    mount.renew("bob@TEST");
    let stolen = mount.run(PRIVACY, &arguments);
    assert_eq!(decoded(&stolen).status, Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
}

#[test]
// RFC 8881 section 2.10.6.1, RFC 2203 section 5.3.3.1
fn misused_sequence_numbers_leave_the_slot_as_it_was() {
    let mut mount = SessionClient::new();
    mount.succeeds(PRIVACY);
    let arguments = mount.on_slot(Vec::new());
    let honest = CallParts { arguments, ..mount.client.parts(PRIVACY, &[]) };

    let replayed = CallParts { sequence: 1, body_sequence: 1, ..honest.clone() };
    assert!(mount.host.is_closed_by(mount.client.sign(&replayed)));
    let inconsistent = CallParts { body_sequence: 1, ..mount.client.parts(PRIVACY, &honest.arguments) };
    let reply = mount.host.answer(mount.client.sign(&inconsistent)).unwrap();
    assert_eq!(crate::client::accepted(&reply).1, rpc::Accepted::GarbageArgs);
    let wrong_service = CallParts { service: INTEGRITY, ..honest.clone() };
    let (head, body) = (mount.client.sign(&honest), mount.client.sign(&wrong_service));
    let body_at = 4 * 6 + 8 + 36 + 8 + mount.client.keys.mic_len();
    let reply = mount.host.answer([&head[..body_at], &body[body_at..]].concat()).unwrap();
    assert_eq!(crate::client::accepted(&reply).1, rpc::Accepted::GarbageArgs);

    // The slot still expects the number that none of them used up.
    let results = mount.run(PRIVACY, &honest.arguments);
    assert_eq!(decoded(&results).status, Nfsstat4::NFS4_OK);
}
