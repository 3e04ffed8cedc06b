//! The server and programs of its machine at the same files.

use client::{Client, OpenHow, Options, Security};
use e2e::{Serve, Server, account, empty_folder, is_root};
use nfs4::{OPEN4_SHARE_ACCESS_READ, OpenDelegation4, Stateid4};
use nix::unistd::chown;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of a folder of alice's, started as administrators do who say nothing special, and her options.
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

fn recalled(client: &mut Client) -> Stateid4 {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        client.serve_callbacks(Duration::from_millis(20)).expect("the system helps");
        if let Some(stateid) = client.take_recalls().pop() {
            return stateid;
        }
    }
    panic!("no recall in {PATIENCE:?}");
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
