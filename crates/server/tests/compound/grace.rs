//! Restarts, reclaim and leases (RFC 8881 sections 8.3 and 8.4).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::{ClientRecords, Delegations, JournalOwners, NfsConfig, SyncedRecords};
use state::{PrincipalHash, PriorClient};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use vfs::{Backend, MemoryBackend, SecFlavor};

/// Client records in memory, which outlive a server.
#[derive(Clone, Default)]
pub(crate) struct Kept(pub(crate) Arc<Mutex<JournalOwners>>);

impl Kept {
    /// Returns the clients for the next start.
    pub(crate) fn owners(&self) -> Vec<PriorClient> {
        let kept = self.0.lock().unwrap();
        kept.iter()
            .map(|(owner, principal)| PriorClient { owner: owner.clone(), principal: *principal })
            .collect()
    }

    /// Returns the setup of a server that starts with these clients, and records its own here.
    pub(crate) fn setup(&self, epoch: u32, backend: &Arc<MemoryBackend>) -> Setup {
        Setup {
            epoch,
            records: Box::new(self.clone()),
            prior_clients: self.owners(),
            ..Setup::with_exports(vec![export("/export", backend)])
        }
    }

    /// Becomes equal to other records.
    pub(crate) fn replace(&self, other: &Self) {
        let other = other.0.lock().unwrap().clone();
        *self.0.lock().unwrap() = other;
    }
}

impl ClientRecords for Kept {
    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        self.0.lock().unwrap().insert(owner.to_vec(), Some(principal));
    }

    fn forget(&self, owner: &[u8]) {
        self.0.lock().unwrap().remove(owner);
    }
}

fn previous(access: u32) -> Op {
    let claim = OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_NONE);
    open_how(NOCREATE, claim, access, 0, b"owner")
}

#[test]
// RFC 8881 section 8.4.2
fn an_open_is_reclaimed_after_a_restart_even_if_the_mode_forbids_it_by_now() {
    let (backend, kept) = (memory(), Kept::default());
    let server = kept.setup(1, &backend).start();
    let mut client = Client::new(&server);
    let how = Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(mode(0o444)));
    let fh = client.at("export", vec![open_how(how, by_name("f"), 2, 0, b"owner"), getfh()]).ok().fh(0);
    assert_eq!(kept.0.lock().unwrap().len(), 1);
    client.run(vec![put(&fh), previous(2)]).expect(NFS4ERR_NO_GRACE);

    let server = kept.setup(2, &backend).start();
    let mut client = Client::without_reclaim_complete(&server, b"client", sys(ALICE), FORE);
    client.at("export", vec![open_create("new", 3)]).expect(NFS4ERR_GRACE);
    client.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 1)]).expect(NFS4ERR_GRACE);
    let stateid = client.run(vec![put(&fh), previous(2)]).ok().opened().stateid;
    client.run(vec![put(&fh), write(stateid, 0, b"x")]).ok();
    client.run(vec![reclaim_complete()]).ok();
    client.run(vec![put(&fh), previous(2)]).expect(NFS4ERR_NO_GRACE);
    client.at("export", vec![open_create("new", 3)]).ok();
}

#[test]
fn a_reclaim_by_another_user_gets_what_the_mode_allows() // RFC 8881 section 8.4.2
{
    let (backend, kept) = (memory(), Kept::default());
    let server = kept.setup(1, &backend).start();
    let fh = Client::new(&server).make_file("export", "f", b"data");
    let server = kept.setup(2, &backend).start();
    let mut client = Client::without_reclaim_complete(&server, b"client", sys(BOB), FORE);
    client.run(vec![put(&fh), previous(2)]).expect(NFS4ERR_ACCESS);
}

#[test]
fn a_lease_that_ran_out_long_ago_ends_opens_and_sessions() // RFC 8881 sections 8.3 and 8.4.3
{
    let kept = Kept::default();
    let server = Setup { records: Box::new(kept.clone()), ..Setup::default() }.start();
    let mut client = Client::new(&server);
    client.at("export", vec![open_create("f", 3)]).ok();
    assert_eq!((server.nfs.counts().opens, kept.0.lock().unwrap().len()), (1, 1));
    server.nfs.housekeeping(client.now + Duration::from_secs(59));
    client.now += Duration::from_secs(59);
    client.run(vec![]).ok();
    server.nfs.housekeeping(client.now + Duration::from_secs(59));
    client.run(vec![]).ok();
    server.nfs.housekeeping(client.now + Duration::from_secs(3600));
    client.run(vec![]).ok();
    server.nfs.housekeeping(client.now + Duration::from_secs(25 * 3600));
    assert_eq!((server.nfs.counts().opens, kept.0.lock().unwrap().len()), (0, 0));
    client.run(vec![]).expect(NFS4ERR_BADSESSION);
}

