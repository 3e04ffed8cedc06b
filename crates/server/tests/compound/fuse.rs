//! A FUSE file system that lacks features or stops answering on demand, over the raw protocol of
//! /dev/fuse.
//!
//! `tests/tests/programs` compiles this file as well.

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{read, write};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Requests of the kernel by number (include/uapi/linux/fuse.h).
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const BATCH_FORGET: u32 = 42;
}
use opcode::*;

/// All requests that the server's operations may cause.
pub(crate) const HANGS: [u32; 16] = [
    LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, OPENDIR, READDIR, RELEASEDIR,
    GETLK, SETLK, ACCESS,
];

/// The value of `hang` with which all requests are answered.
const NOWHERE: i64 = -1;
/// The value of `hang` with which no request is answered.
const EVERYWHERE: i64 = 0;
/// Size of fuse_in_header in bytes.
const HEADER: usize = 40;
/// The root and its one file, by nodeid and inode number.
const ROOT: u64 = 1;
const FILE: u64 = 2;
/// The name and the content of the file.
pub(crate) const NAME: &str = "file";
pub(crate) const DATA: &[u8] = b"hello";

/// The abilities of a file system. Its times are all 1970, with whole seconds.
#[derive(Clone, Copy)]
pub(crate) struct FuseTraits {
    /// Whether a request that hangs ends when the kernel interrupts it, as libfuse lets it. The
    /// kernel cannot end a process that waits for one that does not.
    pub(crate) heeds_interrupts: bool,
    /// Whether it finds objects by number, after it has forgotten them (FUSE_EXPORT_SUPPORT).
    pub(crate) finds_by_number: bool,
    /// Whether it manages locks (FUSE_POSIX_LOCKS); else the kernel does, for this machine alone.
    pub(crate) manages_locks: bool,
    /// The error of all requests for locks.
    pub(crate) lock_error: Option<Errno>,
    /// The error of fsync(2) on a directory.
    pub(crate) directory_sync_error: Option<Errno>,
}

impl Default for FuseTraits {
    fn default() -> Self {
        Self {
            heeds_interrupts: true,
            finds_by_number: true,
            manages_locks: true,
            lock_error: None,
            directory_sync_error: None,
        }
    }
}

/// A mounted file system with one file.
pub(crate) struct Fuse {
    path: PathBuf,
    behaviour: Arc<Behaviour>,
    mounts: mpsc::Sender<MountRequest>,
    daemon: Option<JoinHandle<()>>,
}

/// The answers that a test wants.
struct Behaviour {
    /// The kind of request that hangs, [`NOWHERE`] or [`EVERYWHERE`].
    hang: AtomicI64,
    traits: FuseTraits,
    /// The size of the file.
    size: AtomicU64,
    /// Whether the file has been removed.
    removed: AtomicBool,
    /// How often the kernel has found the file, less what it has forgotten.
    known: AtomicU64,
    /// Requests that were not answered, by kind and number.
    swallowed: Mutex<Vec<(u32, u64)>>,
}

/// Asks the thread that has all rights.
struct MountRequest {
    what: MountChange,
    done: mpsc::Sender<()>,
}

enum MountChange {
    /// The kernel forgets the objects that nobody has open.
    Forget,
    /// Unmounts, so that requests fail.
    End,
    /// Unmounts, and removes the folder.
    Remove,
}

/// Changes the mount on demand: the tests' own threads may have a caller's identity by then.
fn change_mount(place: TempDir, demands: &mpsc::Receiver<MountRequest>) {
    while let Ok(MountRequest { what, done }) = demands.recv() {
        if let MountChange::Forget = what {
            mount(None::<&str>, place.path(), None::<&str>, MsFlags::MS_REMOUNT, None::<&str>).unwrap();
            let _ = done.send(());
            continue;
        }
        // By force: pending requests fail.
        let _ = umount2(place.path(), MntFlags::MNT_FORCE);
        let _ = umount2(place.path(), MntFlags::MNT_DETACH);
        if let MountChange::Remove = what {
            drop(place);
            let _ = done.send(());
            return;
        }
        let _ = done.send(());
    }
}

