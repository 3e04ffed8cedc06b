//! Cached reads of one client while others keep a slow disk busy with reads, writes and COMMITs.

use super::disk::SlowDisk;
use super::fairness::step_back;
use super::load_target::{LoadTarget, TargetLoad};
use super::output::{BenchOutput, Floor};
use super::test_bed::TestBed;
use super::{RunEnd, stopped};
use anyhow::Context;
use bench::measuring::{Interval, Sample};
use bench::{Endpoint, ExportMount, Flavor};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Interleaved rounds, and how long each half of one counts.
const ROUNDS: u32 = 5;
const LENGTH: Duration = Duration::from_secs(2);

/// How long the disk is kept busy before the first client is looked at.
const LEAD_IN: Duration = Duration::from_millis(500);

/// Bytes of the disk, of the file that is cached, and of the one that is not.
const DISK_SIZE: u64 = 1 << 30;
const CACHED_SIZE: u64 = 16 << 20;
const UNCACHED_SIZE: u64 = 256 << 20;

/// Reads, and writes, that the disk does in a second.
const DISK_SPEED: u32 = 200;

/// Uncached reads in flight.
const DEPTH: usize = 16;

/// Writes before each COMMIT.
const WRITES: usize = 4;

/// The p99 latency beside the others, in times that without them.
const FLOOR: Floor = Floor::AtMost(3.0);

/// How often the shard's thread is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);

/// Runs the benchmark.
///
/// # Errors
/// When the disk, the realm or the server do not work.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<RunEnd> {
    if let Some(reason) = SlowDisk::missing() {
        return Ok(RunEnd::Skipped(reason));
    }
    // Dropped after the server, which has files open on it.
    let disk = SlowDisk::make(DISK_SIZE)?;
    let test_bed = TestBed::start_on(&disk.path())?;
    output.note(&format!("{}; one shard", test_bed.cores().describe()));
    output.note(&format!(
        "disk: ext4 on a loop device, held back to {DISK_SPEED} reads and {DISK_SPEED} writes a second"
    ));
    output.note("first client: reads of 4 KiB that are cached, one at a time, from a file on that disk");
    output.note(&format!(
        "others: {DEPTH} uncached random reads of 4 KiB in flight; {WRITES} writes of 4 KiB and a COMMIT, again and again"
    ));
    let fast = LoadTarget { file_size: CACHED_SIZE, ..test_bed.load_target(stop) };
    let slow = LoadTarget { file_size: UNCACHED_SIZE, ..test_bed.load_target(stop) };
    for flavor in [Flavor::Sys, Flavor::Krb5p] {
        disk.hold_back(0)?;
        let mut first = fast.mount("/slow", flavor, fast.options(flavor)?)?;
        let mut reader = slow.mount("/slow", Flavor::Sys, slow.options(Flavor::Sys)?)?;
        let mut writer = fast.mount("/slow", Flavor::Sys, fast.options(Flavor::Sys)?)?;
        disk.hold_back(DISK_SPEED)?;
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let mut cached = || fast.repeat(&mut first, TargetLoad::random(false, 1), round, LENGTH);
            let alone = cached()?;
            disk.forget(reader.folder())?;
            let (beside, others) = beside(&slow, (&mut reader, &mut writer), cached)?;
            if stopped(stop) {
                return Ok(RunEnd::Interrupted);
            }
            rounds.extend(alone.zip(beside).map(|(alone, beside)| DiskRound { alone, beside, others }));
        }
        report(output, flavor, &rounds);
        disk.hold_back(0)?;
        for mount in [&mut first, &mut reader, &mut writer] {
            mount.finish()?;
        }
    }
    Ok(RunEnd::Complete)
}

/// The first client without and with the others.
struct DiskRound {
    alone: Sample,
    beside: Sample,
    others: OtherClients,
}

impl DiskRound {
    fn side(&self, busy: bool) -> &Sample {
        if busy { &self.beside } else { &self.alone }
    }
}

/// The work of the other clients, and the waits of the server's threads.
#[derive(Clone, Copy, Debug, Default)]
struct OtherClients {
    reads_per_second: f64,
    read_p99_us: f64,
    commits: u64,
    samples: u64,
    shard_waited: u64,
}

