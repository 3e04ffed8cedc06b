//! Folders of this machine as exports: several exports of one folder, and local programs.

use crate::helper::*;
use nfs4::NfsLockType4::WRITE_LT;
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use vfs::Export;
use vfs_local::{LocalBackend, LocalOptions, become_server};

/// A folder with write permission for all. It is removed as the server, since the thread may still
/// have a caller's identity.
pub(crate) struct Folder(Option<TempDir>);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        Self(Some(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().unwrap().path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes a folder in it with write permission for all.
    pub(crate) fn make(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        become_server();
        drop(self.0.take());
    }
}

/// Makes an export of a folder.
pub(crate) fn folder(pseudo: &str, path: &Path) -> Export {
    let backend = LocalBackend::open(path, &LocalOptions::default()).unwrap();
    all_flavors(Export::new(pseudo, Arc::new(backend)).unwrap())
}

/// Starts a server that exports a folder as "export" and one inside as "inner".
fn overlapping(folder_of: &Folder) -> Server {
    let inner = folder_of.make("sub");
    Setup::with_exports(vec![folder("/export", folder_of.path()), folder("/inner", &inner)]).start()
}

#[test]
fn exports_of_one_file_share_its_shares_and_locks() // RFC 8881 sections 9.1 and 9.7
{
    let place = Folder::new();
    let server = overlapping(&place);
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export/sub", "f", b"data");
    let by_inner = alice.fh_of("inner/f");
    assert_ne!(fh, by_inner, "the exports have filehandles of their own");
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    let deny = |access, deny| vec![open_how(NOCREATE, by_name("f"), access, deny, b"o"), getfh()];
    let denying = alice.at("export/sub", deny(3, 2)).ok().opened().stateid;
    other.at("inner", deny(2, 0)).expect(NFS4ERR_SHARE_DENIED);
    other.run(vec![put(&by_inner), write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_LOCKED);
    alice.run(vec![put(&fh), close(denying)]).ok();

    let open_a = alice.at("export/sub", deny(3, 0)).ok().opened().stateid;
    let open_b = other.at("inner", deny(3, 0)).ok().opened().stateid;
    alice.run(vec![put(&fh), lock_new(WRITE_LT, 0, 10, open_a, b"a")]).ok();
    other.run(vec![put(&by_inner), lock_new(WRITE_LT, 5, 1, open_b, b"b")]).expect(NFS4ERR_DENIED);
    other.run(vec![put(&by_inner), lockt(WRITE_LT, 5, 1, b"b")]).expect(NFS4ERR_DENIED);
    other.run(vec![put(&by_inner), lock_new(WRITE_LT, 10, 1, open_b, b"b")]).ok();
}

/// Returns whether this process has a file open for writing.
fn is_open_for_writing(path: &std::path::Path) -> bool {
    become_server();
    let is_writer = |fd: std::fs::DirEntry| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.file_name().display())).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim();
        let writes = u32::from_str_radix(flags, 8).ok()? & 0o3 != 0;
        (std::fs::read_link(fd.path()).ok()? == path).then_some(writes)
    };
    std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(is_writer).any(|writes| writes)
}

#[test]
fn an_open_that_is_downgraded_to_reading_leaves_the_file_to_local_programs()
// RFC 8881 section 18.18, execve(2): ETXTBSY
{
    let place = Folder::new();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"data");
    let path = place.path().canonicalize().unwrap().join("f");
    // With a descriptor for each access, and with one for both.
    for (first, second) in [(1, 3), (3, 1)] {
        client.at("export", vec![open("f", first)]).ok();
        let stateid = client.at("export", vec![open("f", second)]).ok().opened().stateid;
        assert!(is_open_for_writing(&path));
        let downgrade = NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args {
            open_stateid: stateid,
            seqid: 0,
            share_access: 1,
            share_deny: 0,
        });
        client.run(vec![put(&fh), downgrade]).ok();
        assert!(!is_open_for_writing(&path));
        let current = Stateid4 { seqid: 0, ..stateid };
        client.run(vec![put(&fh), read(current, 0, 4)]).ok();
        client.run(vec![put(&fh), write(current, 0, b"more")]).expect(NFS4ERR_OPENMODE);
        client.at("export", vec![open("f", 2)]).ok();
        client.run(vec![put(&fh), write(current, 0, b"more"), close(current)]).ok();
    }
}

