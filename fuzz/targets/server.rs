//! A whole server with a file system in memory, a client with a session, and input that is no call.
//!
//! An input is a sequence of steps: kind, claimed number of operations, length, bytes. Every reply
//! must decode, must contain only errors that RFC 8881 section 15.2 allows for its operations, and
//! must stay within the limits of the session and the server.
#![no_main]

use identity::{Mapper, Rules, StaticSource};
use libfuzzer_sys::fuzz_target;
use nfs4::{NfsOpnum4, NfsResop4, Nfsstat4, valid_error};
use orthrus_fuzz::peak_of;
use rpc::{Accepted, AuthSys, CallHeader, ConnectionId, OpaqueAuth, ReplyHeader};
use runtime::Builder;
use server::dispatch::{Action, Environment, Scratch, Server};
use server::engine::{Nfs, NfsConfig, Start};
use state::Boot;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vfs::{
    Export, ExportRule, ExportTable, Exports, MemoryBackend, MemoryLimits, SecFlavor, Squash, Timestamp,
};
use xdr::{Decode, Decoder, Encode, Encoder};

const CONNECTION: ConnectionId = ConnectionId(1);
/// ca_maxresponsesize of the session: READ and READDIR have to be cut to it.
const RESPONSE_MAX: usize = 16 * 1024;
/// Memory that a call may take besides its record and reply. It includes growth of the server's
/// state.
const MEMORY_MAX: usize = 1 << 20;
const STEPS_MAX: usize = 12;

fuzz_target!(|data: &[u8]| {
    let mut client = FuzzClient::new();
    let mut rest = data;
    for _ in 0..STEPS_MAX {
        let Some(([kind, count, high, low], behind)) = rest.split_first_chunk::<4>() else { break };
        let len = behind.len().min(usize::from(u16::from_be_bytes([*high, *low])));
        let (bytes, later) = behind.split_at(len);
        rest = later;
        client.step(*kind, u32::from(*count), bytes);
    }
});

struct FuzzClient {
    server: Server<Nfs>,
    scratch: Scratch,
    xid: u32,
    uid: u32,
    session: [u8; 16],
    sequence: u32,
}

fn server() -> Server<Nfs> {
    let files =
        MemoryBackend::new(MemoryLimits { bytes_max: 1 << 18, objects_max: 100 }, [7; 16]).expect("room");
    let files = Arc::new(files);
    let export = |path, rule| Export::new(path, files.clone()).expect("a path").with_rule(rule);
    let terms = || ExportRule { flavors: SecFlavor::ALL.to_vec(), secure: false, ..ExportRule::default() };
    let exports = vec![
        export("/data", ExportRule { squash: Squash::None, ..terms() }),
        export("/a/read-only", ExportRule { read_only: true, ..terms() }),
    ];
    let exports = ExportTable::new(exports, Timestamp::default()).expect("two exports");
    let source = StaticSource::default().with_user("alice", 1000, 1000, &[]).with_group("users", 1000);
    let identity = Arc::new(Mapper::new(Rules::default(), source));
    let start = Start {
        boot: Boot { epoch: 7, hash_key: [1; 16], principal_key: [2; 16], prior_clients: Vec::new() },
        write_verifier: [2; 8],
        filehandle_key: [3; 16],
    };
    let numbers = AtomicU64::new(1);
    let random = move |bytes: &mut [u8]| {
        let number = numbers.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed).to_ne_bytes();
        bytes.iter_mut().zip(number.iter().cycle()).for_each(|(to, from)| *to = *from);
    };
    let environment = Environment { clock: Box::new(|| Duration::from_secs(5)), random: Box::new(random) };
    // NFSv4.0 has other errors and no session limits. `v40/random.rs` in the server's tests covers
    // it.
    let config = NfsConfig { nfs40: false, ..NfsConfig::default() };
    let builder = Builder::new(Arc::new(Exports::new(exports)), start, environment);
    builder.config(config).identity(identity).server()
}

impl FuzzClient {
    /// Makes a server and a session with it.
    fn new() -> Self {
        let (server, scratch) = (server(), Scratch::new());
        let mut client = Self { server, scratch, xid: 0, uid: 0, session: [0; 16], sequence: 0 };
        let mut exchange_id = Encoder::new();
        exchange_id.u32(NfsOpnum4::OP_EXCHANGE_ID as u32).raw(b"verifier").opaque(b"client");
        exchange_id.u32(0).u32(0).u32(0);
        let reply = client.compound(1, 1, exchange_id.as_slice()).expect("a reply");
        // eir_clientid, eir_sequenceid
        let id: [u8; 12] = reply[20..32].try_into().expect("a client id");

        let mut create_session = Encoder::new();
        create_session.u32(NfsOpnum4::OP_CREATE_SESSION as u32).raw(&id).u32(0);
        for slots in [8, 1] {
            let max = RESPONSE_MAX as u32;
            create_session.u32(0).u32(max).u32(max).u32(1024).u32(32).u32(slots).u32(0);
        }
        create_session.u32(0).u32(1).u32(0);
        let reply = client.compound(1, 1, create_session.as_slice()).expect("a reply");
        assert_eq!(reply[..4], [0; 4], "{reply:?}");
        client.session.copy_from_slice(&reply[20..36]);

        let mut reclaim_complete = Encoder::new();
        reclaim_complete.u32(NfsOpnum4::OP_RECLAIM_COMPLETE as u32).u32(0);
        client.in_session(1, 1, reclaim_complete.as_slice(), 0);
        client
    }

