//! Hostile peers beside honest ones.

use super::*;
use std::net::SocketAddr;

/// Opens a connection that the service vouches for.
fn trusted(server: &Running) -> TcpStream {
    greet(connect(server))
}

/// As [`trusted`], from another address of this machine.
fn trusted_from(address: Ipv4Addr, server: &Running) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((address, 0)).into()).expect("an address of loopback");
    socket.connect(&server.address().into()).expect("the server listens");
    greet(socket.into())
}

fn greet(mut stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&record(b"hello")).expect("sent");
    assert_eq!(receive(&mut stream), b"hello");
    stream
}

#[test]
fn replies_of_a_peer_that_does_not_read_count_with_all_of_their_memory() {
    const CALLS: usize = 20_000;
    for distrusts in [false, true] {
        let max = 8 * ROOMY;
        let limits = Limits {
            output_bytes_max: max,
            untrusted_output_bytes_max: max,
            batch_requests_max: 4,
            ..Limits::default()
        };
        let (server, echo) = start(limits);
        echo.distrusts.store(distrusts, Ordering::SeqCst);
        let mut stream = narrow(&server);
        let mut writer = stream.try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || writer.write_all(&record(b"roomy").repeat(CALLS)));
        let stats = server.stats().clone();
        wait_until("the peer's buffers are full", || gauge(&stats.output_bytes) > max - 4 * ROOMY);
        let reply = (ROOMY_LEN + 4) as u64;
        for _ in 0..100 {
            // Replies that are sent after they are counted as handled only reduce the difference.
            let sent = stats.sent_bytes.load(Ordering::SeqCst) / reply;
            let handled = echo.handled.lock().expect("a lock").len() as u64;
            let now_sent = stats.sent_bytes.load(Ordering::SeqCst) / reply;
            if sent == now_sent {
                assert!(handled - sent <= 8 + 2 * 4 + 1, "{} replies wait", handled - sent);
            }
            assert!(gauge(&stats.input_bytes) <= 16 << 20, "{} bytes of requests", gauge(&stats.input_bytes));
        }
        (0..CALLS).for_each(|_| assert_eq!(receive(&mut stream).len(), ROOMY_LEN));
        sender.join().expect("a sender").expect("sent");
        wait_until("all memory is given back", || stats.held_bytes() == 0);
    }
}

#[test]
fn requests_that_waited_keep_their_order_when_their_connection_becomes_trusted() {
    let (server, _) = start(Limits { batch_requests_max: 2, ..Limits::default() });
    let mut stream = connect(&server);
    let sent: Vec<Vec<u8>> = (0..300u32).map(|number| number.to_string().into_bytes()).collect();
    stream.write_all(&sent.iter().flat_map(|content| record(content)).collect::<Vec<u8>>()).expect("sent");
    sent.iter().for_each(|content| assert_eq!(receive(&mut stream), *content));
}

#[test]
fn unfinished_records_cost_no_honest_connection_of_the_same_address() {
    const BUDGET: usize = 4 << 20;
    let (server, _) = start(Limits { input_bytes_max: BUDGET, ..Limits::default() });
    let mut honest = trusted(&server);
    let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
    let attacker = {
        let stop = stop.clone();
        std::thread::spawn(move || attack_with_unfinished_records(address, &stop))
    };
    let stats = server.stats().clone();
    wait_until("memory is short", || stats.evicted.load(Ordering::SeqCst) > 0);
    for _ in 0..40 {
        honest.write_all(&record(&[7; 200_000])).expect("it is not closed");
        assert_eq!(receive(&mut honest).len(), 200_000);
        // Condemned connections count until they are closed.
        let held = gauge(&stats.input_bytes);
        assert!(held <= 4 * BUDGET, "{held} bytes");
    }
    stop.store(true, Ordering::SeqCst);
    attacker.join().expect("an attacker");
    wait_until("all memory is given back", || gauge(&stats.input_bytes) == 0);
}

#[test]
fn unfinished_records_of_trusted_connections_stop_no_other_address() {
    const BUDGET: usize = 16 << 20;
    let (server, _) = start(Limits { input_bytes_max: BUDGET, ..Limits::default() });
    let mut known = trusted(&server);
    let (stats, mut unfinished) = (server.stats().clone(), Vec::new());
    while gauge(&stats.input_bytes) <= BUDGET / 4 * 3 {
        let mut stream = trusted_from(Ipv4Addr::new(127, 0, 0, 2), &server);
        let held = gauge(&stats.input_bytes);
        stream.write_all(&[&record_mark(1 << 20)[..], &[0; 300_000]].concat()).expect("sent");
        wait_until("the record has begun", || gauge(&stats.input_bytes) >= held + 300_000);
        unfinished.push(stream);
    }
    let mut newcomer = trusted(&server);
    for _ in 0..20 {
        for honest in [&mut known, &mut newcomer] {
            honest.write_all(&record(&[7; 200_000])).expect("it is not closed");
            assert_eq!(receive(honest).len(), 200_000);
        }
    }
}

