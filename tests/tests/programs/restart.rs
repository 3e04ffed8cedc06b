//! A server that dies without warning and comes back.

use client::{Client, Error, Filesystem, Flavor, OpenFile, OpenHow, Options, Security, TransportError};
use e2e::{Serve, Server, account, empty_folder, in_world, is_root, open_folder, pattern, status};
use nfs4::Nfsstat4::*;
use nfs4::{Bitmap4, FATTR4_SIZE, StableHow4, Stateid4};
use nix::unistd::{Gid, Uid, chown};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };

fn same_session(result: Result<(nfs4::NfsFh4<'static>, client::Attributes), Error>) -> bool {
    !result.err().is_some_and(|error| error.is_session_lost())
}

/// Kills and restarts a server, and checks that a client's handles and files are still there.
fn handles_survive(server: Serve, options: impl Fn(&Server) -> Options, note: &str) -> Server {
    let server = server.start();
    server.wait_for_log(note);
    let mut files = Filesystem::mount(options(&server), "/export").expect("it is exported");
    files.mkdir("folder").expect("a new name");
    files.write_file("folder/file", b"before").expect("the folder is new");
    files.write_file("folder/moved", b"moved").expect("the folder is new");
    let (folder, _) = files.lookup("folder").expect("it is there");
    let (file, _) = files.lookup("folder/file").expect("it is there");
    let (moved, _) = files.lookup("folder/moved").expect("it is there");

    let server = server.restarted();
    assert!(
        !same_session(files.lookup("folder")),
        "RFC 8881 section 2.10.6.2: a session ends with its server"
    );
    let client = files.client();
    client.recover().expect("the server is back");
    client.finish_reclaim().expect("there is nothing to reclaim");
    client.getattr(&folder, Bitmap4::of(&[FATTR4_SIZE])).expect("the handle is good");
    assert_eq!(client.read(&file, ANONYMOUS, 0, 100).expect("the handle is good").0, b"before");
    client.rename(&folder, b"moved", &folder, b"elsewhere").expect("the handle is good");
    assert_eq!(client.read(&moved, ANONYMOUS, 0, 100).expect("the handle is good").0, b"moved");
    let mut forged = moved.to_vec();
    forged.iter_mut().for_each(|byte| *byte ^= 0x55);
    assert_eq!(status(client.read(&forged, ANONYMOUS, 0, 1)), NFS4ERR_BADHANDLE);
    client.remove(&folder, b"elsewhere").expect("it is there");
    assert_eq!(status(client.read(&moved, ANONYMOUS, 0, 100)), NFS4ERR_STALE);
    server
}

#[test]
fn filehandles_survive_a_kill_and_a_restart() {
    // RFC 8881 section 4.2.3: persistent filehandles
    let folder = empty_folder();
    let export = folder.path().join("export");
    fs::create_dir(&export).expect("the folder is ours");
    let alice = account("alice");
    chown(&export, Some(alice.uid), Some(alice.gid)).expect("root may, and others own it already");
    let server = Serve::new(folder.path().join("state")).args(["--sec", "sys"]).arg(&export);
    let security = Security::sys_as(alice.uid.as_raw(), alice.gid.as_raw());
    let note = if is_root() { "the caller's own identity" } else { "serves as user" };
    handles_survive(server, |server| Options::new("127.0.0.1", security.clone()).port(server.port()), note);
}

#[test]
fn filehandles_survive_a_restart_of_a_server_without_root() {
    // RFC 8881 section 4.2.3: persistent filehandles
    if !is_root() {
        return eprintln!("skipped: only root can become nobody; the other test has run without root");
    }
    let folder = open_folder();
    for name in ["export", "state"] {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("the folder is ours");
        chown(&path, Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534))).expect("root may");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("root may");
    }
    let server = Serve::new(folder.path().join("state")).args(["--sec", "sys"]);
    let server = server.arg(folder.path().join("export")).unprivileged();
    let security = Security::sys_as(65534, 65534);
    let options = |server: &Server| Options::new("127.0.0.1", security.clone()).port(server.port());
    let server = handles_survive(server, options, "serves as user nobody (uid 65534)");
    let owner = fs::metadata(format!("/proc/{}", server.pid())).expect("it runs");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), 65534);
}

