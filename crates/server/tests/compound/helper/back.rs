//! Clients with a backchannel, and the callbacks that they get.

use super::*;
use orthrus_server::callback::CallbackTransport;
use rpc::{Accepted, Message, OpaqueAuth, RECORD_MARK_LEN};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// A record, and the connection that it was sent on.
type SentRecord = (u64, Vec<u8>);

/// The records that the server has sent besides replies, until the test takes them.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    records: Arc<Mutex<Vec<SentRecord>>>,
    /// Whether every send fails.
    pub full: Arc<AtomicBool>,
}

impl CallbackTransport for Wire {
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        let sends = !self.full.load(Ordering::Relaxed);
        if sends {
            self.records.lock().unwrap().push((connection.0, record.split_at(RECORD_MARK_LEN).1.to_vec()));
        }
        sends
    }
}

/// One callback as it arrived.
#[derive(Debug)]
pub(crate) struct Callback {
    pub connection: u64,
    pub xid: u32,
    pub program: u32,
    /// Flavor and body of the credential.
    pub credential: (u32, Vec<u8>),
    pub args: CbCompound4Args<'static>,
}

impl Callback {
    pub(crate) fn sequence(&self) -> &CbSequence4Args {
        match self.args.argarray.first() {
            Some(NfsCbArgop4::OP_CB_SEQUENCE(sequence)) => sequence,
            other => panic!("{other:?} is not CB_SEQUENCE"),
        }
    }

    /// Returns slot and sequence ID.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.sequence().csa_slotid, self.sequence().csa_sequenceid)
    }

    /// Returns the operation behind CB_SEQUENCE, if there is one.
    pub(crate) fn operation(&self) -> Option<&NfsCbArgop4<'static>> {
        self.args.argarray.get(1)
    }
}

impl Wire {
    /// Connects a new wire to a server.
    pub(crate) fn under(server: &Server) -> Self {
        let wire = Self::default();
        server.nfs.connect_callbacks(Box::new(wire.clone()));
        wire
    }

    /// Returns the callbacks since the last call.
    pub(crate) fn take(&self) -> Vec<Callback> {
        let records = std::mem::take(&mut *self.records.lock().unwrap());
        records.into_iter().map(|(connection, record)| parse(connection, &record)).collect()
    }

