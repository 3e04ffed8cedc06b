//! A server on the memory backend, a client with a session, and whole COMPOUNDs in and out.

mod back;
mod client40;
mod ops;
mod pair;
mod slow;

pub(crate) use back::*;
pub(crate) use client40::*;
pub(crate) use ops::*;
pub(crate) use pair::*;
pub(crate) use slow::Slow;

use identity::{IdentitySource, Mapper, Rules, StaticSource};
use nfs4::*;
use orthrus_server::dispatch::Environment;
use orthrus_server::engine::{Call, ClientRecords, CompoundOutcome, Nfs, NfsConfig, NoRecords, Start};
use orthrus_server::security::Security;
use rpc::ConnectionId;
use runtime::Builder;
use state::{Boot, PriorClient};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use vfs::{
    Backend, Caller, Export, ExportTable, Exports, MemoryBackend, MemoryLimits, RuleClient, SecFlavor,
    SetAttributes, Timestamp,
};
use xdr::{Decode, Decoder, Encode, Encoder};

pub(crate) type Op = NfsArgop4<'static>;
pub(crate) type Res = NfsResop4<'static>;

pub(crate) const ALICE: u32 = 1000;
pub(crate) const BOB: u32 = 1001;

/// The parameters of a server under test.
pub(crate) struct Setup {
    pub config: NfsConfig,
    pub exports: Vec<Export>,
    pub records: Box<dyn ClientRecords>,
    pub prior_clients: Vec<PriorClient>,
    pub epoch: u32,
    pub mapper: Mapper,
}

fn mapper(source: impl IdentitySource + 'static) -> Mapper {
    Mapper::new(Rules::new("example.org", "EXAMPLE.ORG"), source)
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: NfsConfig::default(),
            exports: vec![export("/export", &memory())],
            records: Box::new(NoRecords),
            prior_clients: Vec::new(),
            epoch: 1,
            mapper: mapper(
                StaticSource::default().with_user("alice", ALICE, ALICE, &[]).with_group("alice", ALICE),
            ),
        }
    }
}

/// A memory backend with write permission on its root for all.
pub(crate) fn memory() -> Arc<MemoryBackend> {
    let backend = MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap();
    let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    backend.setattr(&Caller::root(), &backend.root(), &set).unwrap();
    Arc::new(backend)
}

/// An export with all flavors. The clients of these tests have privileged ports.
pub(crate) fn export(path: &str, backend: &Arc<MemoryBackend>) -> Export {
    all_flavors(Export::new(path, backend.clone()).unwrap())
}

/// Changes the terms of an export.
pub(crate) fn on_terms(mut export: Export, change: impl Fn(&mut vfs::ExportRule)) -> Export {
    export.rules.iter_mut().for_each(change);
    export
}

/// Opens an export to these flavors.
pub(crate) fn for_flavors(export: Export, flavors: &[SecFlavor]) -> Export {
    on_terms(export, |rule| rule.flavors = flavors.to_vec())
}

/// Opens an export to every flavor.
pub(crate) fn all_flavors(export: Export) -> Export {
    for_flavors(export, &SecFlavor::ALL)
}

/// Opens an export to a network alone.
pub(crate) fn for_network(export: Export, network: &str) -> Export {
    on_terms(export, |rule| rule.clients = vec![RuleClient::Network(network.parse().unwrap())])
}

impl Setup {
    pub(crate) fn with_exports(exports: Vec<Export>) -> Self {
        Self { exports, ..Self::default() }
    }

    /// Sets the source of names.
    pub(crate) fn names(self, source: impl IdentitySource + 'static) -> Self {
        Self { mapper: mapper(source), ..self }
    }

