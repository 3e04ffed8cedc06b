//! Tests with an echo service over real sockets.

use crate::{
    Action, CompletionEvent, CompletionSender, Limits, Listener, Reply, Request, Running, Service,
    WEIGHT_DEFAULT, WeightedTenant,
};
use pipes::{Attachment, FileData};
use rpc::{ConnectionId, record_mark};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time limit of waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A deferred request, and the sender of its completion. Its step blocks until the gate opens if
/// the request begins with "hang".
type DeferredEcho = (CompletionSender<Vec<u8>>, CompletionEvent<Vec<u8>>);

#[derive(Default)]
struct EchoService {
    closed: AtomicUsize,
    /// Requests that came after the reported end of their connection.
    late: AtomicUsize,
    /// Number of "long" requests that have begun.
    long: AtomicUsize,
    /// Number of "short" requests that were handled.
    short: AtomicUsize,
    /// Requests that are deferred until the test completes them.
    deferred: Mutex<Vec<DeferredEcho>>,
    /// Number of steps that were handed over.
    handed_over: AtomicUsize,
    /// Whether "gate" and "hang" requests may end.
    open: AtomicBool,
    /// Requests in the order in which they were handled.
    handled: Mutex<Vec<Vec<u8>>>,
    /// Whether the service vouches for no connection.
    distrusts: AtomicBool,
    /// The file of which "pages" sends a part.
    file: PatternFile,
}

/// A file of [`BIG`] bytes, each its offset modulo 251.
struct PatternFile(std::fs::File);

impl Default for PatternFile {
    fn default() -> Self {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&pattern(0, BIG)).expect("written");
        Self(file)
    }
}

fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|at| (at % 251) as u8).collect()
}

impl EchoService {
    /// Waits until `count` requests are deferred.
    fn wait_for_deferred(&self, count: usize) {
        wait_until("requests are deferred", || self.deferred.lock().expect("a lock").len() >= count);
    }

    /// Takes pauses until a "short" request was handled.
    fn work_until_short(&self, mut pause: impl FnMut()) {
        self.long.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while self.short.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_secs(10) {
            pause();
        }
    }

    /// Answers completed requests; one of them takes pauses.
    fn answer_completed(
        &self,
        completions: &mut Vec<CompletionEvent<Vec<u8>>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    ) {
        for completion in completions.drain(..) {
            if completion.item == b"brief pause" {
                self.work_until_short(|| _ = pause(replies));
            }
            let action = Action::Send([&[0; 4], completion.item.as_slice()].concat());
            replies.push(Reply { connection: completion.connection, action, class: 0 });
        }
    }

    /// Completes all deferred requests, the last first, from another thread than the shard's.
    fn complete_deferred(&self) {
        for (sink, completion) in self.deferred.lock().expect("a lock").drain(..).rev() {
            sink.send(completion);
        }
    }
}

/// Length of the reply to "big", in bytes.
const BIG: usize = 1 << 20;

/// Buffer size and length of the reply to "roomy", in bytes.
const ROOMY: usize = 64 << 10;
const ROOMY_LEN: usize = 300;

/// Trusts a connection, whose peer is a tenant of its own.
fn trust(request: &Request) -> Reply {
    let tenant = WeightedTenant { id: u64::from(request.peer.port()), weight: WEIGHT_DEFAULT };
    Reply { connection: request.connection, action: Action::Trust(tenant), class: 0 }
}

impl Service for EchoService {
    type Shard = (CompletionSender<Vec<u8>>, Vec<DeferredEcho>);
    type Completed = Vec<u8>;
    type Step = DeferredEcho;

    fn shard(&self, sink: &CompletionSender<Vec<u8>>, _: &Arc<AtomicU32>) -> Self::Shard {
        (sink.clone(), Vec::new())
    }

