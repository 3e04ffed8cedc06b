//! RPCSEC_GSS as no client should use it, with real contexts, against the real program.

use client::{
    CallOptions, Damage, Error, Flavor, GssCall, GssContext, Head, Protection, RawConnection, RpcError,
    Security, read_result,
};
use e2e::{Proxy, Server, World, in_world, pattern};
use nfs4::NFSPROC4_NULL;
use rpc::gss::{RpcGssProcT, RpcGssServiceT};
use rpc::{AcceptStat, AuthStat, MAXSEQ};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use RpcGssServiceT::{rpc_gss_svc_integrity, rpc_gss_svc_none, rpc_gss_svc_privacy};

const TIME: Duration = Duration::from_secs(10);
const SERVICES: [RpcGssServiceT; 3] = [rpc_gss_svc_none, rpc_gss_svc_integrity, rpc_gss_svc_privacy];

fn connect(address: SocketAddr) -> RawConnection {
    RawConnection::connect(&[address], TIME, 1 << 20).expect("it listens")
}

fn context(world: &World, server: &Server) -> Arc<GssContext> {
    let Security::Gss(credential) = world.identity("alice", Flavor::Krb5p) else {
        unreachable!("krb5p is GSS")
    };
    GssContext::establish(&mut connect(server.address()), &credential, TIME).expect("alice has a ticket")
}

/// Calls NULL and returns the result of the RPC layer.
fn null(connection: &mut RawConnection, call: GssCall) -> Result<(), Error> {
    let head = Head::nfs(call.sequence, NFSPROC4_NULL, Protection::Gss(call));
    head.call(connection, &[], TIME).map(drop)
}

fn denied(result: Result<(), Error>) -> AuthStat {
    match result {
        Err(Error::Rpc(RpcError::Auth(status))) => status,
        other => panic!("not denied: {other:?}"),
    }
}

fn is_garbage(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Rpc(RpcError::NotExecuted(AcceptStat::GARBAGE_ARGS))))
}

/// Checks that a call is dropped without a reply and that its connection is closed.
fn is_dropped(server: &Server, record: &[u8]) {
    let mut connection = connect(server.address());
    connection.send_record(record).expect("it listens");
    match connection.receive_record(TIME) {
        Err(client::TransportError::Closed) => {}
        other => panic!("neither dropped nor closed: {other:?}"),
    }
}

fn record(call: GssCall) -> Vec<u8> {
    let head = Head::nfs(call.sequence, NFSPROC4_NULL, Protection::Gss(call));
    head.record(&[]).expect("there are random bytes").split_off(4)
}

#[test]
fn a_replayed_or_too_old_call_is_dropped_and_the_context_goes_on() {
    // RFC 2203 section 5.3.3.1; RFC 8881 section 2.9.2: a dropped call closes its connection
    in_world(|world| {
        let server = world.server().start();
        let context = context(world, &server);
        assert!(context.window() >= 4096, "{}", context.window());
        let mut connection = connect(server.address());
        for service in SERVICES {
            let sent = record(GssCall::new(context.clone(), service));
            connection.exchange(&sent, TIME).expect("it is new");
            is_dropped(&server, &sent);
            null(&mut connection, GssCall::new(context.clone(), service)).expect("the context goes on");
        }
        let (top, window) = (1 << 20, context.window());
        context.set_next_sequence(top);
        null(&mut connection, GssCall::new(context.clone(), rpc_gss_svc_none)).expect("numbers may jump");
        context.set_next_sequence(top - window + 1);
        null(&mut connection, GssCall::new(context.clone(), rpc_gss_svc_none))
            .expect("the oldest of the window");
        for old in [top - window, top - window - 1, 1] {
            context.set_next_sequence(old);
            is_dropped(&server, &record(GssCall::new(context.clone(), rpc_gss_svc_none)));
        }
        context.set_next_sequence(top + 1);
        null(&mut connection, GssCall::new(context.clone(), rpc_gss_svc_privacy))
            .expect("the context goes on");
        assert_eq!(server.counter("window_drops"), 6);
        // Once a context, however many calls.
        assert_eq!(server.log().matches("outside of the sequence window").count(), 1, "{}", server.log());
    });
}

#[test]
fn forged_calls_are_denied_and_move_no_window() {
    // RFC 2203 section 5.3.3.3: RPCSEC_GSS_CREDPROBLEM; the verifier comes before the window
    in_world(|world| {
        let server = world.server().start();
        let context = context(world, &server);
        let mut connection = connect(server.address());
        for service in SERVICES {
            let mut call = GssCall::new(context.clone(), service);
            (call.sequence, call.body_sequence) = (MAXSEQ - 1, MAXSEQ - 1);
            call.damage = Damage::Verifier;
            assert_eq!(denied(null(&mut connection, call)), AuthStat::RPCSEC_GSS_CREDPROBLEM);
            null(&mut connection, GssCall::new(context.clone(), service)).expect("the window has not moved");
        }
        let mut destroy = GssCall::new(context.clone(), rpc_gss_svc_none);
        destroy.gss_procedure = RpcGssProcT::RPCSEC_GSS_DESTROY;
        destroy.damage = Damage::Verifier;
        assert_eq!(denied(null(&mut connection, destroy)), AuthStat::RPCSEC_GSS_CREDPROBLEM);
        null(&mut connection, GssCall::new(context.clone(), rpc_gss_svc_none)).expect("it was not destroyed");
    });
}