impl Fuse {
    /// Mounts the file system; returns the reason if that is not possible.
    pub(crate) fn mount(traits: FuseTraits) -> Result<Self, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let none = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("orthrus-test"), place.path(), Some("fuse"), none, Some(options.as_str()))
            .map_err(|error| format!("mount: {error}"))?;
        let behaviour = Arc::new(Behaviour {
            hang: AtomicI64::new(NOWHERE),
            traits,
            size: AtomicU64::new(DATA.len() as u64),
            removed: AtomicBool::new(false),
            known: AtomicU64::new(0),
            swallowed: Mutex::default(),
        });
        let daemon = std::thread::spawn({
            let behaviour = behaviour.clone();
            move || serve(&device, &behaviour)
        });
        let path = place.path().to_owned();
        let (mounts, demands) = mpsc::channel();
        std::thread::spawn(move || change_mount(place, &demands));
        Ok(Self { path, behaviour, mounts, daemon: Some(daemon) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Answers no request of this kind from now on.
    pub(crate) fn hang_in(&self, opcode: u32) {
        self.behaviour.hang.store(opcode.into(), SeqCst);
    }

    /// Answers no request at all from now on.
    pub(crate) fn hang_everywhere(&self) {
        self.behaviour.hang.store(EVERYWHERE, SeqCst);
    }

    /// Changes the size of the file, as another machine would.
    pub(crate) fn set_size(&self, size: u64) {
        self.behaviour.size.store(size, SeqCst);
    }

    /// Returns the kinds of requests that were not answered.
    pub(crate) fn swallowed(&self) -> Vec<u32> {
        self.behaviour.swallowed.lock().unwrap().iter().map(|(opcode, _)| *opcode).collect()
    }

    /// Returns a function by which another thread ends all pending requests.
    pub(crate) fn end(&self) -> impl Fn() + Send + use<> {
        let mounts = self.mounts.clone();
        move || demand(&mounts, MountChange::End)
    }

    /// Makes the kernel forget the file, which must not be open. A close may still be in progress.
    pub(crate) fn forget(&self) {
        while self.behaviour.known.load(SeqCst) > 0 {
            demand(&self.mounts, MountChange::Forget);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        demand(&self.mounts, MountChange::Remove);
        if let Some(daemon) = self.daemon.take() {
            let _ = daemon.join();
        }
    }
}

/// Requests a change of the mount, and waits until it is made.
fn demand(mounts: &mpsc::Sender<MountRequest>, what: MountChange) {
    let (done, wait) = mpsc::channel();
    if mounts.send(MountRequest { what, done }).is_ok() {
        let _ = wait.recv();
    }
}

/// Answers the kernel until the file system is unmounted.
fn serve(device: &File, behaviour: &Behaviour) {
    let mut buffer = vec![0; 1 << 18];
    while let Ok(length) = read(device, &mut buffer) {
        let request = FuseRequest(&buffer[..length]);
        let opcode = request.u32(4);
        if matches!(opcode, FORGET | BATCH_FORGET) {
            behaviour.known.fetch_sub(request.forgotten(), SeqCst);
            continue;
        }
        if opcode == INTERRUPT {
            let interrupted = request.u64(HEADER);
            let hangs = behaviour.swallowed.lock().unwrap().iter().any(|(_, unique)| *unique == interrupted);
            if hangs && behaviour.traits.heeds_interrupts {
                reply(device, interrupted, Err(Errno::EINTR));
            }
            continue;
        }
        let hung = behaviour.hang.load(SeqCst);
        if hung == EVERYWHERE || hung == i64::from(opcode) {
            behaviour.swallowed.lock().unwrap().push((opcode, request.u64(8)));
            continue;
        }
        reply(device, request.u64(8), behaviour.answer(opcode, &request));
    }
}

/// Answers the request with this number.
fn reply(device: &File, unique: u64, answer: Result<Vec<u8>, Errno>) {
    let (error, body) = match answer {
        Ok(body) => (0, body),
        Err(errno) => (-(errno as i32), Vec::new()),
    };
    let mut reply = Vec::with_capacity(16 + body.len());
    reply.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
    reply.extend(error.to_ne_bytes());
    reply.extend(unique.to_ne_bytes());
    reply.extend(body);
    // The requesting process may be gone.
    let _ = write(device, &reply);
}

struct FuseRequest<'r>(&'r [u8]);

impl FuseRequest<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// Returns how many times the kernel no longer knows the file.
    fn forgotten(&self) -> u64 {
        let forgotten = |node: usize, number: usize| match self.u64(node) {
            FILE => self.u64(number),
            _ => 0,
        };
        match self.u32(4) {
            FORGET => forgotten(16, HEADER),
            _ => (0..self.u32(HEADER) as usize)
                .map(|index| HEADER + 8 + 16 * index)
                .map(|at| forgotten(at, at + 8))
                .sum(),
        }
    }

    fn name(&self) -> &[u8] {
        self.0[HEADER..].split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

impl Behaviour {
    fn answer(&self, opcode: u32, request: &FuseRequest<'_>) -> Result<Vec<u8>, Errno> {
        let node = request.u64(16);
        Ok(match opcode {
            INIT => self.features(),
            GETATTR | SETATTR => [vec![0; 16], self.attributes(node)].concat(),
            LOOKUP => {
                let found = match request.name() {
                    b"." if self.traits.finds_by_number => node,
                    b".." => ROOT,
                    name if name == NAME.as_bytes() && !self.removed.load(SeqCst) => FILE,
                    _ => return Err(Errno::ENOENT),
                };
                // The kernel may cache the name for an hour, the attributes not at all.
                self.known.fetch_add(u64::from(found == FILE), SeqCst);
                let times = [found, 1, 3600, 0, 0].map(u64::to_ne_bytes).concat();
                [times, self.attributes(found)].concat()
            }
            OPEN | OPENDIR => vec![0; 16],
            READ => {
                DATA.get(usize::try_from(request.u64(HEADER + 8)).unwrap()..).unwrap_or_default().to_vec()
            }
            WRITE => {
                let (offset, length) = (request.u64(HEADER + 8), request.u32(HEADER + 16));
                self.size.fetch_max(offset + u64::from(length), SeqCst);
                words(&[length, 0])
            }
            UNLINK => {
                self.removed.store(true, SeqCst);
                Vec::new()
            }
            READDIR if request.u64(HEADER + 8) == 0 && !self.removed.load(SeqCst) => {
                let entry = [FILE, 1].map(u64::to_ne_bytes).concat();
                [entry, words(&[4, 8]), NAME.as_bytes().to_vec(), vec![0; 4]].concat()
            }
            READDIR => Vec::new(),
            STATFS => {
                let counts = [1000_u64, 500, 500, 1000, 500].map(u64::to_ne_bytes).concat();
                [counts, words(&[4096, 255, 4096, 0]), vec![0; 24]].concat()
            }
            FSYNCDIR => succeed_unless(self.traits.directory_sync_error, Vec::new())?,
            // No other lock is in the way (F_UNLCK).
            GETLK => succeed_unless(self.traits.lock_error, [vec![0; 16], words(&[2, 0])].concat())?,
            SETLK => succeed_unless(self.traits.lock_error, Vec::new())?,
            RELEASE | RELEASEDIR | FLUSH | FSYNC | ACCESS => Vec::new(),
            _ => return Err(Errno::ENOSYS),
        })
    }

    /// Encodes fuse_init_out: version, read-ahead, features, background requests, largest write,
    /// granularity of times, padding.
    fn features(&self) -> Vec<u8> {
        let bits = [(self.traits.manages_locks, 1 << 1), (self.traits.finds_by_number, 1 << 4)];
        let features = bits.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
        words(&[7, 31, 1 << 17, features, 12 << 16 | 16, 1 << 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Encodes fuse_attr of a node: a folder and a file with write permission for all.
    fn attributes(&self, node: u64) -> Vec<u8> {
        let (mode, links) = if node == ROOT { (0o40777, 2) } else { (0o100_666, 1) };
        let numbers = [node, self.size.load(SeqCst), 8, 0, 0, 0].map(u64::to_ne_bytes).concat();
        [numbers, words(&[0, 0, 0, mode, links, 1000, 1000, 0, 4096, 0])].concat()
    }
}

fn succeed_unless(error: Option<Errno>, answer: Vec<u8>) -> Result<Vec<u8>, Errno> {
    error.map_or(Ok(answer), Err)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
