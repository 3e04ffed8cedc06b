//! OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE and the locks under an open.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

const READ: u32 = 1;
const BOTH: u32 = 3;
const DENY_WRITE: u32 = 2;

#[test]
fn a_new_owner_confirms_its_first_open_and_no_other() // RFC 7530 section 9.1.11
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let reply = client.at("export", vec![client.create_op("f"), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    assert_ne!(reply.opened().rflags & OPEN4_RESULT_CONFIRM, 0);
    // Until it is confirmed, the stateid is not valid.
    client.run(vec![put(&fh), write(stateid, 0, b"x")]).expect(NFS4ERR_BAD_STATEID);
    let close = NfsArgop4::OP_CLOSE(Close4Args { seqid: client.open_seqid.get(), open_stateid: stateid });
    client.run(vec![put(&fh), close]).expect(NFS4ERR_BAD_STATEID);
    let confirmed = client.run(vec![put(&fh), client.confirm_op(stateid)]).ok().stateid();
    assert_eq!((confirmed.seqid, confirmed.other), (stateid.seqid + 1, stateid.other));
    client.run(vec![put(&fh), write(confirmed, 0, b"x")]).ok();
    client.run(vec![put(&fh), write(stateid, 0, b"x")]).expect(NFS4ERR_OLD_STATEID);
    client.run(vec![put(&fh), client.close_op(confirmed)]).ok();
    let again = client.at("export", vec![client.create_op("g")]).ok();
    assert_eq!(
        again.opened().rflags & OPEN4_RESULT_CONFIRM,
        0,
        "the owner is known although it has nothing open"
    );
}

#[test]
fn an_open_confirm_out_of_sequence_cancels_the_open() // RFC 7530 section 16.18.4
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let reply = client.at("export", vec![client.create_op("f"), getfh()]).ok();
    let (fh, open_stateid) = (reply.fh(0), reply.opened().stateid);
    let wrong = || vec![put(&fh), NfsArgop4::OP_OPEN_CONFIRM(OpenConfirm4Args { open_stateid, seqid: 50 })];
    client.run(wrong()).expect(NFS4ERR_BAD_SEQID);
    client.run(wrong()).expect(NFS4ERR_BAD_SEQID);
    assert_eq!(server.nfs.counts().opens, 0);
    client.run(vec![put(&fh), client.confirm_op(open_stateid)]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn another_open_takes_the_place_of_one_that_is_not_confirmed() // RFC 7530 section 16.18.5
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let first = client.at("export", vec![client.create_op("f"), getfh()]).ok();
    client.open_seqid.set(90);
    let second = client.at("export", vec![client.create_op("g"), getfh()]).ok();
    assert_ne!(second.opened().rflags & OPEN4_RESULT_CONFIRM, 0);
    assert_eq!(server.nfs.counts().opens, 1);
    let stateid = first.opened().stateid;
    client.run(vec![put(&first.fh(0)), read(stateid, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
    client.run(vec![put(&second.fh(0)), client.confirm_op(second.opened().stateid)]).ok();
}

#[test]
fn shares_conflict_with_the_owners_own_open_as_well() // RFC 7530 section 9.9
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    client.opened("f");
    client
        .at("export", vec![client.open_op(NOCREATE, by_name("f"), READ, DENY_WRITE)])
        .expect(NFS4ERR_SHARE_DENIED);
    let widened = client.at("export", vec![client.open_op(NOCREATE, by_name("f"), READ, 0)]).ok();
    assert_eq!(widened.opened().stateid.seqid, 3, "the open, its confirmation, and this");
}

#[test]
fn an_open_is_narrowed_and_closed() // RFC 7530 sections 16.19 and 16.2
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let (fh, _) = client.opened("f");
    let reply = client.at("export", vec![client.open_op(NOCREATE, by_name("f"), READ, 0)]).ok();
    let open_stateid = reply.opened().stateid;
    let narrow = |share_access| {
        let seqid = client.next_open();
        NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args { open_stateid, seqid, share_access, share_deny: 0 })
    };
    client.run(vec![put(&fh), narrow(BOTH | 4)]).expect(NFS4ERR_INVAL);
    let narrowed = client.run(vec![put(&fh), narrow(READ)]).ok().stateid();
    client.run(vec![put(&fh), write(narrowed, 0, b"x")]).expect(NFS4ERR_OPENMODE);
    client.run(vec![put(&fh), client.close_op(open_stateid)]).expect(NFS4ERR_OLD_STATEID);
    let closed = client.run(vec![put(&fh), client.close_op(narrowed)]).ok().stateid();
    assert_eq!(closed.other, narrowed.other);
    client.run(vec![put(&fh), read(narrowed, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn special_files_are_to_open_as_symbolic_links_are() // RFC 7530 section 16.16.5
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    client.opened("f");
    client.at("export", vec![create(Createtype4::NF4FIFO, "fifo", mode(0o644))]).ok();
    client.at("export", vec![create(Createtype4::NF4DIR, "d", mode(0o755))]).ok();
    for (name, status) in [("fifo", NFS4ERR_SYMLINK), ("d", NFS4ERR_ISDIR), ("none", NFS4ERR_NOENT)] {
        client.at("export", vec![client.open_op(NOCREATE, by_name(name), READ, 0)]).expect(status);
    }
}

#[test]
fn callers_without_permission_do_not_learn_who_has_a_file_open() // RFC 7530 section 16.16.5
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    client.opened("f");
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o600)));
    client.at("export", vec![client.open_op(how, by_name("secret"), BOTH, DENY_WRITE)]).ok();
    let other = Client40::with(&server, b"other", sys(BOB), [1; 8]);
    other.at("export", vec![other.open_op(NOCREATE, by_name("secret"), BOTH, 0)]).expect(NFS4ERR_ACCESS);
    let own = Client40::with(&server, b"own", sys(ALICE), [1; 8]);
    own.at("export", vec![own.open_op(NOCREATE, by_name("secret"), BOTH, 0)]).expect(NFS4ERR_SHARE_DENIED);
}