    fn step(&mut self, kind: u8, count: u32, bytes: &[u8]) {
        let minor = 1 + u32::from(kind >> 7);
        self.uid = if kind & 8 == 0 { 0 } else { 1000 };
        let mut prefixed = Encoder::new();
        let before = prefix(kind & 7, &mut prefixed);
        prefixed.raw(bytes);
        match kind >> 4 & 7 {
            0 => drop(self.record(bytes.to_vec())),
            1 => drop(self.compound(minor, count, bytes)),
            // A retry, which may differ from the request that it repeats.
            2 => {
                self.sequence = self.sequence.wrapping_sub(1);
                self.in_session(minor, before + count, prefixed.as_slice(), 1);
            }
            3 => self.in_session(minor, before + count, prefixed.as_slice(), 1),
            _ => self.in_session(minor, before + count, prefixed.as_slice(), 0),
        }
    }

    /// Sends operations behind a SEQUENCE that is right.
    fn in_session(&mut self, minor: u32, count: u32, operations: &[u8], cache: u32) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut ops = Encoder::new();
        ops.u32(NfsOpnum4::OP_SEQUENCE as u32).raw(&self.session).u32(self.sequence).u32(0).u32(0).u32(cache);
        ops.raw(operations);
        self.compound(minor, count + 1, ops.as_slice());
    }

    /// Sends a COMPOUND and returns COMPOUND4res.
    fn compound(&mut self, minor: u32, count: u32, operations: &[u8]) -> Option<Vec<u8>> {
        self.xid += 1;
        let mut credential = Encoder::new();
        AuthSys::new(0, b"host", self.uid, self.uid, &[4]).encode(&mut credential);
        let mut call = Encoder::new();
        let credential = OpaqueAuth::sys(credential.as_slice());
        CallHeader::encode_signed(&mut call, self.xid, (100_003, 4, 1), &credential);
        OpaqueAuth::NONE.encode(&mut call);
        call.opaque(b"").u32(minor).u32(count).raw(operations);
        let reply = self.record(call.into_vec())?;
        let header = ReplyHeader::parse(reply.get(4..)?).expect("a reply");
        assert_eq!(header.xid(), self.xid);
        let ReplyHeader::Accepted { status: Accepted::Success, results_at, .. } = header else { return None };
        let results = &reply[4 + results_at..];
        check_results(results);
        Some(results.to_vec())
    }

    fn record(&mut self, record: Vec<u8>) -> Option<Vec<u8>> {
        let (mut answer, sent) = (None, record.len());
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 700));
        let (server, scratch) = (&self.server, &mut self.scratch);
        let ((), peak) = peak_of(|| {
            server.tick(
                scratch,
                [(CONNECTION, peer, record)],
                &mut |connection: ConnectionId, action: Action| {
                    assert_eq!(connection, CONNECTION);
                    if let Action::Send(reply) = action {
                        assert!(answer.replace(reply).is_none(), "two replies to one call");
                    }
                },
            );
        });
        let received = answer.as_ref().map_or(0, Vec::len);
        assert!(received <= RESPONSE_MAX + 4, "a reply of {received} bytes");
        assert!(peak <= MEMORY_MAX + 8 * sent, "{sent} bytes sent took {peak} bytes of memory");
        answer
    }
}

/// Puts operations first that lead somewhere, and returns how many.
fn prefix(way: u8, ops: &mut Encoder) -> u32 {
    let lookup = |ops: &mut Encoder, name: &[u8]| {
        ops.u32(NfsOpnum4::OP_LOOKUP as u32).opaque(name);
    };
    if way == 0 {
        return 0;
    }
    ops.u32(NfsOpnum4::OP_PUTROOTFH as u32);
    if way == 1 {
        return 1;
    }
    lookup(ops, if way == 2 { b"a" } else { b"data" });
    if way <= 3 {
        return 2;
    }
    // OPEN that creates a missing file; later operations may use the current stateid.
    ops.u32(NfsOpnum4::OP_OPEN as u32).u32(0).u32(u32::from(way & 3).max(1)).u32(0);
    ops.u32(0).u32(0).opaque(b"owner").u32(1).u32(0).u32(0).u32(0).u32(0).opaque(b"file");
    3
}

/// Reads COMPOUND4res: only the last operation may have failed, with an error that it may answer.
fn check_results(results: &[u8]) {
    let mut decoder = Decoder::new(results);
    let status = Nfsstat4::decode(&mut decoder).expect("a status");
    decoder.opaque(1024).expect("a tag");
    let count = decoder.u32().expect("a count");
    for n in 1..=count {
        let mut ahead = decoder;
        let number = ahead.u32().expect("an operation");
        let operation = NfsOpnum4::from_u32(number).expect("an operation that exists");
        let answered = Nfsstat4::decode(&mut ahead).expect("a status");
        let result = NfsResop4::decode(&mut decoder);
        assert!(result.is_ok(), "{operation:?} answered {answered:?}, which is read as {result:?}");
        assert!(valid_error(operation, answered), "{operation:?} may not answer {answered:?}");
        // The engine's last resort for an error that the table does not allow.
        assert_ne!(answered, Nfsstat4::NFS4ERR_SERVERFAULT, "{operation:?}");
        let expected = if n == count { status } else { Nfsstat4::NFS4_OK };
        assert_eq!(answered, expected, "operation {n} of {count}, {operation:?}");
    }
    decoder.finish().expect("nothing behind the last operation");
}