#[test]
fn a_client_may_have_one_owner_open_a_file_by_two_exports()
// RFC 8881 section 10.3.4: it takes them for two files
{
    let place = Folder::new();
    let server = overlapping(&place);
    let mut alice = Client::new(&server);
    let fh = alice.make_file("export/sub", "f", b"data");
    let one = alice.at("export/sub", vec![open("f", 3)]).ok().opened().stateid;
    let reply = alice.at("inner", vec![open("f", 3), getfh()]).ok();
    let (two, by_inner) = (reply.opened().stateid, reply.fh(0));
    assert_ne!(one.other, two.other);
    alice.run(vec![put(&by_inner), read(one, 0, 4)]).expect(NFS4ERR_BAD_STATEID);
    alice.run(vec![put(&fh), close(one)]).ok();
    alice.run(vec![put(&by_inner), read(two, 0, 4), close(two)]).ok();
}

#[test]
fn a_delegation_is_recalled_by_whoever_comes_by_another_export() // RFC 8881 section 10.4
{
    let place = Folder::new();
    let server = overlapping(&place);
    let wire = Wire::under(&server);
    let mut alice = Client::delegated(&server, &wire, b"a", 11);
    let mut other = Client::delegated(&server, &wire, b"b", 12);
    for (name, by_herself) in [("f", false), ("g", true)] {
        let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
        let reply = alice.at("export/sub", vec![open_create(name, access), getfh()]).ok();
        let fh = reply.fh(0);
        alice.run(vec![put(&fh), close(reply.opened().stateid)]).ok();
        let stateid = granted(&alice.at("export/sub", vec![open(name, 1)]).ok());
        let comer = if by_herself { &mut alice } else { &mut other };
        comer.at("inner", vec![open(name, 2)]).expect(NFS4ERR_DELAY);
        let recall = wire.one();
        assert_eq!(recalled(&recall), (stateid, fh.clone()), "by the name that the holder knows");
        server.answer_ok(alice.now, &recall);
        alice.run(vec![put(&fh), delegreturn(stateid)]).ok();
        let comer = if by_herself { &mut alice } else { &mut other };
        comer.at("inner", vec![open(name, 2)]).ok();
    }
}

/// The time that a test waits for an event that must happen.
const PATIENCE: Duration = Duration::from_secs(20);
const NO_DELEGATION: u32 = OPEN4_SHARE_ACCESS_WANT_NO_DELEG;

/// A server with one export, and a client with a backchannel.
struct Leased<'s> {
    server: &'s Server,
    wire: Wire,
    alice: Client<'s>,
}

impl<'s> Leased<'s> {
    fn new(server: &'s Server) -> Self {
        let wire = Wire::under(server);
        let alice = Client::delegated(server, &wire, b"a", 11);
        Self { server, wire, alice }
    }

    /// Makes a file with data that no client has open.
    fn make(&mut self, name: &str) -> Vec<u8> {
        let reply = self.alice.at("export", vec![open_create(name, 3 | NO_DELEGATION), getfh()]).ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        self.alice.run(vec![put(&fh), write(stateid, 0, b"data"), close(stateid)]).ok();
        fh
    }

    /// Opens the file. Returns the delegation and the open.
    fn delegate(&mut self, name: &str, access: u32) -> (Stateid4, Stateid4) {
        let reply = self.alice.at("export", vec![open(name, access)]).ok();
        (granted(&reply), reply.opened().stateid)
    }

    /// Waits until the file system breaks a delegation. Returns the recall.
    #[track_caller]
    fn broken(&mut self) -> (Stateid4, Vec<u8>) {
        assert!(self.server.nfs.wait_for_breaks(PATIENCE), "the file system says nothing");
        self.server.nfs.recall_broken(self.alice.now);
        let recall = self.wire.one();
        self.server.answer_ok(self.alice.now, &recall);
        recalled(&recall)
    }
}

