//! Work that notices a reconnect, a lost operation, or one that runs twice.

use crate::server::Server;
use crate::world::{World, pattern};
use client::{Client, Error, FilePosition, Filesystem, Flavor, OpenHow, Options};
use nfs4::{NfsLockType4, OPEN4_SHARE_ACCESS_READ, OpenDelegation4};
use rng::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections of each client.
const CONNECTIONS: usize = 4;
/// Bytes of the file that is written and read again.
const FILE: usize = 4 << 20;
/// Bytes of the file that is copied; several pieces of a background copy.
const COPIED: usize = 40 << 20;
/// Time limit for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients of one flavor at work, each on a thread of its own.
pub(super) struct UpgradeLoad {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
    workers: Vec<(&'static str, JoinHandle<Result<client::Statistics, String>>)>,
}

type Work = fn(&mut Filesystem, &Flag, u64) -> Result<(), Error>;

/// Tells a worker when to stop, and counts its steps.
#[derive(Clone)]
struct Flag {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
}

impl Flag {
    /// Counts a step, and returns whether there is to be another.
    fn goes_on(&self) -> bool {
        self.steps.fetch_add(1, Relaxed);
        !self.stop.load(Relaxed)
    }
}

impl UpgradeLoad {
    /// Starts all workers of a flavor, and waits until each is at work.
    pub(super) fn start(world: &World, server: &Server, flavor: Flavor, seed: u64) -> Self {
        let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let flag = Flag { stop: stop.clone(), steps: steps.clone() };
        let kinds: [(&'static str, Work); 5] = [
            ("names", names),
            ("data", data),
            ("locks", locks),
            ("delegation", delegation),
            ("copies", copies),
        ];
        let workers = kinds.map(|(name, work)| {
            let options = Options {
                connections: CONNECTIONS,
                minor_version: 2,
                backchannel: true,
                callback_service: flavor.service(),
                ..world.options(server, "alice", flavor)
            };
            let flag = flag.clone();
            let run = move || {
                let failed = |error: Error| format!("{name} with {flavor}: {error}");
                let mut files = Filesystem::mount(options, "/export").map_err(failed)?;
                let folder = format!("{name}-{flavor}-{seed}");
                files.mkdir(&folder).map_err(failed)?;
                let mut files = files.below(&folder);
                work(&mut files, &flag, seed).map_err(failed)?;
                let statistics = files.client().statistics();
                files.unmount().map_err(failed)?;
                Ok(statistics)
            };
            (name, std::thread::spawn(run))
        });
        let load = Self { stop, steps, workers: workers.into() };
        load.wait_for_steps(200);
        load
    }

    /// Returns the number of connections that all workers have, once each has sent a few calls.
    pub(super) fn connections(&self) -> u64 {
        (self.workers.len() * CONNECTIONS) as u64
    }

    /// Waits until the workers have made so many more steps.
    pub(super) fn wait_for_steps(&self, more: u64) {
        let (until, end) = (self.steps.load(Relaxed) + more, Instant::now() + PATIENCE);
        while self.steps.load(Relaxed) < until && !self.workers.iter().any(|(_, worker)| worker.is_finished())
        {
            assert!(Instant::now() < end, "the clients make no progress");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the work; returns how many steps it made, and the faults.
    pub(super) fn stop(self) -> (u64, Vec<String>) {
        self.stop.store(true, Relaxed);
        let mut faults = Vec::new();
        for (name, worker) in self.workers {
            match worker.join() {
                Ok(Ok(statistics)) => {
                    if statistics.reconnects > 0 || statistics.calls_repeated > 0 {
                        faults.push(format!("{name}: {statistics:?}"));
                    }
                }
                Ok(Err(fault)) => faults.push(fault),
                Err(_) => faults.push(format!("{name}: it panicked, see above")),
            }
        }
        (self.steps.load(Relaxed), faults)
    }
}

/// Makes, renames, links and removes names: each operation fails if it runs twice, or was lost.
fn names(files: &mut Filesystem, flag: &Flag, _: u64) -> Result<(), Error> {
    let mut number = 0;
    while flag.goes_on() {
        number += 1;
        let (first, second, third) = (format!("a{number}"), format!("b{number}"), format!("c{number}"));
        let made = files.open(&first, &OpenHow::create_new(0o600))?;
        files.rename(&first, &second)?;
        files.link(&second, &third)?;
        files.close(&made)?;
        files.remove(&second)?;
        files.remove(&third)?;
    }
    Ok(())
}

/// Writes to a file that stays open, and reads all of it.
fn data(files: &mut Filesystem, flag: &Flag, seed: u64) -> Result<(), Error> {
    let mut random = SplitMix64(seed);
    let mut model = vec![0; FILE];
    let file = files.open("data", &OpenHow::create(0o600))?;
    files.write_all(&file, 0, &model)?;
    while flag.goes_on() {
        let length = 1 + random.index(FILE / 4);
        let at = random.index(FILE - length);
        let bytes = pattern(random.draw() as u32, length);
        files.write_all(&file, at as u64, &bytes)?;
        model[at..at + length].copy_from_slice(&bytes);
        assert!(files.read_all(&file)? == model, "other bytes than were written");
    }
    files.close(&file)
}

/// Locks and unlocks ranges of a file. Each change moves the stateid on by one, and one lock is
/// held throughout.
fn locks(files: &mut Filesystem, flag: &Flag, _: u64) -> Result<(), Error> {
    let file = files.open("locked", &OpenHow::create(0o600))?;
    let other = files.open("locked", &OpenHow::create(0o600).owner("other"))?;
    let client = files.client();
    let mut lock = client.lock(&file, b"holder", NfsLockType4::WRITE_LT, 0, 10)?.expect("it is free");
    while flag.goes_on() {
        let before = lock.stateid.seqid;
        let more = client.lock_more(&file.handle, &mut lock, NfsLockType4::WRITE_LT, 100, 10)?;
        more.expect("it is free");
        client.unlock(&file.handle, &mut lock, 100, 10)?;
        assert_eq!(lock.stateid.seqid, before + 2, "a LOCK ran twice, or was lost");
        let denied = client.lock(&other, b"rival", NfsLockType4::READ_LT, 5, 1)?;
        assert!(denied.is_err(), "the lock of the holder was lost");
    }
    client.unlock(&file.handle, &mut lock, 0, u64::MAX)?;
    files.close(&other)?;
    files.close(&file)
}

/// Holds a delegation and reads by it until the end; then another open recalls it.
fn delegation(files: &mut Filesystem, flag: &Flag, _: u64) -> Result<(), Error> {
    files.write_file("delegated", b"as it was")?;
    let how = OpenHow { access: OPEN4_SHARE_ACCESS_READ, ..OpenHow::new(0) };
    let file = files.open("delegated", &how)?;
    let stateid = match &file.delegation {
        OpenDelegation4::OPEN_DELEGATE_READ(read) => Some(read.stateid),
        // Not on every file system.
        _ => None,
    };
    while flag.goes_on() {
        let stateid = stateid.unwrap_or(file.stateid);
        let client = files.client();
        assert_eq!(client.read(&file.handle, stateid, 0, 100)?.0, b"as it was");
        client.serve_callbacks(Duration::from_millis(1))?;
        assert_eq!(client.take_recalls(), [], "nothing conflicts with it");
    }
    if let Some(stateid) = stateid {
        files.client().delegreturn(&file.handle, stateid)?;
    }
    files.close(&file)
}

/// Copies a file in the background again and again, and compares the bytes.
fn copies(files: &mut Filesystem, flag: &Flag, seed: u64) -> Result<(), Error> {
    let content = pattern(seed as u32, COPIED);
    files.write_file("source", &content)?;
    let source = files.open("source", &OpenHow::new(OPEN4_SHARE_ACCESS_READ))?;
    let ended = Arc::new(AtomicU64::new(0));
    let heard = ended.clone();
    files.client().on_callback(move |operation| {
        if let nfs4::NfsCbArgop4::OP_CB_OFFLOAD(args) = operation {
            let whole = matches!(&args.coa_offload_info, nfs4::OffloadInfo4::NFS4_OK(done) if done.wr_count == COPIED as u64);
            heard.fetch_add(if whole { 1 } else { 1000 }, Relaxed);
        }
        client::CallbackAnswer::Status(nfs4::Nfsstat4::NFS4_OK)
    });
    while flag.goes_on() {
        let target = files.open("target", &OpenHow::create(0o600))?;
        let before = ended.load(Relaxed);
        let at = |file: &client::OpenFile| (file.handle.clone(), file.stateid);
        let ((from, from_stateid), (to, to_stateid)) = (at(&source), at(&target));
        let client: &mut Client = files.client();
        let begun = client.begin_copy(
            FilePosition { handle: &from, stateid: from_stateid, offset: 0 },
            FilePosition { handle: &to, stateid: to_stateid, offset: 0 },
            0,
        )?;
        let begin = Instant::now();
        while !begun.cr_response.wr_callback_id.is_empty() && ended.load(Relaxed) == before {
            assert!(begin.elapsed() < PATIENCE, "CB_OFFLOAD was lost");
            client.serve_callbacks(Duration::from_millis(2))?;
        }
        assert!(ended.load(Relaxed) <= before + 1, "CB_OFFLOAD came twice, or of a part");
        files.close(&target)?;
        assert!(files.read_file("target")? == content, "a copy has other bytes");
        files.remove("target")?;
    }
    files.close(&source)
}
