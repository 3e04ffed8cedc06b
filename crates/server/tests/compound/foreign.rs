//! A file system that stops answering, in each of its operations in turn. No thread that must not
//! block calls it, whatever is open and cached, and other requests are served.

use crate::fuse::opcode::FLUSH;
use crate::fuse::{DATA, Fuse, FuseTraits, HANGS, NAME};
use crate::helper::*;
use crate::local::{Folder, folder};
use crate::waiting::{Tried, try_on};
use nfs4::NfsLockType4::{READ_LT, WRITE_LT};
use nfs4::Nfsstat4::*;
use nfs4::*;
use nix::unistd::geteuid;
use orthrus_server::engine::WaitsFor;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vfs::{Backend, Caller, LockKind, LockOutcome, OpenAccess};
use vfs_local::{LocalBackend, LocalOptions};

/// The time that one call may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Unmounts the file system by force and fails the test, unless it gets a report of progress in
/// time.
struct HangWatch {
    progress: mpsc::Sender<String>,
    thread: std::thread::JoinHandle<Option<String>>,
}

impl HangWatch {
    fn begin(end: impl Fn() + Send + 'static) -> Self {
        let (progress, steps) = mpsc::channel::<String>();
        let thread = std::thread::spawn(move || {
            let mut last = String::new();
            loop {
                match steps.recv_timeout(PATIENCE) {
                    Ok(step) => last = step,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        end();
                        return Some(last);
                    }
                }
            }
        });
        Self { progress, thread }
    }

    fn step(&self, step: impl Into<String>) {
        let _ = self.progress.send(step.into());
    }

    #[track_caller]
    fn end(self) {
        drop(self.progress);
        let stuck = self.thread.join().unwrap();
        assert!(stuck.is_none(), "a thread that must not wait hung: {}", stuck.unwrap_or_default());
    }
}

/// Mounts a file system that still answers; `None` where FUSE is not available.
pub(crate) fn fuse(traits: FuseTraits) -> Option<Fuse> {
    if !geteuid().is_root() {
        eprintln!("skipped: only root mounts FUSE without helpers");
        return None;
    }
    Fuse::mount(traits).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

fn verify() -> Fattr4<'static> {
    fattr(AttributeValues { size: Some(5), ..AttributeValues::default() })
}

/// Every operation on the current filehandle of an open file.
fn of_file(stateid: Stateid4, locked: Stateid4) -> Vec<Op> {
    vec![
        getattr(&[FATTR4_SIZE, FATTR4_CHANGE]),
        getattr(&[FATTR4_SPACE_FREE]),
        NfsArgop4::OP_ACCESS(Access4Args { access: ACCESS4_READ }),
        NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes: verify() }),
        NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes: verify() }),
        read(stateid, 0, 100),
        read(Stateid4::ANONYMOUS, 0, 100),
        read_plus(stateid, 0, 100),
        write(stateid, 0, b"HELLO"),
        write(Stateid4::ANONYMOUS, 0, b"HELLO"),
        NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 }),
        setattr(stateid, mode(0o644)),
        allocate(stateid, 0, 100),
        deallocate(stateid, 0, 100),
        seek(stateid, 0, DataContent4::NFS4_CONTENT_DATA),
        lock_new(WRITE_LT, 0, 1, stateid, b"another"),
        lockt(READ_LT, 0, 1, b"third"),
        locku(locked, 0, 1),
        NfsArgop4::OP_OPEN(Open4Args {
            seqid: 0,
            share_access: 1,
            share_deny: 0,
            owner: StateOwner4 { clientid: 0, owner: bytes(b"other") },
            openhow: NOCREATE,
            claim: OpenClaim4::CLAIM_FH,
        }),
        NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args {
            open_stateid: stateid,
            seqid: 0,
            share_access: 1,
            share_deny: 0,
        }),
        NfsArgop4::OP_READLINK,
        NfsArgop4::OP_SECINFO_NO_NAME(SecinfoStyle4::SECINFO_STYLE4_PARENT),
        get_xattr(b"x"),
        set_xattr(SetxattrOption4::SETXATTR4_EITHER, b"x", b"y"),
        list_xattrs(0, 1000),
        remove_xattr(b"x"),
        close(stateid),
    ]
}

