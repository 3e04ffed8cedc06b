//! A FUSE file system that stops answering on demand, over the raw protocol of /dev/fuse.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{read, write};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
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
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const BATCH_FORGET: u32 = 42;
}
use opcode::*;

/// All requests that the server's operations may cause.
pub(crate) const HANGS: [u32; 14] = [
    LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, OPENDIR, READDIR, RELEASEDIR,
    ACCESS,
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
    place: TempDir,
    hang: Arc<AtomicI64>,
    swallowed: Arc<Mutex<Vec<u32>>>,
    daemon: Option<JoinHandle<()>>,
}

impl Fuse {
    /// Mounts the file system; returns the reason if that is not possible.
    pub(crate) fn mount() -> Result<Self, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let none = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("orthrus-test"), place.path(), Some("fuse"), none, Some(options.as_str()))
            .map_err(|error| format!("mount: {error}"))?;
        let hang = Arc::new(AtomicI64::new(NOWHERE));
        let swallowed = Arc::default();
        let daemon = std::thread::spawn({
            let (hang, swallowed) = (hang.clone(), Arc::clone(&swallowed));
            move || serve(&device, &hang, &swallowed)
        });
        Ok(Self { place, hang, swallowed, daemon: Some(daemon) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Answers no request of this kind from now on.
    pub(crate) fn hang_in(&self, opcode: u32) {
        self.hang.store(opcode.into(), SeqCst);
    }

    /// Answers no request at all from now on.
    pub(crate) fn hang_everywhere(&self) {
        self.hang.store(EVERYWHERE, SeqCst);
    }

    /// Returns the kinds of requests that were not answered.
    pub(crate) fn swallowed(&self) -> Vec<u32> {
        self.swallowed.lock().unwrap().clone()
    }

    /// Returns a function by which another thread ends all pending requests.
    pub(crate) fn end(&self) -> impl Fn() + Send + use<> {
        let place: PathBuf = self.path().to_owned();
        move || {
            // By force: pending requests fail.
            let _ = umount2(&place, MntFlags::MNT_FORCE);
            let _ = umount2(&place, MntFlags::MNT_DETACH);
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        vfs_local::become_server();
        (self.end())();
        if let Some(daemon) = self.daemon.take() {
            let _ = daemon.join();
        }
    }
}

/// Answers the kernel until the file system is unmounted.
fn serve(device: &File, hang: &AtomicI64, swallowed: &Mutex<Vec<u32>>) {
    let mut buffer = vec![0; 1 << 18];
    while let Ok(length) = read(device, &mut buffer) {
        let request = Request(&buffer[..length]);
        let opcode = request.u32(4);
        if matches!(opcode, FORGET | BATCH_FORGET) {
            continue;
        }
        let hung = hang.load(SeqCst);
        if hung == EVERYWHERE || hung == i64::from(opcode) {
            swallowed.lock().unwrap().push(opcode);
            continue;
        }
        let (error, body) = match answer(opcode, &request) {
            Ok(body) => (0, body),
            Err(errno) => (-(errno as i32), Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(request.u64(8).to_ne_bytes());
        reply.extend(body);
        // The requesting process may be gone.
        let _ = write(device, &reply);
    }
}

struct Request<'r>(&'r [u8]);

impl Request<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }
}

fn answer(opcode: u32, request: &Request<'_>) -> Result<Vec<u8>, nix::errno::Errno> {
    let node = request.u64(16);
    Ok(match opcode {
        // Version, read-ahead, FUSE_EXPORT_SUPPORT, background requests, largest write, granularity
        // of times, padding.
        INIT => words(&[7, 31, 1 << 17, 1 << 4, 12 << 16 | 16, 1 << 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
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
        RELEASE | RELEASEDIR | FLUSH | FSYNC | ACCESS => Vec::new(),
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
