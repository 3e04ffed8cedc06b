//! Space and descriptors that a client with an expired lease holds, on real file systems: its
//! courtesy ends when others need them (RFC 8881 section 8.4.3).

use client::{Client, FilePosition, Filesystem, OpenFile, OpenHow, Options, Security};
use e2e::{Disk, Serve, Server, empty_folder, in_own_mounts, is_installed, is_root, status};
use nfs4::Nfsstat4::*;
use nfs4::StableHow4::FILE_SYNC4;
use nfs4::{Bitmap4, DataContent4, FATTR4_SIZE, NfsLockType4::WRITE_LT};
use nfs4::{OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A user without rights of its own.
const USER: u32 = 12345;
/// The shortest lease that a server grants, in seconds.
const LEASE: u64 = 5;
/// How long a busy machine may take until a lease has certainly run out.
const EXPIRED: Duration = Duration::from_secs(LEASE + 2);
/// How long a busy machine may take for a step; less than the 30 seconds between two trims of the
/// server, which also closes descriptors.
const PATIENCE: Duration = Duration::from_secs(15);
/// The size of a disk in bytes.
const DISK: u64 = 16 << 20;
/// The size of the removed file, and of the one that needs its space: both together find no room.
const FILE: u64 = 9 << 20;
const BLOCK: usize = 1 << 16;
/// The descriptors of a server that has few.
const FEW: usize = 1000;
/// Files that the client with an expired lease has open.
const FILES: usize = 64;

fn serve(folder: &Path, export: &Path) -> Server {
    let serve = Serve::new(folder.join("state")).args(["--sec", "sys", "--grace-time", "1"]);
    serve.args(["--lease-time", &LEASE.to_string()]).arg(export).start()
}

fn options(server: &Server) -> Options {
    Options::new("127.0.0.1", Security::sys_as(USER, USER)).port(server.port())
}

fn mount(server: &Server, export: &str) -> Filesystem {
    Filesystem::mount(options(server), export).expect("it is exported")
}

/// Keeps a client's lease until that of all silent clients has run out.
fn renew_until_others_expire(client: &mut Client) {
    let end = Instant::now() + EXPIRED;
    while Instant::now() < end {
        client.lookup_path("/").expect("it is there");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Checks that a client's state is gone.
fn assert_expired(files: &mut Filesystem, file: &OpenFile) {
    let lost = files.client().getattr(&file.handle, Bitmap4::of(&[FATTR4_SIZE]));
    assert!(lost.as_ref().is_err_and(client::Error::is_session_lost), "{lost:?}");
}

/// Continues to write at `offset` until the file is complete or the disk is full, and returns the
/// end of the written data.
fn fill(files: &mut Filesystem, file: &OpenFile, mut offset: u64) -> u64 {
    while offset < FILE {
        match files.client().write(&file.handle, file.stateid, offset, FILE_SYNC4, &[2; BLOCK]) {
            Ok(written) => offset += u64::from(written.count),
            full => {
                assert_eq!(status(full), NFS4ERR_NOSPC);
                break;
            }
        }
    }
    offset
}

/// Fills a disk on which a silent client holds a removed file.
fn space_comes_back(folder: &Path, disk: &Disk) {
    let server = serve(folder, disk.path());
    let name = format!("/{}", disk.path().file_name().and_then(|name| name.to_str()).expect("a plain name"));
    let mut gone = mount(&server, &name);
    let removed = gone.open("large", &OpenHow::create_new(0o644)).expect("a new name");
    gone.write_all(&removed, 0, &vec![1; FILE as usize]).expect("there is room");

    let mut alive = mount(&server, &name);
    alive.remove("large").expect("it is there");
    let file = alive.open("new", &OpenHow::create_new(0o644)).expect("a new name");
    let offset = fill(&mut alive, &file, 0);
    assert!(offset < FILE, "the removed file takes no space");
    assert_eq!(gone.client().read(&removed.handle, removed.stateid, 0, 1).expect("it is open").0, [1]);

    renew_until_others_expire(alive.client());
    assert_eq!(fill(&mut alive, &file, offset), FILE, "{}", server.log());
    assert_expired(&mut gone, &removed);
    alive.close(&file).expect("it is open");
    assert_eq!(fs::metadata(disk.path().join("new")).expect("it is there").len(), FILE);
}

#[test]
fn a_full_disk_gets_back_the_space_of_a_removed_file_that_a_silent_client_has_open()
// RFC 8881 section 8.4.3
{
    in_own_mounts(|| {
        let folders = [empty_folder(), empty_folder()];
        let disks =
            [Disk::tmpfs(folders[0].path(), "memory", DISK), Disk::ext4(folders[1].path(), "ext4", DISK)];
        std::thread::scope(|scope| {
            for (folder, disk) in folders.iter().zip(&disks) {
                scope.spawn(|| space_comes_back(folder.path(), disk));
            }
        });
    });
}

/// Opens a file at the server as often as one open can.
fn hold_descriptors(files: &mut Filesystem, name: &str) -> Result<(), client::Error> {
    let file = files.open(name, &OpenHow::new(OPEN4_SHARE_ACCESS_READ))?;
    let at = FilePosition { handle: &file.handle, stateid: file.stateid, offset: 0 };
    files.client().seek(at, DataContent4::NFS4_CONTENT_HOLE)?;
    let how = OpenHow { owner: Some(file.owner), ..OpenHow::new(OPEN4_SHARE_ACCESS_WRITE) };
    let file = files.open(name, &how)?;
    let locked = files.client().lock(&file, b"owner", WRITE_LT, 0, 1)?;
    assert!(locked.is_ok(), "no other client has the file");
    Ok(())
}

#[test]
fn opens_within_their_limits_leave_descriptors_to_connections_and_other_clients() {
    if !is_installed("prlimit", "util-linux") {
        return;
    }
    let folder = empty_folder();
    let export = folder.path().join("export");
    fs::create_dir(&export).expect("the folder is ours");
    for number in 0..FEW {
        let path = export.join(number.to_string());
        fs::write(&path, b"data").expect("the folder is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    }
    let prefix = ["prlimit".to_owned(), format!("--nofile={FEW}:{FEW}")];
    let server = Serve::new(folder.path().join("state")).behind(prefix);
    let server =
        server.args(["--sec", "sys", "--grace-time", "1", "--delegations", "none"]).arg(&export).start();
    let mount = |last| {
        let mut options = Options::new("127.0.0.1", Security::sys()).port(server.port());
        options.minor_version = 2;
        options.delay_max = PATIENCE;
        options.source = Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
        Filesystem::mount(options, "/export").expect("it is exported")
    };
    let mut numbers = 0..FEW;
    let mut next = || numbers.next().expect("the opens have a limit").to_string();
    let mut clients = Vec::new();
    for last in 1..=6 {
        let mut files = mount(last);
        let refused = loop {
            let held = hold_descriptors(&mut files, &next());
            if held.is_err() {
                break held;
            }
        };
        assert_eq!(status(refused), NFS4ERR_NOSPC, "{}", server.log());
        clients.push(files);
    }
    let mut stranger = mount(7);
    stranger.open(&next(), &OpenHow::new(OPEN4_SHARE_ACCESS_READ)).expect("others leave it some");
    assert!(!server.log().contains("Too many open files"), "{}", server.log());
}

/// Allows a server no more descriptors than it has open.
fn leave_no_descriptors(server: &Server) {
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").count();
    let limit = format!("--nofile={open}:{open}");
    let done = Command::new("prlimit").args(["--pid", &server.pid().to_string(), &limit]).status();
    assert!(done.expect("prlimit starts").success());
}

#[test]
fn a_server_without_descriptors_takes_those_of_a_silent_client() // RFC 8881 section 8.4.3
{
    if !is_root() {
        return eprintln!("skipped: only root lowers the limits of another process");
    }
    if !is_installed("prlimit", "util-linux") {
        return;
    }
    let folder = empty_folder();
    let export = folder.path().join("export");
    fs::create_dir(&export).expect("the folder is ours");
    fs::set_permissions(&export, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let server = serve(folder.path(), &export);
    // Without patience NFS4ERR_DELAY reaches the test.
    let hasty = Options { delay_max: Duration::ZERO, ..options(&server) };
    let mut gone = mount(&server, "/export");
    let mut held = Vec::new();
    for number in 0..FILES {
        let file = gone.open(&format!("{number}"), &OpenHow::create_new(0o644)).expect("a new name");
        let locked = gone.client().lock(&file, b"owner", WRITE_LT, 0, 1).expect("it is open");
        assert!(locked.is_ok(), "it is a new file");
        held.push(file);
    }
    let mut alive = Filesystem::mount(hasty, "/export").expect("it is exported");
    leave_no_descriptors(&server);
    let how = OpenHow::create_new(0o644);
    assert_eq!(status(alive.open("early", &how)), NFS4ERR_DELAY, "there are descriptors");
    held.iter()
        .for_each(|file| drop(gone.client().read(&file.handle, file.stateid, 0, 1).expect("it is open")));

    renew_until_others_expire(alive.client());
    let end = Instant::now() + PATIENCE;
    let file = loop {
        match alive.open("late", &how) {
            Ok(file) => break file,
            refused => assert_eq!(status(refused), NFS4ERR_DELAY),
        }
        assert!(Instant::now() < end, "the silent client keeps its descriptors:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(server.log().contains("gave way to a shortage"), "{}", server.log());
    alive.write_all(&file, 0, b"data").expect("there is room");
    assert_expired(&mut gone, &held[0]);
}
