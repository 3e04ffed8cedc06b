//! A FUSE file system that stops answering on demand, over the raw protocol of /dev/fuse.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{read, write};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// Requests of the kernel by number (include/uapi/linux/fuse.h).
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
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

/// A mounted file system with one file.
pub(crate) struct Fuse {
    path: PathBuf,
    behaviour: Arc<Behaviour>,
    ends: mpsc::Sender<UnmountRequest>,
    daemon: Option<JoinHandle<()>>,
}

/// The answers that a test wants.
struct Behaviour {
    /// The kind of request that hangs, [`NOWHERE`] or [`EVERYWHERE`].
    hang: AtomicI64,
    /// Whether a request that hangs ends when the kernel interrupts it, as libfuse lets it. The
    /// kernel cannot end a process that waits for one that does not.
    heeds_interrupts: bool,
    /// Requests that were not answered, by kind and number.
    swallowed: Mutex<Vec<(u32, u64)>>,
}

/// Asks the thread that has all rights to unmount, and to remove the folder as well.
struct UnmountRequest {
    remove: bool,
    done: mpsc::Sender<()>,
}

/// Unmounts on demand: the tests' own threads may have a caller's identity by then.
fn unmount_on_demand(place: TempDir, demands: &mpsc::Receiver<UnmountRequest>) {
    while let Ok(UnmountRequest { remove, done }) = demands.recv() {
        // By force: pending requests fail.
        let _ = umount2(place.path(), MntFlags::MNT_FORCE);
        let _ = umount2(place.path(), MntFlags::MNT_DETACH);
        if remove {
            drop(place);
            let _ = done.send(());
            return;
        }
        let _ = done.send(());
    }
}

impl Fuse {
    /// Mounts the file system; returns the reason if that is not possible. A request that hangs
    /// ends when the kernel interrupts it, or does not.
    pub(crate) fn mount(heeds_interrupts: bool) -> Result<Self, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let none = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("orthrus-test"), place.path(), Some("fuse"), none, Some(options.as_str()))
            .map_err(|error| format!("mount: {error}"))?;
        let behaviour = Arc::new(Behaviour {
            hang: AtomicI64::new(NOWHERE),
            heeds_interrupts,
            swallowed: Mutex::default(),
        });
        let daemon = std::thread::spawn({
            let behaviour = behaviour.clone();
            move || serve(&device, &behaviour)
        });
        let path = place.path().to_owned();
        let (ends, demands) = mpsc::channel();
        std::thread::spawn(move || unmount_on_demand(place, &demands));
        Ok(Self { path, behaviour, ends, daemon: Some(daemon) })
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

    /// Returns the kinds of requests that were not answered.
    pub(crate) fn swallowed(&self) -> Vec<u32> {
        self.behaviour.swallowed.lock().unwrap().iter().map(|(opcode, _)| *opcode).collect()
    }

    /// Returns a function by which another thread ends all pending requests.
    pub(crate) fn end(&self) -> impl Fn() + Send + use<> {
        let ends = self.ends.clone();
        move || demand(&ends, false)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        demand(&self.ends, true);
        if let Some(daemon) = self.daemon.take() {
            let _ = daemon.join();
        }
    }
}

/// Has the file system unmounted, and waits until it is.
fn demand(ends: &mpsc::Sender<UnmountRequest>, remove: bool) {
    let (done, wait) = mpsc::channel();
    if ends.send(UnmountRequest { remove, done }).is_ok() {
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
            continue;
        }
        if opcode == INTERRUPT {
            let interrupted = request.u64(HEADER);
            let hangs = behaviour.swallowed.lock().unwrap().iter().any(|(_, unique)| *unique == interrupted);
            if hangs && behaviour.heeds_interrupts {
                reply(device, interrupted, Err(nix::errno::Errno::EINTR));
            }
            continue;
        }
        let hung = behaviour.hang.load(SeqCst);
        if hung == EVERYWHERE || hung == i64::from(opcode) {
            behaviour.swallowed.lock().unwrap().push((opcode, request.u64(8)));
            continue;
        }
        reply(device, request.u64(8), answer(opcode, &request));
    }
}

/// Answers the request with this number.
fn reply(device: &File, unique: u64, answer: Result<Vec<u8>, nix::errno::Errno>) {
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
}

fn answer(opcode: u32, request: &FuseRequest<'_>) -> Result<Vec<u8>, nix::errno::Errno> {
    let node = request.u64(16);
    Ok(match opcode {
        // Version, read-ahead, FUSE_POSIX_LOCKS and FUSE_EXPORT_SUPPORT, background requests,
        // largest write, granularity of times, padding.
        INIT => {
            words(&[7, 31, 1 << 17, 1 << 4 | 1 << 1, 12 << 16 | 16, 1 << 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        GETATTR | SETATTR => [vec![0; 16], attributes(node)].concat(),
        LOOKUP => {
            let name = request.0[HEADER..].split(|byte| *byte == 0).next().unwrap_or_default();
            let found = match name {
                b"." => node,
                b".." => ROOT,
                _ if name == NAME.as_bytes() => FILE,
                _ => return Err(nix::errno::Errno::ENOENT),
            };
            // The kernel may cache the name for an hour, the attributes not at all.
            let times = [found, 1, 3600, 0, 0].map(u64::to_ne_bytes).concat();
            [times, attributes(found)].concat()
        }
        OPEN | OPENDIR => vec![0; 16],
        READ => DATA.get(usize::try_from(request.u64(HEADER + 8)).unwrap()..).unwrap_or_default().to_vec(),
        WRITE => words(&[request.u32(HEADER + 16), 0]),
        READDIR if request.u64(HEADER + 8) == 0 => {
            let entry = [FILE, 1].map(u64::to_ne_bytes).concat();
            [entry, words(&[4, 8]), NAME.as_bytes().to_vec(), vec![0; 4]].concat()
        }
        READDIR => Vec::new(),
        STATFS => {
            let counts = [1000_u64, 500, 500, 1000, 500].map(u64::to_ne_bytes).concat();
            [counts, words(&[4096, 255, 4096, 0]), vec![0; 24]].concat()
        }
        // No other lock is in the way (F_UNLCK).
        GETLK => [vec![0; 16], words(&[2, 0])].concat(),
        RELEASE | RELEASEDIR | FLUSH | FSYNC | ACCESS | SETLK => Vec::new(),
        _ => return Err(nix::errno::Errno::ENOSYS),
    })
}

/// Encodes fuse_attr of a node: a folder and a file with write permission for all.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, links) = if node == ROOT { (0o40777, 2) } else { (0o100_666, 1) };
    let numbers = [node, DATA.len() as u64, 8, 0, 0, 0].map(u64::to_ne_bytes).concat();
    [numbers, words(&[0, 0, 0, mode, links, 1000, 1000, 0, 4096, 0])].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
