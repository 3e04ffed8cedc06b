//! Strangers beside trusted connections, on one shard without a thread.

use super::*;
use crate::input::STALL_TIME_MAX;
use crate::mailbox::Arrival;
use crate::stillness::ShardPhase;
use crate::{Limits, WeightedTenant};
use rpc::record_mark;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Time limit of waits for the kernel.
const PATIENCE: Duration = Duration::from_secs(30);

struct Neighbours {
    listener: TcpListener,
    mailbox: Arc<Mailbox>,
    shared: Arc<SharedParts>,
    sockets: Sockets,
}

impl Neighbours {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let mailbox = Arc::new(Mailbox::new(ShardPhase::Serve).expect("a descriptor"));
        let shared = Arc::new(SharedParts::new(limits));
        let sockets = Sockets::new(&mailbox, shared.clone()).expect("descriptors");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self { listener, mailbox, shared, sockets }
    }

    /// Connects the client `id`, whose server side is a stranger.
    fn connect(&mut self, id: u64) -> TcpStream {
        let client =
            TcpStream::connect(self.listener.local_addr().expect("it is bound")).expect("it listens");
        let (stream, peer) = self.listener.accept().expect("a client");
        stream.set_nonblocking(true).expect("a socket");
        let account =
            self.shared.ledger.open(ConnectionId(id), id, peer, self.mailbox.clone()).expect("a place");
        self.shared.stats.connections.fetch_add(1, Ordering::Relaxed);
        self.mailbox.add(Arrival { id: ConnectionId(id), stream, account, inherited: None });
        self.sockets.take_arrived();
        client
    }

    /// Marks a connection as trusted by the service.
    fn trust(&mut self, id: u64) {
        let trust = Reply {
            connection: ConnectionId(id),
            action: Action::Trust(WeightedTenant { id, weight: 1 }),
            class: 0,
        };
        self.sockets.queue(std::iter::once(trust));
    }

    /// Exhausts the allowance for an hour.
    fn exhaust(&mut self) {
        self.shared.ledger.set_busy(true);
        self.sockets.strangers.spend(Instant::now() + Duration::from_secs(3600), Duration::from_secs(1));
    }

    /// Waits until the main set reports a connection; no other connection may be reported.
    fn wait_for(&mut self, id: u64) {
        let (start, mut ready) = (Instant::now(), Vec::new());
        while !ready.contains(&Ready::Input(id)) {
            assert!(start.elapsed() < PATIENCE, "the kernel does not report connection {id}");
            self.sockets.wait(Duration::from_millis(10), &mut ready);
        }
        assert!(ready.iter().all(|ready| matches!(ready, Ready::Mail | Ready::Input(_))), "{ready:?}");
        assert!(ready.iter().all(|ready| ready.connection().is_none_or(|other| other == id)), "{ready:?}");
    }

    /// Waits until strangers are ready.
    fn wait_for_strangers(&mut self) {
        let start = Instant::now();
        while !self.sockets.open_lane() {
            assert!(start.elapsed() < PATIENCE, "the kernel reports no stranger");
            self.sockets.wait(Duration::from_millis(10), &mut Vec::new());
        }
    }

    /// Runs one step of a stranger and handles the request that it admits.
    fn serve_stranger(&mut self) -> Vec<u64> {
        assert!(self.sockets.step_stranger());
        let arrived = self.sockets.requests.take();
        let admitted = arrived.into_iter().filter_map(|request| self.sockets.admit(request));
        let mut served: Vec<u64> = admitted.map(|request| request.connection.0).collect();
        self.sockets.done(&mut served);
        served.iter().for_each(|id| self.sockets.write_done(*id));
        served
    }

    /// Sends the first 300,000 bytes of a record of a mebibyte to a trusted connection.
    fn begin_record(&mut self, id: u64) -> TcpStream {
        let mut client = self.connect(id);
        self.trust(id);
        let received = |world: &Self| world.shared.stats.received_bytes.load(Ordering::Relaxed);
        let end = received(self) + 300_000;
        client.write_all(&record(1 << 20)[..300_000]).expect("sent");
        while received(self) < end {
            self.wait_for(id);
            while self.sockets.read_step(id).is_some() {}
            self.sockets.read_done(id);
        }
        client
    }

    /// Takes the connections with newly arrived requests.
    fn requests(&mut self) -> Vec<u64> {
        self.sockets.requests.take().iter().map(|request| request.connection.0).collect()
    }
}

