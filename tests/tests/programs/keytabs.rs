//! The server's keytab: which keys are accepted, and its replacement while the server runs.

use client::{Client, Flavor, GssContext, GssCredential, Options, RawConnection, Security};
use e2e::{
    Serve, Server, World, in_world, in_world_with, is_installed, is_root, nobody, orthrus, run, until,
};
use gss::Credential;
use nix::sched::{CloneFlags, unshare};
use realm::RealmOptions;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The keytab of a machine, which the documentation names.
const KEYTAB: &str = "/etc/krb5.keytab";

/// Runs a command of the realm's administrator.
fn kadmin(world: &World, query: &str) {
    world.realm.kadmin(&format!("{query}\n")).expect("the realm has an administrator");
}

/// Exports a new version of the server's key to a file, alone.
fn rotate(world: &World, keytab: &Path) {
    kadmin(world, &format!("ktadd -k {} nfs/localhost", keytab.display()));
}

/// Connects with a ticket that the KDC gives now.
fn connect(world: &World, server: &Server, cache: &str) -> Result<(), client::Error> {
    let cache = world.path(cache);
    world.realm.kinit("alice", &cache).expect("the KDC gives a ticket");
    let ticket = Credential::Ccache(format!("FILE:{}", cache.display()));
    let security = Security::of(Flavor::Krb5p, "localhost", ticket);
    Client::connect(Options::new("127.0.0.1", security).port(server.port())).map(drop)
}

fn serve(world: &World, keytab: &Path) -> Serve {
    Serve::new(world.path("state")).arg("--keytab").arg(keytab).arg(world.export())
}

#[test]
fn a_replaced_keytab_is_used_at_once_and_a_broken_one_is_not() {
    in_world(|world| {
        let (keytab, next) = (world.path("keytab"), world.path("next"));
        fs::copy(world.realm.server_keytab(), &keytab).expect("it is ours");
        fs::set_permissions(&keytab, Permissions::from_mode(0o644)).expect("it is ours");
        let server = serve(world, &keytab).start();
        server.wait_for_log("can be read by all users of this machine: chmod 600");
        connect(world, &server, "first").expect("the key fits");
        rotate(world, &next);
        connect(world, &server, "second").expect_err("the server has the old key only");
        server.wait_for_log("the ticket does not fit a key of the keytab");
        assert!(server.log().contains("kvno"), "the version is named: {}", server.log());
        assert!(!server.log().contains("/proc/self/fd"), "{}", server.log());
        fs::rename(&next, &keytab).expect("the folder is ours");
        connect(world, &server, "third").expect("the new key is used without a restart");
        server.wait_for_log("has changed: its keys are in use");
        for broken in [&b"no keytab"[..], b"\x05\x02"] {
            fs::write(&keytab, broken).expect("it is ours");
            std::thread::sleep(std::time::Duration::from_millis(1100));
            connect(world, &server, "fourth").expect("the previous keys stay");
        }
        server.wait_for_log("the previous keys stay in use");
        fs::remove_file(&keytab).expect("it is ours");
        std::thread::sleep(std::time::Duration::from_millis(1100));
        connect(world, &server, "fifth").expect("the previous keys stay");
        let status = || run(orthrus(["status", "--once", "--state-dir"]).arg(world.path("state"))).stdout;
        assert!(status().contains("a restart would fail"), "{}", status());
        // A second version in the same file: tickets of both fit.
        let both = world.path("both");
        rotate(world, &both);
        let old = world.path("old");
        world.realm.kinit("alice", &old).expect("the KDC gives a ticket");
        let ticket = Credential::Ccache(format!("FILE:{}", old.display()));
        fs::copy(&both, &keytab).expect("it is ours");
        let security = Security::of(Flavor::Krb5p, "localhost", ticket);
        let client =
            || Client::connect(Options::new("127.0.0.1", security.clone()).port(server.port())).map(drop);
        client().expect("the ticket is cached from now on");
        rotate(world, &both);
        fs::copy(&both, &keytab).expect("it is ours");
        client().expect("the old ticket fits the old version");
        connect(world, &server, "sixth").expect("a new ticket fits the new version");
        assert!(!status().contains("a restart would fail"), "{}", status());
    });
}