#[test]
fn a_lease_that_ran_out_long_ago_closes_the_backends_files() // RFC 8881 section 8.3
{
    let backend = memory();
    let server = Setup::with_exports(vec![export("/export", &backend)]).start();
    let mut client = Client::new(&server);
    let free = || backend.statfs(&backend.root()).unwrap().space_free;
    let before = free();
    let reply = client.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    client.run(vec![put(&fh), write(stateid, 0, &[1; 500_000])]).ok();
    client.at("export", vec![remove("f")]).ok();
    assert!(free() + 500_000 <= before, "who has it open keeps it");
    server.nfs.housekeeping(client.now + Duration::from_secs(25 * 3600));
    assert_eq!(free(), before);
}

#[test]
// RFC 8881 section 8.4.3
fn a_revoked_lock_is_not_reclaimed_after_a_restart_and_the_next_holders_is() {
    let lock = |stateid| lock_new(NfsLockType4::WRITE_LT, 0, 100, stateid, b"locker");
    let reclaim = |stateid| match lock(stateid) {
        NfsArgop4::OP_LOCK(lock) => NfsArgop4::OP_LOCK(Lock4Args { reclaim: true, ..lock }),
        other => other,
    };
    let (backend, kept) = (memory(), Kept::default());
    let server = kept.setup(1, &backend).start();
    let mut cut_off = Client::new(&server);
    let mut next = Client::with(&server, b"next", sys(ALICE), FORE);
    let reply = cut_off.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, revoked) = (reply.fh(0), reply.opened().stateid);
    cut_off.run(vec![put(&fh), lock(revoked)]).ok();
    let stateid = next.at("export", vec![open("f", 3)]).ok().opened().stateid;
    next.run(vec![put(&fh), lock(stateid)]).expect(NFS4ERR_DENIED);
    server.nfs.revoke(revoked.other, next.now).unwrap();
    next.run(vec![put(&fh), lock(stateid)]).ok();

    let server = kept.setup(2, &backend).start();
    let mut cut_off = Client::without_reclaim_complete(&server, b"client", sys(ALICE), FORE);
    let mut next = Client::without_reclaim_complete(&server, b"next", sys(ALICE), FORE);
    cut_off.run(vec![put(&fh), previous(3)]).expect(NFS4ERR_RECLAIM_BAD);
    let stateid = next.run(vec![put(&fh), previous(3)]).ok().opened().stateid;
    next.run(vec![put(&fh), reclaim(stateid)]).ok();
}

#[test]
fn a_file_that_may_be_reclaimed_keeps_its_last_name() // RFC 8881 section 8.4.2.1
{
    for delegations in [Delegations::None, Delegations::All] {
        let (backend, kept) = (memory(), Kept::default());
        let server = kept.setup(1, &backend).start();
        let mut away = Client::new(&server);
        let reply = away.at("export", vec![open_create("f", 3), getfh()]).ok();
        let fh = reply.fh(0);
        away.run(vec![put(&fh), write(reply.opened().stateid, 0, b"data")]).ok();
        for name in ["new", "linked"] {
            away.make_file("export", name, b"");
        }
        let export = away.fh_of("export");
        away.at("export/linked", vec![savefh(), put(&export), link("other")]).ok();
        away.make_directory("export", "d");

        let config = NfsConfig { delegations, ..NfsConfig::default() };
        let server = Setup { config, ..kept.setup(2, &backend) }.start();
        let mut early = Client::with(&server, b"early", sys(ALICE), FORE);
        let old = Client40::with(&server, b"old", sys(ALICE), [1; 8]);
        let over = |to: &str| vec![savefh(), rename("new", to)];
        early.at("export", vec![remove("f")]).expect(NFS4ERR_GRACE);
        early.at("export", over("f")).expect(NFS4ERR_GRACE);
        old.at("export", vec![remove("f")]).expect(NFS4ERR_GRACE);
        old.at("export", over("f")).expect(NFS4ERR_GRACE);
        early.at("export", vec![remove("linked"), remove("d")]).ok();
        early.at("export", over("free")).ok();

        let mut away = Client::without_reclaim_complete(&server, b"client", sys(ALICE), FORE);
        let stateid = away.run(vec![put(&fh), previous(3)]).ok().opened().stateid;
        away.run(vec![reclaim_complete()]).ok();
        early.at("export", vec![savefh(), rename("free", "f")]).ok();
        let reply = away.run(vec![put(&fh), read(stateid, 0, 4)]).ok();
        assert_eq!(data(reply.last()).0, b"data");
    }
}