#[test]
fn bodies_that_contradict_the_credential_get_garbage_args() {
    // RFC 2203 sections 5.3.3.4.2 and 5.3.3.4.3: GARBAGE_ARGS
    in_world(|world| {
        let server = world.server().start();
        let context = context(world, &server);
        let mut connection = connect(server.address());
        for service in [rpc_gss_svc_integrity, rpc_gss_svc_privacy] {
            let mut call = GssCall::new(context.clone(), service);
            call.damage = Damage::Body;
            assert!(is_garbage(null(&mut connection, call)), "a damaged body with {service}");
            let mut call = GssCall::new(context.clone(), service);
            call.body_sequence += 1;
            assert!(is_garbage(null(&mut connection, call)), "another number in the body with {service}");
            for other in SERVICES.into_iter().filter(|other| *other != service) {
                let mut call = GssCall::new(context.clone(), service);
                call.body_service = other;
                assert!(is_garbage(null(&mut connection, call)), "{service} said, {other} sent");
            }
            null(&mut connection, GssCall::new(context.clone(), service)).expect("the context goes on");
        }
    });
}

#[test]
fn unknown_and_destroyed_contexts_and_other_versions_are_denied() {
    // RFC 2203 sections 5.1 (version; erratum 4067), 5.3.3.3 (handles, MAXSEQ) and 5.4
    // (destruction)
    in_world(|world| {
        let server = world.server().start();
        let context = context(world, &server);
        let mut connection = connect(server.address());
        for handle in [vec![], vec![0; 4], vec![7; context.handle().len()], vec![9; 300]] {
            let mut call = GssCall::new(context.clone(), rpc_gss_svc_integrity);
            call.handle = Some(handle);
            assert_eq!(denied(null(&mut connection, call)), AuthStat::RPCSEC_GSS_CREDPROBLEM);
        }
        for version in [0, 2, 3, u32::MAX] {
            let mut call = GssCall::new(context.clone(), rpc_gss_svc_none);
            call.gss_version = version;
            assert_eq!(denied(null(&mut connection, call)), AuthStat::AUTH_REJECTEDCRED, "version {version}");
        }
        let mut call = GssCall::new(context.clone(), rpc_gss_svc_none);
        call.sequence = MAXSEQ + 1;
        assert_eq!(denied(null(&mut connection, call)), AuthStat::RPCSEC_GSS_CTXPROBLEM);

        // Another connection than that of its set-up, before and after a third one has destroyed
        // it.
        null(&mut connect(server.address()), GssCall::new(context.clone(), rpc_gss_svc_privacy))
            .expect("it is known");
        context.destroy(&mut connect(server.address()), TIME).expect("it is ours");
        let call = GssCall::new(context.clone(), rpc_gss_svc_privacy);
        assert_eq!(denied(null(&mut connection, call)), AuthStat::RPCSEC_GSS_CREDPROBLEM);
        let again = context.destroy(&mut connection, TIME);
        assert_eq!(denied(again), AuthStat::RPCSEC_GSS_CREDPROBLEM);
    });
}

#[test]
fn thousands_of_calls_in_any_order_over_eight_connections_all_get_their_replies() {
    // RFC 2203 section 5.3.3.1: the server drops nothing within the window, whatever the order of
    // arrival.
    in_world(|world| {
        let server = world.server().start();
        let context = context(world, &server);
        let mut connections: Vec<_> = (0..8).map(|_| connect(server.address())).collect();
        let mut records: Vec<Vec<Vec<u8>>> = vec![Vec::new(); connections.len()];
        let count = context.window() - 1;
        for number in 0..count {
            let call = GssCall::new(context.clone(), SERVICES[number as usize % 3]);
            records[number as usize % 8].push(record(call));
        }
        // The newest first, and each connection as a whole before the next.
        for (connection, records) in connections.iter_mut().zip(&records).rev() {
            for record in records.iter().rev() {
                connection.send_record(record).expect("it listens");
            }
        }
        let mut replies = 0;
        for (connection, records) in connections.iter_mut().zip(&records) {
            for _ in records {
                connection.receive_record(TIME).expect("it is open").expect("every call has a reply");
                replies += 1;
            }
        }
        assert_eq!(replies, count);
        assert_eq!(server.counter("window_drops"), 0);
        assert_eq!(server.complaints(), [""; 0]);
    });
}

