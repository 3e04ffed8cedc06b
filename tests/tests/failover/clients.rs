//! Clients that hold opens and locks over a failure, and note what was acknowledged.

use client::{Client, Error, Lock, OpenFile, OpenHow, Options, TransportError};
use nfs4::NfsLockType4::WRITE_LT;
use nfs4::StableHow4::FILE_SYNC4;
use nfs4::{Lock4Args, Locker4, Nfsstat4, OPEN4_SHARE_ACCESS_BOTH, OpenToLockOwner4, StateOwner4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that clients try to come back.
const PATIENCE: Duration = Duration::from_secs(150);
/// The pause between two tries, or two writes.
const PAUSE: Duration = Duration::from_millis(20);
/// Every so many writes a client makes a file.
const WRITES_PER_NAME: u64 = 10;
/// Bytes of a write.
const RECORD: u64 = 8;

/// Returns the numbers that records hold.
pub(crate) fn numbers(data: &[u8]) -> Vec<u64> {
    let (records, rest) = data.as_chunks();
    assert!(rest.is_empty(), "{} bytes behind the last record", rest.len());
    records.iter().map(|record| u64::from_be_bytes(*record)).collect()
}

pub(crate) fn how() -> OpenHow {
    OpenHow { access: OPEN4_SHARE_ACCESS_BOTH, ..OpenHow::create(0o666) }
}

/// Whether an operation failed because its server went away.
fn is_outage(error: &Error) -> bool {
    let lost = matches!(
        error,
        Error::Transport(
            TransportError::Closed
                | TransportError::Io(_)
                | TransportError::Connect(_)
                | TransportError::GaveUp(_)
        ) | Error::Timeout
    );
    lost || error.is_session_lost() || error.is_context_lost()
}

fn reclaims(status: Option<Nfsstat4>) -> bool {
    matches!(
        status,
        Some(Nfsstat4::NFS4ERR_STALE_CLIENTID | Nfsstat4::NFS4ERR_BAD_STATEID | Nfsstat4::NFS4ERR_STALE)
    )
}

/// The progress of a holder, for others to see.
#[derive(Default)]
pub(crate) struct HolderProgress {
    /// Writes that were acknowledged as stable.
    pub(crate) written: AtomicU64,
    /// Files whose creation was acknowledged.
    pub(crate) made: AtomicU64,
    /// Reclaims of open and lock.
    pub(crate) reclaimed: AtomicU64,
    /// Whether the client believes that it holds its lock.
    pub(crate) holds: AtomicBool,
    ends: AtomicBool,
}

impl HolderProgress {
    /// Counts an acknowledgement; `count` is one of the counters above.
    pub(crate) fn note(&self, count: &AtomicU64) {
        count.fetch_add(1, SeqCst);
    }

    /// Waits until more writes than `before` are acknowledged; returns when the first of them was
    /// seen.
    pub(crate) fn wait_beyond(&self, before: u64) -> Instant {
        let end = Instant::now() + PATIENCE;
        while self.written.load(SeqCst) <= before {
            assert!(Instant::now() < end, "the client does not continue");
            std::thread::sleep(Duration::from_millis(2));
        }
        Instant::now()
    }
}

/// A client that writes to a file under a lock until it is asked to end.
pub(crate) struct Holder {
    pub(crate) progress: Arc<HolderProgress>,
    thread: JoinHandle<()>,
}

impl Holder {
    /// Opens `/data/NAME`, locks it and begins to write.
    pub(crate) fn start(options: Options, name: String) -> Self {
        let progress = Arc::<HolderProgress>::default();
        let mut client = Client::connect(options).expect("the gateway serves");
        let file = client.open_path(&format!("/data/{name}"), &how()).expect("the grace period is over");
        let lock = client.lock(&file, b"holder", WRITE_LT, 0, 10).expect("it is open").expect("it is free");
        progress.holds.store(true, SeqCst);
        let shared = Arc::clone(&progress);
        let work = HolderWork { client, file, lock, name, progress: shared };
        Self { progress, thread: std::thread::spawn(move || work.run()) }
    }

    /// Ends the work and unlocks; the file stays.
    pub(crate) fn stop(self) {
        self.progress.ends.store(true, SeqCst);
        self.thread.join().expect("no acknowledged state was lost");
    }
}

struct HolderWork {
    client: Client,
    file: OpenFile,
    lock: Lock,
    name: String,
    progress: Arc<HolderProgress>,
}

impl HolderWork {
    fn run(mut self) {
        let mut outage: Option<Instant> = None;
        while !self.progress.ends.load(SeqCst) {
            match self.work() {
                Ok(()) => outage = None,
                Err(error) if is_outage(&error) || reclaims(error.status()) => {
                    let since = *outage.get_or_insert_with(Instant::now);
                    assert!(since.elapsed() < PATIENCE, "{}: {error}", self.name);
                    self.come_back();
                }
                Err(error) => panic!("{}: {error}", self.name),
            }
            std::thread::sleep(PAUSE);
        }
        self.progress.holds.store(false, SeqCst);
        self.client.unlock(&self.file.handle, &mut self.lock, 0, 10).expect("it is locked");
        self.client.close_file(&self.file).expect("it is open");
        self.client.close().expect("the session is there");
    }

    /// Writes the next record, and sometimes makes a file.
    fn work(&mut self) -> Result<(), Error> {
        let number = self.progress.written.load(SeqCst);
        let (handle, stateid) = (&self.file.handle, self.lock.stateid);
        self.client.write(handle, stateid, number * RECORD, FILE_SYNC4, &(number + 1).to_be_bytes())?;
        self.progress.note(&self.progress.written);
        let made = self.progress.made.load(SeqCst);
        if number / WRITES_PER_NAME > made {
            let (data, _) = self.client.lookup_path("/data")?;
            match self.client.mkdir(&data, format!("{}-{made}", self.name).as_bytes(), 0o755) {
                Ok(_) => {}
                // The first try, without a reply, has made it.
                Err(error) if error.is(Nfsstat4::NFS4ERR_EXIST) => {}
                Err(error) => return Err(error),
            }
            self.progress.note(&self.progress.made);
        }
        Ok(())
    }

    /// Makes a new session, and reclaims open and lock if the server has lost them.
    fn come_back(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.client.recover().and_then(|()| self.reclaim()) {
                Ok(()) => return,
                Err(error) => {
                    assert!(is_outage(&error) && Instant::now() < end, "{}: {error}", self.name);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn reclaim(&mut self) -> Result<(), Error> {
        let owner = self.file.owner.clone();
        let file = match self
            .client
            .reclaim_open(&self.file.handle, &OpenHow { create: client::Create::No, ..how() }.owner(owner))
        {
            // The server still has the former one.
            Err(error) if error.is(Nfsstat4::NFS4ERR_NO_GRACE) => return self.client.finish_reclaim(),
            other => other?,
        };
        let locker = Locker4::TRUE(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: file.stateid,
            lock_seqid: 0,
            lock_owner: StateOwner4 { clientid: 0, owner: b"holder".as_slice().into() },
        });
        let arguments = Lock4Args { locktype: WRITE_LT, reclaim: true, offset: 0, length: 10, locker };
        let stateid = self.client.lock_with(&file.handle, arguments)?.expect("nobody has got the lock");
        self.lock = Lock { stateid, owner: b"holder".to_vec() };
        self.file = file;
        self.client.finish_reclaim()?;
        self.progress.reclaimed.fetch_add(1, SeqCst);
        Ok(())
    }
}

/// A client of another gateway that wants the lock of a holder.
pub(crate) struct Rival {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<RivalReport>,
}

/// The findings of a rival.
pub(crate) struct RivalReport {
    /// Answers that denied the lock.
    pub(crate) denied: u64,
    /// Answers that a grace period is on.
    pub(crate) grace: u64,
    /// When the lock was granted at last.
    pub(crate) granted: Option<Instant>,
}

impl Rival {
    /// Begins to ask for the lock of `/data/NAME`, again and again.
    pub(crate) fn start(options: Options, name: &str, holder: Arc<HolderProgress>) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let (asked, path) = (Arc::clone(&ends), format!("/data/{name}"));
        let mut client = Client::connect(options).expect("the gateway serves");
        let file = client
            .open_path(&path, &OpenHow { create: client::Create::No, ..how() })
            .expect("there is no grace period");
        let work = move || {
            let mut report = RivalReport { denied: 0, grace: 0, granted: None };
            while !asked.load(SeqCst) {
                match client.lock(&file, b"rival", WRITE_LT, 0, 10) {
                    Ok(Ok(_)) => {
                        assert!(!holder.holds.load(SeqCst), "{path}: the lock is held twice");
                        report.granted = Some(Instant::now());
                        break;
                    }
                    Ok(Err(_)) => report.denied += 1,
                    Err(error) if error.is(Nfsstat4::NFS4ERR_GRACE) => report.grace += 1,
                    Err(error) if error.is(Nfsstat4::NFS4ERR_DELAY) || is_outage(&error) => {}
                    Err(error) => panic!("rival: {error}"),
                }
                std::thread::sleep(PAUSE);
            }
            report
        };
        Self { ends, thread: std::thread::spawn(work) }
    }

    /// Waits until it has got the lock, or ends it after a time.
    pub(crate) fn stop(self, within: Duration) -> RivalReport {
        let end = Instant::now() + within;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
        self.ends.store(true, SeqCst);
        self.thread.join().expect("no lock is held twice")
    }
}