    fn tick(
        &self,
        (sink, steps): &mut Self::Shard,
        requests: &mut Vec<Request>,
        completions: &mut Vec<CompletionEvent<Vec<u8>>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    ) {
        self.answer_completed(completions, replies, pause);
        for request in requests.drain(..) {
            if !self.distrusts.load(Ordering::SeqCst) {
                replies.push(trust(&request));
            }
            if self.closed.load(Ordering::SeqCst) > 0 {
                self.late.fetch_add(1, Ordering::SeqCst);
            }
            self.handled.lock().expect("a lock").push(request.record.clone());
            let action = match request.record.as_slice() {
                b"gate" => {
                    wait_until("the gate is open", || self.open.load(Ordering::SeqCst));
                    Action::Send(b"\0\0\0\0gate".to_vec())
                }
                b"roomy" => {
                    let mut reply = Vec::with_capacity(ROOMY);
                    reply.resize(ROOMY_LEN + 4, 0);
                    Action::Send(reply)
                }
                b"pages" => {
                    let data = FileData::of(self.file.0.as_fd(), 1, BIG / 2).expect("it is a file");
                    let data = data.expect("fewer pipes are in use than there may be");
                    Action::SendAttached(b"\0\0\0\0headtail".to_vec(), Attachment { at: 8, data })
                }
                b"peer" => Action::Send(format!("\0\0\0\0{}", request.peer).into_bytes()),
                b"close" => Action::Close,
                b"big" => Action::Send(vec![0; BIG + 4]),
                b"long" => {
                    self.work_until_short(|| _ = pause(replies));
                    Action::Send(b"\0\0\0\0long".to_vec())
                }
                b"short" => {
                    self.short.fetch_add(1, Ordering::SeqCst);
                    Action::Send(b"\0\0\0\0short".to_vec())
                }
                b"dear" => {
                    replies.push(Reply { connection: request.connection, action: Action::Yield, class: 0 });
                    Action::Send(b"\0\0\0\0dear".to_vec())
                }
                b"rest" => Action::Pause(Duration::from_secs(3600)),
                b"nap" => Action::Pause(Duration::from_millis(20)),
                b"panic" => panic!("a defect, for the test"),
                record if record.starts_with(b"later") => {
                    let (connection, held) = (request.connection, record.len());
                    let completion = CompletionEvent { connection, held, item: request.record };
                    self.deferred.lock().expect("a lock").push((sink.clone(), completion));
                    Action::Defer(held)
                }
                record if record.starts_with(b"brief") || record.starts_with(b"hang") => {
                    let (connection, held) = (request.connection, record.len());
                    self.short.fetch_add(usize::from(record == b"brief short"), Ordering::SeqCst);
                    steps.push((sink.clone(), CompletionEvent { connection, held, item: request.record }));
                    Action::Defer(held)
                }
                record => Action::Send([&[0; 4], record].concat()),
            };
            replies.push(Reply { connection: request.connection, action, class: 0 });
        }
    }

    fn take_steps(&self, (_, own): &mut Self::Shard, steps: &mut VecDeque<DeferredEcho>) {
        steps.extend(own.drain(..));
    }

    fn is_brief(&self, _: &DeferredEcho, _: bool) -> bool {
        true
    }

    fn run_step(&self, (sink, completion): DeferredEcho) -> Option<DeferredEcho> {
        if completion.item.starts_with(b"hang") {
            wait_until("the gate is open", || self.open.load(Ordering::SeqCst));
        }
        sink.send(completion);
        None
    }

    fn connection(&self, (_, completion): &DeferredEcho) -> Option<ConnectionId> {
        Some(completion.connection)
    }

    fn hand_over(&self, (sink, completion): DeferredEcho) -> Result<(), DeferredEcho> {
        if self.handed_over.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err((sink, completion));
        }
        std::thread::spawn(move || sink.send(completion));
        Ok(())
    }

    fn closed(&self, _: ConnectionId) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

fn start(limits: Limits) -> (Running, Arc<EchoService>) {
    let echo = Arc::new(EchoService::default());
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    (listener.start(echo.clone(), 2, limits).expect("threads"), echo)
}

fn connect(server: &Running) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// Opens a connection with a small receive buffer.
fn narrow(server: &Running) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a size");
    socket.connect(&server.address().into()).expect("the server listens");
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn record(content: &[u8]) -> Vec<u8> {
    [&record_mark(content.len())[..], content].concat()
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).expect("a mark");
    let mut content = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut content).expect("a record");
    content
}

fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0))
        || stream.write_all(b"x").and_then(|()| stream.read(&mut [0; 1])).is_err()
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn gauge(value: &AtomicUsize) -> usize {
    value.load(Ordering::SeqCst)
}

#[test]
fn records_of_all_sizes_come_back_in_order() {
    let (server, _) = start(Limits::default());
    let mut stream = connect(&server);
    let sizes = [1, 3, 4, 100, 4096, 65_536, 300_000, 1 << 20];
    let mut writer = stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        for size in sizes {
            writer.write_all(&record(&vec![size as u8; size])).expect("sent");
        }
    });
    for size in sizes {
        assert_eq!(receive(&mut stream), vec![size as u8; size]);
    }
    sender.join().expect("sender");
}

#[test]
fn a_peer_with_ipv4_has_its_usual_address_at_a_socket_of_both_families() {
    let echo = Arc::new(EchoService::default());
    // Machines without IPv6 have no such sockets.
    let Ok(listener) = Listener::bind((Ipv6Addr::UNSPECIFIED, 0).into()) else {
        return println!("skipped: there is no IPv6");
    };
    let server = listener.start(echo, 1, Limits::default()).expect("threads");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.address().port())).expect("it listens");
    stream.write_all(&record(b"peer")).expect("sent");
    let own = stream.local_addr().expect("an address").to_string();
    assert_eq!(String::from_utf8(receive(&mut stream)).expect("text"), own);
}

#[test]
fn a_connection_over_a_limit_is_served_after_its_pause_and_others_meanwhile() {
    let (server, echo) = start(Limits::default());
    let (mut paused, mut other) = (connect(&server), connect(&server));
    let handled = |wanted: &[u8]| {
        let handled = echo.handled.lock().expect("a lock");
        handled.iter().filter(|record| *record == wanted).count()
    };
    // One of these requests arrives with the first, the other comes later.
    paused.write_all(&[record(b"rest"), record(b"early")].concat()).expect("sent");
    wait_until("the pause has begun", || handled(b"rest") > 0);
    paused.write_all(&record(b"late")).expect("sent");
    for _ in 0..3 {
        other.write_all(&[record(b"nap"), record(b"one")].concat()).expect("sent");
        assert_eq!(receive(&mut other), b"one");
        other.write_all(&record(b"two")).expect("sent");
        assert_eq!(receive(&mut other), b"two");
    }
    assert_eq!((handled(b"nap"), handled(b"early"), handled(b"late")), (3, 0, 0));
}

#[test]
fn a_record_in_single_bytes_and_fragments_is_joined() {
    let (server, _) = start(Limits::default());
    let mut stream = connect(&server);
    for byte in [[0, 0, 0, 2].as_slice(), b"ab", &record(b"c")].concat() {
        stream.write_all(&[byte]).expect("sent");
    }
    assert_eq!(receive(&mut stream), b"abc");
}

#[test]
fn a_record_above_the_limit_closes_its_connection_only() {
    let (server, _) = start(Limits { record_size_max: 1000, ..Limits::default() });
    let (mut bad, mut good) = (connect(&server), connect(&server));
    bad.write_all(&record(&[0; 1001])).expect("sent");
    assert!(is_closed(&mut bad));
    good.write_all(&record(b"still here")).expect("sent");
    assert_eq!(receive(&mut good), b"still here");
    assert_eq!(server.stats().malformed.load(Ordering::SeqCst), 1);
}

#[test]
fn connections_above_the_limit_are_closed_at_once() {
    let (server, _) = start(Limits { connections_max: 1, ..Limits::default() });
    let mut first = connect(&server);
    first.write_all(&record(b"one")).expect("sent");
    assert_eq!(receive(&mut first), b"one");
    assert!(is_closed(&mut connect(&server)));
}

