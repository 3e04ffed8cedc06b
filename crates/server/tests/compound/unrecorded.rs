//! Client records on a disk that stands still: shards go on, and no reply grants state that
//! another client may still reclaim (RFC 8881 section 8.4.3).

use crate::grace::Kept;
use crate::helper::*;
use crate::waiting::{try_bytes, try_on};
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::{ClientRecords, CommitKey, FileKey, ObjectsOut, SyncedRecords, WaitsFor};
use state::{PrincipalHash, PriorClient};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Records on a disk that the test stops.
#[derive(Clone, Default)]
struct StoppedDisk {
    written: Kept,
    stable: Kept,
    disk: Arc<(Mutex<DiskState>, Condvar)>,
}

#[derive(Default)]
struct DiskState {
    stopped: bool,
    /// Syncs that a stopped disk still makes.
    allowed: usize,
    /// Threads that wait for it.
    waiting: usize,
}

impl StoppedDisk {
    /// Stops the disk until the result is dropped.
    fn stop(&self) -> Stopped<'_> {
        self.disk.0.lock().unwrap().stopped = true;
        Stopped(self)
    }

    /// Waits until a thread waits for the disk.
    fn await_writer(&self) {
        let disk = self.disk.0.lock().unwrap();
        drop(self.disk.1.wait_while(disk, |disk| disk.waiting == 0).unwrap());
    }

    /// Lets a stopped disk make one sync.
    fn allow_one(&self) {
        self.disk.0.lock().unwrap().allowed += 1;
        self.disk.1.notify_all();
    }

    fn has(&self, owner: &[u8]) -> bool {
        self.stable.owners().iter().any(|client| client.owner == owner)
    }
}

struct Stopped<'d>(&'d StoppedDisk);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.disk.0.lock().unwrap().stopped = false;
        self.0.disk.1.notify_all();
    }
}

impl ClientRecords for StoppedDisk {
    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        self.written.record(owner, principal);
    }

    fn forget(&self, owner: &[u8]) {
        self.written.forget(owner);
    }

    fn sync(&self) -> SyncedRecords {
        let before = Kept::default();
        before.replace(&self.written);
        let mut disk = self.disk.0.lock().unwrap();
        disk.waiting += 1;
        self.disk.1.notify_all();
        let mut disk = self.disk.1.wait_while(disk, |disk| disk.stopped && disk.allowed == 0).unwrap();
        disk.waiting -= 1;
        disk.allowed = disk.allowed.saturating_sub(1);
        drop(disk);
        self.stable.replace(&before);
        SyncedRecords::All
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// Starts a server that waits for a client that does not come back.
fn started(records: &StoppedDisk) -> Server {
    let gone = PriorClient { owner: b"gone".to_vec(), principal: None };
    records.stable.0.lock().unwrap().insert(gone.owner.clone(), None);
    records.written.replace(&records.stable);
    Setup { records: Box::new(records.clone()), prior_clients: vec![gone], ..Setup::default() }.start()
}

/// Returns a client with a good lease after the grace period.
fn late_client<'s>(server: &'s Server, owner: &[u8]) -> Client<'s> {
    let mut client = Client::with(server, owner, sys(ALICE), FORE);
    client.now += Duration::from_secs(50);
    client.run(vec![]).ok();
    client.now += Duration::from_secs(15);
    client
}

#[test]
fn the_end_of_the_grace_period_keeps_no_shard_waiting() // RFC 8881 section 8.4.2
{
    for minor in [0, 1] {
        let records = StoppedDisk::default();
        let server = started(&records);
        let client = Client { minor, ..late_client(&server, b"client") };
        let stopped = records.stop();
        match minor {
            0 => try_bytes(&client, encode(0, &[put_root()])).answered(NFS4_OK),
            _ => try_on(&client, 1, 1, vec![put_root()]).answered(NFS4_OK),
        };
        assert!(!server.nfs.in_grace() && records.has(b"gone"));
        drop(stopped);
        server.nfs.housekeeping(client.now);
        assert!(!records.has(b"gone"));
    }
}