/// Records that could not be written, and may be tried again.
#[derive(Clone, Default)]
struct Failed(Arc<AtomicBool>);

impl ClientRecords for Failed {
    fn record(&self, _: &[u8], _: PrincipalHash) {}

    fn forget(&self, _: &[u8]) {}

    fn repair(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn housekeeping_repairs_records_although_no_client_changes() // RFC 8881 section 8.4.2.1
{
    let failed = Failed::default();
    let server = Setup { records: Box::new(failed.clone()), ..Setup::default() }.start();
    server.nfs.housekeeping(Duration::from_secs(100));
    assert!(failed.0.load(Ordering::Relaxed));
}

/// Records on a disk: a crash loses unsynced changes.
#[derive(Clone, Default)]
struct Synced {
    now: Kept,
    stable: Kept,
}

impl ClientRecords for Synced {
    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        self.now.record(owner, principal);
    }

    fn forget(&self, owner: &[u8]) {
        self.now.forget(owner);
    }

    fn sync(&self) -> SyncedRecords {
        self.stable.replace(&self.now);
        SyncedRecords::All
    }
}

#[test]
fn a_client_does_not_reclaim_an_open_that_it_lost_to_another()
// RFC 8881 section 8.4.3, first edge condition
{
    let (backend, records) = (memory(), Synced::default());
    let setup = |epoch| Setup { records: Box::new(records.clone()), ..records.stable.setup(epoch, &backend) };
    let server = setup(1).start();
    let mut cut_off = Client::new(&server);
    let fh = cut_off.make_file("export", "f", b"data");
    cut_off.at("export", vec![open_how(NOCREATE, by_name("f"), 3, 2, b"owner")]).ok();
    assert!(records.stable.0.lock().unwrap().contains_key(&b"client"[..]));

    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    other.at("export", vec![open("f", 3)]).expect(NFS4ERR_SHARE_DENIED);
    other.now += Duration::from_secs(61);
    let stateid = other.at("export", vec![open("f", 3)]).ok().opened().stateid;
    other.run(vec![put(&fh), close(stateid)]).ok();

    // A power cut of the server's machine.
    let server = setup(2).start();
    let mut cut_off = Client::without_reclaim_complete(&server, b"client", sys(ALICE), FORE);
    cut_off.run(vec![put(&fh), previous(3)]).expect(NFS4ERR_RECLAIM_BAD);
}

#[test]
// RFC 8881 section 8.4.2.1
fn another_principal_with_the_owner_neither_reclaims_nor_ends_the_grace_period() {
    let alice = || krb5(SecFlavor::Krb5p, "alice", ALICE);
    for stranger in [sys(4242), sys(ALICE), krb5(SecFlavor::Krb5p, "bob", BOB)] {
        let (backend, kept) = (memory(), Kept::default());
        let server = kept.setup(1, &backend).start();
        let mut client = Client::with(&server, b"owner", alice(), FORE);
        let fh = client.make_file("export", "f", b"data");
        let before = kept.owners();
        assert_eq!(before.len(), 1);

        let server = kept.setup(2, &backend).start();
        let mut strange = Client::without_reclaim_complete(&server, b"owner", stranger.clone(), FORE);
        strange.run(vec![put(&fh), previous(2)]).expect(NFS4ERR_NO_GRACE);
        strange.run(vec![reclaim_complete()]).ok();
        assert_eq!(kept.owners(), before);
        strange.at("export", vec![open_create("new", 3)]).expect(NFS4ERR_GRACE);
        let mut client = Client::without_reclaim_complete(&server, b"owner", alice(), FORE);
        strange.run(vec![]).expect(NFS4ERR_BADSESSION);
        client.run(vec![put(&fh), previous(2)]).ok();
        client.run(vec![reclaim_complete()]).ok();
        client.at("export", vec![open_create("new", 3)]).ok();
        assert_eq!(kept.owners(), before);
    }
}