#[test]
fn unfinished_requests_of_all_connections_together_have_a_limit() {
    let (server, _) = start(Limits { input_bytes_max: 256 << 10, ..Limits::default() });
    let mut streams: Vec<TcpStream> = (0..16).map(|_| connect(&server)).collect();
    for stream in &mut streams {
        let _ = stream.write_all(&record_mark(1 << 20)).and_then(|()| stream.write_all(&vec![0; 100 << 10]));
    }
    let is_over = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        match stream.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            // Input that the server has not read turns the end into a reset.
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    };
    let closed = streams.iter_mut().map(is_over).filter(|over| *over).count();
    assert!(closed >= 12, "only {closed} connections were closed");
}

#[test]
fn a_peer_that_does_not_read_is_not_read_from_and_gets_all_replies_later() {
    const RECORDS: usize = 200;
    let max = 1 << 20;
    let (server, _) = start(Limits { output_bytes_max: max, batch_requests_max: 4, ..Limits::default() });
    let mut stream = narrow(&server);
    let mut writer = stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        (0..RECORDS).all(|_| writer.write_all(&record(&vec![7; 100_000])).is_ok())
    });
    let stats = server.stats().clone();
    wait_until("the limit is reached", || gauge(&stats.output_bytes) > max);
    // A server that reads on has all records within some milliseconds.
    let mut most = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(1));
        most = most.max(gauge(&stats.output_bytes));
    }
    // One batch may begin below the limit.
    assert!(most < max + 5 * 100_100, "{most} bytes of replies wait");
    for _ in 0..RECORDS {
        assert_eq!(receive(&mut stream).len(), 100_000);
    }
    assert!(sender.join().expect("sender"));
}

#[test]
fn file_data_stands_in_its_reply_however_slowly_the_peer_reads() {
    let (server, _) = start(Limits { output_bytes_max: 2 << 20, ..Limits::default() });
    let mut stream = connect(&server);
    stream.write_all(&[record(b"one"), record(b"pages").repeat(40), record(b"two")].concat()).expect("sent");
    wait_until("file data waits", || gauge(&server.stats().output_bytes) >= BIG / 2);
    assert_eq!(receive(&mut stream), b"one");
    let expected = [b"head".as_slice(), &pattern(1, BIG / 2), b"tail"].concat();
    (0..40).for_each(|_| assert!(receive(&mut stream) == expected));
    assert_eq!(receive(&mut stream), b"two");
    // The reply may arrive before the shard has counted it as sent.
    wait_until("all memory is given back", || gauge(&server.stats().output_bytes) == 0);
}

#[test]
fn a_connection_that_ends_takes_its_file_data_with_it() {
    // The kernel takes the data of fewer than the other 12 replies.
    const PIPES_IN_USE: usize = 8;
    let (server, _) = start(Limits { output_bytes_max: 20 * BIG, ..Limits::default() });
    let stats = server.stats().clone();
    // Without their return, the last connections find no pipe.
    for _ in 0..=pipes::PIPES_MAX / PIPES_IN_USE {
        let mut stream = narrow(&server);
        stream.write_all(&record(b"pages").repeat(20)).expect("sent");
        wait_until("file data waits", || gauge(&stats.output_bytes) >= PIPES_IN_USE * BIG / 2);
        drop(stream);
        wait_until("its memory is given back", || gauge(&stats.output_bytes) == 0);
    }
    let mut stream = connect(&server);
    stream.write_all(&record(b"pages")).expect("sent");
    assert!(receive(&mut stream)[4..].starts_with(&pattern(1, 1000)));
}

#[test]
fn a_connection_that_the_service_closes_gets_its_earlier_replies() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&[record(b"last words"), record(b"close")].concat()).expect("sent");
    assert_eq!(receive(&mut stream), b"last words");
    assert!(is_closed(&mut stream));
    server.stop();
    assert_eq!(echo.closed.load(Ordering::SeqCst), 1);
}