#[test]
fn after_a_restart_the_known_reclaim_and_the_unknown_do_not() {
    // RFC 8881 sections 8.4.2 (reclaim and grace), 18.51 (RECLAIM_COMPLETE), 18.32.3 (write
    // verifier)
    in_world(|world| {
        let server = world.server().start();
        let how = OpenHow::create(0o644).owner("owner");
        let options = Options { delay_max: Duration::ZERO, ..world.options(&server, "alice", Flavor::Krb5p) };
        let mut alice = Filesystem::mount(options, "/export").expect("it is exported");
        let file = alice.open("file", &how).expect("it is her folder");
        let client = alice.client();
        let before = client.write(&file.handle, file.stateid, 0, StableHow4::UNSTABLE4, b"before");
        let before = before.expect("it is open").writeverf;
        let session = client.session().clone();

        let server = server.restarted();
        let lost = client.lookup_path("/export").expect_err("sessions end with their server");
        assert_eq!(lost.status(), Some(NFS4ERR_BADSESSION));
        client.recover().expect("the server is back");
        assert_ne!(client.session().client_id, session.client_id);

        let options = Options {
            reclaim_complete: false,
            delay_max: Duration::ZERO,
            ..world.options(&server, "bob", Flavor::Krb5p)
        };
        let mut bob = Client::connect(options).expect("he is new");
        let read = OpenHow::read();
        // Not on record, within the grace period: section 15.1.9.5.
        assert_eq!(status(bob.reclaim_open(&file.handle, &read)), NFS4ERR_RECLAIM_BAD);
        assert_eq!(status(bob.open_handle(&file.handle, &read)), NFS4ERR_GRACE);

        let again = OpenHow::write().owner("owner");
        let file = client.reclaim_open(&file.handle, &again).expect("the server has its client on record");
        assert_eq!(status(client.open_handle(&file.handle, &read)), NFS4ERR_GRACE);
        client.finish_reclaim().expect("all is reclaimed");
        assert_eq!(status(client.reclaim_open(&file.handle, &again)), NFS4ERR_NO_GRACE);
        let after = client.write(&file.handle, file.stateid, 0, StableHow4::UNSTABLE4, b"after!");
        assert_ne!(after.expect("it is open").writeverf, before);
        bob.finish_reclaim().expect("he had nothing");
        assert_eq!(status(bob.reclaim_open(&file.handle, &read)), NFS4ERR_NO_GRACE);
        bob.open_handle(&file.handle, &read)
            .expect("all known clients are done, so the grace period is over");
        client.close_file(&file).expect("it is open");
    });
}

#[test]
fn the_grace_period_lasts_at_least_as_long_as_the_lease_that_clients_know() {
    // RFC 8881 section 8.4.2
    let (folder, export) = (empty_folder(), empty_folder());
    let config = folder.path().join("orthrus.toml");
    let with = |lease: u32| {
        let times = format!("lease_time = {lease}\ngrace_time = 5\n");
        let export =
            format!("path = {:?}\npseudo = \"/e\"\nsec = [\"sys\"]\nsecure = false\n", export.path());
        fs::write(&config, format!("{times}[[export]]\n{export}")).expect("the folder is ours");
    };
    with(30);
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let options = Options::new("127.0.0.1", Security::sys_as(0, 0)).port(server.port());
    let mut client = Client::connect(options).expect("it serves");
    client.lookup_path("/e").expect("it is exported");
    let server = server.restarted();
    server.wait_for_log("the grace period is 30 s");
    // None of its clients has reclaimed by then.
    with(5);
    let server = server.restarted();
    server.wait_for_log("the grace period is 30 s");
    client.recover().expect("the server is back");
    client.finish_reclaim().expect("there is nothing to reclaim");
    server.wait_for_log("the grace period has ended");
    let known = fs::read_to_string(folder.path().join("state/lease")).expect("the server made it");
    assert_eq!(known, "5\n", "no client goes on with the former lease");
}