#[test]
fn one_address_with_all_connections_makes_room_for_others() {
    let (server, _) = start(Limits { connections_max: 8, ..Limits::default() });
    let attacker = Ipv4Addr::new(127, 0, 0, 2);
    let silent: Vec<TcpStream> = (0..8).map(|_| trusted_from(attacker, &server)).collect();
    let honest: Vec<TcpStream> = (0..2).map(|_| trusted(&server)).collect();
    assert_eq!(server.stats().refused.load(Ordering::SeqCst), 0);
    for mut stream in honest {
        stream.write_all(&record(b"still here")).expect("sent");
        assert_eq!(receive(&mut stream), b"still here");
    }
    drop(silent);
}

/// Keeps 24 connections with unfinished records of different sizes, and opens another for each that
/// is closed.
fn attack_with_unfinished_records(address: SocketAddr, stop: &AtomicBool) {
    let begin = |size: usize| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_nonblocking(true).ok()?;
        let _ = stream.write(&[&record_mark(1 << 20)[..], &vec![0; size]].concat());
        Some(stream)
    };
    let mut held = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        held.retain(|stream: &TcpStream| match stream.peek(&mut [0; 1]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        while held.len() < 24 {
            held.extend(begin([400_000, 60_000, 300_000, 4_000][held.len() % 4]));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn silent_connections_make_room_for_newcomers_and_never_take_the_place_of_a_trusted_one() {
    let (server, _) = start(Limits { connections_max: 8, ..Limits::default() });
    let mut honest = trusted(&server);
    let silent: Vec<TcpStream> = (0..40).map(|_| connect(&server)).collect();
    for _ in 0..5 {
        let mut newcomer = connect(&server);
        newcomer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        newcomer.write_all(&record(b"new")).expect("sent");
        assert_eq!(receive(&mut newcomer), b"new");
    }
    honest.write_all(&record(b"still here")).expect("sent");
    assert_eq!(receive(&mut honest), b"still here");
    assert_eq!(server.stats().refused.load(Ordering::SeqCst), 0);
    assert!(server.stats().evicted.load(Ordering::SeqCst) >= 33);
    drop(silent);
}

#[test]
fn a_silent_connection_is_closed_unless_it_is_trusted() {
    let (server, _) =
        start(Limits { untrusted_idle_time_max: Duration::from_millis(100), ..Limits::default() });
    let mut honest = trusted(&server);
    let mut silent = connect(&server);
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(matches!(silent.read(&mut [0; 1]), Ok(0)), "closed, and not reset");
    // The honest connection has been silent for longer.
    honest.write_all(&record(b"still here")).expect("sent");
    assert_eq!(receive(&mut honest), b"still here");
}

#[test]
fn a_shard_that_hangs_is_seen_once_with_the_connection_that_it_hangs_for() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&record(b"gate")).expect("sent");
    let stats = server.stats().clone();
    let peer = stream.local_addr().expect("an address").to_string();
    wait_until("the watchdog has seen it", || stats.stalls.load(Ordering::SeqCst) > 0);
    let place = server.shards().unfinished().join("\n");
    assert!(place.contains("serving") && place.contains(&peer), "{place}");
    assert!(!server.shards().are_alive(Duration::from_millis(500)));
    assert!(server.shards().are_alive(PATIENCE), "one loop may last so long");
    echo.open.store(true, Ordering::SeqCst);
    assert_eq!(receive(&mut stream), b"gate");
    stream.write_all(&record(b"and on")).expect("sent");
    assert_eq!(receive(&mut stream), b"and on");
    assert!(server.shards().are_alive(Duration::from_millis(500)));
    assert_eq!(stats.stalls.load(Ordering::SeqCst), 1);
}

#[test]
fn a_shard_that_hangs_keeps_neither_the_port_nor_the_other_shards_when_the_server_ends() {
    let (server, echo) = start(Limits::default());
    let (mut hangs, mut other) = (connect(&server), connect(&server));
    hangs.write_all(&record(b"gate")).expect("sent");
    other.write_all(&record(b"here")).expect("sent");
    assert_eq!(receive(&mut other), b"here");
    wait_until("the gate is reached", || {
        echo.handled.lock().expect("a lock").iter().any(|record| record == b"gate")
    });
    let (address, shards) = (server.address(), server.shards().clone());
    let end = std::thread::spawn(move || server.stop());
    other.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(is_closed(&mut other));
    wait_until("the port is free", || TcpStream::connect(address).is_err());
    wait_until("one shard has ended", || shards.unfinished().len() == 1);
    assert!(!end.is_finished());
    echo.open.store(true, Ordering::SeqCst);
    end.join().expect("the end");
    assert!(shards.unfinished().is_empty());
}