/// Makes a folder and a server that exports it; `None` where its file system has no leases.
fn leasing() -> Option<(Folder, Server)> {
    let place = Folder::new();
    fs::write(place.join("probe"), b"").unwrap();
    let probe = folder("/probe", place.path()).backend;
    let root = vfs::Caller { uid: 0, gid: 0, groups: [].into() };
    let handle = probe.lookup(&root, &probe.root(), b"probe").unwrap();
    let opened = probe.open(&root, &handle, vfs::OpenAccess { read: true, write: false }).unwrap();
    if let Err(error) = opened.lease(vfs::LeaseKind::Read, Arc::new(|_| {})) {
        println!("skipped: the usual place for temporary files has no leases: {error}");
        return None;
    }
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    Some((place, server))
}

#[test]
fn an_open_file_that_others_remove_keeps_its_attributes() // RFC 8881 section 4.2.3
{
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: only root opens files by handle");
        return;
    }
    let place = Folder::new();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    let (mut alice, mut bob) = (Client::new(&server), Client::with(&server, b"bob", sys(ALICE), FORE));
    let fh = alice.make_file("export", "f", b"data");
    let stateid = alice.at("export", vec![open("f", 1)]).ok().opened().stateid;
    bob.at("export", vec![remove("f")]).ok();
    let time = Settime4::SET_TO_CLIENT_TIME4(Nfstime4 { seconds: 7, nseconds: 8 });
    let times = AttributeValues { time_modify_set: Some(time), ..AttributeValues::default() };
    for set in [mode(0o640), fattr(times)] {
        alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, set)]).ok();
    }
    let asked = getattr(&[FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_TIME_MODIFY]);
    let reply = alice.run(vec![put(&fh), asked]).ok();
    let got = reply.attributes();
    assert_eq!((got.mode, got.numlinks), (Some(0o640), Some(0)));
    assert_eq!(got.time_modify, Some(Nfstime4 { seconds: 7, nseconds: 8 }));
    let access = NfsArgop4::OP_ACCESS(Access4Args { access: ACCESS4_READ });
    let reply = alice.run(vec![put(&fh), access.clone()]).ok();
    let NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.access, ACCESS4_READ);
    alice.run(vec![put(&fh), close(stateid)]).ok();
    for op in [setattr(Stateid4::ANONYMOUS, mode(0o600)), getattr(&[FATTR4_MODE]), access] {
        alice.run(vec![put(&fh), op]).expect(NFS4ERR_STALE);
    }
}

/// Opens a file as a local program, and blocks until that is granted.
fn local_open(path: PathBuf, write: bool) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut how = fs::File::options();
        let how = if write { how.append(true) } else { how.read(true) };
        let mut file = how.open(path).unwrap();
        if write {
            file.write_all(b"local").unwrap();
        }
    })
}

