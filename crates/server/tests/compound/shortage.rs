//! A removed file that a client with an expired lease has open still takes space: courtesy ends
//! when space runs out (RFC 8881 section 8.4.3).

use crate::helper::*;
use crate::waiting::{Tried, try_on};
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Backend, Caller, MemoryBackend, MemoryLimits, SetAttributes};

const FILE: usize = 600_000;

fn server(limits: MemoryLimits) -> Server {
    let backend = MemoryBackend::new(limits, [7; 16]).unwrap();
    let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    backend.setattr(&Caller::root(), &backend.root(), &set).unwrap();
    Setup::with_exports(vec![export("/export", &Arc::new(backend)), export("/other", &memory())]).start()
}

fn small() -> Server {
    server(MemoryLimits { bytes_max: 1 << 20, ..MemoryLimits::default() })
}

fn client<'s>(server: &'s Server, name: &[u8]) -> Client<'s> {
    Client::with(server, name, sys(ALICE), FORE)
}

/// Makes a file, removes it and keeps it open.
fn hold_removed(client: &mut Client<'_>, name: &str, size: usize) -> (Vec<u8>, Stateid4) {
    let reply = client.at("export", vec![open_create(name, 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    if size > 0 {
        client.run(vec![put(&fh), write(stateid, 0, &vec![1; size])]).ok();
    }
    client.at("export", vec![remove(name)]).ok();
    (fh, stateid)
}

/// Writes to a file until the disk is full. Returns the bytes written.
fn fill(client: &mut Client<'_>, fh: &[u8], stateid: Stateid4) -> usize {
    let mut at = 0;
    while at < FILE {
        let reply = client.run(vec![put(fh), write(stateid, at as u64, &vec![2; FILE - at])]);
        match reply.last() {
            NfsResop4::OP_WRITE(Write4Res::NFS4_OK(ok)) => at += ok.count as usize,
            _ => {
                reply.expect(NFS4ERR_NOSPC);
                break;
            }
        }
    }
    at
}

fn advance(clients: &mut [&mut Client<'_>], seconds: u64) {
    clients.iter_mut().for_each(|client| client.now += Duration::from_secs(seconds));
}

#[test]
fn a_full_disk_ends_the_courtesy_of_clients_with_removed_files() {
    let server = small();
    let mut gone = client(&server, b"gone");
    hold_removed(&mut gone, "removed", FILE);
    let mut alive = client(&server, b"alive");
    let fh = alive.make_file("export", "f", b"");
    let stateid = alive.at("export", vec![open("f", 3)]).ok().opened().stateid;
    advance(&mut [&mut alive], 50);
    alive.run(Vec::new()).ok();
    assert!(fill(&mut alive, &fh, stateid) < FILE);
    advance(&mut [&mut alive], 20);
    assert_eq!(fill(&mut alive, &fh, stateid), FILE);
    advance(&mut [&mut gone], 70);
    gone.run(Vec::new()).expect(NFS4ERR_BADSESSION);
}

#[test]
fn expired_clients_that_hold_nothing_there_or_too_much_keep_their_state() {
    let server = small();
    let mut elsewhere = client(&server, b"elsewhere");
    let other = elsewhere.at("other", vec![open_create("f", 3)]).ok().opened().stateid;
    let mut first = client(&server, b"first");
    hold_removed(&mut first, "1", FILE);
    let mut second = client(&server, b"second");
    advance(&mut [&mut second], 1);
    hold_removed(&mut second, "2", 1000);
    let mut alive = client(&server, b"alive");
    advance(&mut [&mut alive], 55);
    let fh = alive.make_file("export", "f", b"");
    let stateid = alive.at("export", vec![open("f", 3)]).ok().opened().stateid;
    advance(&mut [&mut alive], 55);
    assert_eq!(fill(&mut alive, &fh, stateid), FILE);
    for client in [&mut elsewhere, &mut second] {
        client.now = alive.now;
        client.run(Vec::new()).ok();
    }
    let fh = elsewhere.fh_of("other/f");
    elsewhere.run(vec![put(&fh), write(other, 0, b"still mine")]).ok();
}

#[test]
fn as_many_give_way_as_it_takes() {
    let server = small();
    let mut gone: Vec<_> = (0..10).map(|n| client(&server, &[n])).collect();
    for (n, client) in gone.iter_mut().enumerate() {
        hold_removed(client, &n.to_string(), 90_000);
    }
    let mut alive = client(&server, b"alive");
    advance(&mut [&mut alive], 55);
    let fh = alive.make_file("export", "f", b"");
    let stateid = alive.at("export", vec![open("f", 3)]).ok().opened().stateid;
    advance(&mut [&mut alive], 55);
    assert_eq!(fill(&mut alive, &fh, stateid), FILE);
}

#[test]
fn names_find_room_as_data_does_in_all_minor_versions() {
    let server = server(MemoryLimits { objects_max: 8, ..MemoryLimits::default() });
    let mut alive = client(&server, b"alive");
    let old = Client40::with(&server, b"old", sys(ALICE), [1; 8]);
    for (turn, name) in ["directory", "old", "link"].into_iter().enumerate() {
        let mut gone = client(&server, name.as_bytes());
        gone.now = alive.now;
        gone.run(Vec::new()).ok();
        let mut n = 0;
        while gone.at("export", vec![open_create(&format!("{turn} {n}"), 3)]).status == NFS4_OK {
            gone.at("export", vec![remove(&format!("{turn} {n}"))]).ok();
            n += 1;
        }
        assert!(n > 0);
        for _ in 0..2 {
            advance(&mut [&mut alive], 55);
            old.now.set(alive.now);
            alive.run(Vec::new()).ok();
            old.run(vec![NfsArgop4::OP_RENEW(Renew4Args { clientid: old.clientid })]).ok();
        }
        match name {
            "directory" => drop(alive.at("export", vec![mkdir("d")]).ok()),
            "old" => drop(old.opened("f")),
            _ => drop(alive.make_file("export", "g", b"")),
        }
    }
}

#[test]
fn a_thread_that_must_not_wait_closes_no_files_of_others() {
    let server = small();
    let mut gone = client(&server, b"gone");
    hold_removed(&mut gone, "removed", FILE);
    let mut alive = client(&server, b"alive");
    advance(&mut [&mut alive], 55);
    let fh = alive.make_file("export", "f", b"");
    let stateid = alive.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let before = fill(&mut alive, &fh, stateid);
    advance(&mut [&mut alive], 55);
    let operations = vec![put(&fh), write(stateid, before as u64, &[2; 1 << 17])];
    let Tried::Waits(waiting) = try_on(&alive, 1, 1, operations) else { panic!("it has not waited") };
    let reply = waiting.resume(&alive);
    assert_eq!(reply.status, NFS4_OK);
}
