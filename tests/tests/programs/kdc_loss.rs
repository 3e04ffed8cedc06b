//! The server and its clients while KDCs are lost.

use client::{Client, Filesystem, Flavor, Options, Security};
use e2e::{in_world_with, orthrus, run};
use gss::Credential;
use realm::RealmOptions;
use std::fs;

fn replicated() -> RealmOptions {
    RealmOptions { replicas: 1, ..RealmOptions::default() }
}

#[test]
fn logins_and_contexts_go_on_when_the_first_kdc_is_killed() {
    // RFC 4120 section 7.2.3: a client tries the KDCs of its realm in turn.
    in_world_with(&replicated(), |world| {
        let server = world.server().start();
        let mut alice = world.mount(&server, "alice", Flavor::Krb5p);
        alice.write_file("file", b"before").expect("it is her folder");
        assert!(world.realm.kill_kdc(0).expect("it can be signalled"), "it ran");
        alice.write_file("file", b"after").expect("her context needs no KDC");
        for flavor in [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            // A login, a service ticket and a context that are all new.
            let mut bob = world.mount(&server, "bob", flavor);
            assert_eq!(bob.read_file("file").expect("all may read it"), b"after");
            bob.unmount().expect("the context ends");
        }
    });
}

#[test]
fn a_running_server_accepts_contexts_and_restarts_without_any_kdc() {
    // RFC 4120 section 3.2.3: the server decrypts the ticket with its own key.
    in_world_with(&replicated(), |world| {
        let mut server = world.server().args(["--grace-time", "0"]).start();
        let mut alice = world.mount(&server, "alice", Flavor::Krb5p);
        alice.write_file("file", b"data").expect("it is her folder");
        // A user that has not used the server yet gets the service ticket alone.
        let cache = world.path("bobs");
        world.realm.kinit("bob", &cache).expect("the KDC gives a ticket");
        let mut kvno = world.realm.command("kvno");
        let got = kvno.arg("-c").arg(&cache).arg("nfs/localhost").output().expect("it starts");
        assert!(got.status.success(), "{got:?}");
        for number in 0..2 {
            assert!(world.realm.kill_kdc(number).expect("it can be signalled"), "KDC {number} ran");
        }
        assert!(world.realm.kinit("bob", &world.path("more")).is_err(), "no KDC is left");

        let bob = || {
            let cache = Credential::Ccache(format!("FILE:{}", cache.display()));
            let security = Security::of(Flavor::Krb5p, "localhost", cache);
            Options::new("127.0.0.1", security).port(server.port())
        };
        let options = bob();
        for _ in 0..3 {
            let mut files = Filesystem::mount(options.clone(), "/export").expect("his ticket is good");
            assert_eq!(files.read_file("file").expect("all may read it"), b"data");
        }
        alice.write_file("file", b"more").expect("her context goes on");
        // A server that starts reads its keytab, and asks no KDC either.
        server.restart();
        let mut files = Filesystem::mount(options, "/export").expect("his ticket is still good");
        assert_eq!(files.read_file("file").expect("all may read it"), b"more");
        // Also a context that the restart has ended is made anew by the ticket.
        alice.client().recover().expect("her ticket is good");
        alice.client().finish_reclaim().expect("there is nothing to reclaim");
        alice.write_file("file", b"last").expect("a new context and session");
        // A user without a service ticket has to wait for a KDC.
        let stranger = world.path("stranger");
        fs::copy(world.path("bobs"), &stranger).expect("it is ours");
        let other = Security::of(
            Flavor::Krb5p,
            "127.0.0.1",
            Credential::Ccache(format!("FILE:{}", stranger.display())),
        );
        let refused = Client::connect(Options::new("127.0.0.1", other).port(server.port()));
        assert!(refused.is_err(), "that needs a ticket for another name");
    });
}

#[test]
fn realm_up_starts_replicas_and_realm_down_ends_them() {
    let folder = e2e::empty_folder();
    let dir = folder.path().join("realm");
    let up = run(orthrus(["realm", "up", "--replicas", "1"]).arg(&dir));
    if !up.status.success() && up.stderr.contains("is not installed") {
        return eprintln!("skipped: {}", up.stderr.trim());
    }
    assert!(up.status.success() && up.stdout.contains("its 2 KDCs on 127.0.0.1:"), "{up:?}");
    let conf = fs::read_to_string(dir.join("krb5.conf")).expect("it is there");
    assert_eq!(conf.matches("kdc = 127.0.0.1:").count(), 2, "{conf}");
    let down = run(orthrus(["realm", "down"]).arg(&dir));
    assert!(down.status.success() && !dir.exists(), "{down:?}");
    let many = run(orthrus(["realm", "up", "--replicas", "9"]).arg(&dir));
    assert!(!many.status.success() && many.stderr.contains("0 to 8"), "{many:?}");
}
