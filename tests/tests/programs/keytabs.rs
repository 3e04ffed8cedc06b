//! The server's keytab: which keys are accepted, and its replacement while the server runs.

use client::{Client, Flavor, Options, Security};
use e2e::{Serve, Server, World, in_world, orthrus, run};
use gss::Credential;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
        assert!(refused.stderr.contains("has no key of the services nfs/"), "{}", refused.stderr);
        drop(start("keytab_services = [\"host\"]").start());
        drop(start("keytab_services = [\"*\"]").start());
    });
}
