//! Callbacks with contexts that the client has established (RFC 8881 sections 2.10.8.2, 18.33.3 and
//! 18.36.3).

use crate::client::{Client, INTEGRITY, NONE, PRIVACY, SERVICES, encoded};
use crate::server::{CONNECTION, Host, LIFETIME};
use crate::session::{ETYPE, compound, create_session_args, decoded, exchange_id, nfs, run};
use nfs4::*;
use orthrus_server::callback::CallbackTransport;
use orthrus_server::engine::Nfs;
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT, integrity_body, privacy_body};
use rpc::{Accepted, CallHeader, ConnectionId, Message, OpaqueAuth};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use xdr::{Decode, Decoder, Encoder};

/// The client's handle for the context.
const BACK: &[u8] = b"by this name";

#[derive(Clone, Default)]
struct CallbackWire(Arc<Mutex<Vec<Vec<u8>>>>);

impl CallbackTransport for CallbackWire {
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        assert_eq!(connection, CONNECTION);
        self.0.lock().unwrap().push(record[4..].to_vec());
        true
    }
}

/// A client with a backchannel.
struct BackchannelClient {
    host: Host<Nfs>,
    wire: CallbackWire,
    client: Client,
    session: Sessionid4,
    slot_sequence: u32,
}

fn gss(service: RpcGssServiceT, handle: &[u8]) -> CallbackSecParms4<'static> {
    let gcbp_service = match service {
        NONE => RpcGssSvcT::RPC_GSS_SVC_NONE,
        INTEGRITY => RpcGssSvcT::RPC_GSS_SVC_INTEGRITY,
        PRIVACY => RpcGssSvcT::RPC_GSS_SVC_PRIVACY,
    };
    CallbackSecParms4::RPCSEC_GSS(GssCbHandles4 {
        gcbp_service,
        gcbp_handle_from_server: handle.to_vec().into(),
        gcbp_handle_from_client: BACK.into(),
    })
}

/// A callback after its protection is checked.
struct CheckedCallback {
    xid: u32,
    sequence: u32,
    args: CbCompound4Args<'static>,
}