/// Does something while other threads keep the disk busy.
fn beside<T>(
    load_target: &LoadTarget<'_>,
    (reader, writer): (&mut ExportMount, &mut ExportMount),
    mut work: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<(T, OtherClients)> {
    let (enough, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let shard = shard_of(load_target.pid)?;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            step_back()?;
            let mut all = Vec::new();
            while !enough.load(Ordering::Relaxed) {
                all.extend(load_target.plain(
                    reader,
                    TargetLoad::random(false, DEPTH),
                    Duration::from_millis(500),
                )?);
            }
            anyhow::Ok(all)
        });
        let writing = scope.spawn(|| {
            step_back()?;
            while !enough.load(Ordering::Relaxed) {
                write_and_commit(writer)?;
                commits.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
        let watching = scope.spawn(|| watch(&shard, &enough));
        std::thread::sleep(LEAD_IN);
        let done = work();
        enough.store(true, Ordering::Relaxed);
        let reads = reading.join().ok().context("the reader panicked")??;
        writing.join().ok().context("the writer panicked")??;
        let (samples, shard_waited) = watching.join().ok().context("the watcher panicked")?;
        let seconds: f64 = reads.iter().map(|one| one.seconds).sum();
        let operations: u64 = reads.iter().map(|one| one.operations).sum();
        let others = OtherClients {
            reads_per_second: operations as f64 / seconds,
            read_p99_us: reads.iter().filter_map(Sample::p99_us).fold(0.0, f64::max),
            commits: commits.load(Ordering::Relaxed),
            samples,
            shard_waited,
        };
        Ok((done?, others))
    })
}

fn write_and_commit(mount: &mut ExportMount) -> anyhow::Result<()> {
    for tag in 0..WRITES {
        mount.start_write(tag, 4096 * tag as u64, &[7; 4096])?;
    }
    let mut written = 0;
    while written < WRITES {
        mount.poll(None, &mut |_, _| {
            written += 1;
            Ok(())
        })?;
    }
    mount.commit()
}

/// The status file of the server's only shard.
fn shard_of(pid: u32) -> anyhow::Result<PathBuf> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).context("the server is gone")? {
        let thread = thread?.path();
        if std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("shard")) {
            return Ok(thread.join("stat"));
        }
    }
    anyhow::bail!("the server has no shard")
}

/// Counts how often a thread was looked at, and how often it waited for a disk then.
fn watch(stat: &PathBuf, enough: &AtomicBool) -> (u64, u64) {
    let (mut samples, mut waited) = (0, 0);
    while !enough.load(Ordering::Relaxed) {
        let now = std::fs::read_to_string(stat).unwrap_or_default();
        // The state stands behind the name, which is in parentheses.
        let waits = now.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'));
        samples += 1;
        waited += u64::from(waits);
        std::thread::sleep(SAMPLE_INTERVAL);
    }
    (samples, waited)
}

fn report(output: &mut BenchOutput, flavor: Flavor, rounds: &[DiskRound]) {
    println!("\ncached reads with {}", flavor.name());
    let name = |what: &str| format!("slow disk {}, {what}", flavor.name());
    for (what, busy) in [("disk idle", false), ("disk busy", true)] {
        let each = |value: fn(&Sample) -> Option<f64>| {
            Interval::of(rounds.iter().filter_map(|round| value(round.side(busy))))
        };
        let (Some(p50), Some(p99)) = (each(Sample::p50_us), each(Sample::p99_us)) else { continue };
        output.interval(&name(&format!("p50 {what}")), "µs", p50, None);
        output.interval(&name(&format!("p99 {what}")), "µs", p99, None);
        println!(
            "  {what}   p50 {:8.1} µs   p99 {:8.1} µs [{:.1} to {:.1}]",
            p50.median, p99.median, p99.low, p99.high
        );
    }
    let ratios = rounds.iter().filter_map(|round| Some(round.beside.p99_us()? / round.alone.p99_us()?));
    if let Some(ratio) = Interval::of(ratios) {
        output.interval(&name("p99 busy/idle"), "ratio", ratio, Some(FLOOR));
        let verdict = FLOOR.verdict(ratio.median);
        println!(
            "  p99 busy / idle: {:5.2} [{:.2} to {:.2}]   {verdict}",
            ratio.median, ratio.low, ratio.high
        );
    }
    let each =
        |value: fn(&OtherClients) -> f64| Interval::of(rounds.iter().map(|round| value(&round.others)));
    if let (Some(rate), Some(p99)) =
        (each(|others| others.reads_per_second), each(|others| others.read_p99_us))
    {
        output.interval(&name("uncached reads"), "1/s", rate, None);
        output.interval(&name("p99 of uncached reads"), "µs", p99, None);
        println!("  uncached reads: {:.0} a second, p99 {:.0} µs", rate.median, p99.median);
    }
    let sum = |value: fn(&OtherClients) -> u64| rounds.iter().map(|round| value(&round.others)).sum::<u64>();
    let (samples, waited) = (sum(|others| others.samples), sum(|others| others.shard_waited));
    output.figure(&name("COMMITs"), "count", sum(|others| others.commits) as f64, None);
    output.figure(&name("looks at the shard"), "count", samples as f64, None);
    output.figure(&name("of which it waited for a disk"), "count", waited as f64, Some(Floor::AtMost(0.0)));
    println!(
        "  COMMITs: {}; the shard waited for a disk at {waited} of {samples} looks",
        sum(|others| others.commits)
    );
}