#[test]
fn a_local_program_that_writes_waits_until_the_delegation_is_back() // RFC 8881 section 10.4
{
    let Some((place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let (stateid, _) = leased.delegate("f", 1);
    local_open(place.join("f"), false).join().unwrap();
    assert!(!server.nfs.wait_for_breaks(Duration::ZERO), "a reader is no conflict");
    let local = local_open(place.join("f"), true);
    assert_eq!(leased.broken(), (stateid, fh.clone()));
    assert!(!local.is_finished());
    leased.alice.run(vec![put(&fh), delegreturn(stateid)]).ok();
    local.join().unwrap();
    assert_eq!(fs::read(place.join("f")).unwrap(), b"datalocal");
    let reply = leased.alice.at("export", vec![open("f", 1)]).ok();
    assert!(matches!(delegation(&reply), OpenDelegation4::OPEN_DELEGATE_NONE), "it was contended just now");
}

#[test]
// RFC 8881 section 10.4.6
fn a_delegation_that_does_not_come_back_is_revoked_before_the_kernel_gives_up() {
    let Some((place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let (stateid, _) = leased.delegate("f", 1);
    let local = local_open(place.join("f"), true);
    assert_eq!(leased.broken(), (stateid, fh.clone()));
    let text = fs::read_to_string("/proc/sys/fs/lease-break-time").unwrap();
    let kernel: u64 = text.trim().parse().unwrap();
    server.nfs.housekeeping(leased.alice.now + Duration::from_secs(kernel));
    local.join().unwrap();
    leased.alice.run(vec![put(&fh), read(stateid, 0, 4)]).expect(NFS4ERR_DELEG_REVOKED);
}

#[test]
fn a_file_that_a_local_program_has_open_against_it_is_not_delegated() // RFC 8881 section 10.4
{
    let Some((place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let wish = |access| vec![open("f", access)];
    let writer = fs::File::options().write(true).open(place.join("f")).unwrap();
    let reply = leased.alice.at("export", wish(1 | OPEN4_SHARE_ACCESS_WANT_READ_DELEG)).ok();
    let OpenDelegation4::OPEN_DELEGATE_NONE_EXT(why) = delegation(&reply) else { panic!() };
    assert!(matches!(why, OpenNoneDelegation4::WND4_CONTENTION(false)), "{why:?}");
    leased.alice.run(vec![put(&fh), close(reply.opened().stateid)]).ok();
    drop(writer);
    let reader = fs::File::open(place.join("f")).unwrap();
    let reply = leased.alice.at("export", wish(3 | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG)).ok();
    assert!(matches!(delegation(&reply), OpenDelegation4::OPEN_DELEGATE_NONE_EXT(_)));
    leased.alice.run(vec![put(&fh), close(reply.opened().stateid)]).ok();
    drop(reader);
    let reply = leased.alice.at("export", wish(3 | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG)).ok();
    assert!(matches!(delegation(&reply), OpenDelegation4::OPEN_DELEGATE_WRITE(_)));
}

#[test]
// RFC 8881 sections 10.4.2 and 18.16.3
fn under_a_delegation_for_writing_the_holder_is_not_in_its_own_way() {
    let Some((place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let (stateid, first) = leased.delegate("f", 3);
    let alice = &mut leased.alice;
    let commit = NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 });
    alice.run(vec![put(&fh), write(stateid, 0, b"DATA"), commit, read(stateid, 0, 4)]).ok();
    alice.minor = 2;
    alice.run(vec![put(&fh), seek(stateid, 0, DataContent4::NFS4_CONTENT_DATA)]).ok();
    let other = open_how(NOCREATE, by_name("f"), 3, 0, b"another owner");
    let other = alice.at("export", vec![other]).ok().opened().stateid;
    let claim = OpenClaim4::CLAIM_DELEG_CUR_FH(stateid);
    let third = open_how(NOCREATE, claim, 2, 0, b"third owner");
    let third = alice.run(vec![put(&fh), third]).ok().opened().stateid;
    assert!(!server.nfs.wait_for_breaks(Duration::ZERO), "nobody else has come");
    let local = local_open(place.join("f"), false);
    assert_eq!(leased.broken(), (stateid, fh.clone()));
    let alice = &mut leased.alice;
    for (open, data) in [(first, b"1"), (other, b"2"), (third, b"3")] {
        alice.run(vec![put(&fh), write(open, 0, data), close(open)]).ok();
    }
    assert!(!local.is_finished());
    alice.run(vec![put(&fh), delegreturn(stateid)]).ok();
    local.join().unwrap();
}

#[test]
fn another_user_gets_no_more_under_a_delegation_than_the_mode_allows() // RFC 8881 section 10.4
{
    let Some((_place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let alice = &mut leased.alice;
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o600))]).ok();
    if fs::metadata(_place.join("f")).unwrap().uid() != ALICE {
        return println!("skipped: not root, so all callers are one user");
    }
    leased.delegate("f", 3);
    leased.alice.security = sys(BOB);
    let other = open_how(NOCREATE, by_name("f"), 1, 0, b"bob");
    leased.alice.at("export", vec![other]).expect(NFS4ERR_ACCESS);
}

#[test]
fn changes_that_break_no_lease_are_seen_within_seconds() // RFC 8881 section 10.4
{
    let Some((place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let names = ["replaced", "removed", "linked", "mode"];
    let files: Vec<Vec<u8>> = names.iter().map(|name| leased.make(name)).collect();
    let stateids: Vec<Stateid4> = names.iter().map(|name| leased.delegate(name, 1).0).collect();
    fs::write(place.join("new"), b"new").unwrap();
    fs::rename(place.join("new"), place.join("replaced")).unwrap();
    fs::remove_file(place.join("removed")).unwrap();
    fs::hard_link(place.join("linked"), place.join("another")).unwrap();
    fs::set_permissions(place.join("mode"), Permissions::from_mode(0o640)).unwrap();
    let mut told = Vec::new();
    while told.len() < names.len() {
        assert!(server.nfs.wait_for_breaks(PATIENCE), "{} of {}", told.len(), names.len());
        server.nfs.recall_broken(leased.alice.now);
        for recall in leased.wire.take() {
            server.answer_ok(leased.alice.now, &recall);
            told.push(recalled(&recall));
        }
    }
    for expected in stateids.into_iter().zip(files) {
        assert!(told.contains(&expected));
    }
}

#[test]
fn an_open_for_writing_by_the_holder_waits_for_its_own_delegation() // RFC 8881 section 10.4
{
    let Some((_place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let (stateid, _) = leased.delegate("f", 1);
    // Once the server is a writer, the kernel would report no local writer.
    leased.alice.at("export", vec![open("f", 2)]).expect(NFS4ERR_DELAY);
    assert_eq!(leased.broken(), (stateid, fh.clone()));
    leased.alice.run(vec![put(&fh), delegreturn(stateid)]).ok();
    leased.alice.at("export", vec![open("f", 2)]).ok();
}

#[test]
fn a_reply_whose_data_is_elsewhere_is_not_cached_without_it() // RFC 8881 section 2.10.6.1.3
{
    let outside = Folder::new();
    fs::write(outside.join("large"), vec![7; 1 << 20]).unwrap();
    let server = Setup::with_exports(vec![folder("/export", outside.path())]).start();
    let mut client = Client::new(&server);
    let fh = client.fh_of("export/large");
    let read = || read(Stateid4::ANONYMOUS, 0, 256 << 10);
    assert_eq!(data(client.run(vec![put(&fh), read()]).ok().last()).0.len(), 256 << 10);
    let ops = [client.next_sequence(), put(&fh), read(), lookup("below")];
    let args = encode(1, &ops);
    let call = || server.call_bytes(&client.security, client.connection, client.now, &args);
    call().expect(NFS4ERR_NOTDIR);
    call().expect(NFS4ERR_RETRY_UNCACHED_REP);
}

#[test]
fn a_delegation_of_a_file_that_a_local_program_removes_is_returned() // RFC 8881 section 10.4
{
    let Some((place, server)) = leasing() else { return };
    let mut leased = Leased::new(&server);
    let fh = leased.make("f");
    let (stateid, open) = leased.delegate("f", 1);
    leased.alice.run(vec![put(&fh), close(open)]).ok();
    fs::write(place.join("new"), b"new").unwrap();
    fs::rename(place.join("new"), place.join("f")).unwrap();
    assert_eq!(leased.broken(), (stateid, fh.clone()));
    let alice = &mut leased.alice;
    let claim = open_how(NOCREATE, OpenClaim4::CLAIM_DELEG_CUR_FH(stateid), 1, 0, b"another owner");
    let open = alice.run(vec![put(&fh), claim]).ok().opened().stateid;
    alice.run(vec![put(&fh), lockt(WRITE_LT, 0, 1, b"o"), read(open, 0, 4), close(open)]).ok();
    let ask = || getattr(&[FATTR4_CHANGE, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY]);
    alice.run(vec![put(&fh), ask(), delegreturn(stateid)]).ok();
    for _ in 0..4 {
        alice.now += Duration::from_secs(30);
        server.nfs.housekeeping(alice.now);
        assert_eq!(alice.status_flags() & SEQ4_STATUS_RECALLABLE_STATE_REVOKED, 0);
    }
    alice.run(vec![put(&fh), ask()]).expect(NFS4ERR_STALE);
}
