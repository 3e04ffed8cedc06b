//! Changes of names in one directory: how many a second, by how many are in flight, and how many
//! synchronisations of the disk they share.

pub(crate) mod churn;

use super::disk::{SlowDisk, journal_commits};
use super::kerberos_site::{make_export, program};
use super::output::{BenchFigure, BenchOutput};
use super::stopped;
use bench::ServerProcess;
use churn::{ChurnTimes, Crowd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Clients, and requests that each has in flight: 1, 8 and 32 in all.
const CROWDS: [(usize, usize); 3] = [(1, 1), (4, 2), (8, 4)];
/// Interleaved rounds, and how long each case of one counts.
const ROUNDS: u32 = 6;
const LENGTH: Duration = Duration::from_millis(1000);
/// The same on the disk that is held back.
const SLOW_ROUNDS: u32 = 3;
const SLOW_LENGTH: Duration = Duration::from_secs(2);
/// How long a case runs before it counts.
const LEAD_IN: Duration = Duration::from_millis(200);
/// Bytes of the disk, and writes that it does in a second when it is held back.
const DISK_SIZE: u64 = 256 << 20;
const DISK_SPEED: u32 = 500;

/// The delegations that each server grants.
const DELEGATIONS: [&str; 2] = ["none", "read"];

/// A server with an export whose names are stable and one whose names are not.
struct NameServer {
    delegations: &'static str,
    server: ServerProcess,
}

/// One of the things that are compared.
struct NameCase<'a> {
    stand: &'a NameServer,
    stable: bool,
    crowd: (usize, usize),
    rounds: Vec<NameRound>,
}

/// The work of a case in a round.
struct NameRound {
    done: ChurnTimes,
    /// Of the file system's journal, where it can be asked.
    commits: Option<u64>,
    seconds: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// When the disk or the servers do not work.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let missing = SlowDisk::missing();
    // Dropped after the servers, which have folders open on it.
    let disk = if missing.is_none() { Some(SlowDisk::make(DISK_SIZE)?) } else { None };
    let work = private::temporary("orthrus-xtask-")?;
    let folder = disk.as_ref().map_or_else(|| work.path().to_owned(), SlowDisk::path);
    match &missing {
        None => output.note("disk: ext4 on a loop device"),
        Some(reason) => output.note(&format!("disk: that of {} ({reason})", folder.display())),
    }
    output.note("each request in flight makes a file, renames it and removes it, all in one directory; AUTH_SYS, both ends wherever the kernel puts them");
    let stands = DELEGATIONS.into_iter().map(|kind| NameServer::start(&folder, work.path(), kind));
    let stands: Vec<NameServer> = stands.collect::<anyhow::Result<_>>()?;
    let mut cases = cases(&stands, &[false, true]);
    if !rounds(&mut cases, disk.as_ref(), (ROUNDS, LENGTH), stop)? {
        return Ok(());
    }
    report(output, "the disk as it is", &cases);
    if let Some(disk) = &disk {
        output.note(&format!("held back: {DISK_SPEED} writes a second"));
        disk.hold_back(DISK_SPEED)?;
        let mut cases = self::cases(&stands, &[true]);
        let complete = rounds(&mut cases, Some(disk), (SLOW_ROUNDS, SLOW_LENGTH), stop)?;
        disk.hold_back(0)?;
        if complete {
            report(output, "the disk held back", &cases);
        }
    }
    Ok(())
}

impl NameServer {
    fn start(folder: &Path, work: &Path, delegations: &'static str) -> anyhow::Result<Self> {
        let config = work.join(format!("{delegations}.toml"));
        let mut text = format!("delegations = {delegations:?}\n");
        for (name, stable) in [("loose", false), ("stable", true)] {
            let path = folder.join(name);
            make_export(&path)?;
            text += &format!(
                "[[export]]\npath = {path:?}\npseudo = \"/{name}\"\nsec = [\"sys\"]\nsecure = false\nsquash = \"none\"\nstable_names = {stable}\n"
            );
        }
        std::fs::write(&config, text)?;
        let state: PathBuf = work.join(format!("state-{delegations}"));
        let arguments = vec![
            "--config".into(),
            config.into(),
            "--listen".into(),
            "127.0.0.1:0".into(),
            "--state-dir".into(),
            state.into(),
        ];
        Ok(Self { delegations, server: ServerProcess::start(&program()?, arguments, &[])? })
    }
}

fn cases<'a>(stands: &'a [NameServer], stables: &[bool]) -> Vec<NameCase<'a>> {
    let mut cases = Vec::new();
    for crowd in CROWDS {
        for &stable in stables {
            cases.extend(stands.iter().map(|stand| NameCase { stand, stable, crowd, rounds: Vec::new() }));
        }
    }
    cases
}

/// Runs all cases, round by round; false when a signal has come.
fn rounds(
    cases: &mut [NameCase<'_>],
    disk: Option<&SlowDisk>,
    (rounds, length): (u32, Duration),
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    for _ in 0..rounds {
        for case in cases.iter_mut() {
            case.run(disk, length)?;
            if stopped(stop) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

impl NameCase<'_> {
    fn run(&mut self, disk: Option<&SlowDisk>, length: Duration) -> anyhow::Result<()> {
        let export = if self.stable { "/stable" } else { "/loose" };
        let options = churn::options(self.stand.server.address());
        let mut crowd = Crowd::connect(&options, "", &[export.to_owned()], self.crowd)?;
        crowd.work(LEAD_IN)?;
        let commits = || disk.and_then(|disk| journal_commits(disk.device()));
        let before = commits();
        let start = std::time::Instant::now();
        let done = crowd.work(length)?;
        let seconds = start.elapsed().as_secs_f64();
        let commits = before.zip(commits()).map(|(before, after)| after.saturating_sub(before));
        crowd.leave()?;
        self.rounds.push(NameRound { done, commits, seconds });
        Ok(())
    }

    fn name(&self) -> String {
        let stable = if self.stable { "on" } else { "off" };
        let (clients, depth) = self.crowd;
        format!(
            "{:2} in flight, stable_names {stable:3}, delegations {:4}",
            clients * depth,
            self.stand.delegations
        )
    }
}

fn report(output: &mut BenchOutput, disk: &str, cases: &[NameCase<'_>]) {
    println!("\n{disk}: changes a second, median [interval]; made, renamed, removed: median of their p50");
    for case in cases {
        let name = format!("names, {disk}, {}", case.name());
        let rate = case.rounds.iter().map(|round| round.done.count() as f64 / round.seconds);
        let mut figures = vec![BenchFigure::of("", &name, "1/s", rate)];
        for (kind, what) in ["made", "renamed", "removed"].into_iter().enumerate() {
            let p50 = case.rounds.iter().map(|round| round.done.p50_us(kind));
            figures.push(BenchFigure::of(what, format!("{name}: p50 {what}"), "µs", p50).brief());
        }
        let shared = |round: &NameRound| {
            Some(round.done.count() as f64 / round.commits.filter(|count| *count > 0 && case.stable)? as f64)
        };
        let row = format!("{name}: changes a commit of the journal");
        let shared = case.rounds.iter().filter_map(shared);
        figures.push(BenchFigure::of("a commit of the journal", row, "changes", shared).brief());
        output.line(&case.name(), figures);
    }
}
