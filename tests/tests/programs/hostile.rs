//! Bytes that no client sends, and clients that do not behave, while an honest one is served.

use client::{
    Client, Compound, Flavor, Head, OpenHow, Options, Protection, RawConnection, Security, TransportError,
};
use e2e::{Serve, Server, empty_folder, in_world, pattern, status};
use nfs4::{NFSPROC4_COMPOUND, NFSPROC4_NULL, Nfsstat4};
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use xdr::{Encode, Encoder};

const TIME: Duration = Duration::from_secs(20);

/// Limits of the server's memory in KiB: without any load, and for each idle connection with its
/// session and context.
const IDLE_KIB: u64 = 50 << 10;
const CONNECTION_KIB: u64 = 64;

/// The limits of a section of docs/limits.md.
fn limits(section: &str) -> HashMap<String, u64> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md");
    let page = fs::read_to_string(page).expect("the page of the limits is there");
    let part =
        page.split("\n## ").find(|part| part.lines().next() == Some(section)).expect("the section is there");
    let rows = part.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        Some((cells.next()?.trim_matches('`').to_owned(), value(cells.next()?)?))
    });
    rows.collect()
}

/// Reads `16,384` and `256 MiB`.
fn value(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let shift = match unit {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    Some(number.replace(',', "").parse::<u64>().ok()? << shift)
}

#[test]
fn sizes_in_the_page_of_the_limits_can_be_read() {
    assert_eq!(value("1,152 KiB"), Some((1 << 20) + (128 << 10)));
    assert_eq!(value("16,384"), Some(16384));
    assert_eq!(value("60 s"), None);
    assert!(limits("Connections")["record_size_max"] > 1 << 20);
}

fn server(folder: &Path) -> Server {
    let export = folder.join("export");
    fs::create_dir(&export).expect("the folder is ours");
    fs::set_permissions(&export, fs::Permissions::from_mode(0o777)).expect("it is ours");
    fs::write(export.join("file"), pattern(1, 1 << 20)).expect("it is ours");
    // The default for all users: the server reads everything that a peer sends.
    Serve::new(folder.join("state")).for_everybody().args(["--sec", "sys"]).arg(&export).start()
}

fn options(server: &Server) -> Options {
    Options::new("127.0.0.1", Security::sys()).port(server.port())
}

fn connect(server: &Server) -> RawConnection {
    RawConnection::connect(&[server.address()], TIME, 4 << 20).expect("the server accepts")
}

/// Makes honest requests: sends on `there` after the first, and ends after the first that follows
/// `stop`. Returns their number and the longest time.
fn honest(options: Options, path: &str, there: &Sender<()>, stop: &AtomicBool) -> (u64, Duration) {
    let mut client = Client::connect(options).expect("it is welcome");
    there.send(()).expect("somebody waits");
    let (mut count, mut slowest, mut last) = (0, Duration::ZERO, false);
    while !last {
        last = stop.load(Ordering::Relaxed);
        let begin = Instant::now();
        client.lookup_path(path).expect("it is served");
        slowest = slowest.max(begin.elapsed());
        count += 1;
    }
    assert_eq!(client.statistics().reconnects, 0, "an honest connection was closed");
    client.close().expect("the session ends");
    (count, slowest)
}

/// Runs an attack while an honest client is at work, and checks that the server has taken it well.
fn attack(server: &mut Server, options: Options, path: &str, attack: impl FnOnce(&Server)) {
    let (stop, begin) = (&AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let (there, begun) = mpsc::channel();
        let honest = scope.spawn(move || honest(options, path, &there, stop));
        // Where the main thread fails it hangs up, and the assertion below reports it.
        let _ = begun.recv();
        let attacked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attack(server)));
        stop.store(true, Ordering::Relaxed);
        let (count, slowest) = honest.join().expect("the honest client is served");
        eprintln!("{count} honest requests in {:?}, the slowest {slowest:?}", begin.elapsed());
        assert!(slowest < Duration::from_secs(5), "{slowest:?}");
        if let Err(panic) = attacked {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(server.is_running(), "{}", server.log());
    assert!(!server.log().contains("panicked") && !server.log().contains("defect"), "{}", server.log());
    let allowed = 4 * (begin.elapsed().as_secs() as usize + 2);
    let lines = server.complaints().len();
    assert!(lines <= allowed, "{lines} lines, {allowed} allowed:\n{}", server.log());
}

#[test]
fn a_malformed_record_closes_its_connection_and_is_counted() {
    // RFC 5531 section 11: record marking
    let folder = empty_folder();
    let mut server = server(folder.path());
    let record_size_max = limits("Connections")["record_size_max"] as u32;
    let options = options(&server);
    attack(&mut server, options, "/export/file", |server| {
        for mark in [u32::MAX, 0x8000_0000 | (record_size_max + 1), 0x7fff_ffff] {
            let mut connection = connect(server);
            let _ = connection.send_bytes(&mark.to_be_bytes());
            let _ = connection.send_bytes(&[0; 4096]);
            assert!(connection.wait_closed(TIME), "{mark:#x}");
        }
        for fragment in [&[0, 0, 0, 0][..], &[0, 0, 0, 1, 7], &[0, 0, 0, 4, 1, 2, 3, 4]] {
            let mut connection = connect(server);
            let many = fragment.repeat(1000);
            // The server closes it somewhere in between.
            for _ in 0..100 {
                if connection.send_bytes(&many).is_err() {
                    break;
                }
            }
            assert!(connection.wait_closed(TIME), "endless fragments {fragment:?}");
        }
        for seed in 0..200 {
            let mut connection = connect(server);
            let _ = connection.send_bytes(&pattern(seed, 20_000));
            let _ = connection.finish_sending();
            assert!(connection.wait_closed(TIME), "random bytes {seed}");
        }
        for seed in 0..200 {
            let mut connection = connect(server);
            // A record as such, but no message.
            let mut record = pattern(seed, 400);
            record[4..8].copy_from_slice(&[0, 0, 0, 9]);
            connection.send_record(&record).expect("the mark is right");
            assert!(connection.wait_closed(TIME), "random record {seed}");
        }
    });
    assert!(server.counter("malformed") >= 100);
    assert!(server.counter("malformed_records") >= 200);
    for said in ["closed, because it sent no RPC message", "above the limit of"] {
        assert!(server.complaints().iter().any(|line| line.contains(said)), "{said}: {}", server.log());
    }
}

fn sys_head(xid: u32, procedure: u32) -> Head {
    let mut body = Encoder::new();
    body.u32(1).opaque(b"client").u32(1).u32(1).u32(0);
    Head::nfs(xid, procedure, Protection::Plain { flavor: 1, body: body.into_vec().into() })
}

#[test]
fn cut_off_and_overlong_compounds_get_an_answer_or_a_closed_connection() {
    // RFC 5531 section 9 (GARBAGE_ARGS), RFC 8881 sections 15.1.1.1 (BADXDR) and 15.1.3.8
    // (TOO_MANY_OPS)
    let folder = empty_folder();
    let mut server = server(folder.path());
    let mut member = Client::connect(options(&server)).expect("a session");
    let options = options(&server);
    attack(&mut server, options, "/export/file", |server| {
        let mut compound = Compound::sessionless(1);
        compound.putrootfh().lookup(b"export").getattr(client::Attributes::STAT).getfh();
        let record =
            sys_head(7, NFSPROC4_COMPOUND).record(&compound.into_arguments()).expect("no randomness");
        let record = &record[4..];
        let mut connection = connect(server);
        let (mut answers, mut closed) = (0, 0);
        for length in 0..record.len() {
            // The server may have closed it after the last one.
            let sent = connection.send_record(&record[..length]);
            match sent.and_then(|()| connection.receive_record(TIME)) {
                Ok(Some(_)) => answers += 1,
                Ok(None) => panic!("neither an answer nor an end for {length} bytes"),
                Err(_) => {
                    closed += 1;
                    connection = connect(server);
                }
            }
        }
        eprintln!("{answers} answers and {closed} closed connections for records cut off");
        assert!(answers > 0 && closed > 0);

        for (operations, claimed) in [(5000, 5000), (3, 5000), (3, u32::MAX), (5000, 1)] {
            let mut compound = Compound::sessionless(1);
            (0..operations).for_each(|_| _ = compound.putrootfh());
            compound.claim_operations(claimed);
            let head = sys_head(8, NFSPROC4_COMPOUND);
            let record = head.record(&compound.into_arguments()).expect("no randomness");
            let begin = Instant::now();
            let mut connection = connect(server);
            let reply = connection.exchange(&record[4..], TIME);
            let size = reply.map_or(0, |reply| reply.len());
            assert!(begin.elapsed() < Duration::from_secs(5) && size < 8192, "{claimed}: {size} bytes");
        }
        let mut compound = member.compound();
        (0..5000).for_each(|_| _ = compound.putrootfh());
        let result = member.call(compound).and_then(|reply| reply.check());
        assert_eq!(status(result), Nfsstat4::NFS4ERR_TOO_MANY_OPS);
        member.lookup_path("/export/file").expect("the session goes on");
    });
}

#[test]
fn tokens_of_garbage_are_refused_and_the_next_user_gets_a_context() {
    // RFC 2203 section 5.2.3.1: a failed set-up is an answer with its major status
    in_world(|world| {
        fs::write(world.export().join("file"), "x").expect("it is ours");
        let mut server = world.server().start();
        let options = world.options(&server, "alice", Flavor::Krb5p);
        attack(&mut server, options, "/export/file", |server| {
            let mut credential = Encoder::new();
            let (procedure, service) = (RpcGssProcT::RPCSEC_GSS_INIT, RpcGssServiceT::rpc_gss_svc_none);
            GssCredential { procedure, sequence: 0, service, handle: &[] }.encode(&mut credential);
            let body = credential.into_vec().into();
            let head = Head::nfs(3, NFSPROC4_NULL, Protection::Plain { flavor: 6, body });
            for (seed, length) in
                [0, 1, 17, 4000, 60 << 10, 128 << 10, (128 << 10) + 1, 900 << 10].into_iter().enumerate()
            {
                for start in [&[][..], &[0x60, 0x83, 2, 0, 0], &[0x60, 0x84, 0xff, 0xff, 0xff, 0xff]] {
                    let mut token = pattern(seed as u32, length);
                    let count = start.len().min(length);
                    token[..count].copy_from_slice(&start[..count]);
                    let mut arguments = Encoder::new();
                    arguments.opaque(&token);
                    let record = head.record(arguments.as_slice()).expect("no randomness");
                    let reply = connect(server).exchange(&record[4..], TIME).expect("an answer");
                    assert!(reply.len() < 1024, "{}", reply.len());
                }
            }
        });
        assert!(server.counter("contexts_refused") >= 15);
        assert_eq!(server.counter("contexts_created"), 1);
        let mut bob = Client::connect(world.options(&server, "bob", Flavor::Krb5p)).expect("he has a ticket");
        bob.lookup_path("/export").expect("he is served");
    });
}

#[test]
fn hundreds_of_idle_and_slow_connections_hold_no_more_memory_than_the_limits_say() {
    // The bound is computed from docs/limits.md.
    const HALF_OPEN: u64 = 400;
    const SLOW_WRITERS: u64 = 48;
    const SLOW_READERS: u64 = 2;
    let folder = empty_folder();
    let mut server = server(folder.path());
    let idle = server.rss_kib();
    assert!(idle < IDLE_KIB, "{idle} KiB without any load");
    let net = limits("Connections");
    let options = options(&server);
    let mut peak = 0;
    attack(&mut server, options.clone(), "/export/file", |server| {
        let half_open: Vec<_> = (0..HALF_OPEN)
            .map(|number| {
                let mut stream = TcpStream::connect(server.address()).expect("it listens");
                // Some say nothing, some begin a mark.
                stream.write_all(&[0x80, 0][..number as usize % 3]).expect("it is open");
                stream
            })
            .collect();
        let size = net["record_size_max"] as u32;
        let mut slow: Vec<_> = (0..SLOW_WRITERS).map(|_| connect(server)).collect();
        for connection in &mut slow {
            connection.send_bytes(&(0x8000_0000 | size).to_be_bytes()).expect("it is open");
            connection.send_bytes(&vec![0; size as usize - 4096]).expect("it is open");
        }
        let mut readers: Vec<_> = (0..SLOW_READERS)
            .map(|_| {
                let mut reader = Client::connect(options.clone()).expect("a session");
                let file = reader.open_path("/export/file", &OpenHow::read()).expect("it is there");
                for _ in 0..reader.slots() {
                    let options = client::CallOptions::default();
                    reader
                        .submit_read(&file.handle, file.stateid, 0, 1 << 20, options)
                        .expect("there is room");
                }
                // It asks and does not take.
                reader.flush().expect("the requests are small");
                reader
            })
            .collect();
        for _ in 0..20 {
            for connection in &mut slow {
                connection.send_bytes(&[0]).expect("slow, but not too slow");
            }
            std::thread::sleep(Duration::from_millis(50));
            peak = peak.max(server.rss_kib());
        }
        for reader in &mut readers {
            // All is there when it takes it after all.
            reader.wait_all().expect("every READ has its reply");
        }
        peak = peak.max(server.rss_kib());
        drop((half_open, slow));
    });
    let kib = |name: &str| net[name] >> 10;
    let connections = HALF_OPEN + SLOW_WRITERS + SLOW_READERS + 1;
    let input = (SLOW_WRITERS * kib("record_size_max")).min(kib("input_bytes_max"));
    // The batch of requests that goes over the limit of a reader is answered as a whole.
    let batch = net["batch_requests_max"];
    let output = (SLOW_READERS * (kib("output_bytes_max") + batch * 1024)).min(kib("output_bytes_total_max"));
    let bound = IDLE_KIB + connections * CONNECTION_KIB + input + output;
    eprintln!(
        "resident: {idle} KiB idle, {peak} KiB at most under load, {bound} KiB allowed by docs/limits.md"
    );
    assert!(peak < bound, "{peak} KiB, {bound} KiB allowed");
}

#[test]
fn a_flood_of_connections_is_accepted_up_to_the_limit_and_the_rest_closed() {
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let text =
        "[limits]\nconnections_max = 50\n[[export]]\nmemory = 1048576\nsec = [\"sys\"]\nsecure = false\n";
    fs::write(&config, text).expect("the folder is ours");
    let serve = Serve::new(folder.path().join("state")).for_everybody();
    let mut server = serve.arg("--config").arg(&config).start();
    let options = options(&server);
    attack(&mut server, options, "/memory", |server| {
        std::thread::sleep(Duration::from_millis(200));
        let mut flood: Vec<_> = (0..200).map(|_| connect(server)).collect();
        let closed =
            flood.iter_mut().rev().filter_map(|one| one.receive_record(Duration::from_millis(20)).err());
        let closed =
            closed.filter(|error| matches!(error, TransportError::Closed | TransportError::Io(_))).count();
        assert_eq!(closed, 200 - 49, "all but 50, of which the honest client has one");
    });
    // Silent connections make room for newer ones, and none takes the place of the honest one.
    let counts = server.counters(&["refused", "evicted"]).map(|(_, count)| count);
    assert_eq!(counts.iter().sum::<u64>(), 200 - 49, "{counts:?}");
}
