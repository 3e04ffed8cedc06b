//! SETCLIENTID and its confirmation, restarts of clients and of the server.

use crate::grace::Kept;
use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::{ClientRecords, NfsConfig};
use state::PrincipalHash;
use std::time::Duration;

#[test]
fn clid_inuse_does_not_name_the_other_client() // RFC 7530 section 16.33
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    client.opened("f");
    let other = server.call(&sys(BOB), 41, client.now.get(), 0, &[setclientid(b"client", [1; 8])]);
    let reply = other.expect(NFS4ERR_CLID_INUSE);
    let NfsResop4::OP_SETCLIENTID(Setclientid4Res::NFS4ERR_CLID_INUSE(using)) = reply.last() else {
        panic!()
    };
    assert!(using.na_r_netid.is_empty() && using.na_r_addr.is_empty());
}

#[test]
fn a_client_that_restarts_finds_its_opens_gone() // RFC 7530 section 16.34.5
{
    let server = Setup::default().start();
    let before = Client40::new(&server);
    let (fh, stateid) = before.opened("f");
    let after = Client40::with(&server, b"client", sys(ALICE), [2; 8]);
    assert_eq!(server.nfs.counts().opens, 0);
    after.run(vec![put(&fh), read(stateid, 0, 1)]).expect(NFS4ERR_EXPIRED);
    before.run(vec![put(&fh), before.close_op(stateid)]).expect(NFS4ERR_EXPIRED);
    before.at("export", vec![before.create_op("g")]).expect(NFS4ERR_EXPIRED);
}

#[test]
fn opens_and_locks_are_reclaimed_after_a_restart_of_the_server() // RFC 7530 section 9.6.2
{
    let (backend, kept) = (memory(), Kept::default());
    let server = kept.setup(1, &backend).start();
    let client = Client40::new(&server);
    assert!(kept.owners().is_empty(), "what holds nothing has nothing to reclaim");
    let (fh, old) = client.opened("f");
    assert_eq!(kept.owners().len(), 1);

    let server = kept.setup(2, &backend).start();
    let stale = client.clientid;
    let client = Client40::new(&server);
    client.run(vec![NfsArgop4::OP_RENEW(Renew4Args { clientid: stale })]).expect(NFS4ERR_STALE_CLIENTID);
    client.run(vec![put(&fh), read(old, 0, 1)]).expect(NFS4ERR_STALE_STATEID);
    client.at("export", vec![client.create_op("g")]).expect(NFS4ERR_GRACE);
    let previous = || OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_NONE);
    let reply = client.run(vec![put(&fh), client.open_op(NOCREATE, previous(), 3, 0)]).ok();
    assert_eq!(reply.opened().rflags & OPEN4_RESULT_CONFIRM, 0, "section 9.1.11");
    let stateid = reply.opened().stateid;
    let NfsArgop4::OP_LOCK(lock) = client.first_lock_op(stateid, 0, 9) else { panic!() };
    client.run(vec![put(&fh), NfsArgop4::OP_LOCK(Lock4Args { reclaim: true, ..lock })]).ok();
    let stranger = Client40::with(&server, b"stranger", sys(ALICE), [1; 8]);
    stranger.run(vec![put(&fh), stranger.open_op(NOCREATE, previous(), 3, 0)]).expect(NFS4ERR_RECLAIM_BAD);
    client.now.set(client.now.get() + std::time::Duration::from_secs(70));
    server.nfs.housekeeping(client.now.get());
    assert_eq!(kept.owners().len(), 1);
    client.opened("g");
    client.run(vec![put(&fh), client.open_op(NOCREATE, previous(), 3, 0)]).expect(NFS4ERR_NO_GRACE);
}

#[test]
fn a_client_with_a_revoked_open_does_not_reclaim_after_a_restart() // RFC 7530 section 9.6.3.4
{
    let (backend, kept) = (memory(), Kept::default());
    let server = kept.setup(1, &backend).start();
    let client = Client40::new(&server);
    let (fh, stateid) = client.opened("f");
    server.nfs.revoke(stateid.other, client.now.get()).unwrap();
    client.opened("g");
    Client40::with(&server, b"other", sys(ALICE), [1; 8]).opened("f");
    assert_eq!(kept.owners().len(), 1);

    let server = kept.setup(2, &backend).start();
    let client = Client40::new(&server);
    let previous = OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_NONE);
    client.run(vec![put(&fh), client.open_op(NOCREATE, previous, 3, 0)]).expect(NFS4ERR_RECLAIM_BAD);
}

#[test]
fn an_operation_ends_a_grace_period_that_is_over_before_it_conflicts() // RFC 7530 section 9.6.3.1
{
    let kept = Kept::default();
    kept.record(b"away", PrincipalHash([1; 16]));
    let limits = state::Limits { grace: Duration::from_secs(200), ..state::Limits::default() };
    let server = Setup {
        config: NfsConfig { limits, ..NfsConfig::default() },
        records: Box::new(kept.clone()),
        prior_clients: kept.owners(),
        epoch: 2,
        ..Setup::default()
    }
    .start();
    let client = Client40::new(&server);
    client.at("export", vec![client.create_op("f")]).expect(NFS4ERR_GRACE);
    let may_reclaim = || kept.owners().iter().any(|prior| prior.owner == b"away");
    assert!(may_reclaim());
    client.now.set(Duration::from_secs(450));
    client.at("export", vec![client.create_op("f")]).ok();
    assert!(!may_reclaim(), "after a crash it would get back what others have");
}

#[test]
fn machines_with_one_id_are_noted_when_the_first_comes_back() // RFC 7530 section 16.33.5
{
    let server = Setup::default().start();
    let rivals = || server.nfs.refusals().iter().find(|(rule, _)| *rule == "client_owner").unwrap().1;
    let boot = |number: u8| {
        Client40::with(&server, b"localhost", sys(ALICE), [number; 8]);
        rivals()
    };
    assert_eq!([1, 2, 1, 2].map(boot), [0, 0, 1, 2]);
    let other = setclientid(b"localhost", [3; 8]);
    Client40::with(&server, b"localhost", sys(ALICE), [2; 8]).opened("f");
    server.call(&sys(BOB), 41, Duration::from_secs(100), 0, &[other]).expect(NFS4ERR_CLID_INUSE);
    assert_eq!(rivals(), 3);
}