/// Every operation on the current filehandle of a directory.
fn of_directory() -> Vec<Op> {
    let readdir = |attributes: &[u32]| {
        NfsArgop4::OP_READDIR(Readdir4Args {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 0,
            maxcount: 4096,
            attr_request: Bitmap4::of(attributes),
        })
    };
    vec![
        getattr(&[FATTR4_TYPE]),
        lookup(NAME),
        lookup("absent"),
        NfsArgop4::OP_LOOKUPP,
        NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(NAME.as_bytes()) }),
        readdir(&[]),
        readdir(&[FATTR4_SIZE, FATTR4_RDATTR_ERROR]),
        open(NAME, 3),
        open_create("new", 3),
        mkdir("d"),
        remove(NAME),
    ]
}

/// Starts a server with the file system as `/foreign` and a folder as `/own`.
fn server(fuse: &Fuse, place: &Folder) -> Server {
    Setup::with_exports(vec![folder("/foreign", fuse.path()), folder("/own", place.path())]).start()
}

#[test]
fn no_operation_on_a_foreign_file_system_runs_where_waiting_is_not_allowed() {
    let Some(fuse) = fuse(FuseTraits::default()) else { return };
    let place = Folder::new();
    let server = server(&fuse, &place);
    let mut client = Client::new(&server);
    client.minor = 2;
    let reply = client.at("foreign", vec![getfh(), open(NAME, 3), getfh()]).ok();
    let (root, fh, stateid) = (reply.fh(0), reply.fh(1), reply.opened().stateid);
    let lane = |tried: Tried, what: &str| match tried {
        Tried::Waits(waiting) => {
            let lane = waiting.suspended.lane();
            waiting.decline(&client);
            lane
        }
        Tried::Answered(reply) => panic!("{what}: {reply:?}"),
    };
    let own = {
        let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
        other.at("own", vec![open_create("f", 3), getfh()]).ok().fh(0)
    };
    let locked = Stateid4 { seqid: 1, other: [9; 12] };
    let watch = HangWatch::begin(fuse.end());
    let (mut sequence, mut lanes) = (0, Vec::new());
    for hang in HANGS {
        fuse.hang_in(hang);
        let files = of_file(stateid, locked).into_iter().map(|operation| (fh.clone(), operation));
        let directories = of_directory().into_iter().map(|operation| (root.clone(), operation));
        for (fh, operation) in files.chain(directories) {
            let what = format!("{operation:?} while request {hang} hangs");
            watch.step(&*what);
            sequence += 1;
            lanes.push(lane(try_on(&client, 1, sequence, vec![put(&fh), operation]), &what));
            // As the saved filehandle, as LINK, RENAME, COPY and CLONE use it.
            sequence += 1;
            let saved = vec![put(&fh), savefh(), put(&own), getattr(&[FATTR4_SIZE])];
            lanes.push(lane(try_on(&client, 1, sequence, saved), &what));
        }
        watch.step("a directory above shows the export");
        sequence += 1;
        let listing = NfsArgop4::OP_READDIR(Readdir4Args {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 0,
            maxcount: 4096,
            attr_request: Bitmap4::of(&[FATTR4_TYPE, FATTR4_RDATTR_ERROR]),
        });
        lanes.push(lane(try_on(&client, 1, sequence, vec![put_root(), listing]), "READDIR of the root"));
        watch.step("another export answers");
        sequence += 1;
        try_on(&client, 1, sequence, vec![put(&own), getattr(&[FATTR4_SIZE])]).answered(NFS4_OK);
    }
    watch.end();
    lanes.dedup();
    assert_eq!(lanes.len(), 1, "all of it waits in the lane of the export that hangs");
    assert!(fuse.swallowed().is_empty(), "no thread has asked it anything: {:?}", fuse.swallowed());
}

