//! LOCK, LOCKT, LOCKU, TEST_STATEID and FREE_STATEID (RFC 8881 sections 18.10 to 18.12, 18.48,
//! 18.38).

use crate::helper::*;
use nfs4::NfsLockType4::{READ_LT, WRITE_LT};
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::time::Duration;

fn test_stateid(stateid: Stateid4) -> Op {
    NfsArgop4::OP_TEST_STATEID(TestStateid4Args { ts_stateids: vec![stateid, Stateid4::ANONYMOUS] })
}

#[test]
fn a_lock_stands_in_the_way_of_others_until_it_is_undone() // RFC 8881 sections 18.10.3, 18.12.3
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export", "f", b"0123456789");
    let open_a = alice.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let stateid = locked(&alice.run(vec![put(&fh), lock_new(WRITE_LT, 2, 4, open_a, b"a")]).ok());
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let open_b = other.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let reply = other.run(vec![put(&fh), lock_new(READ_LT, 0, u64::MAX, open_b, b"b")]);
    let reply = reply.expect(NFS4ERR_DENIED);
    let NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(denied)) = reply.last() else { panic!() };
    assert_eq!((denied.offset, denied.length, denied.locktype), (2, 4, WRITE_LT));
    assert_eq!((denied.owner.clientid, &*denied.owner.owner), (alice.clientid, &b"a"[..]));
    other.run(vec![put(&fh), lockt(READ_LT, 5, 1, b"b")]).expect(NFS4ERR_DENIED);
    other.run(vec![put(&fh), lockt(READ_LT, 6, 1, b"b")]).ok();
    alice.run(vec![put(&fh), lockt(WRITE_LT, 0, u64::MAX, b"a")]).ok();
    let reply = alice.run(vec![put(&fh), locku(stateid, 0, u64::MAX)]).ok();
    let NfsResop4::OP_LOCKU(Locku4Res::NFS4_OK(unlocked)) = reply.last() else { panic!() };
    assert_eq!((unlocked.other, unlocked.seqid), (stateid.other, stateid.seqid + 1));
    other.run(vec![put(&fh), lock_new(READ_LT, 0, u64::MAX, open_b, b"b")]).ok();
}

/// Returns the owner of the conflicting lock.
#[track_caller]
fn owner_in_the_way(reply: &Reply) -> Vec<u8> {
    match reply.last() {
        NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(denied))
        | NfsResop4::OP_LOCKT(Lockt4Res::NFS4ERR_DENIED(denied)) => denied.owner.owner.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_owner_in_lock4denied_has_at_most_twenty_bytes_in_every_minor_version()
// RFC 8881 section 18.10.2 and RFC 7530 section 16.10.2 allow 1024; Linux 6.12 and later reserve 20
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export", "f", b"0123456789");
    let stateid = alice.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let others = other.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let old = Client40::new(&server);
    let (_, olds) = old.opened("f");
    for (offset, length) in [0, 1, 8, 19, 20, 21, 24, 100, 1023, 1024].into_iter().enumerate() {
        let offset = offset as u64;
        let owner: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        alice.run(vec![put(&fh), lock_new(WRITE_LT, offset, 1, stateid, &owner)]).ok();
        let owner_40 = StateOwner4 { clientid: old.clientid, owner: bytes(b"another") };
        let lockt_40 = Lockt4Args { locktype: NfsLockType4::READ_LT, offset, length: 1, owner: owner_40 };
        let replies = [
            other.run(vec![put(&fh), lock_new(READ_LT, offset, 1, others, b"b")]),
            other.run(vec![put(&fh), lockt(READ_LT, offset, 1, b"b")]),
            old.run(vec![put(&fh), old.first_lock_op(olds, offset, 1)]),
            old.run(vec![put(&fh), NfsArgop4::OP_LOCKT(lockt_40)]),
        ];
        let seen: Vec<_> =
            replies.into_iter().map(|reply| owner_in_the_way(&reply.expect(NFS4ERR_DENIED))).collect();
        if length <= 20 {
            assert_eq!(seen[0], owner);
        }
        assert!(seen.iter().all(|owner| owner.len() <= 20 && *owner == seen[0]), "{length}: {seen:?}");
    }
}

#[test]
fn a_lock_needs_an_open_that_lets_it() // RFC 8881 section 18.10.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"");
    let stateid = client.at("export", vec![open("f", 1)]).ok().opened().stateid;
    client.run(vec![put(&fh), lock_new(WRITE_LT, 0, 1, stateid, b"a")]).expect(NFS4ERR_OPENMODE);
    client.run(vec![put(&fh), lock_new(READ_LT, 0, 0, stateid, b"a")]).expect(NFS4ERR_INVAL);
    client.run(vec![put(&fh), lock_new(READ_LT, u64::MAX, 2, stateid, b"a")]).expect(NFS4ERR_INVAL);
    let unknown = Stateid4 { seqid: 1, other: [7; 12] };
    client.run(vec![put(&fh), lock_new(READ_LT, 0, 1, unknown, b"a")]).expect(NFS4ERR_BAD_STATEID);
    let ops =
        vec![open("f", 1), lock_new(READ_LT, 0, 1, Stateid4::CURRENT, b"a"), locku(Stateid4::CURRENT, 0, 1)];
    client.at("export", ops).ok();
}

