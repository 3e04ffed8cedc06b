//! A server that follows the script of a test.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nfs4::*;
use orthrus_client::{Client, Options, RawConnection, Security};
use rpc::{Accepted, Message, MsgType, OpaqueAuth, RPC_VERS, ReplyHeader, record_mark};
use xdr::{Decode as _, Decoder, Encode as _, Encoder};

/// The session ID that every client of a peer receives.
pub(crate) const SESSION: [u8; 16] = [0x5e; 16];

/// A COMPOUND that a peer has received, and the number of its connection.
pub(crate) type SeenRequest = (usize, Compound4Args<'static>);

/// The reaction of a peer to a COMPOUND.
pub(crate) enum Answer {
    /// Answers as a server does.
    Normal,
    /// Answers SEQUENCE with this error.
    Refuse(Nfsstat4),
    /// Does so in one write with the next answer.
    RefuseTogether(Nfsstat4),
    /// Sends no answer at all.
    Silence,
    /// Closes the connection at once.
    Close,
    /// Executes the COMPOUND, and closes the connection instead of sending the answer.
    ExecuteAndClose,
    /// Sends the normal answer after this time.
    Late(Duration),
    /// Sends the normal answer, with this target in the result of SEQUENCE.
    Target(u32),
    /// Sends a callback with the XID of the call, and the normal answer after it.
    CallBack,
}

type PeerScript = Box<dyn FnMut(&SeenRequest) -> Answer + Send>;

/// A listening server with a script.
pub(crate) struct Peer {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<SeenRequest>>>,
    /// The number of replies to callbacks.
    pub replies: Arc<AtomicUsize>,
}

impl Peer {
    /// Starts a peer that answers by `script`.
    pub(crate) fn start(script: impl FnMut(&SeenRequest) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<PeerScript>> = Arc::new(Mutex::new(Box::new(script)));
        let log = seen.clone();
        let replies = Arc::new(AtomicUsize::new(0));
        let counter = replies.clone();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let connection = RawConnection::from_stream(stream, 4 << 20);
                let (script, log, counter) = (script.clone(), log.clone(), counter.clone());
                thread::spawn(move || serve(number, connection, &script, &log, &counter));
            }
        });
        Self { address, seen, replies }
    }

    /// Returns options for a client of this peer, with a short backoff.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new("127.0.0.1", Security::sys_as(1000, 1000)).port(self.address.port());
        options.backoff = Duration::from_millis(5);
        options.call_timeout = Duration::from_secs(20);
        options
    }

    /// Connects a client to this peer.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.options()).expect("the peer makes a session")
    }

    /// Returns the SEQUENCE arguments of COMPOUNDs with `operation`, with the connection's number.
    pub(crate) fn sequences_with(&self, operation: NfsOpnum4) -> Vec<(usize, Sequence4Args)> {
        let seen = self.seen.lock().expect("no test panicked with it");
        let has =
            |compound: &Compound4Args<'_>| compound.argarray.iter().any(|op| op.discriminant() == operation);
        let found = seen.iter().filter(|(_, compound)| has(compound));
        found.filter_map(|(connection, compound)| Some((*connection, sequence_of(compound)?))).collect()
    }
}

/// Returns the SEQUENCE of a COMPOUND, if it has one.
pub(crate) fn sequence_of(compound: &Compound4Args<'_>) -> Option<Sequence4Args> {
    match compound.argarray.first() {
        Some(NfsArgop4::OP_SEQUENCE(sequence)) => Some(*sequence),
        _ => None,
    }
}

/// Returns whether the COMPOUND has the operation.
pub(crate) fn has(seen: &SeenRequest, operation: NfsOpnum4) -> bool {
    seen.1.argarray.iter().any(|op| op.discriminant() == operation)
}

fn serve(
    number: usize,
    mut connection: RawConnection,
    script: &Mutex<PeerScript>,
    log: &Mutex<Vec<SeenRequest>>,
    replies: &AtomicUsize,
) {
    let mut unsent = Vec::new();
    while let Ok(Some(record)) = connection.receive_record(Duration::from_secs(60)) {
        let Ok(Message::Call(call)) = Message::parse(&record) else {
            let reply = ReplyHeader::parse(&record).expect("the client encodes soundly");
            assert!(matches!(reply, ReplyHeader::Accepted { status: Accepted::Success, .. }), "{reply:?}");
            replies.fetch_add(1, Ordering::SeqCst);
            continue;
        };
        let mut decoder = Decoder::new(&record[call.arguments_at..]);
        let compound = Compound4Args::decode(&mut decoder).expect("the client encodes soundly").into_owned();
        decoder.finish().expect("nothing follows");
        let seen = (number, compound);
        let answer = script.lock().expect("the script does not panic")(&seen);
        log.lock().expect("no test panicked with it").push(seen.clone());
        let together = matches!(answer, Answer::RefuseTogether(_));
        let results = match answer {
            Answer::Normal => normal(&seen.1, 63),
            Answer::Target(target) => normal(&seen.1, target),
            Answer::CallBack => {
                connection.send_record(&callback(call.xid)).expect("the client reads");
                normal(&seen.1, 63)
            }
            Answer::Late(time) => {
                thread::sleep(time);
                normal(&seen.1, 63)
            }
            Answer::Refuse(status) | Answer::RefuseTogether(status) => refused(status),
            Answer::Silence => continue,
            Answer::Close | Answer::ExecuteAndClose => return,
        };
        let mut reply = Encoder::new();
        Accepted::Success.encode(&mut reply, call.xid, &OpaqueAuth::NONE);
        results.encode(&mut reply);
        unsent.extend_from_slice(&record_mark(reply.len()));
        unsent.extend_from_slice(reply.as_slice());
        if !together && connection.send_bytes(&std::mem::take(&mut unsent)).is_err() {
            return;
        }
    }
}