fn record(length: usize) -> Vec<u8> {
    [&record_mark(length)[..], &vec![7; length]].concat()
}

#[test]
fn strangers_without_allowance_wait_while_a_trusted_connection_is_served() {
    let mut world = Neighbours::new();
    let (mut stranger, mut honest) = (world.connect(1), world.connect(2));
    world.trust(2);
    world.exhaust();
    stranger.write_all(&record(10)).expect("sent");
    honest.write_all(&record(10)).expect("sent");
    world.wait_for(2);
    assert!(!world.sockets.open_lane());
    assert!(world.sockets.read_step(2).is_none(), "one read takes it all");
    assert_eq!(world.requests(), [2]);
    // An idle server serves strangers at once, regardless of the allowance.
    world.shared.ledger.set_busy(false);
    world.sockets.active = false;
    world.wait_for_strangers();
    assert!(world.sockets.step_stranger());
    assert_eq!(world.requests(), [1]);
}

#[test]
fn a_stranger_that_becomes_trusted_is_served_without_allowance_and_loses_nothing() {
    let mut world = Neighbours::new();
    let mut client = world.connect(1);
    client.write_all(&record(10)).expect("sent");
    world.wait_for_strangers();
    // The connection already has a place in the lane.
    world.exhaust();
    world.trust(1);
    assert!(world.sockets.strangers.is_empty());
    world.wait_for(1);
    world.sockets.read_step(1);
    assert_eq!(world.requests(), [1]);
}

#[test]
fn a_large_record_of_a_stranger_is_read_in_small_steps() {
    let mut world = Neighbours::new();
    let mut large = world.connect(1);
    let sender = std::thread::spawn(move || large.write_all(&record(1 << 20)).map(|()| large));
    let (mut taken, start) = (0, Instant::now());
    let mut whole = false;
    while !whole {
        assert!(start.elapsed() < PATIENCE, "the record does not arrive");
        world.wait_for_strangers();
        while world.sockets.step_stranger() {
            let received = world.shared.stats.received_bytes.load(Ordering::Relaxed) as usize;
            assert!(received - taken <= 80 << 10, "{} bytes in one step", received - taken);
            taken = received;
        }
        whole = world.requests() == [1];
    }
    sender.join().expect("a sender").expect("sent");
}

#[test]
fn an_unfinished_record_of_a_stranger_takes_no_memory_that_the_shard_keeps() {
    const LENGTH: usize = 1 << 20;
    memory::keep(4 << 20);
    memory::give(memory::take(LENGTH));
    let mut world = Neighbours::new();
    let mut client = world.connect(1);
    client.write_all(&record(LENGTH)[..5]).expect("sent");
    world.wait_for_strangers();
    while world.sockets.step_stranger() {}
    assert!(memory::take_kept(LENGTH).is_some());
}

#[test]
fn requests_of_a_stranger_take_turns_with_those_of_others() {
    let mut world = Neighbours::new();
    let (mut flood, mut newcomer) = (world.connect(1), world.connect(2));
    flood.write_all(&record(10).repeat(200)).expect("sent");
    world.wait_for_strangers();
    newcomer.write_all(&record(10)).expect("sent");
    let start = Instant::now();
    while world.sockets.connections.values_mut().any(|connection| connection.ticket().is_none()) {
        assert!(start.elapsed() < PATIENCE, "the newcomer has no place in the lane");
        world.wait_for_strangers();
    }
    let served: Vec<u64> = (0..6).flat_map(|_| world.serve_stranger()).collect();
    assert_eq!(served, [1, 2, 1, 1, 1, 1]);
}

