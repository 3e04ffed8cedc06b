//! Background copies (RFC 7862 sections 4.8, 15.2, 15.8, 15.9 and 16.1).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::{BackgroundCopy, CopyRunner};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::{Export, ExportTable, Timestamp};

const ANONYMOUS: Stateid4 = Stateid4::ANONYMOUS;
const BOTH: (Stateid4, Stateid4) = (ANONYMOUS, ANONYMOUS);
const PIECE: u64 = 1000;
/// The size of the source in bytes: three pieces, the last one shorter.
const SIZE: u64 = 2500;

/// A runner of background copies that a test drives step by step.
#[derive(Clone, Default)]
struct Later(Arc<Mutex<VecDeque<Box<BackgroundCopy>>>>);

impl CopyRunner for Later {
    fn submit(&self, _: u32, copy: Box<BackgroundCopy>) -> Result<(), Box<BackgroundCopy>> {
        self.0.lock().unwrap().push_back(copy);
        Ok(())
    }
}

impl Later {
    /// Copies one piece of each copy; false when there is none.
    fn step(&self, server: &Server) -> bool {
        let copies = std::mem::take(&mut *self.0.lock().unwrap());
        let any = !copies.is_empty();
        copies.into_iter().for_each(|copy| server.nfs.copy_on(copy, &|| Duration::from_secs(100)));
        any
    }
}

/// A server that copies more than one piece in the background, a client of it, and two files.
struct CopyWorld<'s> {
    wire: Wire,
    later: Later,
    client: Client<'s>,
    from: Vec<u8>,
    to: Vec<u8>,
}

fn start(change: impl FnOnce(&mut Setup)) -> Server {
    let mut setup = Setup::default();
    setup.config.copy_piece_max = PIECE;
    change(&mut setup);
    setup.start()
}

fn content() -> Vec<u8> {
    (0..SIZE as u32).map(|byte| (byte % 251) as u8).collect()
}

impl<'s> CopyWorld<'s> {
    fn new(server: &'s Server) -> Self {
        let (wire, later) = (Wire::under(server), Later::default());
        server.nfs.connect_copies(Box::new(later.clone()));
        let mut client = Client::delegated(server, &wire, b"a", 11);
        client.minor = 2;
        let [from, to] = [("from", content()), ("to", vec![])].map(|(name, data)| {
            let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
            let reply = client.at("export", vec![open_create(name, access), getfh()]).ok();
            let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
            client.run(vec![put(&fh), write(stateid, 0, &data), close(stateid)]).ok();
            fh
        });
        Self { wire, later, client, from, to }
    }

    fn copy(&mut self) -> Reply {
        self.copy_by(BOTH)
    }

    fn copy_by(&mut self, stateids: (Stateid4, Stateid4)) -> Reply {
        self.client.run(vec![put(&self.from), savefh(), put(&self.to), copy(stateids, 0, 0, 0)]).ok()
    }

    /// Begins a background copy, and returns its stateid.
    fn begin(&mut self) -> Stateid4 {
        self.begin_by(BOTH)
    }

    fn begin_by(&mut self, stateids: (Stateid4, Stateid4)) -> Stateid4 {
        let reply = self.copy_by(stateids);
        let response = response(&reply);
        let [stateid] = response.0[..] else { panic!("{response:?}") };
        assert_eq!(response, (vec![stateid], 0, false));
        assert_ne!(stateid.seqid, 0, "section 4.8");
        stateid
    }

    fn status(&mut self, stateid: Stateid4) -> Reply {
        let op = NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: stateid });
        self.client.run(vec![put(&self.to), op])
    }

    fn cancel(&mut self, stateid: Stateid4) -> Reply {
        let op = NfsArgop4::OP_OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: stateid });
        self.client.run(vec![put(&self.to), op])
    }

    fn target(&mut self) -> Vec<u8> {
        let reply = self.client.run(vec![put(&self.to), read(ANONYMOUS, 0, 10_000)]).ok();
        data(reply.last()).0.to_vec()
    }
}

/// Returns callback IDs, bytes, and whether the copy was done before its reply.
fn response(reply: &Reply) -> (Vec<Stateid4>, u64, bool) {
    let NfsResop4::OP_COPY(Copy4Res::NFS4_OK(ok)) = reply.last() else { panic!("{:?}", reply.results) };
    assert!(ok.cr_requirements.cr_consecutive);
    assert_eq!(ok.cr_response.wr_committed, StableHow4::UNSTABLE4);
    let response = &ok.cr_response;
    (response.wr_callback_id.clone(), response.wr_count, ok.cr_requirements.cr_synchronous)
}

