//! Locks of clients and of programs of the server's machine (RFC 8881 sections 9.5 and 18.10).

use crate::helper::*;
use crate::local::{Folder, folder};
use crate::waiting::{Site, try_on};
use nfs4::NfsLockType4::{READ_LT, WRITE_LT};
use nfs4::Nfsstat4::*;
use nfs4::*;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use orthrus_server::engine::NfsConfig;
use rng::SplitMix64;
use state::PriorClient;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// A local program with an open file.
struct Local(File);

impl Local {
    fn open(path: PathBuf) -> Self {
        Self(File::options().read(true).write(true).open(path).unwrap())
    }

    fn words(kind: i32, first: u64, length: u64) -> libc::flock {
        libc::flock {
            l_type: kind as _,
            l_whence: libc::SEEK_SET as _,
            l_start: first.try_into().unwrap(),
            l_len: length.try_into().unwrap(),
            l_pid: 0,
        }
    }

    /// Locks without waiting. A length of 0 extends to the end.
    fn lock(&self, write: bool, first: u64, length: u64) -> bool {
        let kind = if write { libc::F_WRLCK } else { libc::F_RDLCK };
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&Self::words(kind, first, length))).is_ok()
    }

    fn unlock(&self) {
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&Self::words(libc::F_UNLCK, 0, 0))).unwrap();
    }

    /// Returns whether it could lock, without doing so.
    fn may(&self, write: bool, first: u64, length: u64) -> bool {
        let kind = if write { libc::F_WRLCK } else { libc::F_RDLCK };
        let mut words = Self::words(kind, first, length);
        fcntl(&self.0, FcntlArg::F_OFD_GETLK(&mut words)).unwrap();
        i32::from(words.l_type) == libc::F_UNLCK
    }
}

/// A server with a file "f" in its export, and a client that has it open.
struct LockWorld<'s> {
    alice: Client<'s>,
    fh: Vec<u8>,
    open: Stateid4,
    local: Local,
}

fn server() -> (Folder, Server) {
    let place = Folder::new();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    (place, server)
}

impl<'s> LockWorld<'s> {
    fn new(place: &Folder, server: &'s Server) -> Self {
        let mut alice = Client::new(server);
        let fh = alice.make_file("export", "f", b"data");
        let open = alice.at("export", vec![open("f", 3)]).ok().opened().stateid;
        Self { alice, fh, open, local: Local::open(place.join("f")) }
    }

    fn lock(&mut self, locktype: NfsLockType4, offset: u64, length: u64, owner: &[u8]) -> Reply {
        self.alice.run(vec![put(&self.fh), lock_new(locktype, offset, length, self.open, owner)])
    }

    fn unlock(&mut self, stateid: Stateid4, offset: u64, length: u64) {
        self.alice.run(vec![put(&self.fh), locku(stateid, offset, length)]).ok();
    }
}

