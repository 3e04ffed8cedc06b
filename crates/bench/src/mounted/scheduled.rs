//! Reads and writes on a fixed schedule, by threads of our own.
//!
//! fio has no usable way to do this: by default it waits for all requests before it waits for the
//! time of the next one, so that a slow server gets fewer requests. With `io_submit_mode=offload`,
//! fio 3.33 (Debian 12) hangs in about half of its runs on a machine with several processors.
//!
//! The n-th request is due at the start plus n / rate. Its latency counts from then until its
//! system call returns: it includes the wait for a free thread and for a thread that wakes up late.
//! Requests that were due at the end and had not begun count with their waiting time.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::fcntl::OFlag;
use rng::SplitMix64;

use super::fio::{FioJob, file};
use crate::workload::{Arrivals, LoadTally, SharedRate};

/// Threads of all clients together: the most requests that are in flight.
const THREADS_MAX: u32 = 256;

/// Direct I/O of local file systems wants buffers that begin at a multiple of this.
const ALIGNMENT: usize = 4096;

/// Time between the order to begin and the first due request.
const LEAD: Duration = Duration::from_millis(20);

/// How long a thread sleeps at once, so that it sees that the run is over.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Makes the load of `job` at `rate` requests a second of all clients together for the job's
/// length, and waits for the requests in flight; also returns the time it took. `None` when it was
/// stopped before.
///
/// # Errors
/// A file that cannot be opened, read or written.
pub(super) fn run(
    job: FioJob,
    rate: f64,
    folder: &Path,
    direct: bool,
    stop: &AtomicBool,
) -> Result<Option<(LoadTally, Duration)>> {
    let clients = job.clients.max(1);
    let threads = (THREADS_MAX / clients).clamp(1, job.depth.max(1));
    ensure!((1.0 / rate).is_finite() && rate > 0.0, "{rate} requests a second cannot be made");
    let files = (0..clients).map(|client| open(&file(folder, client), job, direct));
    let files = files.collect::<Result<Vec<File>>>()?;
    // Held until all threads are there: where making one takes long, the first requests would be
    // late by that.
    let schedules = RwLock::new(Vec::new());
    let mut held = schedules.write().unwrap_or_else(PoisonError::into_inner);
    let (waiting, mut start) = (&schedules, Instant::now());
    let parts = std::thread::scope(|scope| {
        let clients_of_threads = (0..threads).flat_map(|_| 0..clients);
        let started: std::io::Result<Vec<_>> = files
            .iter()
            .cycle()
            .zip(clients_of_threads)
            .map(|(file, client)| {
                let task = move || work(job, file, waiting, client, stop);
                std::thread::Builder::new().spawn_scoped(scope, task)
            })
            .collect();
        // The schedule needs all threads; otherwise the started ones end.
        if started.is_ok() {
            start = Instant::now() + LEAD;
            *held = schedule(job, rate, start);
        }
        drop(held);
        let joined = started.context("not all threads can be made")?.into_iter().map(|thread| thread.join());
        let parts = joined.map(|part| part.map_err(|_| anyhow!("a thread has ended in a panic"))?);
        parts.collect::<Result<Vec<LoadTally>>>()
    });
    let mut all = LoadTally::default();
    for part in parts.with_context(|| format!("in {}", folder.display()))? {
        all.add(&part);
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let took = start.elapsed().max(job.length);
    let schedules = schedules.into_inner().unwrap_or_else(PoisonError::into_inner);
    schedules.iter().for_each(|schedule| schedule.give_up(&mut all));
    if job.writes > 0 && !direct {
        files.iter().try_for_each(File::sync_all)?;
    }
    Ok(Some((all, took)))
}

/// Returns the clients' schedules.
fn schedule(job: FioJob, rate: f64, start: Instant) -> Vec<Arrivals> {
    let clients = job.clients.max(1);
    let of = |client| SharedRate { rate, clients, client, start }.arrivals(job.length);
    (0..clients).map(of).collect()
}

fn open(path: &Path, job: FioJob, direct: bool) -> Result<File> {
    let flags = if direct { OFlag::O_DIRECT } else { OFlag::empty() };
    let opened = OpenOptions::new().read(true).write(job.writes > 0).custom_flags(flags.bits()).open(path);
    opened.with_context(|| path.display().to_string())
}

/// Takes due requests, one after the other.
fn work(
    job: FioJob,
    file: &File,
    schedules: &RwLock<Vec<Arrivals>>,
    client: u32,
    stop: &AtomicBool,
) -> Result<LoadTally> {
    let size = usize::try_from(job.size)?;
    let mut memory = vec![0x5a_u8; size + ALIGNMENT];
    let begin = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = memory.get_mut(begin..begin + size).context("a buffer cannot be aligned")?;
    let mut tally = LoadTally::default();
    let schedules = schedules.read().unwrap_or_else(PoisonError::into_inner);
    let Some(arrivals) = schedules.get(client as usize) else { return Ok(tally) };
    while let Some((number, due)) = arrivals.take() {
        sleep_until(due, stop);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (offset, writes) = place(job, number);
        let count = if writes { file.write_at(buffer, offset)? } else { file.read_at(buffer, offset)? };
        ensure!(count == size, "{count} bytes of {size} were moved at offset {offset}");
        tally.operations += 1;
        tally.bytes += job.size;
        tally.latencies.count(due.elapsed());
    }
    Ok(tally)
}

fn sleep_until(due: Instant, stop: &AtomicBool) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(SLEEP_MAX));
    }
}