    pub(crate) fn start(self) -> Server {
        let table = ExportTable::new(self.exports, Timestamp { seconds: 1000, nanoseconds: 0 }).unwrap();
        let boot = Boot {
            epoch: self.epoch,
            hash_key: [7; 16],
            principal_key: [3; 16],
            prior_clients: self.prior_clients,
        };
        let start = Start { boot, write_verifier: *b"verifier", filehandle_key: [9; 16] };
        let counter = AtomicU64::new(1);
        let random = move |bytes: &mut [u8]| {
            let number = counter.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bytes.iter_mut().zip(number.to_ne_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
        };
        let environment =
            Environment { clock: Box::new(|| Duration::from_secs(100)), random: Box::new(random) };
        let (exports, mapper) = (Arc::new(Exports::new(table)), Arc::new(self.mapper));
        let builder = Builder::new(exports.clone(), start, environment).config(self.config);
        let nfs = builder.identity(mapper.clone()).records(self.records).engine();
        let peer = SocketAddr::from(([192, 0, 2, 1], 800)).into();
        Server { nfs, exports, xid: AtomicU32::new(1), peer, mapper }
    }
}

pub(crate) struct Server {
    pub nfs: Nfs,
    /// The exports, which a test may replace.
    pub exports: Arc<Exports>,
    /// The XID of the next call.
    pub xid: AtomicU32,
    /// The source address of calls.
    pub peer: Mutex<SocketAddr>,
    pub mapper: Arc<Mapper>,
}

/// A COMPOUND's reply, and its outcome in the engine.
pub(crate) struct Reply {
    pub status: Nfsstat4,
    pub results: Vec<Res>,
    pub bytes: Vec<u8>,
    pub outcome: CompoundOutcome,
}

impl Reply {
    /// Returns the result of the last operation that ran.
    pub(crate) fn last(&self) -> &Res {
        self.results.last().expect("a result")
    }

    /// Returns the filehandle of the `index`th GETFH.
    pub(crate) fn fh(&self, index: usize) -> Vec<u8> {
        let mut all = self.results.iter().filter_map(|result| match result {
            NfsResop4::OP_GETFH(Getfh4Res::NFS4_OK(ok)) => Some(ok.object.to_vec()),
            _ => None,
        });
        all.nth(index).expect("a filehandle")
    }

    pub(crate) fn opened(&self) -> &Open4Resok<'static> {
        let mut opens = self.results.iter().filter_map(|result| match result {
            NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => Some(ok),
            _ => None,
        });
        opens.next().unwrap_or_else(|| panic!("no OPEN in {:?}", self.results))
    }

    pub(crate) fn attributes(&self) -> AttributeValues<'_> {
        let fattr = self.results.iter().rev().find_map(|result| match result {
            NfsResop4::OP_GETATTR(Getattr4Res::NFS4_OK(ok)) => Some(&ok.obj_attributes),
            _ => None,
        });
        decode_fattr4(fattr.expect("a GETATTR"), Purpose::Learn, &attributes::KNOWN).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: Nfsstat4) -> Self {
        assert_eq!(self.status, status, "{:?}", self.results);
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.expect(Nfsstat4::NFS4_OK)
    }
}

pub(crate) fn sys(uid: u32) -> Security {
    Security::sys(Caller { uid, gid: uid, groups: [].into() })
}

pub(crate) fn krb5(flavor: SecFlavor, name: &str, uid: u32) -> Security {
    let caller = Caller { uid, gid: uid, groups: [].into() };
    Security::gss(flavor, format!("{name}@EXAMPLE.ORG").into(), false, Some(caller), 77)
}

impl Server {
    pub(crate) fn call_bytes(
        &self,
        security: &Security,
        connection: u64,
        now: Duration,
        args: &[u8],
    ) -> Reply {
        self.call_with_overhead(security, connection, now, args, 0)
    }