/// Returns the conflicting lock.
fn denied(reply: &Reply) -> (u64, u64, NfsLockType4, u64) {
    match reply.last() {
        NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(denied))
        | NfsResop4::OP_LOCKT(Lockt4Res::NFS4ERR_DENIED(denied)) => {
            assert_eq!(
                &*denied.owner.owner, b"a local program",
                "at most 20 bytes: Linux 6.12 reserves no more"
            );
            (denied.offset, denied.length, denied.locktype, denied.owner.clientid)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_of_a_local_program_denies_those_of_clients() // RFC 8881 sections 18.10.3 and 18.11.3
{
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    assert!(world.local.lock(true, 10, 5));
    let reply = world.lock(READ_LT, 0, u64::MAX, b"a").expect(NFS4ERR_DENIED);
    assert_eq!(denied(&reply), (10, 5, WRITE_LT, 0));
    let reply = world.alice.run(vec![put(&world.fh), lockt(READ_LT, 14, 1, b"a")]);
    assert_eq!(denied(&reply.expect(NFS4ERR_DENIED)), (10, 5, WRITE_LT, 0));
    world.alice.run(vec![put(&world.fh), lockt(READ_LT, 15, 1, b"a")]).ok();
    world.lock(WRITE_LT, 0, 10, b"a").ok();
    let reply = world.alice.run(vec![put(&world.fh), lockt(READ_LT, 14, 1, b"a")]);
    reply.expect(NFS4ERR_DENIED);
    assert!(world.local.may(true, 15, 0), "what was refused is locked nowhere");
    world.local.unlock();
    assert!(world.local.lock(false, 10, 0));
    assert_eq!(denied(&world.lock(WRITE_LT, 20, 1, b"a").expect(NFS4ERR_DENIED)), (10, u64::MAX, READ_LT, 0));
    world.lock(READ_LT, 20, 1, b"a").ok();
}

#[test]
fn a_client_that_waits_for_a_local_program_is_notified() // RFC 8881 sections 18.10.4 and 20.11
{
    let (place, server) = server();
    let wire = Wire::under(&server);
    let mut alice = Client::delegated(&server, &wire, b"a", 11);
    let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    let reply = alice.at("export", vec![open_create("f", access), getfh()]).ok();
    let (fh, open) = (reply.fh(0), reply.opened().stateid);
    let local = Local::open(place.join("f"));
    assert!(local.lock(true, 10, 5));
    let mut lock =
        |locktype| alice.run(vec![put(&fh), lock_new(locktype, 12, 1, open, b"o")]).expect(NFS4ERR_DENIED);
    lock(WRITE_LT);
    local.unlock();
    let now = Duration::from_secs(1);
    server.nfs.housekeeping(now);
    assert!(wire.take().is_empty(), "it does not wait");
    assert!(local.lock(true, 10, 5));
    lock(NfsLockType4::READW_LT);
    server.nfs.housekeeping(now);
    assert!(wire.take().is_empty(), "the program has its lock yet");
    local.unlock();
    server.nfs.housekeeping(now);
    let told = wire.one();
    let Some(NfsCbArgop4::OP_CB_NOTIFY_LOCK(notice)) = told.operation() else { panic!("{told:?}") };
    let owner = StateOwner4 { clientid: alice.clientid, owner: bytes(b"o") };
    assert_eq!((notice.cnla_fh.to_vec(), &notice.cnla_lock_owner), (fh.clone(), &owner));
    server.answer(now, &told, NFS4_OK, NFS4ERR_SERVERFAULT);
    server.nfs.housekeeping(now);
    assert!(wire.take().is_empty(), "once");
    alice.run(vec![put(&fh), lock_new(NfsLockType4::READW_LT, 12, 1, open, b"o")]).ok();
}

#[test]
fn a_lock_of_a_client_denies_those_of_local_programs_until_it_is_undone()
// RFC 8881 sections 18.10.3 and 18.12.3
{
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let stateid = stateid_of(locked(&world.lock(WRITE_LT, 4, 4, b"a").ok()));
    assert!(!world.local.lock(false, 7, 1));
    assert!(world.local.lock(true, 0, 4) && world.local.lock(true, 8, 0));
    world.local.unlock();
    world.unlock(stateid, 0, 6);
    assert!(world.local.may(true, 0, 6) && !world.local.may(false, 6, 1));
    world.unlock(stateid, 6, u64::MAX);
    assert!(world.local.lock(true, 0, 0));
}

#[test]
fn ranges_of_another_owner_stay_locked() // RFC 8881 section 9.5
{
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let one = locked(&world.lock(READ_LT, 0, 10, b"one").ok());
    world.lock(READ_LT, 5, 10, b"two").ok();
    world.unlock(one, 0, u64::MAX);
    assert!(world.local.may(true, 0, 5) && !world.local.may(true, 5, 1) && !world.local.may(true, 14, 1));
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let open_b = other.at("export", vec![open("f", 3)]).ok().opened().stateid;
    other.run(vec![put(&world.fh), lock_new(READ_LT, 0, u64::MAX, open_b, b"b")]).ok();
    world.alice.run(vec![put(&world.fh), close(world.open)]).ok();
    assert!(!world.local.may(true, 5, 1), "the other client has locked all of it");
    other.run(vec![put(&world.fh), close(open_b)]).ok();
    assert!(world.local.may(true, 0, 0));
}

#[test]
fn locks_are_made_weaker_and_stronger_in_place() // RFC 8881 section 9.5
{
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let stateid = locked(&world.lock(WRITE_LT, 0, 10, b"a").ok());
    let change = |locktype, offset, length| {
        let locker = Locker4::FALSE(ExistLockOwner4 { lock_stateid: stateid_of(stateid), lock_seqid: 0 });
        NfsArgop4::OP_LOCK(Lock4Args { locktype, reclaim: false, offset, length, locker })
    };
    world.alice.run(vec![put(&world.fh), change(READ_LT, 0, 5)]).ok();
    assert!(world.local.lock(false, 0, 5) && !world.local.may(false, 5, 1));
    let reply = world.alice.run(vec![put(&world.fh), change(WRITE_LT, 0, 10)]).expect(NFS4ERR_DENIED);
    assert_eq!(denied(&reply), (0, 5, READ_LT, 0));
    assert!(!world.local.may(true, 0, 1), "what the client had it has still");
    world.local.unlock();
    world.alice.run(vec![put(&world.fh), change(WRITE_LT, 0, 10)]).ok();
    assert!(!world.local.may(false, 0, 1));
}

/// Returns the stateid with sequence number 0, which stands for the newest.
fn stateid_of(stateid: Stateid4) -> Stateid4 {
    Stateid4 { seqid: 0, ..stateid }
}

/// Locks a byte for writing by a lock-owner that has a stateid.
fn lock_byte(lock_stateid: Stateid4, offset: u64) -> NfsArgop4<'static> {
    let locker = Locker4::FALSE(ExistLockOwner4 { lock_stateid, lock_seqid: 0 });
    NfsArgop4::OP_LOCK(Lock4Args { locktype: WRITE_LT, reclaim: false, offset, length: 1, locker })
}

#[test]
fn ranges_between_very_many_others_are_unlocked_in_steps() // RFC 8881 section 18.12.3
{
    const RANGES: u64 = 3000;
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let mut locker = |offset, owner| stateid_of(locked(&world.lock(WRITE_LT, offset, 1, owner).ok()));
    let (a, b) = (locker(0, b"a"), locker(2, b"b"));
    for offset in (4..4 * RANGES).step_by(4) {
        world.alice.run(vec![put(&world.fh), lock_byte(a, offset), lock_byte(b, offset + 2)]).ok();
    }
    world.unlock(a, 0, u64::MAX);
    let last = 4 * (RANGES - 1);
    assert!(world.local.may(true, 0, 1));
    assert!(!world.local.may(true, last, 1), "that would keep the thread for long");
    world.lock(WRITE_LT, last - 4, 1, b"c").ok();
    world.lock(READ_LT, last, 1, b"d").ok();
    while server.nfs.unlock_late(Duration::ZERO) {}
    for offset in (0..4 * RANGES).step_by(2) {
        let is_free = offset % 4 == 0 && offset < last - 4;
        assert_eq!(world.local.may(true, offset, 1), is_free, "{offset}");
        assert_eq!(world.local.may(false, offset, 1), is_free || offset == last, "{offset}");
    }
    world.alice.run(vec![put(&world.fh), close(world.open)]).ok();
    assert!(world.local.lock(true, 0, 0));
}

#[test]
fn changes_of_a_file_with_very_many_locks_leave_the_threads_of_shards() {
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let stateid = stateid_of(locked(&world.lock(WRITE_LT, 0, 1, b"a").ok()));
    let more = |offset| lock_byte(stateid, offset);
    try_on(&world.alice, 1, 1, vec![put(&world.fh), more(2)]).answered(NFS4_OK);
    for offset in (4..260).step_by(2) {
        world.alice.run(vec![put(&world.fh), more(offset)]).ok();
    }
    let changes =
        [locku(stateid, 0, u64::MAX), lockt(WRITE_LT, 1000, 1, b"b"), more(1000), close(world.open)];
    for (sequence, change) in (2..).zip(changes) {
        let waiting = try_on(&world.alice, 1, sequence, vec![put(&world.fh), change]).waits();
        let Ok(reply) = waiting.go_on(&world.alice) else { panic!("it waits in its lane") };
        assert_eq!(reply.status, NFS4_OK);
        // All ranges are locked anew after LOCKU.
        for offset in (0..260).step_by(2).filter(|_| sequence == 2) {
            world.alice.run(vec![put(&world.fh), more(offset)]).ok();
        }
    }
    assert!(world.local.lock(true, 0, 0));
}

#[test]
// RFC 8881 section 18.10.3
fn a_file_that_was_locked_for_reading_alone_can_be_locked_for_writing_by_another() {
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let reader = open_how(NOCREATE, by_name("f"), 1, 0, b"reader");
    let reader = world.alice.at("export", vec![reader]).ok().opened().stateid;
    world.alice.run(vec![put(&world.fh), lock_new(READ_LT, 0, 5, reader, b"r")]).ok();
    assert!(!world.local.may(true, 0, 1));
    world.lock(WRITE_LT, 5, 5, b"w").ok();
    assert!(!world.local.may(true, 0, 1) && world.local.may(false, 0, 5) && !world.local.may(false, 5, 1));
}

#[test]
// RFC 8881 section 18.10.3
fn ranges_beyond_the_kernels_largest_offset_are_locked_between_clients_alone() {
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let largest = i64::MAX.unsigned_abs();
    world.lock(WRITE_LT, largest + 1, 10, b"a").ok();
    assert!(world.local.may(true, 0, 0));
    world.lock(WRITE_LT, largest + 5, 1, b"b").expect(NFS4ERR_DENIED);
    world.lock(WRITE_LT, largest - 1, 2, b"b").ok();
    assert!(world.local.may(true, 0, largest - 1) && !world.local.may(true, largest - 1, 1));
}

#[test]
fn servers_of_a_file_lock_the_bytes_behind_its_file_systems_largest_offset_as_one()
// RFC 8881 section 18.10.3
{
    let site = Site::new();
    site.disk.share();
    let (mut client, fh, open) = site.client();
    let largest = i64::MAX.unsigned_abs();
    for (offset, length) in [(largest + 1, 10), (largest + 1, u64::MAX), (0, largest + 10)] {
        let lock = lock_new(WRITE_LT, offset, length, open, b"a");
        client.run(vec![put(&fh), lock]).expect(NFS4ERR_BAD_RANGE);
        client.run(vec![put(&fh), lockt(WRITE_LT, offset, length, b"a")]).expect(NFS4ERR_BAD_RANGE);
    }
    let lock = lock_new(WRITE_LT, largest, u64::MAX, open, b"a");
    let stateid = locked(&client.run(vec![put(&fh), lock]).ok());
    client.run(vec![put(&fh), locku(stateid, largest + 1, u64::MAX)]).expect(NFS4ERR_BAD_RANGE);
    client.run(vec![put(&fh), locku(stateid, 0, u64::MAX)]).ok();
}

#[test]
fn locks_end_with_the_client_and_not_before() // RFC 8881 section 8.4.3
{
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    world.lock(WRITE_LT, 0, 10, b"a").ok();
    let lease = Duration::from_secs(3600);
    server.nfs.housekeeping(world.alice.now + lease);
    assert!(!world.local.may(true, 0, 1), "on sufferance");
    server.nfs.housekeeping(world.alice.now + Duration::from_secs(100_000));
    assert!(world.local.may(true, 0, 0));
}

#[test]
fn a_lock_that_a_local_program_has_taken_meanwhile_is_not_reclaimed() // RFC 8881 section 9.6.1
{
    let place = Folder::new();
    let export = || vec![folder("/export", place.path())];
    let server = Setup::with_exports(export()).start();
    let fh = Client::new(&server).make_file("export", "f", b"data");
    drop(server);
    let local = Local::open(place.join("f"));
    assert!(local.lock(true, 0, 4));
    let prior_clients = vec![PriorClient { owner: b"client".to_vec(), principal: None }];
    let server = Setup { exports: export(), prior_clients, epoch: 2, ..Setup::default() }.start();
    let mut alice = Client::without_reclaim_complete(&server, b"client", sys(ALICE), FORE);
    let claim = OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_NONE);
    let stateid = alice.run(vec![put(&fh), open_how(NOCREATE, claim, 3, 0, b"o")]).ok().opened().stateid;
    let reclaim = |offset| {
        let NfsArgop4::OP_LOCK(args) = lock_new(WRITE_LT, offset, 4, stateid, b"a") else { panic!() };
        NfsArgop4::OP_LOCK(Lock4Args { reclaim: true, ..args })
    };
    alice.run(vec![put(&fh), reclaim(2)]).expect(NFS4ERR_RECLAIM_CONFLICT);
    alice.run(vec![put(&fh), reclaim(4)]).ok();
    local.unlock();
    assert!(local.may(true, 0, 4) && !local.may(true, 4, 1));
}

