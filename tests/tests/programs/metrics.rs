//! The metrics endpoint, and the log beside it.

use client::Flavor;
use e2e::{Server, in_world};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reads that are made by each flavor, enough for some nanoseconds in each stage.
const READS: usize = 20;

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.metrics()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// Asks for a page, and returns its status and body.
pub(crate) fn get(server: &Server, path: &str) -> (u16, String) {
    let mut stream = connect(server);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("room");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), body.to_owned())
}

pub(crate) fn page(server: &Server) -> String {
    let (status, body) = get(server, "/metrics");
    assert_eq!(status, 200, "{body}");
    body
}

pub(crate) fn value(page: &str, name: &str) -> f64 {
    let found = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in\n{page}"))
}

fn seconds(page: &str, flavor: Flavor, stage: &str) -> f64 {
    value(page, &format!("orthrus_stage_seconds_total{{flavor=\"{flavor}\",stage=\"{stage}\"}}"))
}

fn requests(page: &str, flavor: Flavor) -> f64 {
    value(page, &format!("orthrus_requests_total{{flavor=\"{flavor}\"}}"))
}

#[test]
fn metrics_have_the_time_of_each_flavors_requests_by_stage()
// RFC 2203 section 5.3.2: the protection of each service
{
    in_world(|world| {
        let server = world.server().args(["--metrics", "127.0.0.1:0"]).start();
        let mut before = page(&server);
        assert!(value(&before, "process_resident_memory_bytes") > 1e6, "{before}");
        for flavor in Flavor::ALL {
            let mut files = world.mount(&server, "alice", flavor);
            let name = format!("file-{flavor}");
            files.write_file(&name, &[7; 100_000]).expect("it can be written");
            (0..READS).for_each(|_| drop(files.read_file(&name).expect("it can be read")));
            let after = page(&server);
            assert!(value(&after, "orthrus_connections") >= 1.0, "{after}");
            assert!(value(&after, "orthrus_contexts") > 0.0 || flavor == Flavor::Sys, "{after}");
            // The tickets of the realm live for ten hours.
            assert_eq!(value(&after, "orthrus_contexts_expiring"), 0.0, "{after}");
            files.unmount().expect("the session ends");
            assert!(
                requests(&after, flavor) - requests(&before, flavor) >= READS as f64,
                "{flavor}: {after}"
            );
            for stage in ["queue", "unwrap", "execute", "wrap", "send"] {
                let spent = seconds(&after, flavor, stage) - seconds(&before, flavor, stage);
                let none = flavor == Flavor::Sys && ["unwrap", "wrap"].contains(&stage);
                assert!(if none { spent == 0.0 } else { spent > 0.0 }, "{flavor} {stage}: {spent}");
                assert!(spent < 60.0, "{flavor} {stage}: {spent}");
            }
            for other in Flavor::ALL.into_iter().filter(|other| *other != flavor) {
                // The client makes and ends its session with krb5i in every flavor.
                let more = requests(&after, other) - requests(&before, other);
                assert!(more < 5.0, "{more} of {other} during {flavor}");
            }
            before = page(&server);
        }
        for (operation, status) in [("READ", "NFS4_OK"), ("SEQUENCE", "NFS4_OK")] {
            let name = format!("orthrus_operations_total{{operation=\"{operation}\",status=\"{status}\"}}");
            assert!(value(&before, &name) >= READS as f64, "{before}");
        }
        assert!(value(&before, "process_cpu_seconds_total") > 0.0);
        assert!(value(&before, "orthrus_events_total{event=\"calls\"}") > 0.0);
    });
}

#[test]
fn metrics_report_health_readiness_version_and_the_grace_period_after_a_crash() {
    in_world(|world| {
        let server = world.server().args(["--metrics", "127.0.0.1:0"]).start();
        assert_eq!(get(&server, "/healthz"), (200, "healthy\n".to_owned()));
        assert_eq!(get(&server, "/readyz"), (200, "ready\n".to_owned()));
        assert_eq!(get(&server, "/nothing").0, 404);
        let before = page(&server);
        let build = format!("\northrus_build_info{{version=\"{}\",vectors=", env!("CARGO_PKG_VERSION"));
        assert!(before.contains(&build), "{before}");
        assert!(value(&before, "orthrus_uptime_seconds") < 60.0, "{before}");
        assert_eq!(value(&before, "orthrus_grace"), 0.0, "nobody has state to reclaim");
        let _files = world.mount(&server, "alice", Flavor::Krb5);
        let server = server.restarted();
        assert_eq!(value(&page(&server), "orthrus_grace"), 1.0);
        let (status, text) = get(&server, "/readyz");
        assert!(status == 200 && text.contains("grace period"), "{status} {text}");
        assert_eq!(get(&server, "/healthz").0, 200);
    });
}

