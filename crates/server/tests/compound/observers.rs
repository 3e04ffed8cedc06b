//! Observers of operations, as the audit log and the traces are.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::attributes::{AttributeValues, fattr4};
use nfs4::*;
use orthrus_server::engine::{Deed, ObservedOperation, ObservedRefusal, Observer, WantedOperations};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Writes a line for each operation that it wants of a user.
struct LinesOf {
    lines: Arc<Mutex<Vec<String>>>,
    wanted: fn(&str) -> Option<WantedOperations>,
}

impl Observer for LinesOf {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wants(&self, _peer: SocketAddr, principal: &str) -> Option<WantedOperations> {
        (self.wanted)(principal)
    }

    fn operation(&self, seen: &ObservedOperation<'_>) {
        let names: Vec<_> = seen.names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        let has_moved = seen.handle != seen.after;
        let ObservedOperation { principal, operation, status, export, .. } = seen;
        let place = export.unwrap_or("nowhere");
        self.lines
            .lock()
            .unwrap()
            .push(format!("{principal} {operation} {} {place} {status} {has_moved}", names.join(" ")));
    }

    fn refusal(&self, _: &ObservedRefusal<'_>) {}
}

/// An operation, the handle of its source and that of its current object.
type SourceSeen = (&'static str, Vec<u8>, Vec<u8>);

/// Notes the operations with their sources.
#[derive(Clone, Default)]
struct SourcesSeen(Arc<Mutex<Vec<SourceSeen>>>);

impl Observer for SourcesSeen {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wants(&self, _: SocketAddr, _: &str) -> Option<WantedOperations> {
        Some(WantedOperations::DeedsAndDenials)
    }

    fn operation(&self, seen: &ObservedOperation<'_>) {
        let from = seen.from.unwrap_or_default().to_vec();
        assert_eq!(seen.from_export, seen.export.filter(|_| seen.from.is_some()));
        self.0.lock().unwrap().push((seen.operation, from, seen.handle.unwrap_or_default().to_vec()));
    }

    fn refusal(&self, _: &ObservedRefusal<'_>) {}
}

/// Notes the operations with their numbers.
#[derive(Clone, Default)]
struct DetailsSeen(Arc<Mutex<Vec<String>>>);

impl Observer for DetailsSeen {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wants(&self, _: SocketAddr, _: &str) -> Option<WantedOperations> {
        Some(WantedOperations::DeedsAndDenials)
    }

    fn operation(&self, seen: &ObservedOperation<'_>) {
        self.0.lock().unwrap().push(format!("{}: {}", seen.operation, seen.detail));
    }

    fn refusal(&self, _: &ObservedRefusal<'_>) {}
}

#[test]
fn an_observer_sees_the_mode_the_size_and_the_owner_that_are_set() // RFC 8881 section 18.30
{
    let server = Setup::default().start();
    let seen = DetailsSeen::default();
    server.nfs.connect_observer(Box::new(seen.clone()));
    let mut client = Client::new(&server);
    server.nfs.set_observed(true);
    client.make_file("export", "f", b"");
    let owner = AttributeValues {
        size: Some(7),
        owner: Some(b"bob\x1b@elsewhere"[..].into()),
        ..AttributeValues::default()
    };
    client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o4755))]).expect(NFS4_OK);
    client
        .at("export/f", vec![setattr(Stateid4::ANONYMOUS, fattr4(&owner.present(), &owner))])
        .expect(NFS4ERR_BADOWNER);
    let seen = seen.0.lock().unwrap();
    let expected = ["SETATTR: mode 4755", r#"SETATTR: size 7, owner "bob\u{1b}@elsewhere""#];
    assert_eq!(seen.iter().rev().take(2).rev().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert!(seen[0].starts_with("OPEN: access ") && seen[0].contains(", create"), "{seen:?}");
}

#[test]
fn an_observer_sees_where_names_and_data_come_from() {
    // RFC 8881 sections 18.9 and 18.26, RFC 7862 sections 15.2 and 15.13
    let server = Setup::default().start();
    let sources = SourcesSeen::default();
    server.nfs.connect_observer(Box::new(sources.clone()));
    let mut client = Client::new(&server);
    client.minor = 2;
    let [secret, public] = ["secret", "public"].map(|name| client.make_directory("export", name));
    let x = client.make_file("export/secret", "x", b"data");
    server.nfs.set_observed(true);
    let y = client.make_file("export/public", "y", b"");
    let both = (Stateid4::ANONYMOUS, Stateid4::ANONYMOUS);
    for (from, to, operation) in [
        (&secret, &public, rename("x", "z")),
        (&x, &secret, link("w")),
        (&x, &y, copy(both, 0, 0, 0)),
        (&x, &y, clone(both, 0, 0, 0)),
    ] {
        client.run(vec![put(from), savefh(), put(to), operation]).ok();
    }
    // Each object by the handle under which it was seen first.
    let seen = sources.0.lock().unwrap().clone();
    let [open, renamed, linked, copied, cloned] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((open.0, &*open.1, &open.2), ("OPEN", &[][..], &renamed.2));
    assert_eq!((renamed.0, linked.0, &renamed.1), ("RENAME", "LINK", &linked.2));
    assert_eq!((copied.0, cloned.0), ("COPY", "CLONE"));
    assert_eq!((&copied.1, &copied.2), (&cloned.1, &cloned.2));
    assert_eq!(linked.1, copied.1);
    let objects = [&renamed.1, &renamed.2, &linked.1, &copied.2];
    assert!(objects.iter().enumerate().all(|(at, object)| !objects[..at].contains(object)), "{seen:?}");
    assert!(objects.iter().all(|object| !object.is_empty()));
}

/// Returns the lines of a client that creates a file, and of one that may not write to it.
fn lines_of(wanted: fn(&str) -> Option<WantedOperations>) -> Vec<String> {
    let server = Setup::default().start();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (mut alice, mut bob) = (Client::new(&server), Client::with(&server, b"bob", sys(BOB), FORE));
    server.nfs.connect_observer(Box::new(LinesOf { lines: lines.clone(), wanted }));
    alice.make_file("export", "unseen", b"data");
    server.nfs.set_observed(true);
    alice.make_file("export", "f", b"data");
    bob.at("export/f", vec![write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_ACCESS);
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[test]
fn an_observer_of_changes_sees_opens_changes_and_denials_alone() {
    let lines = lines_of(|_| Some(WantedOperations::DeedsAndDenials));
    let open = "sys:1000 OPEN f /export NFS4_OK true";
    assert_eq!(lines, [open, "sys:1001 WRITE  /export NFS4ERR_ACCESS false"]);
}

/// An operation with its deed, and whether it has had an effect.
type DeedSeen = (&'static str, Option<Deed>, bool);

/// Notes the operations with their deeds.
#[derive(Clone, Default)]
struct DeedsSeen(Arc<Mutex<Vec<DeedSeen>>>);

impl Observer for DeedsSeen {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wants(&self, _: SocketAddr, _: &str) -> Option<WantedOperations> {
        Some(WantedOperations::DeedsAndDenials)
    }

    fn operation(&self, seen: &ObservedOperation<'_>) {
        self.0.lock().unwrap().push((seen.operation, seen.deed, seen.has_effect));
    }

    fn refusal(&self, _: &ObservedRefusal<'_>) {}
}

#[test]
fn an_observer_sees_data_that_is_reached_without_an_open() {
    // RFC 8881 section 8.2.3
    let server = Setup::default().start();
    let deeds = DeedsSeen::default();
    server.nfs.connect_observer(Box::new(deeds.clone()));
    let mut client = Client::new(&server);
    client.minor = 2;
    client.make_file("export", "f", b"data");
    server.nfs.set_observed(true);
    let opened = client.at("export", vec![open("f", OPEN4_SHARE_ACCESS_BOTH)]).ok().opened().stateid;
    let (zeros, bypass) = (Stateid4::ANONYMOUS, Stateid4::READ_BYPASS);
    client.at("export/f", vec![read(opened, 0, 4), write(opened, 0, b"x"), read_plus(opened, 0, 4)]).ok();
    client.at("export/f", vec![read(zeros, 0, 4), read(bypass, 0, 4), read_plus(zeros, 0, 4)]).ok();
    client.at("export/f", vec![write(zeros, 0, b"x")]).ok();
    client.at("export", vec![write(zeros, 0, b"x")]).expect(NFS4ERR_ISDIR);
    let access = |operation| (operation, Some(Deed::Access), true);
    let expected = [
        ("OPEN", Some(Deed::Open), true),
        access("READ"),
        access("READ"),
        access("READ_PLUS"),
        access("WRITE"),
        ("WRITE", Some(Deed::Access), false),
    ];
    assert_eq!(*deeds.0.lock().unwrap(), expected);
}

#[test]
fn a_setattr_that_fails_after_the_size_has_had_an_effect() {
    // RFC 8881 section 18.30.3
    let server = Setup::default().start();
    let deeds = DeedsSeen::default();
    server.nfs.connect_observer(Box::new(deeds.clone()));
    let mut alice = Client::new(&server);
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    alice.make_file("export", "f", b"data");
    alice.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o666))]).ok();
    server.nfs.set_observed(true);
    let size_and_mode = AttributeValues { size: Some(1), mode: Some(0o600), ..Default::default() };
    for values in [fattr(size_and_mode), mode(0o600)] {
        bob.at("export/f", vec![setattr(Stateid4::ANONYMOUS, values)]).expect(NFS4ERR_PERM);
    }
    let seen = |has_effect| ("SETATTR", Some(Deed::Change), has_effect);
    assert_eq!(*deeds.0.lock().unwrap(), [seen(true), seen(false)]);
}

#[test]
fn an_observer_of_one_caller_sees_all_of_its_operations_and_no_others() {
    let lines = lines_of(|principal| (principal == "sys:1001").then_some(WantedOperations::All));
    let operations = [
        "sys:1001 SEQUENCE  nowhere NFS4_OK false",
        "sys:1001 PUTROOTFH  nowhere NFS4_OK false",
        "sys:1001 LOOKUP export / NFS4_OK true",
        "sys:1001 LOOKUP f /export NFS4_OK true",
        "sys:1001 WRITE  /export NFS4ERR_ACCESS false",
    ];
    assert_eq!(lines, operations);
}