#[test]
fn a_client_with_eight_uneven_connections_repeats_nothing() {
    // RFC 8881 section 2.10.3 with RFC 2203 section 5.3.3.1: nconnect and krb5p
    in_world(|world| {
        let server = world.server().start();
        let data = pattern(3, 1 << 20);
        std::fs::write(world.export().join("file"), &data).expect("it is ours");
        let delays = [0, 11, 3, 0, 17, 1, 7, 23].map(Duration::from_millis).to_vec();
        let proxy = Proxy::start(server.address(), delays);
        let options =
            world.options(&server, "alice", Flavor::Krb5p).connections(8).port(proxy.address().port());
        let mut files = client::Filesystem::mount(options, "/export").expect("it is exported");
        let file = files.open("file", &client::OpenHow::read()).expect("it is there");
        let client = files.client();
        let (total, mut submitted, mut completed, mut done) = (4000u64, 0u64, 0u64, Vec::new());
        let begin = Instant::now();
        while completed < total {
            while submitted < total && client.outstanding() < 256 {
                let options = CallOptions { tag: submitted * 7919 % 4095 * 256, ..CallOptions::default() };
                client
                    .submit_read(&file.handle, file.stateid, options.tag, 256, options)
                    .expect("there is room");
                submitted += 1;
            }
            client.poll(Duration::from_millis(100), &mut done).expect("it goes on");
            for completion in done.drain(..) {
                let reply = completion.result.expect("every call has a reply");
                let at = completion.tag as usize;
                assert!(read_result(&reply).expect("a read").data[..] == data[at..at + 256]);
                completed += 1;
            }
        }
        let statistics = files.client().statistics();
        eprintln!("{total} reads over 8 uneven connections in {:?}: {statistics:?}", begin.elapsed());
        let repaired = (statistics.calls_repeated, statistics.reconnects, statistics.replies_dropped);
        assert_eq!(repaired, (0, 0, 0));
        assert_eq!(server.counter("window_drops"), 0);
        assert_eq!(server.complaints(), [""; 0]);
    });
}

/// Reads through `connections` connections, held back at random until up to 4,096 later calls have
/// gone over others. Returns the context that all of them were made in.
fn read_reordered(
    world: &World,
    server: &Server,
    flavor: Flavor,
    connections: usize,
    data: &[u8],
) -> Arc<GssContext> {
    let mut options = world.options(server, "alice", flavor).connections(connections);
    options.lag_max = Some(4096);
    let mut files = client::Filesystem::mount(options, "/export").expect("it is exported");
    let file = files.open("file", &client::OpenHow::read()).expect("it is there");
    let client = files.client();
    let (total, mut submitted, mut completed, mut done) = (12_000u64, 0u64, 0u64, Vec::new());
    while completed < total {
        while submitted < total && client.outstanding() < 64 {
            let options = CallOptions { tag: submitted * 7919 % 4095 * 256, ..CallOptions::default() };
            client.submit_read(&file.handle, file.stateid, options.tag, 256, options).expect("there is room");
            submitted += 1;
        }
        client.poll(Duration::from_millis(100), &mut done).expect("it goes on");
        for completion in done.drain(..) {
            let reply = completion.result.expect("every call has a reply");
            let at = completion.tag as usize;
            assert!(read_result(&reply).expect("a read").data[..] == data[at..at + 256]);
            client.recycle(reply);
            completed += 1;
        }
    }
    let statistics = client.statistics();
    let repaired = (statistics.calls_repeated, statistics.reconnects, statistics.replies_dropped);
    assert_eq!(repaired, (0, 0, 0), "{flavor} over {connections}");
    client.context().expect("it was used")
}

#[test]
fn one_context_over_1_to_16_connections_loses_nothing_when_thousands_of_calls_overtake() {
    // RFC 2203 section 5.3.3.1 with RFC 8881 section 2.10.3: nconnect and krb5, krb5i, krb5p
    in_world(|world| {
        let server = world.server().start();
        let data = pattern(3, 1 << 20);
        std::fs::write(world.export().join("file"), &data).expect("it is ours");
        let mut contexts = Vec::new();
        for flavor in [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            for connections in [1, 2, 4, 8, 16] {
                let accepted = server.counter("accepted");
                contexts.push(read_reordered(world, &server, flavor, connections, &data));
                let made = server.counter("accepted") - accepted;
                assert_eq!(made, connections as u64, "each connection is made once");
                assert_eq!(server.counter("window_drops"), 0, "{flavor} over {connections}");
            }
            // It was reordered, and by thousands.
            assert!(server.counter("lag_2048") > 0, "{flavor}: {}", server.log());
        }
        assert_eq!(server.complaints(), [""; 0]);

        // After all of that, a window still refuses used and old numbers.
        for context in &contexts {
            let mut connection = connect(server.address());
            let last = record(GssCall::new(context.clone(), rpc_gss_svc_privacy));
            connection.exchange(&last, TIME).expect("it is new");
            is_dropped(&server, &last);
            let next = context.next_sequence();
            context.set_next_sequence(1);
            is_dropped(&server, &record(GssCall::new(context.clone(), rpc_gss_svc_none)));
            context.set_next_sequence(next);
            null(&mut connection, GssCall::new(context.clone(), rpc_gss_svc_integrity)).expect("it goes on");
        }
        assert_eq!(server.counter("window_drops"), 2 * contexts.len() as u64);
    });
}