#[test]
fn nothing_is_granted_before_a_client_that_stayed_away_is_off_the_records()
// RFC 8881 section 8.4.3
{
    let records = StoppedDisk::default();
    let server = started(&records);
    let client = late_client(&server, b"client");
    std::thread::scope(|scope| {
        let stopped = records.stop();
        scope.spawn(|| server.nfs.housekeeping(client.now));
        records.await_writer();
        let open = vec![put_root(), lookup("export"), open_create("f", 3)];
        let opening = try_on(&client, 1, 1, open.clone()).waits();
        assert_eq!(try_on(&client, 1, 1, open).answered(NFS4ERR_DELAY).resarray.len(), 1);
        // The answer would come too early, so there is none.
        let declined = vec![put_root(), lookup("export"), open_create("g", 3)];
        assert!(try_on(&client, 2, 1, declined).waits().try_decline(&client).is_none());
        // Other operations depend on no record.
        try_on(&client, 3, 1, vec![put_root(), lookup("export")]).answered(NFS4_OK);
        let resumed = scope.spawn(|| {
            let reply = opening.resume(&client);
            (reply.status, records.has(b"gone"))
        });
        drop(stopped);
        assert_eq!(resumed.join().unwrap(), (NFS4_OK, false));
    });
    try_on(&client, 4, 1, vec![put_root(), lookup("export"), open_create("h", 3)]).answered(NFS4_OK);
}

#[test]
fn a_lock_waits_until_its_former_holder_is_off_the_records() // RFC 8881 section 8.4.3
{
    let records = StoppedDisk::default();
    let server = Setup { records: Box::new(records.clone()), ..Setup::default() }.start();
    let mut evicted = Client::with(&server, b"evicted", sys(ALICE), FORE);
    let reply = evicted.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let locking = |stateid| lock_new(NfsLockType4::WRITE_LT, 0, 9, stateid, b"owner");
    evicted.run(vec![put(&fh), locking(stateid)]).ok();
    assert!(records.has(b"evicted"));

    let mut client = Client::with(&server, b"client", sys(ALICE), FORE);
    let stateid = client.at("export", vec![open("f", 3)]).ok().opened().stateid;
    std::thread::scope(|scope| {
        let stopped = records.stop();
        scope.spawn(|| server.nfs.evict(evicted.clientid, client.now));
        records.await_writer();
        client.cache_this = true;
        let lock = vec![put(&fh), locking(stateid)];
        // Without a thread that waits for the records, the connection closes. The client sends the
        // request again, and gets the result of the one lock.
        assert!(try_on(&client, 1, 1, lock.clone()).waits().try_decline(&client).is_none());
        try_on(&client, 1, 1, lock.clone()).waits();
        drop(stopped);
        server.nfs.write_all_records();
        let reply = try_on(&client, 1, 1, lock).answered(NFS4_OK);
        let Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(locked))) = reply.resarray.last() else {
            panic!("{reply:?}")
        };
        assert_eq!(locked.lock_stateid.seqid, 1);
        assert!(!records.has(b"evicted"));
    });
}

#[test]
fn one_sync_answers_all_grants_that_waited_for_it() // RFC 8881 section 8.4.3
{
    let records = StoppedDisk::default();
    let server = Setup { records: Box::new(records.clone()), ..Setup::default() }.start();
    let with = |owner: &[u8]| Client::with(&server, owner, sys(ALICE), FORE);
    let leaving = [with(b"one"), with(b"two"), with(b"three")];
    let mut client = with(b"client");
    client.make_file("export", "f", b"data");
    let (nfs, now) = (&server.nfs, client.now);
    std::thread::scope(|scope| {
        let stopped = records.stop();
        let leave = |client: &Client<'_>| {
            let clientid = client.clientid;
            scope.spawn(move || nfs.evict(clientid, now));
        };
        leave(&leaving[0]);
        records.await_writer();
        let open = vec![put_root(), lookup("export"), open("f", 1)];
        let waiting: Vec<_> = (1..=5).map(|slot| try_on(&client, slot, 1, open.clone()).waits()).collect();
        leaving[1..].iter().for_each(leave);
        while nfs.counts().clients > 1 {
            std::thread::yield_now();
        }
        let client = &client;
        let answers: Vec<_> =
            waiting.into_iter().map(|waiting| scope.spawn(|| waiting.resume(client).status)).collect();
        records.allow_one();
        answers.into_iter().for_each(|answer| assert_eq!(answer.join().unwrap(), NFS4_OK));
        assert!(!records.has(b"one") && records.has(b"two"));
        drop(stopped);
    });
    assert_eq!(records.stable.owners().len(), 1);
}

#[test]
fn recovery_is_over_with_its_own_records() // RFC 8881 section 8.4.2.1
{
    let records = StoppedDisk::default();
    let server = started(&records);
    let mut client = late_client(&server, b"client");
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    client.run(vec![]).ok();
    other.now = client.now;
    other.run(vec![]).ok();
    assert!(!server.nfs.in_grace() && !server.nfs.has_recovered());
    server.nfs.housekeeping(client.now);
    assert!(server.nfs.has_recovered() && !records.has(b"gone"));
    std::thread::scope(|scope| {
        let stopped = records.stop();
        scope.spawn(|| server.nfs.evict(other.clientid, client.now));
        records.await_writer();
        assert!(server.nfs.has_recovered());
        drop(stopped);
    });
}