    /// Returns the only callback since the last call.
    #[track_caller]
    pub(crate) fn one(&self) -> Callback {
        let mut all = self.take();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

fn parse(connection: u64, record: &[u8]) -> Callback {
    let Ok(Message::Call(header)) = Message::parse(record) else { panic!("no call: {record:02x?}") };
    assert_eq!((header.version, header.procedure), (NFS_CB, CB_COMPOUND));
    assert_eq!(header.verifier, OpaqueAuth::NONE);
    let mut decoder = Decoder::new(&record[header.arguments_at..]);
    let args = CbCompound4Args::decode(&mut decoder).unwrap().into_owned();
    decoder.finish().unwrap();
    let credential = (header.credential.flavor, header.credential.body.to_vec());
    Callback { connection, xid: header.xid, program: header.program, credential, args }
}

/// Encodes the answer to a callback: the status of CB_SEQUENCE, and of the operation behind it if
/// that has run.
pub(crate) fn answer(callback: &Callback, sequence: Nfsstat4, operation: Nfsstat4) -> Vec<u8> {
    let args = callback.sequence();
    let sequence = match sequence {
        Nfsstat4::NFS4_OK => CbSequence4Res::NFS4_OK(CbSequence4Resok {
            csr_sessionid: args.csa_sessionid,
            csr_sequenceid: args.csa_sequenceid,
            csr_slotid: args.csa_slotid,
            csr_highest_slotid: args.csa_highest_slotid,
            csr_target_highest_slotid: args.csa_highest_slotid,
        }),
        other => CbSequence4Res::Default(other),
    };
    let done = matches!(sequence, CbSequence4Res::NFS4_OK(_));
    let status = if done { operation } else { sequence.discriminant() };
    let mut resarray = vec![NfsCbResop4::OP_CB_SEQUENCE(sequence)];
    resarray.extend(callback.operation().filter(|_| done).map(|asked| result(asked, operation)));
    reply(callback, &CbCompound4Res { status, tag: b"".into(), resarray })
}

fn result(asked: &NfsCbArgop4<'_>, status: Nfsstat4) -> NfsCbResop4<'static> {
    match asked {
        NfsCbArgop4::OP_CB_RECALL(_) => NfsCbResop4::OP_CB_RECALL(CbRecall4Res { status }),
        NfsCbArgop4::OP_CB_RECALL_ANY(_) => {
            NfsCbResop4::OP_CB_RECALL_ANY(CbRecallAny4Res { crar_status: status })
        }
        NfsCbArgop4::OP_CB_GETATTR(_) => NfsCbResop4::OP_CB_GETATTR(CbGetattr4Res::Default(status)),
        NfsCbArgop4::OP_CB_NOTIFY_LOCK(_) => {
            NfsCbResop4::OP_CB_NOTIFY_LOCK(CbNotifyLock4Res { cnlr_status: status })
        }
        NfsCbArgop4::OP_CB_OFFLOAD(_) => NfsCbResop4::OP_CB_OFFLOAD(CbOffload4Res { cor_status: status }),
        other => panic!("{other:?} has no answer here"),
    }
}

/// Encodes a reply with these results.
pub(crate) fn reply(callback: &Callback, results: &CbCompound4Res<'_>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    Accepted::Success.encode(&mut encoder, callback.xid, &OpaqueAuth::NONE);
    results.encode(&mut encoder);
    encoder.into_vec()
}

/// Encodes the answer to a CB_GETATTR.
pub(crate) fn attributes_answer(callback: &Callback, values: AttributeValues<'_>) -> Vec<u8> {
    let record = answer(callback, Nfsstat4::NFS4_OK, Nfsstat4::NFS4_OK);
    let at = record.len() - 8;
    let mut encoder = Encoder::from_vec(record);
    encoder.truncate(at);
    let obj_attributes = fattr(values);
    encoder.value(&NfsCbResop4::OP_CB_GETATTR(CbGetattr4Res::NFS4_OK(CbGetattr4Resok { obj_attributes })));
    encoder.into_vec()
}

impl Server {
    /// Passes the server an answer to a callback, on the connection of the callback.
    #[track_caller]
    pub(crate) fn answer(&self, now: Duration, callback: &Callback, sequence: Nfsstat4, operation: Nfsstat4) {
        let record = answer(callback, sequence, operation);
        assert!(self.nfs.callback_reply(ConnectionId(callback.connection), &record, now));
    }

    /// Answers a CB_GETATTR on its connection.
    #[track_caller]
    pub(crate) fn answer_attributes(&self, now: Duration, callback: &Callback, values: AttributeValues<'_>) {
        let record = attributes_answer(callback, values);
        assert!(self.nfs.callback_reply(ConnectionId(callback.connection), &record, now));
    }

    /// Answers a callback with success.
    #[track_caller]
    pub(crate) fn answer_ok(&self, now: Duration, callback: &Callback) {
        self.answer(now, callback, Nfsstat4::NFS4_OK, Nfsstat4::NFS4_OK);
    }
}

impl<'s> Client<'s> {
    /// Makes a client whose first connection carries callbacks, authenticated by `security`; not
    /// yet probed.
    pub(crate) fn called_back(
        server: &'s Server,
        owner: &[u8],
        connection: u64,
        security: Vec<CallbackSecParms4<'static>>,
    ) -> Self {
        let mut client = Self::create(server, owner, sys(ALICE), connection, |id, sequence| {
            let flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
            let args = create_session_args(id, sequence, FORE);
            let args = CreateSession4Args { csa_flags: flags, csa_sec_parms: security, ..args };
            NfsArgop4::OP_CREATE_SESSION(args)
        });
        client.connection = connection;
        client
    }

    /// Makes a client with a backchannel by AUTH_NONE whose probe is answered.
    pub(crate) fn delegated(server: &'s Server, wire: &Wire, owner: &[u8], connection: u64) -> Self {
        let mut client = Self::called_back(server, owner, connection, vec![CallbackSecParms4::AUTH_NONE]);
        client.run(vec![reclaim_complete()]).ok();
        server.answer_ok(client.now, &wire.one());
        client
    }

    /// Sends BIND_CONN_TO_SESSION for both channels over a connection.
    pub(crate) fn bind(&self, connection: u64) {
        let bind = NfsArgop4::OP_BIND_CONN_TO_SESSION(BindConnToSession4Args {
            bctsa_sessid: self.session,
            bctsa_dir: ChannelDirFromClient4::CDFC4_BACK_OR_BOTH,
            bctsa_use_conn_in_rdma_mode: false,
        });
        self.server.call(&self.security, connection, self.now, self.minor, &[bind]).ok();
    }

    /// Returns sr_status_flags of a COMPOUND with SEQUENCE alone.
    pub(crate) fn status_flags(&mut self) -> u32 {
        match self.run(vec![]).ok().last() {
            NfsResop4::OP_SEQUENCE(Sequence4Res::NFS4_OK(ok)) => ok.sr_status_flags,
            other => panic!("{other:?}"),
        }
    }
}