    pub(crate) fn call_with_overhead(
        &self,
        security: &Security,
        connection: u64,
        now: Duration,
        args: &[u8],
        reply_overhead: usize,
    ) -> Reply {
        let attached = std::cell::RefCell::new(None);
        let call = Call {
            connection: ConnectionId(connection),
            peer: *self.peer.lock().unwrap(),
            xid: self.xid.fetch_add(1, Ordering::Relaxed),
            security,
            args,
            request_size: args.len() + 100,
            reply_overhead,
            attached: Some(&attached),
            operation: &AtomicU32::new(0),
            counters: &orthrus_server::metrics::ServedCounters::unread(),
            pause: None,
            now,
        };
        let mut reply = Encoder::from_vec(vec![0xaa; 28]);
        let outcome = self.nfs.compound(&call, &mut reply);
        let record = reply.into_vec();
        let mut record = match attached.take() {
            Some(data) => data.insert_into(record).expect("the file is there"),
            None => record,
        };
        let bytes = record.split_off(28);
        let mut decoder = Decoder::new(&bytes);
        let decoded = Compound4Res::decode(&mut decoder)
            .unwrap_or_else(|error| panic!("{error}: {outcome:?} {bytes:02x?}"))
            .into_owned();
        decoder.finish().expect("no bytes behind the reply");
        check_statuses(minor_of(args), &decoded);
        let (status, results) = (decoded.status, decoded.resarray);
        Reply { status, results, bytes, outcome }
    }

    pub(crate) fn call(
        &self,
        security: &Security,
        connection: u64,
        now: Duration,
        minor: u32,
        ops: &[Op],
    ) -> Reply {
        self.call_bytes(security, connection, now, &encode(minor, ops))
    }
}

/// Returns the minor version of COMPOUND4args.
fn minor_of(args: &[u8]) -> u32 {
    let mut args = Decoder::new(args);
    args.opaque(1024).and_then(|_| args.u32()).unwrap_or(1)
}

/// Checks every reply of every test against RFC 8881 section 15.2, and of NFSv4.0 against RFC 7530
/// section 13.2. NFS4ERR_WRONG_CRED may come from each operation that state protection covers (RFC
/// 8881 section 2.10.8.3).
fn check_statuses(minor: u32, reply: &Compound4Res<'_>) {
    let valid = if minor == 0 { valid_error_40 } else { valid_error };
    for result in &reply.resarray {
        let mut encoder = Encoder::new();
        result.encode(&mut encoder);
        let mut decoder = Decoder::new(encoder.as_slice());
        let opnum = NfsOpnum4::from_u32(decoder.u32().unwrap()).unwrap();
        let status = Nfsstat4::from_u32(decoder.u32().unwrap()).unwrap();
        let demanded = minor > 0
            && status == Nfsstat4::NFS4ERR_WRONG_CRED
            && state::MUST_ENFORCE_SUPPORTED.contains(opnum as u32);
        assert!(valid(opnum, status) || demanded, "{opnum} answers {status}");
    }
}

pub(crate) fn encode(minor: u32, ops: &[Op]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.opaque(b"tag").u32(minor).array(ops);
    encoder.into_vec()
}

/// A client with one session that uses slot 0.
pub(crate) struct Client<'s> {
    pub server: &'s Server,
    pub security: Security,
    pub connection: u64,
    pub now: Duration,
    pub minor: u32,
    pub clientid: Clientid4,
    pub session: Sessionid4,
    pub sequence: u32,
    pub cache_this: bool,
    pub fore: ChannelAttrs4,
}

pub(crate) const FORE: ChannelAttrs4 = ChannelAttrs4 {
    ca_headerpadsize: 0,
    ca_maxrequestsize: 1 << 20,
    ca_maxresponsesize: 1 << 20,
    ca_maxresponsesize_cached: 4096,
    ca_maxoperations: 64,
    ca_maxrequests: 16,
    ca_rdma_ird: Vec::new(),
};

pub(crate) fn exchange_id(owner: &[u8], protect: StateProtect4A<'static>) -> Op {
    NfsArgop4::OP_EXCHANGE_ID(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: owner.to_vec().into() },
        eia_flags: 0,
        eia_state_protect: protect,
        eia_client_impl_id: Vec::new(),
    })
}

pub(crate) fn create_session(clientid: Clientid4, sequence: u32, fore: ChannelAttrs4) -> Op {
    NfsArgop4::OP_CREATE_SESSION(create_session_args(clientid, sequence, fore))
}