impl BackchannelClient {
    /// Creates a session with these security parameters for callbacks.
    fn create(
        parms: impl FnOnce(&mut Host<Nfs>, &Client) -> Vec<CallbackSecParms4<'static>>,
    ) -> Result<Self, Nfsstat4> {
        let mut host = Host::over(nfs());
        let wire = CallbackWire::default();
        host.server.engine().connect_callbacks(Box::new(wire.clone()));
        let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
        let results = run(&mut host, &mut client, INTEGRITY, &compound(vec![exchange_id()]));
        let [NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(made))] = &decoded(&results).resarray[..]
        else {
            panic!("{:?}", decoded(&results))
        };
        let args = create_session_args(made.eir_clientid, made.eir_sequenceid);
        let csa_sec_parms = parms(&mut host, &client);
        let csa_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        let args = CreateSession4Args { csa_flags, csa_sec_parms, ..args };
        let create = compound(vec![NfsArgop4::OP_CREATE_SESSION(args)]);
        let results = run(&mut host, &mut client, INTEGRITY, &create);
        match &decoded(&results).resarray[..] {
            [NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(made))] => {
                let session = made.csr_sessionid;
                Ok(Self { host, wire, client, session, slot_sequence: 0 })
            }
            _ => Err(decoded(&results).status),
        }
    }

    fn new(service: RpcGssServiceT) -> Self {
        Self::create(|_, client| vec![gss(service, &client.handle)]).unwrap()
    }

    /// Runs operations on slot 0. Returns the status and sr_status_flags.
    fn run(&mut self, operations: Vec<NfsArgop4<'static>>) -> (Nfsstat4, u32) {
        self.slot_sequence += 1;
        let sequence = NfsArgop4::OP_SEQUENCE(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: self.slot_sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        });
        let args = compound([vec![sequence], operations].concat());
        let results = run(&mut self.host, &mut self.client, INTEGRITY, &args);
        let results = decoded(&results);
        let Some(NfsResop4::OP_SEQUENCE(Sequence4Res::NFS4_OK(ok))) = results.resarray.first() else {
            panic!("{results:?}")
        };
        (results.status, ok.sr_status_flags)
    }

    fn records(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.wire.0.lock().unwrap())
    }

    /// Returns the only record sent.
    fn record(&self) -> Vec<u8> {
        let mut all = self.records();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// Checks a callback as a client does.
    fn callback(&self, service: RpcGssServiceT, record: &[u8]) -> CheckedCallback {
        let header = header(record);
        let credential = GssCredential::parse(header.credential.body).unwrap();
        assert_eq!((credential.procedure, credential.service), (RpcGssProcT::RPCSEC_GSS_DATA, service));
        assert_eq!(credential.handle, BACK);
        let keys = &self.client.keys;
        keys.verify(header.signed, header.verifier.body).expect("the header's MIC");
        let at = header.arguments_at;
        let content = match service {
            NONE => [&credential.sequence.to_be_bytes()[..], &record[at..]].concat(),
            INTEGRITY => {
                let (body, _) = integrity_body(record, at).unwrap();
                keys.verify(&record[body.signed.clone()], &record[body.checksum]).expect("the body's MIC");
                record[body.signed].to_vec()
            }
            PRIVACY => {
                let mut token = record[privacy_body(record, at).unwrap()].to_vec();
                let result = Err(krb5::TokenError::Malformed);
                let segments = krb5::Segments::from(&mut token[..]);
                let mut batch = [krb5::UnwrapMessage { keys, token: segments, result }];
                krb5::unwrap(&mut batch);
                let [krb5::UnwrapMessage { result, .. }] = batch;
                token[result.expect("the body's token").plain].to_vec()
            }
        };
        let (inner, args) = content.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*inner), credential.sequence);
        let args = CbCompound4Args::decode(&mut Decoder::new(args)).unwrap().into_owned();
        CheckedCallback { xid: header.xid, sequence: credential.sequence, args }
    }

    /// Makes the answer to CB_SEQUENCE, with parameters for all that a test may get wrong.
    fn answer(
        &self,
        callback: &CheckedCallback,
        service: RpcGssServiceT,
        signed: u32,
        inner: u32,
    ) -> Vec<u8> {
        let [NfsCbArgop4::OP_CB_SEQUENCE(args)] = &callback.args.argarray[..] else { panic!() };
        let sequence = CbSequence4Res::NFS4_OK(CbSequence4Resok {
            csr_sessionid: args.csa_sessionid,
            csr_sequenceid: args.csa_sequenceid,
            csr_slotid: args.csa_slotid,
            csr_highest_slotid: 0,
            csr_target_highest_slotid: 0,
        });
        let resarray = vec![NfsCbResop4::OP_CB_SEQUENCE(sequence)];
        let results = encoded(&CbCompound4Res { status: Nfsstat4::NFS4_OK, tag: b"".into(), resarray });
        let mut encoder = Encoder::new();
        let keys = &self.client.keys;
        let mic = keys.mic(5, &signed.to_be_bytes());
        Accepted::Success.encode(&mut encoder, callback.xid, &OpaqueAuth::gss(&mic));
        let content = [&inner.to_be_bytes()[..], &results].concat();
        match service {
            NONE => encoder.raw(&results),
            INTEGRITY => encoder.opaque(&content).opaque(&keys.mic(6, &content)),
            PRIVACY => encoder.opaque(&self.client.wrap(&content)),
        };
        encoder.into_vec()
    }
}

fn header(record: &[u8]) -> CallHeader<'_> {
    match Message::parse(record) {
        Ok(Message::Call(header)) => header,
        other => panic!("{other:?}"),
    }
}

#[test]
// RFC 8881 section 18.36.3
fn callbacks_go_by_the_clients_context_with_the_service_that_it_asked_for() {
    for service in SERVICES {
        let mut mount = BackchannelClient::new(service);
        mount.run(vec![]);
        let callback = mount.callback(service, &mount.record());
        assert_eq!(callback.sequence, 1, "numbers of callbacks are their own");
        let reply = mount.answer(&callback, service, 1, 1);
        assert_eq!(mount.host.answer(reply), None);
        assert_eq!((mount.host.count("callback_replies"), mount.host.count("unexpected_replies")), (1, 0));
        assert_eq!(mount.run(vec![]).1, 0);
    }
}

