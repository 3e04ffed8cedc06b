//! A server on a file system that lacks locks, as a mount of a cluster file system may.

use crate::fuse::{Fuse, FuseTraits, NAME};
use client::{Client, OpenHow, Options, Security};
use e2e::{Serve, empty_folder, in_own_mounts, orthrus, run, status};
use nfs4::NfsLockType4::WRITE_LT;
use nfs4::Nfsstat4::NFS4ERR_SERVERFAULT;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use std::fs;

/// A user without rights of its own.
const USER: u32 = 12345;

/// Warnings about the file system, each with a part of the remedy.
const SAID: [[&str; 2]; 3] = [
    ["it has no byte-range locks", "local_locks = false"],
    ["its times are whole seconds", "a second apart"],
    ["it is a FUSE file system", "noforget"],
];

#[track_caller]
fn says_what_is_missing(log: &str) {
    for [consequence, remedy] in SAID {
        let line = log.lines().find(|line| line.contains(consequence));
        let line = line.unwrap_or_else(|| panic!("nothing about {consequence:?}: {log}"));
        assert!(line.contains("WARN") && line.contains("export /foreign: "), "{line}");
        assert!(line.contains(remedy), "{line}");
    }
    let local = log.lines().filter(|line| line.contains("export /own: ") && line.contains("locks"));
    assert_eq!(local.count(), 0, "{log}");
}

// docs/cluster-file-systems.md
#[test]
fn missing_features_of_a_file_system_are_logged_with_consequence_and_remedy() {
    in_own_mounts(|| {
        let traits = FuseTraits { lock_error: Some(Errno::ENOLCK), ..FuseTraits::default() };
        let fuse = match Fuse::mount(traits) {
            Ok(fuse) => fuse,
            Err(why) => return println!("skipped: {why}"),
        };
        let (folder, own) = (empty_folder(), empty_folder());
        let config = folder.path().join("orthrus.toml");
        let export = |path: &std::path::Path, pseudo: &str| {
            format!("[[export]]\npath = {path:?}\npseudo = {pseudo:?}\nsec = [\"sys\"]\nsecure = false\n")
        };
        let state = folder.path().join("state");
        let text = format!("listen = \"127.0.0.1:0\"\nstate_dir = {state:?}\n{}", export(own.path(), "/own"));
        let both = format!("{text}{}", export(fuse.path(), "/foreign"));
        fs::write(&config, &both).expect("the folder is ours");
        let ended = run(orthrus(["serve", "--check", "--config"]).arg(&config));
        assert!(ended.status.success(), "it can be served: {ended:?}");
        says_what_is_missing(&ended.stderr);

        let server = Serve::new(&state).arg("--config").arg(&config).start();
        says_what_is_missing(&server.log());
        let options = Options::new("127.0.0.1", Security::sys_as(USER, USER)).port(server.port());
        let mut client = Client::connect(options).expect("it serves");
        let how = OpenHow { access: nfs4::OPEN4_SHARE_ACCESS_BOTH, ..OpenHow::new(0) };
        let file = client.open_path(&format!("/foreign/{NAME}"), &how).expect("it is there");
        assert_eq!(status(client.lock(&file, b"owner", WRITE_LT, 0, 1)), NFS4ERR_SERVERFAULT);
        server.wait_for_log("LOCK is refused, since the file system has no locks");
        client.close_file(&file).expect("it is open");
        drop(server);

        // A reload says it of the exports that it adds.
        fs::write(&config, &text).expect("the folder is ours");
        let server = Serve::new(&state).arg("--config").arg(&config).start();
        assert!(!server.log().contains("byte-range locks"), "{}", server.log());
        fs::write(&config, &both).expect("the folder is ours");
        server.signal(Signal::SIGHUP);
        server.wait_for_log("it has no byte-range locks");
    });
}