/// Where a request goes, and whether it writes: the same in every run.
fn place(job: FioJob, number: u64) -> (u64, bool) {
    let mut random = SplitMix64(number);
    let pieces = (job.file_size / job.size).max(1);
    let piece = if job.random { random.below(pieces) } else { number % pieces };
    (piece * job.size, random.below(100) < u64::from(job.writes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounted::fio::tests::JOB;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for client in 0..JOB.clients {
            File::create(file(dir.path(), client)).unwrap().set_len(JOB.file_size).unwrap();
        }
        dir
    }

    #[test]
    fn as_many_begin_as_are_due_whatever_becomes_of_them() {
        let (dir, stop) = (folder(), AtomicBool::new(false));
        let (tally, took) = run(JOB, 1000.0, dir.path(), false, &stop).unwrap().unwrap();
        // The last is due 2 ms before the end.
        assert!(took >= JOB.length - Duration::from_millis(10), "{took:?}");
        // Each of two clients is due at 0 or 1 ms, then every 2 ms.
        assert_eq!(tally.operations + tally.unserved, 200);
        assert_eq!(tally.latencies.len(), 200);
        assert_eq!(tally.bytes, tally.operations * 4096);
    }

    #[test]
    fn places_lie_in_the_file_and_writes_are_the_part_that_was_asked_for() {
        let drawn: Vec<(u64, bool)> = (0..10_000).map(|number| place(JOB, number)).collect();
        assert!(drawn.iter().all(|(offset, _)| offset % 4096 == 0 && *offset < JOB.file_size));
        let writes = drawn.iter().filter(|(_, write)| *write).count();
        assert!((2300..2700).contains(&writes), "{writes}");
        let apart: std::collections::BTreeSet<u64> = drawn.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(apart.len(), 256, "every place is reached");
        let in_order = FioJob { random: false, writes: 100, ..JOB };
        assert_eq!((place(in_order, 1), place(in_order, 257)), ((4096, true), (4096, true)));
    }

    #[test]
    fn a_run_that_is_stopped_is_none_and_a_file_that_is_short_is_an_error() {
        let (dir, stop) = (folder(), AtomicBool::new(true));
        assert!(run(JOB, 10.0, dir.path(), false, &stop).unwrap().is_none());
        File::create(file(dir.path(), 1)).unwrap();
        let error =
            run(FioJob { writes: 0, ..JOB }, 1000.0, dir.path(), false, &AtomicBool::new(false)).unwrap_err();
        assert!(format!("{error:#}").contains("bytes of 4096"), "{error:#}");
    }
}
