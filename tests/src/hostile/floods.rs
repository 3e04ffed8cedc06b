//! The floods: a table with a row each.

use super::burner::{UsedTime, thread_time};
use super::peer;
use crate::server::Server;
use crate::world::{World, pattern};
use client::Flavor;
use gss::{Initiator, Step};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads of a flood.
const THREADS: usize = 2;
/// Calls that a connection sends in one write.
const BATCH: u32 = 64;
/// Connections that a thread keeps open at most.
const CONNECTIONS_MAX: usize = 700;
/// Length of an unfinished record: just below the limit of the server.
const UNFINISHED: u32 = (1 << 20) + (64 << 10);

/// A way to hurt a server.
pub struct Flood {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    run: fn(&FloodThread),
}

/// All floods, in the order of the table.
pub static FLOODS: &[Flood] = &[
    Flood { name: "null", about: "NULL calls, replies read", run: |peer| peer.ask(peer::null) },
    Flood { name: "null-unread", about: "NULL calls, replies never read", run: null_unread },
    Flood { name: "silent", about: "connections that say nothing", run: silent },
    Flood { name: "churn", about: "connections that come and go", run: churn },
    Flood { name: "unfinished", about: "long records that never end", run: unfinished },
    Flood { name: "garbage", about: "random bytes", run: garbage },
    Flood {
        name: "exchange-id",
        about: "EXCHANGE_ID of new owners",
        run: |peer| peer.ask(peer::exchange_id),
    },
    Flood { name: "sessions", about: "client IDs and sessions of the largest size", run: sessions },
    Flood {
        name: "setclientid",
        about: "SETCLIENTID of new owners",
        run: |peer| peer.ask(peer::setclientid),
    },
    Flood {
        name: "sequence",
        about: "SEQUENCE of unknown sessions",
        run: |peer| peer.ask(peer::unknown_session),
    },
    Flood { name: "lookups", about: "COMPOUNDs of many LOOKUPs", run: |peer| peer.ask(peer::lookups) },
    Flood {
        name: "context",
        about: "calls of unknown contexts",
        run: |peer| peer.ask(peer::unknown_context),
    },
    Flood { name: "init", about: "RPCSEC_GSS_INIT with garbage", run: |peer| init(peer, 600) },
    Flood { name: "init-large", about: "the same with 60 KiB each", run: |peer| init(peer, 60 << 10) },
    Flood { name: "init-replay", about: "one recorded AP-REQ again and again", run: init_replay },
];

/// The threads of a running flood.
pub(super) struct Crew {
    stop: Arc<AtomicBool>,
    began: Instant,
    threads: Vec<JoinHandle<Duration>>,
}

/// One thread of a flood.
struct FloodThread {
    server: SocketAddr,
    stop: Arc<AtomicBool>,
    /// An AP-REQ that the peer has seen on the wire.
    token: Arc<Vec<u8>>,
}

impl Crew {
    /// Starts the flood's threads.
    pub(super) fn start(flood: &'static Flood, world: &World, server: &Server) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let token = Arc::new(recorded_token(world));
        let start = |_| {
            let peer = FloodThread { server: server.address(), stop: stop.clone(), token: token.clone() };
            std::thread::spawn(move || {
                while !peer.must_stop() {
                    (flood.run)(&peer);
                }
                thread_time()
            })
        };
        let threads = (0..THREADS).map(start).collect();
        Self { stop, began: Instant::now(), threads }
    }

    /// Ends the flood and returns the processor time of its sender.
    pub(super) fn stop(self) -> UsedTime {
        self.stop.store(true, Relaxed);
        let time = self.began.elapsed().as_secs_f64();
        let used: Duration = self.threads.into_iter().map(|thread| thread.join().expect("it sends")).sum();
        UsedTime { cores: used.as_secs_f64() / time, threads: THREADS }
    }
}

impl FloodThread {
    fn must_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Connects, after a pause where the server does not want it.
    fn connect(&self) -> Option<TcpStream> {
        let stream = peer::connect(self.server);
        if stream.is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stream
    }