fn progress(reply: &Reply) -> (u64, Vec<Nfsstat4>) {
    let NfsResop4::OP_OFFLOAD_STATUS(OffloadStatus4Res::NFS4_OK(ok)) = reply.last() else {
        panic!("{:?}", reply.results)
    };
    (ok.osr_count, ok.osr_complete.clone())
}

fn offload(callback: &Callback) -> &CbOffload4Args<'static> {
    match callback.operation() {
        Some(NfsCbArgop4::OP_CB_OFFLOAD(args)) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_copy_goes_on_after_its_reply_and_its_end_is_announced_by_cb_offload() {
    // RFC 7862 sections 15.2.3, 15.9.3 and 16.1.3
    let server = start(|_| ());
    let mut world = CopyWorld::new(&server);
    let stateid = world.begin();
    let copying = world.client.sequence;
    assert_eq!(progress(&world.status(stateid).ok()), (0, vec![]));
    assert!(world.later.step(&server));
    assert_eq!(progress(&world.status(stateid).ok()), (PIECE, vec![]));
    assert!(world.wire.take().is_empty());
    assert!(world.later.step(&server) && world.later.step(&server) && !world.later.step(&server));
    assert_eq!(progress(&world.status(stateid).ok()), (SIZE, vec![NFS4_OK]));
    world.cancel(stateid).expect(NFS4ERR_COMPLETE_ALREADY);
    let callback = world.wire.one();
    let args = offload(&callback);
    assert_eq!((args.coa_stateid, &*args.coa_fh), (stateid, &*world.to));
    let OffloadInfo4::NFS4_OK(response) = &args.coa_offload_info else { panic!("{args:?}") };
    assert!(response.wr_callback_id.is_empty());
    assert_eq!((response.wr_count, response.wr_committed), (SIZE, StableHow4::UNSTABLE4));
    // It may not overtake the reply that carries the stateid (RFC 8881 section 2.10.6.3).
    let [list] = &callback.sequence().csa_referring_call_lists[..] else { panic!() };
    let expected = [ReferringCall4 { rc_sequenceid: copying, rc_slotid: 0 }];
    assert_eq!((list.rcl_sessionid, &list.rcl_referring_calls[..]), (world.client.session, &expected[..]));
    server.answer_ok(world.client.now, &callback);
    world.status(stateid).expect(NFS4ERR_BAD_STATEID);
    assert_eq!(world.target(), content());
    let commit = NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 });
    let commit = world.client.run(vec![put(&world.to), commit]).ok();
    let NfsResop4::OP_COMMIT(Commit4Res::NFS4_OK(ok)) = commit.last() else { panic!() };
    assert_eq!(ok.writeverf, response.wr_writeverf, "nothing was lost in between");
    let counts = server.nfs.offload_counts();
    assert_eq!((counts.begun, counts.bytes, counts.answered), (1, SIZE, 1));
    assert_eq!(server.nfs.counts().copies, 0);
}

#[test]
fn short_or_synchronous_copies_and_those_without_a_callback_end_before_the_reply() {
    // RFC 7862 section 15.2.3
    let server = start(|setup| setup.config.limits.copies_per_client_max = 1);
    let mut world = CopyWorld::new(&server);
    let (from, to) = (world.from.clone(), world.to.clone());
    let short = world.client.run(vec![put(&from), savefh(), put(&to), copy(BOTH, 0, 0, PIECE)]).ok();
    assert_eq!(response(&short), (vec![], PIECE, true));
    let args = Copy4Args { ca_synchronous: true, ..copy_args(BOTH, 0, 0, 0) };
    let reply = world.client.run(vec![put(&from), savefh(), put(&to), NfsArgop4::OP_COPY(args)]).ok();
    assert_eq!(response(&reply), (vec![], SIZE, true));
    let stateid = world.begin();
    assert_eq!(response(&world.copy()), (vec![], SIZE, true), "one copy a client");
    world.cancel(stateid).ok();
    server.nfs.connection_closed(rpc::ConnectionId(11));
    assert_eq!(response(&world.copy()), (vec![], SIZE, true), "nobody to call back");
    assert_eq!(server.nfs.counts().copies, 0);
}

