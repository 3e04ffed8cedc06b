//! Deferred calls: the steps that run them, and their completions.

use super::*;

#[test]
fn a_deferred_call_delays_nothing_and_is_answered_when_it_completes() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&[record(b"later 1"), record(b"now"), record(b"later 2")].concat()).expect("sent");
    assert_eq!(receive(&mut stream), b"now");
    echo.wait_for_deferred(2);
    assert_eq!(server.stats().deferred.load(Ordering::SeqCst), 2);
    echo.complete_deferred();
    assert_eq!(receive(&mut stream), b"later 2");
    assert_eq!(receive(&mut stream), b"later 1");
    assert_eq!(server.stats().deferred.load(Ordering::SeqCst), 0);
}

#[test]
fn a_completion_for_a_closed_connection_is_dropped() {
    let (server, echo) = start(Limits::default());
    let mut gone = connect(&server);
    gone.write_all(&record(b"later")).expect("sent");
    echo.wait_for_deferred(1);
    drop(gone);
    wait_until("its end is seen", || gauge(&echo.closed) > 0);
    echo.complete_deferred();
    // Connections alternate between the two threads: this one is on the same thread.
    let (_other, mut stream) = (connect(&server), connect(&server));
    stream.write_all(&record(b"still here")).expect("sent");
    assert_eq!(receive(&mut stream), b"still here");
    assert_eq!(echo.closed.load(Ordering::SeqCst), 2, "the call may have used it after its end");
    assert_eq!(server.stats().deferred.load(Ordering::SeqCst), 0);
}

#[test]
fn a_connection_with_too_many_deferred_calls_is_not_read_until_some_complete() {
    let (server, echo) =
        start(Limits { deferred_requests_max: 2, batch_requests_max: 1, ..Limits::default() });
    let mut stream = connect(&server);
    stream.write_all(&record(b"later").repeat(5)).expect("sent");
    stream.write_all(&record(b"last")).expect("sent");
    for _ in 0..2 {
        echo.wait_for_deferred(2);
        // Other connections continue.
        let mut other = connect(&server);
        other.write_all(&record(b"other")).expect("sent");
        assert_eq!(receive(&mut other), b"other");
        assert_eq!(echo.deferred.lock().expect("a lock").len(), 2);
        echo.complete_deferred();
        (0..2).for_each(|_| assert_eq!(receive(&mut stream), b"later"));
    }
    // One deferred call leaves room for others.
    assert_eq!(receive(&mut stream), b"last");
    echo.wait_for_deferred(1);
    echo.complete_deferred();
    assert_eq!(receive(&mut stream), b"later");
}

#[test]
fn a_server_that_stops_does_not_wait_for_deferred_calls() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&record(b"later")).expect("sent");
    echo.wait_for_deferred(1);
    server.stop();
    assert!(is_closed(&mut stream));
    echo.complete_deferred();
}

#[test]
fn brief_steps_run_on_the_shard_and_are_answered() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    for _ in 0..100 {
        stream.write_all(&record(b"brief")).expect("sent");
        assert_eq!(receive(&mut stream), b"brief");
    }
    assert_eq!(echo.handed_over.load(Ordering::SeqCst), 0);
}

#[test]
fn steps_without_a_place_are_handed_over() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    let expected: Vec<Vec<u8>> = (0..100).map(|number| format!("brief {number:03}").into_bytes()).collect();
    stream.write_all(&expected.iter().flat_map(|brief| record(brief)).collect::<Vec<u8>>()).expect("sent");
    let mut received: Vec<Vec<u8>> = expected.iter().map(|_| receive(&mut stream)).collect();
    received.sort();
    assert_eq!(received, expected);
    assert!(echo.handed_over.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_brief_call_of_a_turn_after_a_step_does_not_wait_for_an_event() {
    const ROUNDS: u32 = 5;
    let (server, echo) = start(Limits::default());
    // Connections alternate between the two threads.
    let (mut long, _other, mut short) = (connect(&server), connect(&server), connect(&server));
    for stream in [&mut long, &mut short] {
        stream.write_all(&record(b"here")).expect("sent");
        assert_eq!(receive(stream), b"here");
    }
    let begin = Instant::now();
    for round in 1..=ROUNDS {
        echo.short.store(0, Ordering::SeqCst);
        long.write_all(&record(b"brief pause")).expect("sent");
        wait_until("the long request has begun", || gauge(&echo.long) >= round as usize);
        short.write_all(&record(b"brief short")).expect("sent");
        assert_eq!(receive(&mut short), b"brief short");
        assert_eq!(receive(&mut long), b"brief pause");
    }
    // An idle shard wakes once a second.
    assert!(begin.elapsed() < Duration::from_secs(1) * ROUNDS / 2, "{:?}", begin.elapsed());
}

#[test]
fn a_shard_whose_step_blocks_is_relieved_and_the_step_is_answered_later() {
    let (server, echo) = start(Limits::default());
    let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(&server)).collect();
    for stream in &mut streams[..2] {
        // Two steps for each shard: one blocks, and the other waits behind it.
        stream.write_all(&[record(b"hang 1"), record(b"hang 2")].concat()).expect("sent");
    }
    for stream in &mut streams {
        stream.write_all(&record(b"other")).expect("sent");
        assert_eq!(receive(stream), b"other");
        stream.write_all(&record(b"brief")).expect("sent");
        assert_eq!(receive(stream), b"brief");
    }
    assert!(server.stats().relieved.load(Ordering::SeqCst) >= 4);
    echo.open.store(true, Ordering::SeqCst);
    for stream in &mut streams[..2] {
        let mut late = [receive(stream), receive(stream)];
        late.sort();
        assert_eq!(late, [b"hang 1", b"hang 2"]);
    }
    for stream in &mut streams {
        stream.write_all(&record(b"brief")).expect("sent");
        assert_eq!(receive(stream), b"brief");
    }
}

#[test]
fn a_server_stops_while_a_step_blocks() {
    let (server, echo) = start(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&record(b"hang")).expect("sent");
    stream.write_all(&record(b"other")).expect("sent");
    assert_eq!(receive(&mut stream), b"other");
    server.stop();
    assert!(is_closed(&mut stream));
    echo.open.store(true, Ordering::SeqCst);
}
