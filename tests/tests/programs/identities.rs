//! Identities of a running server: refreshed in live contexts, never silently wrong.

use client::Flavor;
use e2e::{Serve, Server, World, account, in_world, is_root, status};
use nfs4::Nfsstat4::*;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, chown};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a change may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A group that no machine has.
const GROUP: u32 = 54_321;

/// Gives this thread, and the programs that it starts, mounts of its own; `None` with the reason
/// where it cannot.
fn own_mounts() -> Option<()> {
    if !is_root() {
        eprintln!("skipped: only a server of root serves several users");
        return None;
    }
    unshare(CloneFlags::CLONE_NEWNS).expect("root may");
    mount(&["--make-rprivate", "/"]);
    Some(())
}

fn mount(arguments: &[&str]) {
    assert!(Command::new("mount").args(arguments).status().expect("it is installed").success());
}

/// Replaces a file of /etc by a copy that the test can change; returns the copy.
fn replace(world: &World, file: &str) -> PathBuf {
    let copy = world.path(Path::new(file).file_name().expect("a file").to_str().expect("text"));
    fs::copy(file, &copy).expect("there is room");
    mount(&["--bind", copy.to_str().expect("text"), file]);
    copy
}

/// A server with these settings, and alice and bob as in [`World::bare_server`].
fn serve(world: &World, settings: &str) -> Server {
    let mut text = format!("keytab = {:?}\n{settings}\n[principals]\n", world.realm.server_keytab());
    for user in ["alice", "bob"] {
        text += &format!("\"{user}@{}\" = {:?}\n", world.realm.name(), account(user).name);
    }
    text += &format!("[[export]]\npath = {:?}\n", world.export());
    let config = world.path("orthrus.toml");
    fs::write(&config, text).expect("the folder is ours");
    Serve::new(world.path("state")).arg("--config").arg(config).start()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_user_that_joins_a_group_need_not_wait_for_a_new_ticket() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        let groups = replace(world, "/etc/group");
        let (file, joined) = (world.export().join("file"), account("alice").name);
        fs::write(&file, b"for the group").expect("it is ours");
        chown(&file, None, Some(Gid::from_raw(GROUP))).expect("root may");
        fs::set_permissions(&file, Permissions::from_mode(0o040)).expect("root may");
        let server = serve(world, "identity.refresh = 86400");
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        assert_eq!(status(files.read_file("file")), NFS4ERR_ACCESS);
        let before = fs::read_to_string(&groups).expect("text");
        fs::write(&groups, format!("{before}orthrusgroup:x:{GROUP}:{joined}\n")).expect("it is ours");
        server.signal(Signal::SIGHUP);
        until("SIGHUP refreshes the context", || files.read_file("file").is_ok());
        server.wait_for_log("acts as uid");
        drop(server);

        let server = serve(world, "identity.refresh = 2");
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.read_file("file").expect("it is still in the group");
        fs::write(&groups, before).expect("it is ours");
        until("the context is refreshed by itself", || files.read_file("file").is_err());
        assert_eq!(status(files.read_file("file")), NFS4ERR_ACCESS);
    });
}

#[test]
fn users_without_an_account_are_logged_once_and_counted_or_refused() {
    in_world(|world| {
        let carol = |server: &Server| {
            let options = world.options(server, "alice", Flavor::Krb5);
            client::Client::connect(options).map(drop)
        };
        let config = |unknown: &str| {
            let text = format!(
                "keytab = {:?}\nrealms = [\"ELSEWHERE\"]\nidentity.unknown = {unknown:?}\n[[export]]\npath = {:?}\n",
                world.realm.server_keytab(),
                world.export()
            );
            let config = world.path("orthrus.toml");
            fs::write(&config, text).expect("the folder is ours");
            Serve::new(world.path("state")).arg("--config").arg(config)
        };
        let server = config("anonymous").start();
        (0..3).for_each(|_| carol(&server).expect("nobody may connect"));
        let name = format!("alice@{}", world.realm.name());
        server.wait_for_log(&format!("{name} acts as nobody: users of realm"));
        assert_eq!(server.log().matches("acts as nobody").count(), 1, "{}", server.log());
        server.signal(Signal::SIGUSR1);
        server.wait_for_log("contexts_of_nobody=3");
        drop(server);
        let server = config("refused").start();
        carol(&server).expect_err("the context is refused");
        server.wait_for_log("[identity] unknown = \"refused\"");
    });
}

/// With slapd stopped, libnss-ldapd is unavailable and sets ENOENT. Its user must not become
/// nobody.
#[test]
fn an_unavailable_name_service_delays_a_context_until_it_is_back() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        let folder = world.path("nss");
        fs::create_dir(&folder).expect("a new name");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/identity/tests/unavailable.c");
        let library = folder.join("libnss_orthrustest.so.2");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("a C compiler").success());
        let conf = world.path("nsswitch.conf");
        fs::write(&conf, "passwd: files orthrustest\ngroup: files orthrustest\n").expect("it is ours");
        mount(&["--bind", conf.to_str().expect("text"), "/etc/nsswitch.conf"]);
        let (groups_down, users) = (world.path("groups-down"), replace(world, "/etc/passwd"));
        let text = format!(
            "keytab = {:?}\n[principals]\n\"alice@{}\" = \"unavailable\"\n[[export]]\npath = {:?}\n",
            world.realm.server_keytab(),
            world.realm.name(),
            world.export()
        );
        let config = world.path("orthrus.toml");
        fs::write(&config, text).expect("the folder is ours");
        let server = Serve::new(world.path("state")).arg("--config").arg(config);
        let server = server.env("LD_LIBRARY_PATH", &folder).env("ORTHRUS_TEST_GROUPS_DOWN", &groups_down);
        let server = server.start();
        let connect = || client::Client::connect(world.options(&server, "alice", Flavor::Krb5p)).map(drop);
        let error = connect().expect_err("the account is unavailable");
        assert!(format!("{error:?}").contains("SYSTEM_ERR"), "{error:?}");
        server.wait_for_log("context not created yet");
        assert!(!server.log().contains("nobody"), "{}", server.log());
        let mut text = fs::read_to_string(&users).expect("text");
        text += "unavailable:x:4711:4711::/:/bin/false\n";
        fs::write(&users, text).expect("it is ours");
        connect().expect("the account is there");
    });
}