fn create_session_args(
    clientid: Clientid4,
    sequence: u32,
    fore: ChannelAttrs4,
) -> CreateSession4Args<'static> {
    CreateSession4Args {
        csa_clientid: clientid,
        csa_sequence: sequence,
        csa_flags: 0,
        csa_fore_chan_attrs: fore,
        csa_back_chan_attrs: FORE,
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: vec![CallbackSecParms4::AUTH_NONE],
    }
}

impl<'s> Client<'s> {
    /// Makes a client of alice's by AUTH_SYS that has completed its reclaims.
    pub(crate) fn new(server: &'s Server) -> Self {
        Self::with(server, b"client", sys(ALICE), FORE)
    }

    pub(crate) fn with(server: &'s Server, owner: &[u8], security: Security, fore: ChannelAttrs4) -> Self {
        let mut client = Self::without_reclaim_complete(server, owner, security, fore);
        client.run(vec![reclaim_complete()]).ok();
        client
    }

    pub(crate) fn without_reclaim_complete(
        server: &'s Server,
        owner: &[u8],
        security: Security,
        fore: ChannelAttrs4,
    ) -> Self {
        Self::create(server, owner, security, 1, |id, sequence| create_session(id, sequence, fore))
    }

    /// Sends EXCHANGE_ID, and the CREATE_SESSION that `create` makes.
    fn create(
        server: &'s Server,
        owner: &[u8],
        security: Security,
        connection: u64,
        create: impl FnOnce(Clientid4, u32) -> Op,
    ) -> Self {
        let now = Duration::from_secs(100);
        let reply =
            server.call(&security, connection, now, 1, &[exchange_id(owner, StateProtect4A::SP4_NONE)]).ok();
        let NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(id)) = reply.last() else {
            panic!("{:?}", reply.results)
        };
        let (clientid, sequence) = (id.eir_clientid, id.eir_sequenceid);
        let reply = server.call(&security, connection, now, 1, &[create(clientid, sequence)]).ok();
        let NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(ok)) = reply.last() else {
            panic!("{:?}", reply.results)
        };
        Self {
            server,
            security,
            connection,
            now,
            minor: 1,
            clientid,
            session: ok.csr_sessionid,
            sequence: 0,
            cache_this: false,
            fore: ok.csr_fore_chan_attrs.clone(),
        }
    }

    /// Returns the SEQUENCE of the next call.
    pub(crate) fn next_sequence(&mut self) -> Op {
        self.sequence += 1;
        self.sequence_again()
    }

    pub(crate) fn sequence_again(&self) -> Op {
        NfsArgop4::OP_SEQUENCE(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: self.sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: self.cache_this,
        })
    }

    /// Runs operations behind a SEQUENCE.
    pub(crate) fn run(&mut self, ops: Vec<Op>) -> Reply {
        let mut all = vec![self.next_sequence()];
        all.extend(ops);
        self.server.call(&self.security, self.connection, self.now, self.minor, &all)
    }

    /// Runs operations behind SEQUENCE, PUTROOTFH and LOOKUPs to a path such as "export/a".
    pub(crate) fn at(&mut self, path: &str, ops: Vec<Op>) -> Reply {
        let mut all = vec![put_root()];
        all.extend(path.split('/').filter(|name| !name.is_empty()).map(lookup));
        all.extend(ops);
        self.run(all)
    }

    pub(crate) fn fh_of(&mut self, path: &str) -> Vec<u8> {
        self.at(path, vec![getfh()]).ok().fh(0)
    }

    /// Creates a file with data and closes it. Returns its filehandle.
    pub(crate) fn make_file(&mut self, directory: &str, name: &str, data: &[u8]) -> Vec<u8> {
        let reply = self.at(directory, vec![open_create(name, 3), getfh()]).ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        self.run(vec![put(&fh), write(stateid, 0, data), close(stateid)]).ok();
        fh
    }

    pub(crate) fn make_directory(&mut self, directory: &str, name: &str) -> Vec<u8> {
        self.at(directory, vec![mkdir(name), getfh()]).ok().fh(0)
    }
}
