//! Many connections at once; `cargo xtask connections` asks for as many as a site may have.

use e2e::{Serve, empty_folder, rss_kib};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

/// The connections that the settings allow.
const CONNECTIONS_MAX: u64 = 100_000;
/// The limit of the unit (`LimitNOFILE=`), of which connections get a quarter.
const DESCRIPTORS: u64 = 1_048_576;
/// Descriptors of this process besides its connections.
const OTHERS: u64 = 100;
/// Connections from one address: fewer than there are ports.
const PER_ADDRESS: u64 = 25_000;

/// A COMPOUND of NFSv4.0 with PUTROOTFH alone, by AUTH_SYS, as a record (RFC 5531 section 9).
fn call() -> Vec<u8> {
    let words: [u32; 19] = [7, 0, 2, 100_003, 4, 1, 1, 20, 0, 0, 12345, 12345, 0, 0, 0, 0, 0, 1, 24];
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let mark = 0x8000_0000 | u32::try_from(body.len()).expect("it is short");
    [&mark.to_be_bytes()[..], &body].concat()
}

/// Connects from a loopback address of its own, so that there are enough ports.
fn connect(server: SocketAddr, number: u64) -> TcpStream {
    let own = Ipv4Addr::new(127, 0, 1, u8::try_from(number / PER_ADDRESS).expect("few addresses"));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a descriptor");
    socket.bind(&SocketAddr::from((own, 0)).into()).expect("a port");
    socket.connect(&server.into()).unwrap_or_else(|error| panic!("connection {number}: {error}"));
    socket.into()
}

fn wanted() -> u64 {
    std::env::var("ORTHRUS_CONNECTIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(4000)
}

#[test]
fn thousands_of_connections_are_served_at_once() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let raised = setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS).is_ok();
    let descriptors = if raised { DESCRIPTORS } else { hard };
    if !raised {
        setrlimit(Resource::RLIMIT_NOFILE, hard.max(soft), hard).expect("up to the hard limit");
    }
    let count = wanted().min(descriptors / 4).min(descriptors - OTHERS);
    if count < wanted() {
        println!(
            "skipped: a process may open only {descriptors} files here, so {count} connections are tried"
        );
    }
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let export = "[[export]]\nmemory = 1048576\nsec = [\"sys\"]\nsecure = false\n";
    fs::write(&config, format!("[limits]\nconnections_max = {CONNECTIONS_MAX}\n{export}")).expect("ours");
    let server = Serve::new(folder.path().join("state")).for_everybody().arg("--config").arg(config).start();
    let (began, before) = (Instant::now(), rss_kib(server.pid()));
    let mut connections: Vec<_> = (0..count).map(|number| connect(server.address(), number)).collect();
    for round in 0..2 {
        for stream in &mut connections {
            stream.write_all(&call()).expect("the server reads");
        }
        for (number, stream) in connections.iter_mut().enumerate() {
            let mut reply = [0; 28];
            let read = stream.read_exact(&mut reply);
            read.unwrap_or_else(|error| panic!("round {round}, connection {number}: {error}"));
            // The transaction, a reply, accepted, no verifier, success; then the status of NFS.
            assert_eq!(reply[4..8], [0, 0, 0, 7]);
            assert_eq!(reply[24..28], [0; 4], "connection {number}");
            let mut rest = [0; 20];
            stream.read_exact(&mut rest).expect("the rest of the reply");
        }
    }
    let each = (rss_kib(server.pid()).saturating_sub(before)) as f64 / count as f64;
    eprintln!(
        "{count} connections in {:.1} s, {each:.1} KiB of the server each",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(server.counter("evicted"), 0, "{}", server.log());
}
