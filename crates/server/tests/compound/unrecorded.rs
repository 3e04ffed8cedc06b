//! Client records on a disk that stands still: shards go on, and no reply grants state that
//! another client may still reclaim (RFC 8881 section 8.4.3).

use crate::grace::Kept;
use crate::helper::*;
use crate::waiting::{try_bytes, try_on};
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::ClientRecords;
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

    fn sync(&self) {
        let mut disk = self.disk.0.lock().unwrap();
        disk.waiting += 1;
        self.disk.1.notify_all();
        let mut disk = self.disk.1.wait_while(disk, |disk| disk.stopped).unwrap();
        disk.waiting -= 1;
        drop(disk);
        self.stable.replace(&self.written);
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
        let waiting = try_on(&client, 1, 1, vec![put(&fh), locking(stateid)]).waits();
        drop(stopped);
        assert_eq!(waiting.resume(&client).status, NFS4_OK);
        assert!(!records.has(b"evicted"));
    });
}
