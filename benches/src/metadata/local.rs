//! The same changes without an NFS server: in a program, and in a program that makes them for
//! another one over TCP, which is the least that any server takes.

use anyhow::Context;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of the requests and replies over TCP: about those of the calls of [`super::Crowd`].
const REQUEST_SIZE: usize = 208;
const REPLY_SIZE: usize = 164;

/// The number of changes a second, and their processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalRound {
    pub(super) rate: f64,
    /// Processor time of the thread that makes them, of each change.
    pub(super) cost: Duration,
}

/// A file that is made, renamed and removed in turns.
struct ChangingFile {
    directory: File,
    changes: u32,
    syncs: bool,
}

impl ChangingFile {
    /// Works in a directory. `syncs` puts each change on stable storage.
    fn new(directory: &Path, syncs: bool) -> io::Result<Self> {
        Ok(Self { directory: File::open(directory)?, changes: 0, syncs })
    }

    fn change(&mut self) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        match self.changes % 3 {
            0 => drop(openat(&self.directory, "new", flags, Mode::from_raw_mode(0o644))?),
            1 => renameat(&self.directory, "new", &self.directory, "old")?,
            _ => unlinkat(&self.directory, "old", AtFlags::empty())?,
        }
        self.changes += 1;
        if self.syncs { self.directory.sync_all() } else { Ok(()) }
    }

    /// Whether the directory is as it was.
    fn is_gone(&self) -> bool {
        self.changes.is_multiple_of(3)
    }
}

/// Changes names for `length` and syncs the directory after each change, as a program does that
/// needs them to last.
pub(super) fn change_locally(directory: &Path, length: Duration) -> anyhow::Result<LocalRound> {
    let mut file = ChangingFile::new(directory, true)?;
    let (start, busy) = (Instant::now(), thread_time());
    while start.elapsed() < length || !file.is_gone() {
        file.change()?;
    }
    Ok(round(file.changes, start.elapsed(), thread_time().saturating_sub(busy)))
}

/// Does the same for a client on loopback that has one request in flight.
pub(super) fn change_over_tcp(directory: &Path, syncs: bool, length: Duration) -> anyhow::Result<LocalRound> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut file = ChangingFile::new(directory, syncs)?;
    let server = std::thread::spawn(move || answer(stream, &mut file));
    let (start, mut changes) = (Instant::now(), 0_u32);
    let mut reply = [0; REPLY_SIZE];
    while start.elapsed() < length || !changes.is_multiple_of(3) {
        client.write_all(&[0; REQUEST_SIZE])?;
        client.read_exact(&mut reply).context("the bare server has ended")?;
        changes += 1;
    }
    let elapsed = start.elapsed();
    drop(client);
    let busy = server.join().map_err(|_| anyhow::anyhow!("the bare server has panicked"))??;
    Ok(round(changes, elapsed, busy))
}

/// Makes a change for each request until the client has gone. Returns the thread's processor time.
fn answer(mut stream: TcpStream, file: &mut ChangingFile) -> io::Result<Duration> {
    let mut request = [0; REQUEST_SIZE];
    while stream.read_exact(&mut request).is_ok() {
        file.change()?;
        stream.write_all(&[0; REPLY_SIZE])?;
    }
    Ok(thread_time())
}

fn round(changes: u32, elapsed: Duration, busy: Duration) -> LocalRound {
    LocalRound { rate: f64::from(changes) / elapsed.as_secs_f64(), cost: busy / changes.max(1) }
}

/// Returns the processor time of the calling thread.
fn thread_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(tv_sec.unsigned_abs(), u32::try_from(tv_nsec).unwrap_or(0))
}