#[test]
fn small_requests_for_large_replies_take_no_more_memory_than_the_limits_say() {
    const REQUESTS: usize = 300;
    let limits = Limits { output_bytes_max: 4 << 20, batch_requests_max: 4, ..Limits::default() };
    let (server, _) = start(limits);
    let mut stream = connect(&server);
    stream.write_all(&record(b"big").repeat(REQUESTS)).expect("sent");
    let mut most = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        most = most.max(server.stats().output_bytes.load(Ordering::SeqCst));
    }
    assert!((BIG..=9 * BIG).contains(&most), "{most} bytes of replies waited");
    for _ in 0..REQUESTS {
        assert_eq!(receive(&mut stream).len(), BIG);
    }
    stream.write_all(&record(b"and on")).expect("sent");
    assert_eq!(receive(&mut stream), b"and on");
    // The reply may arrive before the shard has counted it as sent.
    wait_until("all memory is given back", || server.stats().held_bytes() == 0);
}

#[test]
fn unread_replies_of_all_connections_have_a_limit_that_closes_none() {
    // The quarter above the mark at which serving stops has room for a batch of each shard and a
    // reply of each connection.
    let limits = Limits { output_bytes_total_max: 96 * BIG, batch_requests_max: 2, ..Limits::default() };
    let (server, _) = start(limits);
    let mut streams: Vec<TcpStream> = (0..8).map(|_| connect(&server)).collect();
    for stream in &mut streams {
        stream.write_all(&record(b"here")).expect("sent");
        assert_eq!(receive(stream), b"here");
        stream.write_all(&record(b"big").repeat(24)).expect("sent");
    }
    let mut most = 0;
    for _ in 0..24 {
        for stream in &mut streams {
            assert_eq!(receive(stream).len(), BIG);
            most = most.max(server.stats().output_bytes.load(Ordering::SeqCst));
        }
    }
    assert!(most <= 96 * (BIG + 100), "{most} bytes of replies waited");
    assert_eq!(server.stats().evicted.load(Ordering::SeqCst), 0);
}

#[test]
fn a_defect_costs_its_connection_and_no_other() {
    let (server, _) = start(Limits::default());
    // Connections alternate between the two threads.
    let (mut bad, _other, mut good) = (connect(&server), connect(&server), connect(&server));
    good.write_all(&record(b"before")).expect("sent");
    assert_eq!(receive(&mut good), b"before");
    bad.write_all(&record(b"panic")).expect("sent");
    assert!(is_closed(&mut bad));
    good.write_all(&record(b"after")).expect("sent");
    assert_eq!(receive(&mut good), b"after");
    assert_eq!(server.stats().panics.load(Ordering::SeqCst), 1);
}