#[test]
fn a_file_without_a_name_can_be_locked_and_unlocked() // RFC 8881 section 18.25.4
{
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let (fh, stateid) = (world.fh.clone(), world.open);
    world.alice.at("export", vec![remove("f")]).ok();
    let reply = world.lock(WRITE_LT, 0, 4, b"a").ok();
    assert!(!world.local.may(true, 0, 1));
    world.unlock(locked(&reply), 0, 4);
    assert!(world.local.may(true, 0, 0));
    world.alice.run(vec![put(&fh), close(stateid)]).ok();
}

#[test]
fn under_a_delegation_for_writing_locks_are_held_by_its_one_descriptor() // RFC 8881 section 10.4.2
{
    let (place, server) = server();
    let wire = Wire::under(&server);
    let mut alice = Client::delegated(&server, &wire, b"a", 11);
    let reply = alice.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    if !matches!(delegation(&reply), OpenDelegation4::OPEN_DELEGATE_WRITE(_)) {
        return println!("skipped: no leases here");
    }
    let deleg = granted(&reply);
    alice.run(vec![put(&fh), lock_new(WRITE_LT, 0, 4, stateid, b"a")]).ok();
    assert!(!server.nfs.wait_for_breaks(Duration::ZERO), "it is not in its own way");
    alice.run(vec![put(&fh), delegreturn(deleg)]).ok();
    let local = Local::open(place.join("f"));
    assert!(!local.may(true, 0, 1));
    alice.run(vec![put(&fh), close(stateid)]).ok();
    assert!(local.may(true, 0, 0));
}