#[test]
fn only_regular_files_are_locked() // RFC 8881 section 18.11.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.at("export", vec![lockt(READ_LT, 0, 1, b"a")]).expect(NFS4ERR_ISDIR);
    client.at("", vec![lockt(READ_LT, 0, 1, b"a")]).expect(NFS4ERR_ISDIR);
    client.at("export", vec![create(Createtype4::NF4FIFO, "p", mode(0o600))]).ok();
    client.at("export/p", vec![lockt(READ_LT, 0, 1, b"a")]).expect(NFS4ERR_WRONG_TYPE);
}

#[test]
fn stateids_are_tested_and_freed() // RFC 8881 sections 18.38.3 and 18.48.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"");
    let opened = client.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let lock = locked(&client.run(vec![put(&fh), lock_new(WRITE_LT, 0, 1, opened, b"a")]).ok());
    let statuses = |client: &mut Client<'_>, stateid| {
        let reply = client.run(vec![test_stateid(stateid)]).ok();
        let NfsResop4::OP_TEST_STATEID(TestStateid4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
        ok.tsr_status_codes.clone()
    };
    assert_eq!(statuses(&mut client, lock), [NFS4_OK, NFS4ERR_BAD_STATEID]);
    let free = |stateid| NfsArgop4::OP_FREE_STATEID(FreeStateid4Args { fsa_stateid: stateid });
    client.run(vec![free(lock)]).expect(NFS4ERR_LOCKS_HELD);
    client.run(vec![put(&fh), locku(lock, 0, 1)]).ok();
    client.run(vec![free(Stateid4 { seqid: 0, ..lock })]).ok();
    assert_eq!(statuses(&mut client, lock)[0], NFS4ERR_BAD_STATEID);
    client.run(vec![put(&fh), close(opened)]).ok();
    assert_eq!(server.nfs.counts().opens, 0);
}

#[test]
fn a_silent_client_keeps_its_lock_until_another_wants_it() // RFC 8881 section 8.4.3
{
    let away = Duration::from_secs(600);
    let wants: [fn(&mut Client<'_>, &[u8]); 4] = [
        |bob, fh| drop(bob.run(vec![put(fh), open_how(NOCREATE, OpenClaim4::CLAIM_FH, 1, 0, b"o")]).ok()),
        |bob, fh| drop(bob.run(vec![put(fh), lockt(READ_LT, 1, 1, b"l")]).ok()),
        |bob, fh| drop(bob.run(vec![put(fh), read(Stateid4::ANONYMOUS, 0, 1)]).ok()),
        |bob, fh| drop(bob.run(vec![put(fh), write(Stateid4::ANONYMOUS, 0, b"x")]).ok()),
    ];
    for want in wants {
        let server = Setup::default().start();
        let mut alice = Client::new(&server);
        let fh = alice.make_file("export", "f", b"0123456789");
        let deny_all = open_how(NOCREATE, OpenClaim4::CLAIM_FH, 3, 3, b"owner");
        let open = alice.run(vec![put(&fh), deny_all]).ok().opened().stateid;
        let lock = locked(&alice.run(vec![put(&fh), lock_new(WRITE_LT, 0, 5, open, b"l")]).ok());
        server.nfs.housekeeping(alice.now + away);
        alice.now += away;
        alice.run(vec![put(&fh), locku(lock, 0, 1)]).ok();
        let mut bob = Client::with(&server, b"bob", sys(ALICE), FORE);
        bob.now = alice.now + away;
        want(&mut bob, &fh);
        alice.now = bob.now;
        alice.run(vec![]).expect(NFS4ERR_BADSESSION);
    }
}

#[test]
fn a_lock_of_an_expired_client_is_given_to_another() // RFC 8881 section 8.4.3
{
    let server = Setup::default().start();
    let (mut alice, mut bob) = (Client::new(&server), Client::with(&server, b"bob", sys(ALICE), FORE));
    let fh = alice.make_file("export", "f", b"0123456789");
    let open = |client: &mut Client<'_>| {
        let how = open_how(NOCREATE, OpenClaim4::CLAIM_FH, 3, 0, b"owner");
        client.run(vec![put(&fh), how]).ok().opened().stateid
    };
    let (of_alice, of_bob) = (open(&mut alice), open(&mut bob));
    alice.run(vec![put(&fh), lock_new(WRITE_LT, 0, 5, of_alice, b"l")]).ok();
    bob.run(vec![put(&fh), lock_new(WRITE_LT, 4, 1, of_bob, b"l")]).expect(NFS4ERR_DENIED);
    bob.now += Duration::from_secs(59);
    bob.run(vec![put(&fh), lock_new(WRITE_LT, 4, 1, of_bob, b"l")]).expect(NFS4ERR_DENIED);
    bob.now += Duration::from_secs(1);
    bob.run(vec![put(&fh), lock_new(WRITE_LT, 4, 1, of_bob, b"l")]).ok();
}