    /// Sends calls in batches over one connection and reads the replies, until the server closes
    /// it.
    fn ask(&self, call: impl Fn(u32) -> Vec<u8>) {
        let Some(mut stream) = self.connect() else { return };
        let (mut scratch, mut xid) = (vec![0; 256 << 10], std::process::id());
        while !self.must_stop() {
            let batch: Vec<u8> = (0..BATCH).flat_map(|number| call(xid.wrapping_add(number))).collect();
            xid = xid.wrapping_add(BATCH);
            let sent = peer::send(&mut stream, &batch);
            if sent.and_then(|()| peer::drain(&mut stream, &mut scratch)).is_none() {
                return;
            }
        }
    }

    /// Keeps up to `connections` open, each begun by `begin`, and replaces closed ones.
    fn hold(&self, connections: usize, begin: impl Fn(&mut TcpStream)) {
        let mut held = VecDeque::new();
        let mut scratch = [0; 4096];
        while !self.must_stop() {
            if held.len() < connections {
                let Some(mut stream) = self.connect() else { continue };
                begin(&mut stream);
                let _ = stream.set_nonblocking(true);
                held.push_back(stream);
                continue;
            }
            std::thread::sleep(Duration::from_millis(5));
            held.retain_mut(|stream| peer::drain(stream, &mut scratch).is_some());
        }
    }
}

fn null_unread(peer: &FloodThread) {
    let batch: Vec<u8> = (0..1000).flat_map(peer::null).collect();
    peer.hold(32, |stream| while !peer.must_stop() && peer::send(stream, &batch).is_some() {});
}

fn silent(peer: &FloodThread) {
    peer.hold(CONNECTIONS_MAX, |_| ());
}

fn churn(peer: &FloodThread) {
    let null = peer::null(1);
    for _ in 0..100 {
        if let Some(mut stream) = peer.connect() {
            let _ = peer::send(&mut stream, &null);
        }
    }
}

fn unfinished(peer: &FloodThread) {
    let mut bytes = peer::mark(UNFINISHED).to_vec();
    bytes.resize(UNFINISHED as usize, 0);
    peer.hold(130, |stream| _ = peer::send(stream, &bytes));
}

fn garbage(peer: &FloodThread) {
    let bytes = pattern(7, 64 << 10);
    for start in 0..64 {
        if let Some(mut stream) = peer.connect() {
            let _ = peer::send(&mut stream, &bytes[start * 512..]);
        }
    }
}

/// Makes client IDs, and a session of each where the server tells the ID.
fn sessions(peer: &FloodThread) {
    let Some(mut stream) = peer.connect() else { return };
    let (mut scratch, mut xid) = ([0; 16 << 10], std::process::id());
    while !peer.must_stop() {
        xid = xid.wrapping_add(2);
        let asked = peer::send(&mut stream, &peer::exchange_id(xid));
        let Some(count) = asked.and_then(|()| peer::drain(&mut stream, &mut scratch)) else { return };
        // Mark, RPC reply header, status, tag, count, operation and its status; then clientid and
        // sequence.
        let Some(result) = scratch.get(4 + 24 + 12 + 8..count) else { continue };
        let Some((id, rest)) = result.split_first_chunk::<8>() else { continue };
        let Some(sequence) = rest.first_chunk::<4>() else { continue };
        let call = peer::create_session(xid + 1, u64::from_be_bytes(*id), u32::from_be_bytes(*sequence));
        let asked = peer::send(&mut stream, &call);
        if asked.and_then(|()| peer::drain(&mut stream, &mut scratch)).is_none() {
            return;
        }
    }
}

fn init(peer: &FloodThread, length: usize) {
    let mut token = pattern(3, length);
    token[..5].copy_from_slice(&[0x60, 0x82, (length >> 8) as u8, length as u8, 6]);
    peer.ask(|xid| peer::init(xid, &token));
}

fn init_replay(peer: &FloodThread) {
    peer.ask(|xid| peer::init(xid, &peer.token));
}

/// The first token of a context of alice's.
fn recorded_token(world: &World) -> Vec<u8> {
    let client::Security::Gss(identity) = world.identity("alice", Flavor::Krb5) else { return Vec::new() };
    let mut initiator = Initiator::new(&identity.target, &identity.credential).expect("alice has a ticket");
    match initiator.step(None).expect("the KDC answers") {
        Step::Send(token) => token,
        Step::Done(established) => established.token,
    }
}
