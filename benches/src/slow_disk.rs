//! Cached reads of one client while others keep a slow disk busy with reads, writes and COMMITs.

use super::busy::{BusyWork, FLOOR, beside, report};
use super::disk::SlowDisk;
use super::load::TransferKind::Read;
use super::load::{self, LoadedSessions};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::test_bed::TestBed;
use super::{Skipped, stopped};
use anyhow::{Context, bail};
use bench::measuring::Sample;
use bench::{Endpoint, ExportMount, Flavor};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
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

/// Uncached reads in flight, and how long they go on at once.
const DEPTH: u32 = 16;
const SLICE: Duration = Duration::from_millis(500);

/// Writes before each COMMIT.
const WRITES: usize = 4;

/// How often the shard's thread is looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);

/// Runs the benchmark.
///
/// # Errors
/// When the disk, the realm or the server do not work.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    if let Some(reason) = SlowDisk::missing() {
        bail!(Skipped(reason));
    }
    // Dropped after the server, which has files open on it.
    let disk = SlowDisk::make(DISK_SIZE)?;
    let test_bed = TestBed::start_with(Some(&disk.path()), false)?;
    output.note(&format!("{}; one shard", test_bed.cores().describe()));
    output.note(&format!(
        "disk: ext4 on a loop device, held back to {DISK_SPEED} reads and {DISK_SPEED} writes a second"
    ));
    output.note("first client: reads of 4 KiB that are cached, one at a time, from a file on that disk");
    output.note(&format!(
        "others: {DEPTH} uncached random reads of 4 KiB in flight; {WRITES} writes of 4 KiB and a COMMIT, again and again"
    ));
    let server = test_bed.target("/slow");
    let shard = shard_of(server.pid.context("the server is gone")?)?;
    for flavor in [Flavor::Sys, Flavor::Krb5p] {
        disk.hold_back(0)?;
        let mut servers = [server.clone(), server.clone()];
        let [for_first, for_reader] = &mut servers;
        let cached = (flavor, load::random(Read, 1));
        let mut first = LoadedSessions::prepare(for_first, "first", cached, CACHED_SIZE, stop)?;
        let uncached = (Flavor::Sys, load::random(Read, DEPTH));
        let mut reader = LoadedSessions::prepare(for_reader, "reader", uncached, UNCACHED_SIZE, stop)?;
        let mut writer = ExportMount::connect(server.options(Flavor::Sys)?, "/slow", "writer")?;
        writer.prepare()?;
        disk.hold_back(DISK_SPEED)?;
        let (mut rounds, mut reads) = (Vec::new(), Vec::new());
        let (mut commits, mut looks, mut waited) = (0_u64, 0_u64, 0_u64);
        for round in 0..ROUNDS {
            let mut cached = || first.repeat(round, LENGTH);
            let alone = cached()?;
            disk.forget(&reader.file())?;
            let mut slices = Vec::new();
            let reading: BusyWork<'_> = Box::new(|| {
                slices.extend(reader.plain(SLICE)?);
                Ok(())
            });
            let writing: BusyWork<'_> = Box::new(|| {
                commits += 1;
                write_and_commit(&mut writer)
            });
            let watching: BusyWork<'_> = Box::new(|| {
                looks += 1;
                waited += u64::from(waits_for_disk(&shard));
                std::thread::sleep(SAMPLE_INTERVAL);
                Ok(())
            });
            let second = beside(vec![reading, writing, watching], LEAD_IN, cached)?;
            if stopped(stop) {
                return Ok(());
            }
            rounds.extend(alone.zip(second));
            reads.push(slices);
        }
        let name = format!("slow disk {}", flavor.name());
        report(output, &name, ["disk idle", "disk busy"], ("busy/idle", FLOOR), &rounds);
        report_others(output, &name, &reads, [commits, looks, waited]);
        disk.hold_back(0)?;
        first.finish()?;
        reader.finish()?;
        writer.finish()?;
    }
    Ok(())
}

/// Reports the work of the other clients, and how often the shard waited for the disk.
fn report_others(
    output: &mut BenchOutput,
    name: &str,
    reads: &[Vec<Sample>],
    [commits, looks, waited]: [u64; 3],
) {
    let rate = |slices: &Vec<Sample>| {
        let operations: u64 = slices.iter().map(|one| one.operations).sum();
        operations as f64 / slices.iter().map(|one| one.seconds).sum::<f64>()
    };
    let p99 = |slices: &Vec<Sample>| slices.iter().filter_map(Sample::p99_us).fold(0.0, f64::max);
    let rate = BenchFigure::of("", format!("{name}, uncached reads"), "1/s", reads.iter().map(rate));
    let p99 = BenchFigure::of("p99", format!("{name}, p99 of uncached reads"), "µs", reads.iter().map(p99));
    output.line("uncached reads", [rate.brief(), p99.brief()]);
    let count = |label: &str, row: &str, count: u64| {
        BenchFigure::once(label, format!("{name}, {row}"), "count", count as f64)
    };
    let waited = count("waited for a disk", "of which it waited for a disk", waited);
    let looks = count("looks at the shard", "looks at the shard", looks);
    output.line("", [count("COMMITs", "COMMITs", commits), looks, waited.floor(Floor::AtMost(0.0))]);
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

/// Returns whether a thread waits for a disk now.
fn waits_for_disk(stat: &Path) -> bool {
    let now = std::fs::read_to_string(stat).unwrap_or_default();
    // The state stands behind the name, which is in parentheses.
    now.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
}