#[test]
fn where_they_are_switched_off_clients_and_local_programs_do_not_see_each_other() {
    let place = Folder::new();
    let config = NfsConfig { local_locks: false, ..NfsConfig::default() };
    let exports = vec![folder("/export", place.path())];
    let server = Setup { config, exports, ..Setup::default() }.start();
    let mut world = LockWorld::new(&place, &server);
    assert!(world.local.lock(true, 0, 4));
    world.lock(WRITE_LT, 0, 10, b"a").ok();
    assert!(world.local.may(true, 0, 0));
}

#[test]
fn a_local_program_sees_exactly_what_all_owners_have_together() // RFC 8881 section 9.5
{
    const BYTES: u64 = 12;
    let (place, server) = server();
    let mut world = LockWorld::new(&place, &server);
    let mut owners: Vec<(Option<Stateid4>, [u8; BYTES as usize])> = vec![(None, [0; BYTES as usize]); 3];
    let mut random = SplitMix64(0);
    let mut draw = |below| random.below(below);
    let (mut granted, mut refused) = (0, 0);
    for _ in 0..400 {
        let (which, first) = (draw(3) as usize, draw(BYTES));
        let length = 1 + draw(BYTES - first);
        let range = first as usize..(first + length) as usize;
        let kind = draw(3) as u8;
        let locktype = if kind == 2 { WRITE_LT } else { READ_LT };
        let free = owners.iter().enumerate().all(|(other, (_, bytes))| {
            other == which || range.clone().all(|at| bytes[at] == 0 || (bytes[at] == 1 && kind == 1))
        });
        let name = [b'a' + which as u8];
        let reply = match (owners[which].0, kind) {
            (None, 0) => continue,
            (Some(stateid), 0) => {
                world.unlock(stateid, first, length);
                owners[which].1[range].fill(0);
                continue;
            }
            (Some(lock_stateid), _) => {
                let locker = Locker4::FALSE(ExistLockOwner4 { lock_stateid, lock_seqid: 0 });
                let args = Lock4Args { locktype, reclaim: false, offset: first, length, locker };
                world.alice.run(vec![put(&world.fh), NfsArgop4::OP_LOCK(args)])
            }
            (None, _) => world.lock(locktype, first, length, &name),
        };
        if free {
            owners[which].0 = Some(stateid_of(locked(&reply.ok())));
            owners[which].1[range].fill(kind);
            granted += 1;
        } else {
            reply.expect(NFS4ERR_DENIED);
            refused += 1;
        }
        for at in 0..BYTES {
            let held = owners.iter().map(|(_, bytes)| bytes[at as usize]).max().unwrap();
            assert_eq!(world.local.may(true, at, 1), held == 0, "byte {at} of {owners:?}");
            assert_eq!(world.local.may(false, at, 1), held < 2, "byte {at} of {owners:?}");
        }
    }
    assert!(granted > 50 && refused > 50, "{granted} and {refused}");
}
