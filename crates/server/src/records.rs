//! Names of clients that may reclaim after a restart, kept in a folder (RFC 8881 section 8.4.2.1).

use crate::engine::ClientRecords;
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// Longest client owner in bytes (NFS4_OPAQUE_LIMIT); longer files are not ours.
const OWNER_MAX: u64 = 1024;
/// Most records that are read at a start.
const RECORDS_MAX: usize = 65_536;
/// Ending of a record's file name.
const SUFFIX: &str = "client";

/// Keeps one file for each client owner. The files are written by a thread of its own, because the threads
/// that serve may act as some user just then, who has no business in the folder.
#[derive(Debug)]
pub struct FileRecords {
    jobs: Mutex<Sender<Job>>,
}

#[derive(Debug)]
struct Job {
    owner: Vec<u8>,
    keep: bool,
    done: Sender<()>,
}

impl FileRecords {
    /// Opens a folder, makes it if need be, and returns the owners that were recorded there: the prior clients
    /// of this start.
    ///
    /// # Errors
    /// When the folder cannot be made or read, or the thread not be started.
    pub fn open(folder: &Path) -> io::Result<(Self, Vec<Vec<u8>>)> {
        fs::create_dir_all(folder)?;
        let owners = read_all(folder)?;
        let (jobs, inbox) = channel();
        let folder = folder.to_owned();
        thread::Builder::new().name("client-records".to_owned()).spawn(move || work(&folder, &inbox))?;
        Ok((Self { jobs: Mutex::new(jobs) }, owners))
    }

    /// Hands a job over and waits until it is on stable storage.
    fn run(&self, owner: &[u8], keep: bool) {
        let (done, wait) = channel();
        let job = Job { owner: owner.to_vec(), keep, done };
        let sent = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        if sent.is_err() || wait.recv().is_err() {
            tracing::error!("the thread that records clients is gone");
        }
    }
}

impl ClientRecords for FileRecords {
    fn record(&self, owner: &[u8]) {
        self.run(owner, true);
    }

    fn forget(&self, owner: &[u8]) {
        self.run(owner, false);
    }
}

fn work(folder: &Path, inbox: &Receiver<Job>) {
    for job in inbox {
        let result = if job.keep { record(folder, &job.owner) } else { forget(folder, &job.owner) };
        if let Err(error) = result {
            tracing::error!(folder = %folder.display(), %error, "cannot record a client: it may not reclaim after a restart");
        }
        // Whoever waits may have given up.
        let _ = job.done.send(());
    }
}

/// The file of an owner: two hashes that cannot both collide by chance, the owner itself may be any bytes.
fn path(folder: &Path, owner: &[u8]) -> PathBuf {
    let mut name = String::with_capacity(40);
    for seed in [0xcbf2_9ce4_8422_2325_u64, 0x6c62_272e_07bb_0142] {
        let hash = owner
            .iter()
            .fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
        // Writing to a string cannot fail.
        let _ = write!(name, "{hash:016x}");
    }
    folder.join(name).with_extension(SUFFIX)
}

fn record(folder: &Path, owner: &[u8]) -> io::Result<()> {
    let path = path(folder, owner);
    if fs::read(&path).is_ok_and(|there| there == owner) {
        return Ok(());
    }
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(owner)?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(folder)?.sync_all()
}

fn forget(folder: &Path, owner: &[u8]) -> io::Result<()> {
    match fs::remove_file(path(folder, owner)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::open(folder)?.sync_all(),
    }
}

fn read_all(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut owners = Vec::new();
    for entry in fs::read_dir(folder)?.take(RECORDS_MAX) {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != SUFFIX) {
            continue;
        }
        let mut owner = Vec::new();
        File::open(&path)?.take(OWNER_MAX + 1).read_to_end(&mut owner)?;
        if !owner.is_empty() && owner.len() as u64 <= OWNER_MAX {
            owners.push(owner);
        }
    }
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_clients_are_there_after_a_restart_and_forgotten_ones_are_not() // RFC 8881 section 8.4.2.1
    {
        let folder = std::env::temp_dir().join(format!("orthrus-records-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let (records, prior) = FileRecords::open(&folder).unwrap();
        assert!(prior.is_empty());
        for owner in [&b"one"[..], b"two", b"\0/\xff", b"one"] {
            records.record(owner);
        }
        records.forget(b"two");
        records.forget(b"never there");
        let (_, mut prior) = FileRecords::open(&folder).unwrap();
        prior.sort();
        assert_eq!(prior, [b"\0/\xff".to_vec(), b"one".to_vec()]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