#[test]
fn a_lock_that_hangs_in_its_file_system_holds_up_no_lock_of_another() // RFC 8881 section 18.10
{
    let Some(fuse) = fuse(FuseTraits::default()) else { return };
    let place = Folder::new();
    let server = server(&fuse, &place);
    let mut client = Client::new(&server);
    let reply = client.at("foreign", vec![open(NAME, 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    // Enough files to populate every stripe of any table.
    let files: Vec<(Vec<u8>, Stateid4)> = (0..300)
        .map(|number| {
            let reply = client.at("own", vec![open_create(&format!("f{number}"), 3), getfh()]).ok();
            (reply.fh(0), reply.opened().stateid)
        })
        .collect();
    fuse.hang_everywhere();
    let hung = try_on(&client, 1, 1, vec![put(&fh), lock_new(WRITE_LT, 0, 1, stateid, b"a")]).waits();
    let watch = HangWatch::begin(fuse.end());
    std::thread::scope(|scope| {
        let (client, end) = (&client, fuse.end());
        let hanging = scope.spawn(move || hung.resume(client));
        while fuse.swallowed().is_empty() && !hanging.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!hanging.is_finished(), "LOCK opens the file once more");
        for (number, (fh, stateid)) in files.iter().enumerate() {
            watch.step(format!("LOCK of file {number}"));
            let sequence = u32::try_from(2 * number).unwrap() + 1;
            let lock = lock_new(WRITE_LT, 0, 1, *stateid, b"a");
            let reply = try_on(client, 2, sequence, vec![put(fh), lock]).answered(NFS4_OK);
            let Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok))) = reply.resarray.last() else { panic!() };
            watch.step(format!("LOCKU of file {number}"));
            let unlock = vec![put(fh), locku(ok.lock_stateid, 0, 1)];
            try_on(client, 2, sequence + 1, unlock).answered(NFS4_OK);
        }
        end();
        let _ = hanging.join();
    });
    watch.end();
}

#[test]
fn closing_on_a_file_system_that_hangs_holds_up_no_thread() // close(2) waits for FUSE_FLUSH
{
    let Some(fuse) = fuse(FuseTraits::default()) else { return };
    let backend = LocalBackend::open(fuse.path(), &LocalOptions::default()).unwrap();
    let (root, both) = (Caller::root(), OpenAccess { read: true, write: true });
    let object = backend.lookup(&root, &backend.root(), NAME.as_bytes()).unwrap();
    let opened = backend.open(&root, &object, both).unwrap();
    let locks = opened.range_locks(LockKind::Write).unwrap().unwrap();
    assert_eq!(locks.set(0, 1, Some(LockKind::Write)), Ok(LockOutcome::Done));
    fuse.hang_in(FLUSH);
    let watch = HangWatch::begin(fuse.end());
    watch.step("locks and an open file are dropped");
    drop((locks, opened));
    watch.step("the descriptors of objects are dropped");
    (0..2).for_each(|_| backend.trim());
    drop(backend);
    watch.end();
    let end = Instant::now() + PATIENCE;
    while !fuse.swallowed().contains(&FLUSH) {
        assert!(Instant::now() < end, "FLUSH does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_file_system_that_answers_is_served_by_threads_that_may_wait() {
    let Some(fuse) = fuse(FuseTraits::default()) else { return };
    let place = Folder::new();
    let server = server(&fuse, &place);
    let mut client = Client::new(&server);
    let reply = client.at("foreign", vec![open(NAME, 1), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let reply = try_on(&client, 1, 1, vec![put(&fh), read(stateid, 0, 100)]).waits().resume(&client);
    assert_eq!(data(&reply.resarray[2]), (DATA.to_vec(), true));
    let lock = lock_new(READ_LT, 0, 1, stateid, b"a");
    let reply = try_on(&client, 1, 2, vec![put(&fh), lock]).waits().resume(&client);
    assert_eq!(reply.status, NFS4_OK);
}
