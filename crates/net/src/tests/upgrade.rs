//! Connections that another server goes on with, and a server that goes on after all.

use super::*;
use crate::{InheritedConnections, NetImage};
use std::os::fd::OwnedFd;

const SOON: Duration = Duration::from_secs(10);

/// Brings a server to a standstill, and makes images of its connections.
fn still(server: &Running, echo: &EchoService) -> InheritedConnections {
    let until = Instant::now() + SOON;
    assert!(server.drain(until));
    echo.complete_deferred();
    assert!(server.park(until));
    server.image(until).expect("images")
}

/// Starts another server that goes on with the connections of one that is still.
fn successor(
    server: Running,
    inherited: InheritedConnections,
    shards: usize,
    limits: Limits,
) -> (Running, Arc<EchoService>) {
    // As another process would have it.
    let image: NetImage = image::decode(&image::encode(&inherited.image)).expect("an image");
    let copies = inherited.sockets.iter().map(|socket| socket.try_clone().expect("a descriptor"));
    let sockets: Vec<OwnedFd> = copies.collect();
    let inherited = InheritedConnections { image, sockets };
    inherited.check().expect("a sound image");
    let listener = server.listener().expect("a descriptor");
    let listener = Listener::inherit(listener).expect("a socket");
    let echo = Arc::new(EchoService::default());
    let next = listener.start_parked(echo.clone(), shards, limits, inherited);
    let next = next.expect("threads");
    drop(server);
    next.thaw();
    (next, echo)
}

#[test]
fn another_server_goes_on_with_connections_at_any_point_of_their_streams() {
    let (server, echo) = start(Limits::default());
    let mut clients: Vec<TcpStream> = (0..6).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write_all(&record(b"hello")).expect("sent");
        assert_eq!(receive(client), b"hello");
    }
    let halves = record(&[7; 100_000]);
    let (first, rest) = halves.split_at(50_000);
    clients[0].write_all(first).expect("sent");
    clients[1].write_all(&record(b"later, but sooner than that")).expect("sent");
    // Far more than a socket takes.
    (0..20).for_each(|_| clients[2].write_all(&record(b"big")).expect("sent"));
    clients[3].write_all(&record(b"pages")).expect("sent");
    clients[3].write_all(&[0x80, 0]).expect("sent");
    (0..20).for_each(|_| clients[4].write_all(&record(b"pages")).expect("sent"));
    echo.wait_for_deferred(1);
    let inherited = still(&server, &echo);
    assert_eq!(inherited.image.len(), 6);
    let (next, echo) = successor(server, inherited, 3, Limits::default());
    clients[0].write_all(rest).expect("sent");
    assert_eq!(receive(&mut clients[0]), [7; 100_000]);
    assert_eq!(receive(&mut clients[1]), b"later, but sooner than that");
    (0..20).for_each(|_| assert_eq!(receive(&mut clients[2]), vec![0; BIG]));
    let pages = [b"head".to_vec(), pattern(1, BIG / 2), b"tail".to_vec()].concat();
    assert_eq!(receive(&mut clients[3]), pages);
    clients[3].write_all(&[0, 3, b'e', b'n', b'd']).expect("sent");
    assert_eq!(receive(&mut clients[3]), b"end");
    (0..20).for_each(|_| assert_eq!(receive(&mut clients[4]), pages));
    clients[5].write_all(&record(b"idle until now")).expect("sent");
    assert_eq!(receive(&mut clients[5]), b"idle until now");
    let mut new = connect(&next);
    new.write_all(&record(b"new")).expect("sent");
    assert_eq!(receive(&mut new), b"new");
    assert_eq!(next.stats().connections.load(Ordering::SeqCst), 7);
    assert_eq!(echo.closed.load(Ordering::SeqCst), 0);
}