#[test]
fn no_open_of_nfsv4_0_is_answered_before_its_client_is_recorded() // RFC 7530 section 9.6.3.4
{
    let records = StoppedDisk::default();
    let server = Setup { records: Box::new(records.clone()), ..Setup::default() }.start();
    let by = Client { minor: 0, ..Client::with(&server, b"other", sys(ALICE), FORE) };
    let client = Client40::new(&server);
    let stopped = records.stop();
    let open = |owner: &[u8]| {
        let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o644)));
        let open = client.open_as(owner, 1, how, by_name("f"), 3, 0);
        encode(0, &[put_root(), lookup("export"), open])
    };
    let waiting = [open(b"one"), open(b"two"), open(b"one")].map(|open| try_bytes(&by, open).waits());
    assert_eq!(records.stable.owners().len(), 1);
    drop(stopped);
    for waiting in waiting {
        assert_eq!(waiting.resume(&by).status, NFS4_OK);
        assert_eq!(records.stable.owners().len(), 2);
    }
    try_bytes(&by, open(b"three")).answered(NFS4_OK);
}

#[test]
fn no_open_is_answered_before_the_reclaims_of_its_client_are_complete() // RFC 8881 section 8.4.2.1
{
    let records = StoppedDisk::default();
    let server = Setup { records: Box::new(records.clone()), ..Setup::default() }.start();
    let client = Client::without_reclaim_complete(&server, b"client", sys(ALICE), FORE);
    let stopped = records.stop();
    // As a thread of a pool runs it.
    let completing = try_on(&client, 1, 1, vec![reclaim_complete()]).waits().execute(&client);
    assert_eq!(WaitsFor::pending_sync(&completing.suspended), Some(CommitKey::Puts));
    let open = vec![put_root(), lookup("export"), open_create("f", 3)];
    let opening = try_on(&client, 2, 1, open).waits();
    assert_eq!(WaitsFor::pending_sync(&opening.suspended), Some(CommitKey::Puts));
    drop(stopped);
    assert_eq!(opening.resume(&client).status, NFS4_OK);
    assert!(records.has(b"client"));
    assert_eq!(completing.resume(&client).status, NFS4_OK);
}

#[test]
fn a_brief_step_does_not_wait_for_records() // RFC 8881 section 8.4.3
{
    let (records, disk) = (StoppedDisk::default(), Slow::new());
    let export = all_flavors(vfs::Export::new("/export", disk.clone()).unwrap());
    let setup = Setup::with_exports(vec![export]);
    let server = Setup { records: Box::new(records.clone()), ..setup }.start();
    let leaving = Client::with(&server, b"leaving", sys(ALICE), FORE);
    let client = Client::new(&server);
    std::thread::scope(|scope| {
        let stopped = records.stop();
        scope.spawn(|| server.nfs.evict(leaving.clientid, client.now));
        records.await_writer();
        let create = vec![put_root(), lookup("export"), open_create("f", 3)];
        let step = try_on(&client, 1, 1, create).waits().execute(&client);
        assert_eq!(WaitsFor::pending_sync(&step.suspended), Some(CommitKey::Removals));
        drop(stopped);
        assert_eq!(step.resume(&client).status, NFS4_OK);
    });
}

/// The objects of an image without files.
struct NoObjects;

impl ObjectsOut for NoObjects {
    fn file(&mut self, _: &FileKey, _: &Arc<dyn vfs::OpenFile>) -> u32 {
        panic!("no file is open")
    }

    fn lease(&mut self, _: &FileKey, _: &Arc<dyn vfs::Lease>) -> u32 {
        panic!("there is no lease")
    }

    fn locks(&mut self, _: &FileKey, _: &Arc<dyn vfs::RangeLocks>) -> u32 {
        panic!("there is no lock")
    }
}

#[test]
fn no_image_is_made_while_records_are_to_be_written() // docs/upgrade.md
{
    let records = StoppedDisk::default();
    let server = started(&records);
    late_client(&server, b"client").run(vec![]).ok();
    assert!(server.nfs.image(&[], &mut NoObjects).is_err());
    server.nfs.write_all_records();
    assert!(server.nfs.image(&[], &mut NoObjects).is_ok() && !records.has(b"gone"));
}