#[test]
fn an_answer_that_is_not_the_clients_ends_no_callback() // RFC 2203 section 5.3.3.2
{
    for service in SERVICES {
        let mut mount = BackchannelClient::new(service);
        mount.run(vec![]);
        let callback = mount.callback(service, &mount.record());
        let true_one = mount.answer(&callback, service, 1, 1);
        let mut forged = vec![mount.answer(&callback, service, 2, 1)];
        if service != NONE {
            let mut broken = true_one.clone();
            *broken.last_mut().unwrap() ^= 1;
            let other = if service == PRIVACY { INTEGRITY } else { PRIVACY };
            forged.extend([
                broken,
                mount.answer(&callback, service, 1, 2),
                mount.answer(&callback, other, 1, 1),
                mount.answer(&callback, NONE, 1, 1),
            ]);
        }
        let mut unsigned = Encoder::new();
        Accepted::Success.encode(&mut unsigned, callback.xid, &OpaqueAuth::NONE);
        forged.push(unsigned.into_vec());
        let count = forged.len() as u64;
        for reply in forged {
            assert_eq!(mount.host.answer(reply), None);
        }
        assert_eq!(
            (mount.host.count("callback_replies"), mount.host.count("unexpected_replies")),
            (0, count)
        );
        mount.host.answer(true_one);
        assert_eq!(mount.host.count("callback_replies"), 1, "it was still waited for");
    }
}

#[test]
fn a_repeated_callback_has_a_sequence_number_of_its_own() // RFC 2203 section 5.3.3.1
{
    let mut mount = BackchannelClient::new(INTEGRITY);
    mount.run(vec![]);
    let first = mount.callback(INTEGRITY, &mount.record());
    let [NfsCbArgop4::OP_CB_SEQUENCE(args)] = &first.args.argarray[..] else { panic!() };
    assert_eq!(args.csa_sequenceid, 1);
    // Without an answer SEQUENCE reports the path down, and another connection is bound and probed.
    mount.host.advance(Duration::from_secs(11));
    mount.host.server.housekeeping();
    assert_ne!(mount.run(vec![]).1 & SEQ4_STATUS_CB_PATH_DOWN, 0);
    let bca_sec_parms = vec![gss(PRIVACY, &mount.client.handle)];
    let args = BackchannelCtl4Args { bca_cb_program: 9, bca_sec_parms };
    assert_eq!(
        mount.run(vec![NfsArgop4::OP_BACKCHANNEL_CTL(args)]),
        (Nfsstat4::NFS4_OK, SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION)
    );
    assert_eq!(mount.run(vec![]).1, 0);
    let record = mount.record();
    assert_eq!(header(&record).program, 9);
    let again = mount.callback(PRIVACY, &record);
    assert_eq!(again.sequence, 2);
}

#[test]
fn a_context_that_is_not_there_or_is_anothers_is_refused() // RFC 8881 sections 18.33.3 and 18.36.3
{
    let unknown = BackchannelClient::create(|_, _| vec![gss(INTEGRITY, &[7; 16])]);
    assert_eq!(unknown.err(), Some(Nfsstat4::NFS4ERR_NOENT));
    let anothers = BackchannelClient::create(|host, _| {
        let bob = Client::establish(host, ETYPE, "bob@TEST");
        vec![CallbackSecParms4::AUTH_NONE, gss(INTEGRITY, &bob.handle)]
    });
    assert_eq!(anothers.err(), Some(Nfsstat4::NFS4ERR_NOENT));
    let mut mount = BackchannelClient::new(NONE);
    let args = BackchannelCtl4Args { bca_cb_program: 9, bca_sec_parms: vec![gss(INTEGRITY, &[7; 16])] };
    assert_eq!(mount.run(vec![NfsArgop4::OP_BACKCHANNEL_CTL(args)]).0, Nfsstat4::NFS4ERR_NOENT);
}

#[test]
fn a_repeated_create_session_is_answered_from_memory_though_its_context_has_ended()
// RFC 8881 section 18.36.4
{
    let mut host = Host::over(nfs());
    let mut first = Client::establish(&mut host, ETYPE, "alice@TEST");
    let results = run(&mut host, &mut first, INTEGRITY, &compound(vec![exchange_id()]));
    let [NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(made))] = &decoded(&results).resarray[..] else {
        panic!("{:?}", decoded(&results))
    };
    let create = |sequence| {
        let args = create_session_args(made.eir_clientid, sequence);
        let csa_sec_parms = vec![gss(INTEGRITY, &first.handle)];
        compound(vec![NfsArgop4::OP_CREATE_SESSION(CreateSession4Args { csa_sec_parms, ..args })])
    };
    let (again, next) = (create(made.eir_sequenceid), create(made.eir_sequenceid + 1));
    let created = run(&mut host, &mut first, INTEGRITY, &again);
    assert_eq!(decoded(&created).status, Nfsstat4::NFS4_OK);
    host.advance(LIFETIME / 2);
    let mut second = Client::establish(&mut host, ETYPE, "alice@TEST");
    host.advance(LIFETIME / 2 + Duration::from_secs(1));
    assert_eq!(run(&mut host, &mut second, INTEGRITY, &again), created);
    let other = run(&mut host, &mut second, INTEGRITY, &next);
    assert_eq!(decoded(&other).status, Nfsstat4::NFS4ERR_NOENT, "it repeats no call");
}

