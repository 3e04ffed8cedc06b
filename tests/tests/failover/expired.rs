//! A Linux client that is cut off until its lease is over and the server has removed its state.

use crate::clients::{how, numbers};
use crate::guest::{CONNECTIONS, GuestJob, GuestKernel, HOLDER, LinuxGuest};
use crate::machines::SITE;
use crate::{LEASE, PORT, can_run, realm_options};
use client::{Client, Create, Flavor, OpenHow, Options};
use e2e::{Server, World, in_world_with};
use nfs4::NfsLockType4::WRITE_LT;
use nfs4::StableHow4::FILE_SYNC4;
use nfs4::{Bitmap4, FATTR4_SIZE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Acknowledged records of the guest before the cut.
const RECORDS_BEFORE: usize = 20;
/// The record of the client that gets the lock meanwhile.
const TAKEN: u64 = u64::MAX;
/// How long that client may take to get the lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause between two requests of a client that keeps its lease.
const RENEWAL: Duration = Duration::from_millis(500);
/// Refusals of connections that are not bound, at most: each of the guest's connections can meet
/// some before it is bound, and a client that loops meets thousands.
const UNBOUND_MAX: u64 = 100;

/// Reads the numbers in a file.
fn numbers_in(path: &Path) -> Vec<u64> {
    numbers(&std::fs::read(path).unwrap())
}

/// Returns how often the server has refused a request since its connection was not bound.
fn unbound(server: &Server) -> u64 {
    let mut stream = TcpStream::connect(server.metrics()).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let label =
        r#"orthrus_operations_total{operation="SEQUENCE",status="NFS4ERR_CONN_NOT_BOUND_TO_SESSION"} "#;
    page.lines().find_map(|line| line.strip_prefix(label)).map_or(0, |count| count.parse().unwrap())
}

/// A client that has got the lock of another, and keeps its own lease.
struct Thief {
    /// Unlocks when it is dropped.
    keeps: Sender<()>,
    thread: JoinHandle<()>,
}

impl Thief {
    /// Takes the lock as soon as the server gives it, and appends a record to the file.
    fn take(options: Options, path: &Path) -> Self {
        let mut client = Client::connect(options).unwrap();
        let how = OpenHow { create: Create::No, ..how() };
        let file = client.open_path("/export/locked", &how).unwrap();
        let (end, mut denied) = (Instant::now() + PATIENCE, 0);
        let mut lock = loop {
            match client.lock(&file, b"thief", WRITE_LT, 0, 10).unwrap() {
                Ok(lock) => break lock,
                Err(_) => denied += 1,
            }
            assert!(Instant::now() < end, "an expired client keeps its lock");
            std::thread::sleep(PAUSE);
        };
        assert!(denied > 0, "the lease was over before");
        let size = std::fs::metadata(path).unwrap().len();
        client.write(&file.handle, lock.stateid, size, FILE_SYNC4, &TAKEN.to_be_bytes()).unwrap();
        let (keeps, asked) = channel();
        let work = move || {
            while asked.recv_timeout(RENEWAL) == Err(RecvTimeoutError::Timeout) {
                client.getattr(&file.handle, Bitmap4::of(&[FATTR4_SIZE])).unwrap();
            }
            client.unlock(&file.handle, &mut lock, 0, 10).unwrap();
        };
        Self { keeps, thread: std::thread::spawn(work) }
    }

    /// Gives the lock up.
    fn unlock(self) {
        drop(self.keeps);
        self.thread.join().expect("it has kept its lease");
    }
}

/// Cuts a guest off until another client has its lock, and checks that it recovers.
fn recover(world: &World, kernel: &GuestKernel) {
    let server = world.server().for_everybody();
    let server = server.args(["--lease-time", &LEASE.to_string(), "--metrics", "127.0.0.1:0"]);
    let server = server.listen(SocketAddr::new(SITE.parse().unwrap(), PORT)).start();
    let job = GuestJob { name: "expired", gateway: SITE, settings: "EXPORT=/export".to_owned() };
    let mut guest = LinuxGuest::boot(world, kernel, HOLDER, &job);
    guest.wait_for_note(b'w', RECORDS_BEFORE);
    let options = Options::new(SITE, world.identity("alice", Flavor::Krb5p)).port(PORT);
    let path = world.export().join("locked");

    guest.cut();
    let thief = Thief::take(options, &path);
    let (taken, before) = (numbers_in(&path), unbound(&server));
    guest.heal();
    let healed = Instant::now();
    let reported = guest.wait_for_note(b'e', 0) - healed;
    guest.wait_for_note(b'p', 0);
    let opened = guest.wait_for_note(b'd', 0) - healed;
    assert_eq!(numbers_in(&path), taken, "a write without the lock");
    thief.unlock();
    guest.wait_for_note(b'n', 0);
    let refused = unbound(&server) - before;
    guest.wait();

    // The last record before the cut can be there without a reply.
    let last = taken.len() as u64 - 1;
    let acknowledged = guest.noted(b'w') as u64;
    assert!(acknowledged == last || acknowledged + 1 == last, "{acknowledged} of {last} records");
    assert!(numbers_in(&path).into_iter().eq((1..=last).chain([TAKEN, 0])), "{:?}", numbers_in(&path));
    assert_eq!(numbers_in(&world.export().join("plain")), [1, 2]);
    assert_eq!(numbers_in(&world.export().join("new")), [1]);
    eprintln!(
        "Linux {} with {CONNECTIONS} connections reports its lost lock {:.1} s after the network is back, and \
         has opened its file again after {:.1} s; {refused} requests came over connections that were not bound",
        kernel.version(),
        reported.as_secs_f64(),
        opened.as_secs_f64(),
    );
    assert!(refused <= UNBOUND_MAX, "{refused} requests over connections that were not bound");
}

#[test]
#[ignore = "takes up to half a minute: cargo xtask cluster"]
fn a_linux_client_whose_lease_has_expired_reports_its_lost_lock_and_goes_on() {
    // RFC 8881 sections 8.4.3 and 18.46.3
    if !can_run() {
        return;
    }
    in_world_with(&realm_options(), |world| {
        if let Some(kernel) = GuestKernel::find() {
            recover(world, &kernel);
        }
    });
}