/// Sets the descriptors that a server may have; only the soft limit, which can be raised again.
fn limit_descriptors(server: &Server, count: usize) {
    let limit = format!("--nofile={count}:");
    let done = Command::new("prlimit").args(["--pid", &server.pid().to_string(), &limit]).status();
    assert!(done.expect("prlimit starts").success());
}

/// Opens connections until the server has no descriptor between those in use, and allows no more.
fn leave_no_descriptors(server: &Server, connect: impl Fn() -> RawConnection) -> Vec<RawConnection> {
    let mut connections = Vec::new();
    loop {
        connections.push(connect());
        std::thread::sleep(Duration::from_millis(50));
        let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").flatten();
        let mut open: Vec<usize> =
            open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        open.sort_unstable();
        if open.last() == Some(&(open.len() - 1)) {
            limit_descriptors(server, open.len());
            return connections;
        }
    }
}

/// Clients take a refusal for lack of descriptors for that of their ticket.
#[test]
fn a_server_without_descriptors_accepts_contexts_and_reads_a_changed_keytab_when_it_has_some() {
    if !is_root() {
        return eprintln!("skipped: only root sets the limits of another process");
    }
    if !is_installed("prlimit", "util-linux") {
        return;
    }
    in_world(|world| {
        let (keytab, next) = (world.path("keytab"), world.path("next"));
        fs::copy(world.realm.server_keytab(), &keytab).expect("it is ours");
        let server = serve(world, &keytab).start();
        let (time, address) = (Duration::from_secs(20), SocketAddr::from(([127, 0, 0, 1], server.port())));
        let open = || RawConnection::connect(&[address], time, 1 << 20).expect("the server listens");
        let ticket = |name: &str| {
            let cache = world.path(name);
            world.realm.kinit("alice", &cache).expect("the KDC gives a ticket");
            let credential = Credential::Ccache(format!("FILE:{}", cache.display()));
            let service = Flavor::Krb5p.service().expect("it is one of Kerberos");
            GssCredential { target: "nfs@localhost".to_owned(), credential, service }
        };
        let accept = |connection: &mut RawConnection, ticket: &GssCredential| {
            GssContext::establish(connection, ticket, time).map(drop)
        };
        let old = ticket("old");
        accept(&mut open(), &old).expect("the account is cached from now on");
        let mut connections = leave_no_descriptors(&server, open);
        let connection = connections.last_mut().expect("there is one");
        (0..3).for_each(|_| accept(connection, &old).expect("a descriptor is in reserve"));
        rotate(world, &next);
        fs::rename(&next, &keytab).expect("the folder is ours");
        let new = ticket("new");
        accept(connection, &new).expect_err("the new key cannot be read");
        server.wait_for_log("the previous keys stay in use");
        limit_descriptors(&server, 1000);
        until("the new key is used", || accept(&mut open(), &new).is_ok());
    });
}

#[test]
fn only_keys_of_the_configured_services_are_accepted() {
    in_world(|world| {
        let keytab = world.path("keytab");
        kadmin(world, "addprinc -randkey host/localhost");
        kadmin(world, &format!("ktadd -k {} host/localhost", keytab.display()));
        let config = world.path("orthrus.toml");
        let start = |services: &str| {
            let text = format!("keytab = {keytab:?}\n{services}\n[[export]]\npath = {:?}\n", world.export());
            fs::write(&config, text).expect("the folder is ours");
            Serve::new(world.path("state")).arg("--config").arg(&config)
        };
        let refused = run(orthrus(["serve", "--config"]).arg({
            start("");
            &config
        }));
        assert!(!refused.status.success(), "{refused:?}");
        assert!(
            refused.stderr.contains("has no key of the services nfs/, of the hosts *"),
            "{}",
            refused.stderr
        );
        drop(start("keytab_services = [\"host\"]").start());
        drop(start("keytab_services = [\"*\"]").start());
    });
}