/// A copy of one file that goes on after each restart, from the last byte that a COMMIT has
/// acknowledged.
struct ResumedCopy<'a> {
    client: Client,
    file: OpenFile,
    data: &'a [u8],
    acknowledged: &'a AtomicU64,
    restarts: u32,
}

impl ResumedCopy<'_> {
    const PIECE: usize = 300_001;

    fn run(&mut self) {
        while (self.acknowledged.load(Ordering::Relaxed) as usize) < self.data.len() {
            if let Err(error) = self.batch() {
                assert!(is_outage(&error), "{error}");
                self.recover();
            }
        }
        self.client.close_file(&self.file).expect("it is open");
    }

    fn batch(&mut self) -> Result<(), Error> {
        let start = self.acknowledged.load(Ordering::Relaxed) as usize;
        let end = self.data.len().min(start + 4 * Self::PIECE);
        let (mut at, mut verifiers) = (start, Vec::new());
        while at < end {
            let piece = &self.data[at..end.min(at + Self::PIECE)];
            let (handle, stateid) = (&self.file.handle, self.file.stateid);
            let written = self.client.write(handle, stateid, at as u64, StableHow4::UNSTABLE4, piece)?;
            at += written.count as usize;
            verifiers.push(written.writeverf);
        }
        let committed = self.client.commit(&self.file.handle, 0, 0)?;
        if verifiers.iter().all(|verifier| *verifier == committed) {
            self.acknowledged.store(at as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn recover(&mut self) {
        self.file = reclaimed(&mut self.client, &self.file);
        self.restarts += 1;
    }
}

/// Comes back after a restart, as soon as the server does, and reclaims the file that was open for
/// writing.
pub(crate) fn reclaimed(client: &mut Client, file: &OpenFile) -> OpenFile {
    let end = Instant::now() + Duration::from_secs(30);
    let how = OpenHow::write().owner(file.owner.clone());
    loop {
        let reclaimed = client.recover().and_then(|()| {
            let file = client.reclaim_open(&file.handle, &how)?;
            client.finish_reclaim()?;
            Ok(file)
        });
        match reclaimed {
            Ok(file) => return file,
            Err(error) => assert!(is_outage(&error) && Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether an operation failed because its server went away.
pub(crate) fn is_outage(error: &Error) -> bool {
    let closed = matches!(
        error,
        Error::Transport(TransportError::Closed | TransportError::Io(_) | TransportError::Connect(_))
    );
    closed || error.is_session_lost() || error.is_context_lost()
}

#[test]
fn a_copy_goes_on_over_kills_of_the_server_and_loses_nothing() {
    // RFC 8881 sections 8.4.2.1 and 18.3.3: reclaim, then repeat the writes that no COMMIT has
    // acknowledged.
    in_world(|world| {
        let mut server = world.server().start();
        let data = pattern(99, 40_000_003);
        let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
        let options = world.options(&server, "alice", Flavor::Krb5p).connections(4);
        let mut client = Client::connect(options).expect("a session");
        let file = client.open_path("/export/copy", &OpenHow::create(0o600)).expect("it is her folder");
        let mut copy = ResumedCopy { client, file, data: &data, acknowledged: &acknowledged, restarts: 0 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                copy.run();
                done.store(true, Ordering::Relaxed);
                eprintln!("the copy of {} bytes went on after {} restarts", data.len(), copy.restarts);
            });
            for _ in 0..4 {
                // Each time in the middle: when some more has been acknowledged.
                let more = acknowledged.load(Ordering::Relaxed) + 3_000_000;
                let end = Instant::now() + Duration::from_secs(30);
                while acknowledged.load(Ordering::Relaxed) < more && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let before = acknowledged.load(Ordering::Relaxed) as usize;
                assert!(!done.load(Ordering::Relaxed), "the copy ended before all kills");
                server.kill();
                let disk = fs::read(world.export().join("copy")).expect("on disk");
                assert!(disk.get(..before) == data.get(..before), "acknowledged data is not there");
                server.restart();
            }
        });
        assert!(copy.restarts >= 4, "{}", copy.restarts);
        assert!(fs::read(world.export().join("copy")).expect("on disk") == data, "the copy differs");
    });
}