#[test]
fn locks_are_taken_in_the_sequences_of_both_owners() // RFC 7530 sections 16.10 and 16.12
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let (fh, open) = client.opened("f");
    let lock = client.run(vec![put(&fh), client.first_lock_op(open, 0, 10)]).ok().stateid();
    let more = client.run(vec![put(&fh), client.lock_op(lock, 20, 10)]).ok().stateid();
    client.run(vec![put(&fh), client.lock_op(lock, 40, 10)]).expect(NFS4ERR_OLD_STATEID);
    let bad = ExistLockOwner4 { lock_stateid: more, lock_seqid: 99 };
    let bad = NfsArgop4::OP_LOCK(Lock4Args {
        locktype: NfsLockType4::READ_LT,
        reclaim: false,
        offset: 0,
        length: 1,
        locker: Locker4::FALSE(bad),
    });
    client.run(vec![put(&fh), bad]).expect(NFS4ERR_BAD_SEQID);
    let other = Client40::with(&server, b"other", sys(ALICE), [1; 8]);
    let (_, theirs) = other.opened("f");
    let denied = other.run(vec![put(&fh), other.first_lock_op(theirs, 5, 1)]).expect(NFS4ERR_DENIED);
    let NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(denied)) = denied.last() else { panic!() };
    assert_eq!((denied.owner.clientid, &*denied.owner.owner), (client.clientid, LOCK_OWNER));
    // Its first LOCK failed: the lock-owner may begin with any number.
    other.lock_seqid.set(70);
    other.run(vec![put(&fh), other.first_lock_op(theirs, 100, 1)]).ok();
    let unlocked = client.run(vec![put(&fh), client.unlock_op(more, 0, 10)]).ok().stateid();
    assert_eq!(unlocked.seqid, more.seqid + 1);
    let test = |clientid| {
        let owner = StateOwner4 { clientid, owner: bytes(b"test") };
        NfsArgop4::OP_LOCKT(Lockt4Args { locktype: NfsLockType4::WRITE_LT, offset: 0, length: 10, owner })
    };
    client.run(vec![put(&fh), test(client.clientid)]).ok();
    client.run(vec![put(&fh), test(1)]).expect(NFS4ERR_STALE_CLIENTID);
    let release = || {
        let lock_owner = StateOwner4 { clientid: client.clientid, owner: bytes(LOCK_OWNER) };
        client.run(vec![NfsArgop4::OP_RELEASE_LOCKOWNER(ReleaseLockowner4Args { lock_owner })])
    };
    release().expect(NFS4ERR_LOCKS_HELD);
    client.run(vec![put(&fh), client.unlock_op(unlocked, 0, u64::MAX)]).ok();
    release().ok();
}

#[test]
fn stateids_of_one_client_are_not_good_for_anothers_lock() // RFC 7530 section 9.1.4.4
{
    let server = Setup::default().start();
    let (a, b) = (Client40::new(&server), Client40::with(&server, b"b", sys(ALICE), [1; 8]));
    let (fh, open) = a.opened("f");
    b.run(vec![put(&fh), b.first_lock_op(open, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
    let mut later = Client::new(&server);
    let theirs = later.at("export", vec![open_create("f", BOTH)]).ok().opened().stateid;
    a.run(vec![put(&fh), read(theirs, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
    later.run(vec![put(&fh), read(open, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
}