#[test]
fn a_successor_with_fewer_places_drops_strangers_and_reports_their_end() {
    let (server, echo) = start(Limits::default());
    let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    // The first is trusted.
    for client in &mut clients {
        client.write_all(&record(b"hello")).expect("sent");
        assert_eq!(receive(client), b"hello");
        echo.distrusts.store(true, Ordering::SeqCst);
    }
    let inherited = still(&server, &echo);
    let (next, echo) = successor(server, inherited, 1, Limits { connections_max: 2, ..Limits::default() });
    assert_eq!(echo.closed.load(Ordering::SeqCst), 1);
    assert!(is_closed(&mut clients[1]), "the oldest stranger");
    for client in [0, 2] {
        let client = &mut clients[client];
        client.write_all(&record(b"more")).expect("sent");
        assert_eq!(receive(client), b"more");
    }
    assert_eq!(next.stats().connections.load(Ordering::SeqCst), 2);
}

#[test]
fn a_server_that_goes_on_after_all_has_lost_nothing() {
    let (server, echo) = start(Limits::default());
    let mut clients: Vec<TcpStream> = (0..4).map(|_| connect(&server)).collect();
    for round in 0..20u8 {
        for (index, client) in clients.iter_mut().enumerate() {
            client.write_all(&record(&[round; 3])).expect("sent");
            (0..2).for_each(|_| client.write_all(&record(b"pages")).expect("sent"));
            client.write_all(&record(&vec![round; 30_000 * index + 1])).expect("sent");
        }
        drop(still(&server, &echo));
        let mut late = connect(&server);
        server.thaw();
        let pages = [b"head".to_vec(), pattern(1, BIG / 2), b"tail".to_vec()].concat();
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(receive(client), [round; 3]);
            (0..2).for_each(|_| assert_eq!(receive(client), pages));
            assert_eq!(receive(client), vec![round; 30_000 * index + 1]);
        }
        late.write_all(&record(b"late")).expect("sent");
        assert_eq!(receive(&mut late), b"late");
    }
    assert_eq!(echo.handled.lock().expect("a lock").len(), 20 * (4 * 4 + 1), "each request ran once");
}

#[test]
fn a_deferred_call_that_does_not_end_keeps_the_server_from_a_standstill() {
    let (server, echo) = start(Limits::default());
    let mut client = connect(&server);
    client.write_all(&record(b"later")).expect("sent");
    echo.wait_for_deferred(1);
    let until = Instant::now() + SOON;
    assert!(server.drain(until) && server.park(until));
    let busy = server.image(until).expect_err("a call is deferred");
    assert_eq!(busy.kind(), std::io::ErrorKind::ResourceBusy);
    server.thaw();
    echo.complete_deferred();
    assert_eq!(receive(&mut client), b"later");
}

#[test]
fn standstills_in_a_row_begin_no_call() {
    const ROUNDS: usize = 100;
    let (server, echo) = start(Limits::default());
    // All are watched anew when the server goes on, which takes a while.
    let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(&server)).collect();
    for _ in 0..ROUNDS {
        clients.iter_mut().for_each(|client| client.write_all(&record(b"later")).expect("sent"));
        for _ in 0..3 {
            drop(still(&server, &echo));
            server.thaw();
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                echo.complete_deferred();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for client in &mut clients {
            (0..ROUNDS).for_each(|_| assert_eq!(receive(client), b"later"));
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_handover_closes_connections_that_hold_too_much_of_memory() {
    let limits = Limits { handover_bytes_max: 8 << 20, ..Limits::default() };
    let (server, echo) = start(limits.clone());
    let mut greedy = narrow(&server);
    (0..40).for_each(|_| greedy.write_all(&record(b"big")).expect("sent"));
    let mut modest = connect(&server);
    modest.write_all(&record(b"hello")).expect("sent");
    assert_eq!(receive(&mut modest), b"hello");
    wait_until("replies wait", || server.stats().output_bytes.load(Ordering::SeqCst) > 8 << 20);
    let inherited = still(&server, &echo);
    assert_eq!(inherited.image.len(), 1);
    let (_next, _) = successor(server, inherited, 1, limits);
    modest.write_all(&record(b"more")).expect("sent");
    assert_eq!(receive(&mut modest), b"more");
    let mut rest = Vec::new();
    let ended = greedy.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() < 40 * BIG, "it is closed");
}