#[test]
fn a_cancelled_copy_writes_no_more_and_sends_no_callback() {
    // RFC 7862 sections 4.8 and 15.8.3
    let server = start(|_| ());
    let mut world = CopyWorld::new(&server);
    let stateid = world.begin();
    world.later.step(&server);
    for wrong in [Stateid4 { seqid: 0, ..stateid }, Stateid4 { seqid: 2, ..stateid }] {
        world.cancel(wrong).expect(NFS4ERR_BAD_STATEID);
        world.status(wrong).expect(NFS4ERR_BAD_STATEID);
    }
    // Another user of the same client, and another file (section 4.1.2).
    world.client.security = sys(BOB);
    world.cancel(stateid).expect(NFS4ERR_BAD_STATEID);
    world.client.security = sys(ALICE);
    let op = NfsArgop4::OP_OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: stateid });
    world.client.run(vec![put(&world.from), op]).expect(NFS4ERR_BAD_STATEID);
    world.client.run(vec![put(&world.to), write(stateid, 0, b"x")]).expect(NFS4ERR_BAD_STATEID);
    world.cancel(stateid).ok();
    world.cancel(stateid).expect(NFS4ERR_BAD_STATEID);
    world.status(stateid).expect(NFS4ERR_BAD_STATEID);
    assert!(world.later.step(&server) && !world.later.step(&server));
    assert_eq!(world.target(), content()[..PIECE as usize]);
    assert!(world.wire.take().is_empty());
}

#[test]
fn a_failed_copy_reports_the_bytes_copied() {
    // RFC 7862 section 16.1.3
    let server = start(|setup| {
        let limits = vfs::MemoryLimits { bytes_max: 7000, ..Default::default() };
        let backend = vfs::MemoryBackend::new(limits, [7; 16]).unwrap();
        let set = vfs::SetAttributes { mode: Some(0o777), ..Default::default() };
        vfs::Backend::setattr(&backend, &vfs::Caller::root(), &vfs::Backend::root(&backend), &set).unwrap();
        setup.exports = vec![export("/export", &Arc::new(backend))];
    });
    let mut world = CopyWorld::new(&server);
    world.begin();
    while world.later.step(&server) {}
    let callback = world.wire.one();
    let OffloadInfo4::Default(status, count) = offload(&callback).coa_offload_info else {
        panic!("{callback:?}")
    };
    assert_eq!(status, NFS4ERR_NOSPC);
    assert!((PIECE..SIZE).contains(&count), "{count}");
    assert_eq!(world.target().len() as u64, count);
    server.answer_ok(world.client.now, &callback);
}

#[test]
fn a_background_copy_over_a_quota_fails_with_a_number_that_linux_programs_know() {
    // RFC 7862 section 16.1.3
    let disk = Slow::new();
    let server = start(|setup| {
        setup.exports = vec![all_flavors(Export::new("/export", disk.clone()).unwrap())];
    });
    let mut world = CopyWorld::new(&server);
    let stateid = world.begin();
    assert!(world.later.step(&server));
    disk.exhaust_quotas();
    while world.later.step(&server) {}
    assert_eq!(progress(&world.status(stateid).ok()), (PIECE, vec![NFS4ERR_NOSPC]));
    let callback = world.wire.one();
    let OffloadInfo4::Default(status, count) = offload(&callback).coa_offload_info else {
        panic!("{callback:?}")
    };
    assert_eq!((status, count), (NFS4ERR_NOSPC, PIECE));
}

#[test]
fn cb_offload_is_repeated_until_the_client_answers_it() {
    // RFC 7862 section 4.8, RFC 8881 section 2.10.6.2
    let server = start(|_| ());
    let mut world = CopyWorld::new(&server);
    let stateid = world.begin();
    while world.later.step(&server) {}
    let callback = world.wire.one();
    server.answer(world.client.now, &callback, NFS4_OK, NFS4ERR_DELAY);
    assert!(world.wire.take().is_empty());
    assert_eq!(progress(&world.status(stateid).ok()), (SIZE, vec![NFS4_OK]));
    server.nfs.housekeeping(world.client.now + Duration::from_secs(1));
    let callback = world.wire.one();
    assert_eq!(offload(&callback).coa_stateid, stateid);
    server.nfs.housekeeping(world.client.now + Duration::from_secs(2));
    assert!(world.wire.take().is_empty(), "it is under way");
    // A client that does not know the copy gets no further callback for it.
    server.answer(world.client.now, &callback, NFS4_OK, NFS4ERR_BAD_STATEID);
    server.nfs.housekeeping(world.client.now + Duration::from_secs(3));
    assert!(world.wire.take().is_empty());
    world.status(stateid).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn copies_end_with_their_client() {
    // RFC 7862 section 4.8, RFC 8881 sections 18.35.4 and 8.3
    let server = start(|_| ());
    let mut world = CopyWorld::new(&server);
    let stateid = world.begin();
    world.later.step(&server);
    server.nfs.housekeeping(world.client.now + Duration::from_secs(1000));
    assert_eq!(server.nfs.counts().copies, 0);
    assert!(world.later.step(&server) && !world.later.step(&server), "no piece more is copied");
    let mut other = Client::delegated(&server, &world.wire, b"b", 12);
    other.minor = 2;
    let reply = other.run(vec![put(&world.to), read(ANONYMOUS, 0, 10_000)]).ok();
    assert_eq!(data(reply.last()).0.len() as u64, PIECE);
    let op = NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: stateid });
    other.run(vec![put(&world.to), op]).expect(NFS4ERR_BAD_STATEID);
    assert!(world.wire.take().is_empty());
    assert_eq!(server.nfs.counts().files, 0, "nothing holds the file");
}