/// Returns a CB_NULL call.
fn callback(xid: u32) -> Vec<u8> {
    let mut encoder = Encoder::new();
    for word in [xid, MsgType::CALL as u32, RPC_VERS, NFS4_CALLBACK, NFS_CB, CB_NULL] {
        encoder.u32(word);
    }
    OpaqueAuth::NONE.encode(&mut encoder);
    OpaqueAuth::NONE.encode(&mut encoder);
    encoder.into_vec()
}

fn refused(status: Nfsstat4) -> Compound4Res<'static> {
    let resarray = vec![NfsResop4::OP_SEQUENCE(Sequence4Res::Default(status))];
    Compound4Res { status, tag: Default::default(), resarray }
}

/// Returns the answers of a server on which every operation succeeds.
fn normal(compound: &Compound4Args<'_>, target: u32) -> Compound4Res<'static> {
    let status = Nfsstat4::NFS4_OK;
    let answer = |operation: &NfsArgop4<'_>| match operation {
        NfsArgop4::OP_SEQUENCE(sequence) => NfsResop4::OP_SEQUENCE(Sequence4Res::NFS4_OK(Sequence4Resok {
            sr_sessionid: sequence.sa_sessionid,
            sr_sequenceid: sequence.sa_sequenceid,
            sr_slotid: sequence.sa_slotid,
            sr_highest_slotid: 63,
            sr_target_highest_slotid: target,
            sr_status_flags: 0,
        })),
        NfsArgop4::OP_EXCHANGE_ID(exchange) => exchange_id(exchange),
        NfsArgop4::OP_CREATE_SESSION(create) => create_session(create),
        NfsArgop4::OP_BIND_CONN_TO_SESSION(bind) => {
            NfsResop4::OP_BIND_CONN_TO_SESSION(BindConnToSession4Res::NFS4_OK(BindConnToSession4Resok {
                bctsr_sessid: bind.bctsa_sessid,
                bctsr_dir: ChannelDirFromServer4::CDFS4_FORE,
                bctsr_use_conn_in_rdma_mode: false,
            }))
        }
        NfsArgop4::OP_RECLAIM_COMPLETE(_) => {
            NfsResop4::OP_RECLAIM_COMPLETE(ReclaimComplete4Res { rcr_status: status })
        }
        NfsArgop4::OP_DESTROY_SESSION(_) => {
            NfsResop4::OP_DESTROY_SESSION(DestroySession4Res { dsr_status: status })
        }
        NfsArgop4::OP_DESTROY_CLIENTID(_) => {
            NfsResop4::OP_DESTROY_CLIENTID(DestroyClientid4Res { dcr_status: status })
        }
        NfsArgop4::OP_PUTFH(_) => NfsResop4::OP_PUTFH(Putfh4Res { status }),
        NfsArgop4::OP_PUTROOTFH => NfsResop4::OP_PUTROOTFH(Putrootfh4Res { status }),
        NfsArgop4::OP_READ(read) => {
            let data = vec![read.offset as u8; read.count as usize].into();
            NfsResop4::OP_READ(Read4Res::NFS4_OK(Read4Resok { eof: false, data }))
        }
        NfsArgop4::OP_REMOVE(_) => {
            let cinfo = ChangeInfo4 { atomic: true, before: 1, after: 2 };
            NfsResop4::OP_REMOVE(Remove4Res::NFS4_OK(Remove4Resok { cinfo }))
        }
        other => panic!("the peer does not know {}", other.discriminant()),
    };
    Compound4Res { status, tag: Default::default(), resarray: compound.argarray.iter().map(answer).collect() }
}

fn exchange_id(exchange: &ExchangeId4Args<'_>) -> NfsResop4<'static> {
    let protect = match &exchange.eia_state_protect {
        StateProtect4A::SP4_MACH_CRED(operations) => StateProtect4R::SP4_MACH_CRED(*operations),
        _ => StateProtect4R::SP4_NONE,
    };
    NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(ExchangeId4Resok {
        eir_clientid: 77,
        eir_sequenceid: 1,
        eir_flags: EXCHGID4_FLAG_USE_NON_PNFS,
        eir_state_protect: protect,
        eir_server_owner: ServerOwner4 { so_minor_id: 0, so_major_id: b"peer"[..].into() },
        eir_server_scope: b"peer"[..].into(),
        eir_server_impl_id: Vec::new(),
    }))
}

fn create_session(create: &CreateSession4Args<'_>) -> NfsResop4<'static> {
    NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(CreateSession4Resok {
        csr_sessionid: SESSION,
        csr_sequence: create.csa_sequence,
        csr_flags: 0,
        csr_fore_chan_attrs: create.csa_fore_chan_attrs.clone(),
        csr_back_chan_attrs: create.csa_back_chan_attrs.clone(),
    }))
}