/// A wrong version is a ticket that a key of the keytab does not fit; the same holds for a key of
/// another encryption type.
#[test]
fn a_key_of_another_encryption_type_does_not_fit_and_the_ticket_is_named() {
    in_world(|world| {
        let keytab = world.path("keytab");
        let all = gss::keytab_entries(world.realm.server_keytab().as_path()).expect("it is a keytab");
        let best = all.iter().find(|entry| entry.components[1] == "localhost").expect("a key").etype;
        // The KDC uses the first type of the key for its tickets.
        let other = |entry: &gss::KeytabEntry| entry.etype != best || entry.components[1] != "localhost";
        let (_, bytes) = gss::select_keys(&world.realm.server_keytab(), other).expect("it is a keytab");
        fs::write(&keytab, bytes).expect("the folder is ours");
        let server = serve(world, &keytab).start();
        connect(world, &server, "first").expect_err("the ticket has another encryption type");
        server.wait_for_log("the ticket does not fit a key of the keytab");
        fs::copy(world.realm.server_keytab(), &keytab).expect("it is ours");
        connect(world, &server, "second").expect("all types are there");
    });
}

#[test]
fn a_keytab_of_an_image_serves_the_names_that_fit_a_pattern() {
    let options = RealmOptions {
        hosts: ["node1.example.org", "node2.example.org", "other.example.net"].map(str::to_owned).to_vec(),
        ..RealmOptions::default()
    };
    in_world_with(&options, |world| {
        let config = world.path("orthrus.toml");
        let write = |hosts: &str| {
            let text = format!(
                "keytab = {:?}\n{hosts}\n[[export]]\npath = {:?}\n",
                world.realm.server_keytab(),
                world.export()
            );
            fs::write(&config, text).expect("the folder is ours");
        };
        let (cache, start) =
            (world.path("ticket"), || Serve::new(world.path("state")).arg("--config").arg(&config).start());
        world.realm.kinit("alice", &cache).expect("the KDC gives a ticket");
        let ticket = Credential::Ccache(format!("FILE:{}", cache.display()));
        let connect = |server: &Server, host: &str| {
            let security = Security::of(Flavor::Krb5p, host, ticket.clone());
            Client::connect(Options::new("127.0.0.1", security).port(server.port())).map(drop)
        };
        let hosts = ["node1.example.org", "node2.example.org", "other.example.net"];
        write("");
        let server = start();
        hosts.iter().for_each(|host| connect(&server, host).expect("all names of the keytab"));
        drop(server);
        write("keytab_hosts = [\"node*.example.org\"]");
        let server = start();
        hosts[..2].iter().for_each(|host| connect(&server, host).expect("it fits the pattern"));
        connect(&server, hosts[2]).expect_err("it does not fit");
        drop(server);
        write("keytab_hosts = [\"*.example.com\"]");
        let refused =
            run(orthrus(["serve", "--state-dir"]).arg(world.path("state")).arg("--config").arg(&config));
        assert!(refused.stderr.contains("of the hosts *.example.com"), "{}", refused.stderr);
    });
}

#[test]
fn a_keytab_that_the_server_may_not_read_is_named() {
    in_world(|world| {
        if !is_root() {
            return eprintln!("skipped: only root can serve as another user");
        }
        let (keytab, folder) = (world.path("keytab"), world.path(""));
        fs::copy(world.realm.server_keytab(), &keytab).expect("it is ours");
        fs::set_permissions(&keytab, Permissions::from_mode(0o600)).expect("it is ours");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("it is ours");
        let mut serve = nobody(["serve", "--state-dir", "/nonexistent/state", "--keytab"]);
        let refused = run(serve.arg(&keytab).arg(world.export()));
        assert!(!refused.status.success(), "{refused:?}");
        let named = format!("keytab {}: Permission denied", keytab.display());
        assert!(refused.stderr.contains(&named), "{}", refused.stderr);
    });
}