#[test]
fn the_end_of_a_connection_is_reported_after_its_last_request() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&record(b"last words")).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    assert_eq!(receive(&mut stream), b"last words");
    assert!(is_closed(&mut stream));
    server.stop();
    assert_eq!((echo.closed.load(Ordering::SeqCst), echo.late.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn a_peer_is_not_slow_while_the_server_does_not_read() {
    let second = Duration::from_secs(1);
    let (server, echo) =
        start(Limits { deferred_requests_max: 1, record_time_max: second, ..Limits::default() });
    let mut stream = connect(&server);
    let (begun, rest) = (record(b"the rest"), 6);
    stream.write_all(&[&record(b"later")[..], &begun[..rest]].concat()).expect("sent");
    echo.wait_for_deferred(1);
    // Slow peers are closed by a sweep, which comes once a second.
    std::thread::sleep(second * 3);
    echo.complete_deferred();
    assert_eq!(receive(&mut stream), b"later");
    stream.write_all(&begun[rest..]).expect("sent");
    assert_eq!(receive(&mut stream), b"the rest");
    // Now it is.
    stream.write_all(&begun[..rest]).expect("sent");
    assert!(is_closed(&mut stream));
}

#[test]
fn a_connection_that_is_reset_while_it_is_not_read_from_is_closed_at_once() {
    for distrusts in [false, true] {
        let (server, echo) = start(Limits { deferred_requests_max: 1, ..Limits::default() });
        echo.distrusts.store(distrusts, Ordering::SeqCst);
        let mut stream = connect(&server);
        stream.write_all(&[record(b"answered"), record(b"later"), record(b"held")].concat()).expect("sent");
        echo.wait_for_deferred(1);
        stream.peek(&mut [0]).expect("the answer is here");
        // Closing with unread bytes is a reset.
        drop(stream);
        wait_until("the connection is closed", || gauge(&server.stats().connections) == 0);
        assert_eq!(server.stats().deferred.load(Ordering::SeqCst), 0);
        echo.complete_deferred();
    }
}

#[test]
fn a_short_request_is_answered_in_the_pauses_of_a_long_one() {
    let (server, echo) = start(Limits::default());
    // Connections alternate between the two threads.
    let (mut long, _other, mut short) = (connect(&server), connect(&server), connect(&server));
    for stream in [&mut long, &mut short] {
        stream.write_all(&record(b"here")).expect("sent");
        assert_eq!(receive(stream), b"here");
    }
    long.write_all(&record(b"long").repeat(2)).expect("sent");
    wait_until("the long request has begun", || gauge(&echo.long) > 0);
    short.write_all(&record(b"short")).expect("sent");
    assert_eq!(receive(&mut short), b"short");
    assert_eq!(receive(&mut long), b"long");
    assert_eq!(receive(&mut long), b"long");
    assert_eq!(echo.short.load(Ordering::SeqCst), 1);
}

#[test]
fn a_connection_that_yields_is_served_behind_interactive_ones() {
    let (server, echo) = start(Limits::default());
    let connect_to_first = || {
        // Connections go to the shards in turns.
        let stream = connect(&server);
        let other = connect(&server);
        (stream, other)
    };
    let [mut gate, mut dear, mut short] = std::array::from_fn(|_| connect_to_first());
    for stream in [&mut gate.0, &mut dear.0, &mut short.0] {
        stream.write_all(&record(b"hello")).expect("sent");
        assert_eq!(receive(stream), b"hello");
    }
    dear.0.write_all(&record(b"dear")).expect("sent");
    assert_eq!(receive(&mut dear.0), b"dear");
    gate.0.write_all(&record(b"gate")).expect("sent");
    wait_until("the gate is reached", || {
        echo.handled.lock().expect("a lock").iter().any(|request| request == b"gate")
    });
    dear.0.write_all(&record(b"dear")).expect("sent");
    short.0.write_all(&record(b"short")).expect("sent");
    echo.open.store(true, Ordering::SeqCst);
    assert_eq!(receive(&mut dear.0), b"dear");
    assert_eq!(receive(&mut short.0), b"short");
    let handled = echo.handled.lock().expect("a lock");
    assert_eq!(handled.last().map(Vec::as_slice), Some(&b"dear"[..]), "the short request came first");
    server.stop();
}

#[test]
fn binding_a_taken_port_names_the_cause() {
    let (server, _) = start(Limits::default());
    let error = Listener::bind(server.address()).err().expect("the port is taken").to_string();
    assert!(error.contains("in use"), "{error}");
}

#[test]
fn a_connection_that_is_not_admitted_is_closed_before_it_is_read() {
    let echo = Arc::new(EchoService::default());
    let mut listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    let refused = Arc::new(AtomicUsize::new(0));
    listener.admit(Box::new({
        let refused = refused.clone();
        // Refuses only the first connection, and checks the addresses before.
        move |peer, own| {
            peer.port() != own.port()
                && own.ip() == Ipv4Addr::LOCALHOST
                && refused.fetch_add(1, Ordering::SeqCst) > 0
        }
    }));
    let server = listener.start(echo, 2, Limits::default()).expect("threads");
    let mut first = connect(&server);
    // The server may have closed it already.
    let _ = first.write_all(&record(b"unread"));
    assert!(matches!(first.read(&mut [0; 4]), Ok(0) | Err(_)));
    let mut second = connect(&server);
    second.write_all(&record(b"hello")).expect("it is open");
    assert_eq!(receive(&mut second), b"hello");
    assert_eq!(server.stats().refused.load(Ordering::SeqCst), 1);
}

mod deferred;
mod hostile;
mod upgrade;