#[test]
fn a_stranger_that_closes_leaves_nothing_in_the_lane() {
    let mut world = Neighbours::new();
    let client = world.connect(1);
    drop(client);
    world.wait_for_strangers();
    assert!(world.sockets.step_stranger());
    world.sockets.close_ended();
    assert!(world.sockets.strangers.is_empty());
    assert_eq!(world.sockets.len(), 0);
    assert_eq!(world.shared.stats.connections.load(Ordering::Relaxed), 0);
}

#[test]
fn a_connection_that_stalls_in_a_request_is_closed_while_others_wait_for_its_memory() {
    let mut world = Neighbours::with(Limits { input_bytes_max: 4 << 20, ..Limits::default() });
    let later = || Instant::now() + STALL_TIME_MAX + Duration::from_secs(1);
    let mut clients = vec![world.begin_record(1), world.begin_record(2)];
    world.sockets.close_overdue(later());
    assert_eq!(world.sockets.len(), 2, "memory is not short");
    while !world.shared.ledger.is_short(Budget::Input) {
        clients.push(world.begin_record(clients.len() as u64 + 1));
    }
    world.sockets.close_overdue(Instant::now());
    assert_eq!(world.sockets.len(), clients.len(), "no time has passed");
    clients.iter_mut().for_each(|client| client.write_all(&[7; 1]).expect("sent"));
    world.sockets.close_overdue(later());
    assert_eq!(world.sockets.len(), clients.len(), "the shard has not read");
    (1..=clients.len() as u64).for_each(|id| _ = world.sockets.read_step(id));
    world.sockets.close_overdue(later());
    assert!(!world.shared.ledger.is_short(Budget::Input));
    assert!(world.sockets.len() + 2 >= clients.len(), "no more than room requires");
}

#[test]
fn a_connection_that_closes_ends_although_another_process_holds_its_socket() {
    let mut world = Neighbours::new();
    let mut clients = [world.connect(1), world.connect(2)];
    world.trust(1);
    let copies = world.sockets.export().expect("no call is deferred");
    // Bytes that are not read would be reported again and again.
    clients.iter_mut().for_each(|client| client.write_all(&record(10)).expect("sent"));
    world.wait_for(1);
    for (id, client) in [1, 2].into_iter().zip(&mut clients) {
        world.sockets.end(id);
        world.sockets.close_ended();
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!(client.read(&mut [0; 1]).expect("an end"), 0);
    }
    let mut ready = Vec::new();
    world.sockets.poll(&mut ready);
    world.sockets.open_lane();
    assert!(ready.iter().all(|ready| *ready == Ready::Mail), "{ready:?}");
    assert!(!world.sockets.driver.has_ready_strangers());
    drop(copies);
}

#[test]
fn a_connection_goes_on_in_another_process_when_its_shard_ends() {
    let mut world = Neighbours::new();
    let mut client = world.connect(1);
    world.sockets.drain();
    let mut copies = world.sockets.export().expect("no call is deferred");
    world.sockets.close_all();
    let (_, socket) = copies.pop().expect("a connection");
    let mut heir = TcpStream::from(socket);
    heir.write_all(b"x").expect("it is open");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.read_exact(&mut [0; 1]).expect("it is open");
}

#[test]
fn connections_that_wait_for_memory_take_little_of_the_time() {
    let mut world = Neighbours::with(Limits { input_bytes_max: 4 << 20, ..Limits::default() });
    let mut clients = Vec::new();
    while !world.shared.ledger.is_short(Budget::Input) {
        clients.push(world.begin_record(clients.len() as u64 + 1));
    }
    let waiting = clients.len() as u64 + 1;
    let mut client = world.connect(waiting);
    world.trust(waiting);
    client.write_all(&record(10)).expect("sent");
    assert!(world.sockets.paused.contains(&waiting));
    (1..waiting).for_each(|id| world.sockets.end(id));
    world.sockets.close_ended();
    // As after a check of very many.
    world.sockets.next_check = Instant::now() + PATIENCE;
    world.sockets.wait(Duration::ZERO, &mut Vec::new());
    assert!(world.sockets.paused.contains(&waiting));
    world.sockets.next_check = Instant::now();
    world.wait_for(waiting);
    assert!(!world.sockets.paused.contains(&waiting));
}