/// Returns the commands of a numbered list below a heading.
fn steps(page: &str, heading: &str) -> Vec<String> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let lines = section.lines().filter_map(|line| line.strip_prefix("       "));
    lines.map(str::to_owned).collect()
}

/// Replaces the page's file and program, for this process: a keytab with one key and an
/// administrator's program of this realm. Returns the program's folder.
fn keytab_of_this_test(world: &World) -> PathBuf {
    unshare(CloneFlags::CLONE_NEWNS).expect("root may");
    let mount = |arguments: &[&str]| {
        assert!(Command::new("mount").args(arguments).status().expect("it is installed").success());
    };
    mount(&["--make-rprivate", "/"]);
    let (etc, work, bin) = (world.path("etc"), world.path("work"), world.path("bin"));
    [&etc, &work, &bin].into_iter().for_each(|folder| fs::create_dir(folder).expect("a new name"));
    let layers = format!("lowerdir=/etc,upperdir={},workdir={}", etc.display(), work.display());
    mount(&["-t", "overlay", "overlay", "-o", &layers, "/etc"]);
    let (_, keys) = gss::select_keys(&world.realm.server_keytab(), |entry| {
        entry.components == ["nfs", "server.example.org"]
    })
    .expect("it is a keytab");
    let keytab = Path::new(KEYTAB);
    let _ = fs::remove_file(keytab);
    fs::write(keytab, keys).expect("the folder is ours");
    fs::set_permissions(keytab, Permissions::from_mode(0o600)).expect("it is ours");
    let kadmin = "#!/bin/sh\nexec kadmin.local -r \"$TEST_REALM\" \"$@\"\n";
    fs::write(bin.join("kadmin"), kadmin).expect("the folder is ours");
    fs::set_permissions(bin.join("kadmin"), Permissions::from_mode(0o700)).expect("it is ours");
    bin
}

#[test]
fn the_steps_of_a_rotation_do_what_the_page_says() {
    let options = RealmOptions { hosts: vec!["server.example.org".to_owned()], ..RealmOptions::default() };
    in_world_with(&options, |world| {
        if !is_root() {
            return eprintln!("skipped: the steps write to /etc/krb5.keytab");
        }
        let bin = keytab_of_this_test(world);
        let keytab = Path::new(KEYTAB);
        let path = format!("{}:/usr/sbin:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
        let step = |command: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).env("PATH", &path).env("TEST_REALM", world.realm.name());
            let ended = run(&mut shell);
            assert!(ended.status.success(), "{command}: {}", ended.stderr);
            ended.stdout
        };
        let versions = || {
            let mut all: Vec<u32> =
                gss::keytab_entries(keytab).expect("it is a keytab").iter().map(|e| e.kvno).collect();
            all.dedup();
            all
        };
        let server = Serve::new(world.path("state")).arg(world.export()).start();
        let ticket = |name: &str| {
            let cache = world.path(name);
            world.realm.kinit("alice", &cache).expect("the KDC gives a ticket");
            Credential::Ccache(format!("FILE:{}", cache.display()))
        };
        let connect = |ticket: &Credential| {
            let security = Security::of(Flavor::Krb5p, "server.example.org", ticket.clone());
            Client::connect(Options::new("127.0.0.1", security).port(server.port())).map(drop)
        };
        let old = ticket("old");
        connect(&old).expect("the key fits");
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/keytabs.md"));
        let [look, add, check, remove] = &steps(&page.expect("the page"), "Replace a key")[..] else {
            panic!("the page has four steps")
        };
        assert!(step(look).contains("nfs/server.example.org"));
        assert_eq!(versions(), [1]);
        step(add);
        connect(&old).expect("the old ticket fits the old version");
        connect(&ticket("new")).expect("the new ticket fits the new version");
        assert!(step(check).contains("nfs/server.example.org") && versions() == [1, 2]);
        step(remove);
        assert_eq!(versions(), [2]);
        std::thread::sleep(std::time::Duration::from_millis(1100));
        connect(&old).expect_err("the old version is gone");
        connect(&ticket("newer")).expect("the new version stays");
        drop(server);
    });
}