#[test]
fn no_delegation_is_granted_on_the_destination_of_a_running_copy() {
    // RFC 8881 section 10.4
    let server = start(|_| ());
    let mut world = CopyWorld::new(&server);
    world.begin();
    let mut other = Client::delegated(&server, &world.wire, b"b", 12);
    let mut granted = || {
        let reply = other.at("export", vec![open("to", 1)]).ok();
        let granted = matches!(delegation(&reply), OpenDelegation4::OPEN_DELEGATE_READ(_));
        other.run(vec![put(&world.to), close(reply.opened().stateid)]).ok();
        granted
    };
    assert!(!granted());
    while world.later.step(&server) {}
    assert!(granted());
}

#[test]
fn a_long_copy_without_a_runner_leaves_its_target_delegable() // RFC 8881 section 10.4
{
    let server = start(|_| ());
    let wire = Wire::under(&server);
    let mut client = Client::delegated(&server, &wire, b"a", 11);
    client.minor = 2;
    let [from, to] = ["from", "to"].map(|name| {
        let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
        let reply = client.at("export", vec![open_create(name, access), getfh()]).ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        client.run(vec![put(&fh), write(stateid, 0, &content()), close(stateid)]).ok();
        fh
    });
    let reply = client.run(vec![put(&from), savefh(), put(&to), copy(BOTH, 0, 0, 0)]).ok();
    assert_eq!(response(&reply), (vec![], SIZE, true));
    granted(&client.at("export", vec![open("to", OPEN4_SHARE_ACCESS_READ)]).ok());
}

#[test]
fn a_copy_ends_when_its_open_or_its_user_is_revoked() // RFC 8881 section 8.4.2.4
{
    let server = start(|_| ());
    let mut world = CopyWorld::new(&server);
    let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    let mut opened = |name| world.client.at("export", vec![open(name, access)]).ok().opened().stateid;
    let (source, target) = (opened("from"), opened("to"));
    let (nfs, now) = (&server.nfs, world.client.now);
    let revoke = |stateid: Stateid4| {
        nfs.revoke(stateid.other, now).unwrap();
    };
    let revocations: [(_, &dyn Fn()); 3] = [
        ((source, ANONYMOUS), &|| revoke(source)),
        ((ANONYMOUS, target), &|| revoke(target)),
        (BOTH, &|| {
            let counts = nfs.revoke_principal(&sys(ALICE).sender, now);
            assert_eq!((counts.opens, counts.copies), (0, 1));
        }),
    ];
    for (stateids, revoke) in revocations {
        let stateid = world.begin_by(stateids);
        assert!(world.later.step(&server));
        revoke();
        assert!(world.later.step(&server) && !world.later.step(&server), "no piece more is copied");
        let callback = world.wire.one();
        let args = offload(&callback);
        let status = OffloadInfo4::Default(NFS4ERR_ADMIN_REVOKED, PIECE);
        assert_eq!((args.coa_stateid, &args.coa_offload_info), (stateid, &status));
        server.answer_ok(now, &callback);
    }
}

#[test]
fn a_copy_ends_when_its_export_is_closed_to_it() // docs/serve.md, Reload
{
    for (status, remains) in [(NFS4ERR_STALE, false), (NFS4ERR_ROFS, true)] {
        let server = start(|_| ());
        let mut world = CopyWorld::new(&server);
        let stateid = world.begin();
        assert!(world.later.step(&server));
        let table = server.exports.snapshot();
        let mut changed = Export::clone(table.by_path("/export").unwrap());
        changed.rules.iter_mut().for_each(|rule| rule.read_only = true);
        let exports = if remains { vec![changed] } else { Vec::new() };
        let exports = ExportTable::new(exports, Timestamp::default()).unwrap();
        server.nfs.replace_exports(exports, world.client.now);
        while world.later.step(&server) {}
        let callback = world.wire.one();
        let told = offload(&callback);
        assert_eq!(
            (told.coa_stateid, &told.coa_offload_info),
            (stateid, &OffloadInfo4::Default(status, PIECE))
        );
    }
}