#[test]
fn neither_silence_nor_garbage_nor_a_megabyte_of_headers_keeps_others_from_the_metrics_or_the_server_from_serving()
 {
    in_world(|world| {
        let server = world.server().args(["--metrics", "127.0.0.1:0"]).start();
        let silent: Vec<TcpStream> = (0..40).map(|_| connect(&server)).collect();
        let mut garbage = connect(&server);
        let _ = garbage.write_all(&[0xff; 3000]);
        let mut large = connect(&server);
        let header = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
        let _ = large.write_all(&header);
        let mut answer = Vec::new();
        let _ = large.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        assert!(value(&page(&server), "process_cpu_seconds_total") > 0.0);
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("file", b"data").expect("it can be written");
        files.unmount().expect("the session ends");
        drop((silent, garbage));
    });
}

#[test]
fn a_log_without_a_reader_costs_lines_and_no_request() {
    in_world(|world| {
        let mut server = world.server().args(["--metrics", "127.0.0.1:0"]).unread_log().start();
        let mut files = world.mount(&server, "alice", Flavor::Sys);
        files.write_file("file", b"data").expect("it can be written");
        let end = Instant::now() + Duration::from_secs(60);
        let dropped = || value(&page(&server), "orthrus_events_total{event=\"log_lines_dropped\"}");
        while dropped() == 0.0 {
            assert!(Instant::now() < end, "the log still finds room");
            // Each makes the server log all counters.
            server.signal(Signal::SIGUSR1);
            assert_eq!(files.read_file("file").expect("it is answered"), b"data");
        }
        files.unmount().expect("the session ends");
        server.signal(Signal::SIGTERM);
        let (status, _) = server.wait();
        assert!(status.success(), "{status}");
    });
}

#[test]
fn metrics_count_requests_by_operation_export_and_flavor_and_cryptography_by_enctype() {
    in_world(|world| {
        let server = world.server().args(["--metrics", "127.0.0.1:0"]).start();
        for flavor in [Flavor::Sys, Flavor::Krb5p] {
            let mut files = world.mount(&server, "alice", flavor);
            files.write_file("file", &[7; 100_000]).expect("it can be written");
            (0..READS).for_each(|_| drop(files.read_file("file").expect("it can be read")));
            let page = page(&server);
            let labels = format!("{{operation=\"READ\",export=\"/export\",flavor=\"{flavor}\"}}");
            let of = |metric: &str| value(&page, &format!("orthrus_request_{metric}{labels}"));
            assert!(of("seconds_count") >= READS as f64 && of("seconds_sum") > 0.0, "{page}");
            assert!(of("sent_bytes_total") >= 100_000.0 * READS as f64, "{page}");
            assert!(of("received_bytes_total") >= 40.0 * READS as f64, "{page}");
            let last = labels.replace('}', ",le=\"+Inf\"}");
            assert_eq!(value(&page, &format!("orthrus_request_seconds_bucket{last}")), of("seconds_count"));
            files.unmount().expect("the session ends");
        }
        let page = page(&server);
        for stage in ["unwrap", "wrap"] {
            let labels = format!("flavor=\"krb5p\",enctype=\"aes256-cts-hmac-sha1-96\",stage=\"{stage}\"");
            let of_enctype = value(&page, &format!("orthrus_protection_seconds_total{{{labels}}}"));
            let all = seconds(&page, Flavor::Krb5p, stage);
            assert!((of_enctype - all).abs() < 0.001 * all, "{stage}: {of_enctype} of {all}");
        }
        for step in ["verify_headers", "decrypt", "sign", "encrypt"] {
            let batches = value(&page, &format!("orthrus_crypto_batch_messages_count{{step=\"{step}\"}}"));
            let messages = value(&page, &format!("orthrus_crypto_batch_messages_sum{{step=\"{step}\"}}"));
            assert!(batches > 0.0 && messages >= batches, "{step}: {page}");
        }
        assert!(value(&page, "orthrus_window_lag_count") > 0.0, "{page}");
        let classes = page.matches("\northrus_window_lag_bucket{le=").count();
        assert_eq!(classes, 21, "Prometheus needs the same classes always: {page}");
        assert!(value(&page, "orthrus_identity_lookup_seconds_count{kind=\"principal\"}") > 0.0, "{page}");
        assert!(value(&page, "orthrus_thread_cpu_seconds{threads=\"shard\"}") > 0.0, "{page}");
        assert!(value(&page, "orthrus_pool_threads{pool=\"disk\"}") >= 0.0, "{page}");
        if e2e::is_installed("promtool", "prometheus") {
            let mut lint = std::process::Command::new("promtool");
            lint.args(["check", "metrics"]).stdin(std::process::Stdio::piped());
            let mut lint = lint.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
            lint.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("it reads");
            let ended = lint.wait_with_output().expect("it ends");
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
    });
}
