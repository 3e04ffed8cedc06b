//! The server and programs of its machine at the same files.

use crate::delegations::recalled;
use client::{Client, OpenHow, Options, Security};
use e2e::{Serve, Server, account, empty_folder, is_root};
use nfs4::{
    Lock4Args, Locker4, NfsLockType4, OPEN4_SHARE_ACCESS_BOTH as BOTH, OPEN4_SHARE_ACCESS_READ,
    OpenDelegation4, OpenToLockOwner4, StateOwner4,
};
use nix::unistd::chown;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Starts a server of a folder of alice's with default options, and returns her options.
fn plain(folder: &Path) -> (Server, Options, PathBuf) {
    let export = folder.join("export");
    fs::create_dir(&export).expect("the folder is ours");
    let alice = account("alice");
    chown(&export, Some(alice.uid), Some(alice.gid)).expect("root may, and others own it already");
    let server = Serve::new(folder.join("state")).args(["--sec", "sys"]).arg(&export).start();
    server.wait_for_log(if is_root() { "the caller's own identity" } else { "serves as user" });
    let security = Security::sys_as(alice.uid.as_raw(), alice.gid.as_raw());
    let options = Options::new("127.0.0.1", security).port(server.port());
    (server, Options { backchannel: true, ..options }, export)
}

/// A program of this machine.
fn shell(script: &str, file: &Path) -> Child {
    Command::new("sh").args(["-c", script, "sh"]).arg(file).spawn().expect("there is a shell")
}

#[test]
fn a_local_program_that_writes_has_a_delegation_recalled_and_goes_on() {
    // RFC 8881 section 10.4
    let folder = empty_folder();
    let (_server, options, export) = plain(folder.path());
    let mut alice = Client::connect(options).expect("the server is there");
    let file = alice.open_path("/export/file", &OpenHow::create(0o644)).expect("it is a new name");
    alice.close_file(&file).expect("it is open");
    let how = OpenHow { access: OPEN4_SHARE_ACCESS_READ, ..OpenHow::new(0) };
    let file = alice.open_path("/export/file", &how).expect("it may be read");
    let OpenDelegation4::OPEN_DELEGATE_READ(read) = &file.delegation else {
        return println!("skipped: no leases here: {:?}", file.delegation);
    };
    let stateid = read.stateid;
    assert!(shell("cat \"$1\"", &export.join("file")).wait().expect("a child").success());
    let mut local = shell("echo local >\"$1\"", &export.join("file"));
    assert_eq!(recalled(&mut alice), stateid);
    assert!(local.try_wait().expect("a child").is_none(), "it waits");
    alice.delegreturn(&file.handle, stateid).expect("it is hers");
    assert!(local.wait().expect("a child").success());
    let (data, _) = alice.read(&file.handle, file.stateid, 0, 10).expect("it is open");
    assert_eq!(data, b"local\n");
    alice.close_file(&file).expect("it is open");
    alice.close().expect("it is there");
}

/// Tries to lock a byte of a file in another process, and returns whether it was free.
fn lock_elsewhere(path: &Path, byte: u64) -> bool {
    let script = "import fcntl, sys\nf = open(sys.argv[1], 'r+b')\ntry: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))\nexcept BlockingIOError: sys.exit(3)\n";
    let status = Command::new("python3").args(["-c", script]).arg(path).arg(byte.to_string()).status();
    match status.expect("it was there a moment ago").code() {
        Some(0) => true,
        Some(3) => false,
        code => panic!("python ends with {code:?}"),
    }
}

#[test]
fn a_lock_of_a_client_stands_against_other_programs_and_a_crash_drops_it() {
    // RFC 8881 sections 9.5 and 8.4.2
    if Command::new("python3").arg("-V").output().is_err() {
        return println!("skipped: there is no python3");
    }
    let folder = empty_folder();
    let (mut server, options, export) = plain(folder.path());
    let path = export.join("file");
    let mut alice = Client::connect(options).expect("the server is there");
    let file = alice.open_path("/export/file", &OpenHow::create(0o644)).expect("it is a new name");
    let lock = alice.lock(&file, b"owner", NfsLockType4::WRITE_LT, 10, 10);
    lock.expect("it is open").expect("nobody else has it");
    assert!(!lock_elsewhere(&path, 15) && lock_elsewhere(&path, 9));
    server.kill();
    assert!(lock_elsewhere(&path, 15), "the kernel has dropped it");
    server.restart();
    let status = alice.read(&file.handle, file.stateid, 0, 1);
    assert!(status.is_err(), "the server has forgotten the session");
    alice.recover().expect("the server is there");
    let file =
        alice.reclaim_open(&file.handle, &OpenHow::new(BOTH)).expect("the server has its client on record");
    let lock_owner = StateOwner4 { clientid: 0, owner: b"owner".as_slice().into() };
    let open = OpenToLockOwner4 { open_seqid: 0, open_stateid: file.stateid, lock_seqid: 0, lock_owner };
    let (locktype, locker) = (NfsLockType4::WRITE_LT, Locker4::TRUE(open));
    let lock = Lock4Args { locktype, reclaim: true, offset: 10, length: 10, locker };
    alice.lock_with(&file.handle, lock).expect("it was its own").expect("nobody has taken it");
    alice.finish_reclaim().expect("that was all");
    assert!(!lock_elsewhere(&path, 15) && lock_elsewhere(&path, 9));
    alice.close_file(&file).expect("it is open");
    assert!(lock_elsewhere(&path, 15));
    alice.close().expect("it is there");
}