#[test]
// RFC 8881 section 18.46.3
fn without_its_context_a_callback_uses_the_next_security_or_sets_status_flags() {
    for fallback in [false, true] {
        let others = if fallback { vec![CallbackSecParms4::AUTH_NONE] } else { vec![] };
        let mut mount =
            BackchannelClient::create(|_, client| [vec![gss(PRIVACY, &client.handle)], others].concat())
                .unwrap();
        let destroy = mount.client.destroy();
        mount.host.answer(mount.client.sign(&destroy)).unwrap();
        mount.client = Client::establish(&mut mount.host, ETYPE, "alice@TEST");
        mount.run(vec![]);
        let records = mount.records();
        assert_eq!(records.len(), usize::from(fallback));
        let lost = SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED | SEQ4_STATUS_CB_PATH_DOWN;
        match records.first() {
            Some(record) => assert_eq!(header(record).credential, OpaqueAuth::NONE),
            None => assert_eq!(mount.run(vec![]).1 & lost, lost),
        }
        let bca_sec_parms = vec![gss(INTEGRITY, &mount.client.handle)];
        let args = BackchannelCtl4Args { bca_cb_program: 9, bca_sec_parms };
        assert_eq!(mount.run(vec![NfsArgop4::OP_BACKCHANNEL_CTL(args)]).0, Nfsstat4::NFS4_OK);
        assert_eq!(mount.run(vec![]).1 & lost, 0);
    }
}

#[test]
fn a_status_flag_announces_the_expiry_of_the_backchannels_context() // RFC 8881 section 18.46.3
{
    let mut mount = BackchannelClient::new(INTEGRITY);
    mount.run(vec![]);
    let callback = mount.callback(INTEGRITY, &mount.record());
    let reply = mount.answer(&callback, INTEGRITY, 1, 1);
    mount.host.answer(reply);
    const STEP: Duration = Duration::from_secs(30);
    for step in 1..=LIFETIME.as_secs() / STEP.as_secs() {
        mount.host.advance(STEP);
        if step * STEP.as_secs() == LIFETIME.as_secs() {
            mount.client = Client::establish(&mut mount.host, ETYPE, "alice@TEST");
        }
        let left = LIFETIME.as_secs() - step * STEP.as_secs();
        let expected = match left {
            0 => SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED,
            1..=60 => SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING,
            _ => 0,
        };
        assert_eq!(mount.run(vec![]).1, expected, "{left} s left");
    }
}

#[test]
fn the_context_of_a_backchannel_stays_as_long_as_its_session() // RFC 8881 section 2.10.8.2
{
    let mut mount = BackchannelClient::create(|host, _| {
        let completed = Client::establish(host, ETYPE, "alice@TEST");
        vec![gss(PRIVACY, &completed.handle)]
    })
    .unwrap();
    let len = |mount: &BackchannelClient| mount.host.server.rpcsec().unwrap().contexts().len();
    Client::establish(&mut mount.host, ETYPE, "alice@TEST");
    assert_eq!(len(&mount), 3);
    // Idle contexts stay while the table has much room; now it has none.
    mount.host.server.rpcsec().unwrap().contexts().set_max(1);
    for _ in 0..20 {
        mount.host.advance(Duration::from_secs(30));
        (0..16).for_each(|_| mount.host.server.housekeeping());
        assert_eq!(mount.run(Vec::new()).0, Nfsstat4::NFS4_OK);
    }
    assert_eq!(len(&mount), 2, "the caller's and the backchannel's");
    // The lease expires, and with the session the contexts are no longer kept.
    for _ in 0..12 {
        mount.host.advance(Duration::from_secs(60));
        (0..16).for_each(|_| mount.host.server.housekeeping());
    }
    assert_eq!(len(&mount), 0);
}
