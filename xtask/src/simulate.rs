//! `cargo xtask simulate`: plays seeds of the simulation and prints the violations of each.

use anyhow::{Context, bail, ensure};
use serde_json::json;
use sim::{ClusterFault, ClusterOutcome, Mutation, SimOutcome, TraceDetail, Violation};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed seeds after which no more are played.
const FAILED_ENOUGH: usize = 20;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Arguments of `cargo xtask simulate`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of seeds to play.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Number of the first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Play only this seed.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Print the trace of the seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Build in a deliberate fault, which the checker has to find: reply-cache-bypassed,
    /// journal-not-synced, locks-shared, commit-forgets, verifier-stays, sync-after-reply,
    /// deny-ignored, recall-not-awaited, seqid-ignored, gss-window-ignored, context-kept,
    /// principal-ignored, v40-not-recorded or old-serves-on.
    #[arg(long, default_value = "none")]
    mutation: Mutation,
    /// Play clusters of two or three gateways over one storage, instead of one server. 10,000 seeds
    /// take four minutes of processor time with an xtask built with `--release`.
    #[arg(long, conflicts_with = "mutation")]
    cluster: bool,
    /// Build a deliberate fault into a cluster: writes-blindly, enforces-never, answers-forever,
    /// stays-replaced, fences-nobody, trusts-lost-sessions, records-lost or releases-early.
    #[arg(long, default_value = "none", requires = "cluster")]
    fault: ClusterFault,
    /// Threads; as many as there are cores if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Write a summary as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The outcome of a seed, with one server or with a cluster.
struct Played {
    seed: u64,
    events: u64,
    /// Crashes of the server, or processes of gateways that have ended.
    crashes: usize,
    upgrades: usize,
    time: Duration,
    violations: Vec<Violation>,
    trace: Vec<String>,
}

impl Played {
    /// Plays a seed of the chosen simulation.
    fn of(arguments: &Arguments, seed: u64, detail: TraceDetail) -> Self {
        if !arguments.cluster {
            let SimOutcome { seed, events, crashes, upgrades, time, violations, trace, .. } =
                sim::run(seed, arguments.mutation, detail);
            return Self { seed, events, crashes, upgrades, time, violations, trace };
        }
        let ClusterOutcome { seed, events, processes, time, violations, trace, .. } =
            sim::run_cluster(seed, arguments.fault, detail);
        Self { seed, events, crashes: processes, upgrades: 0, time, violations, trace }
    }
}

/// Totals of all seeds played.
#[derive(Default)]
struct Summary {
    played: u64,
    events: u64,
    crashes: usize,
    upgrades: usize,
    simulated: Duration,
    failed: Vec<Played>,
}

/// Plays the seeds of the arguments.
///
/// # Errors
/// Fails if the checker finds a violation, or the summary cannot be written.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.trace {
        let outcome = Played::of(arguments, arguments.seed.unwrap_or_default(), TraceDetail::Lines);
        let mut out = std::io::stdout().lock();
        // A reader such as `head` may stop early.
        let _ = outcome.trace.iter().try_for_each(|line| writeln!(out, "{line}"));
        drop(out);
        report(arguments, &outcome);
        return end(arguments, &Summary::of([outcome]), Duration::ZERO);
    }
    let (from, seeds) = arguments.seed.map_or((arguments.from, arguments.seeds), |seed| (seed, 1));
    let end_seed = from.checked_add(seeds).context("there are no seeds that high")?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(cores).max(1);
    let (next, summary, began) = (AtomicU64::new(from), Mutex::new(Summary::default()), Instant::now());
    let last = Mutex::new(began);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= end_seed {
                        return;
                    }
                    let outcome = Played::of(arguments, seed, TraceDetail::HashOnly);
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    report(arguments, &outcome);
                    summary.add(outcome);
                    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                    if last.elapsed() >= PROGRESS {
                        *last = Instant::now();
                        println!("{} of {seeds} seeds, {} failed", summary.played, summary.failed.len());
                    }
                    if summary.failed.len() >= FAILED_ENOUGH {
                        next.store(end_seed, Relaxed);
                    }
                }
            });
        }
    });
    end(arguments, &summary.into_inner().unwrap_or_else(PoisonError::into_inner), began.elapsed())
}

impl Summary {
    fn of(outcomes: impl IntoIterator<Item = Played>) -> Self {
        let mut summary = Self::default();
        outcomes.into_iter().for_each(|outcome| summary.add(outcome));
        summary
    }

    fn add(&mut self, outcome: Played) {
        self.played += 1;
        self.events += outcome.events;
        self.crashes += outcome.crashes;
        self.upgrades += outcome.upgrades;
        self.simulated += outcome.time;
        if !outcome.violations.is_empty() {
            self.failed.push(outcome);
            self.failed.sort_by_key(|outcome| outcome.seed);
        }
    }
}

/// Prints the violations of a seed at once: a long run may be interrupted.
fn report(arguments: &Arguments, outcome: &Played) {
    if outcome.violations.is_empty() {
        return;
    }
    let options = options(arguments);
    println!("seed {}: cargo xtask simulate{options} --seed {} --trace", outcome.seed, outcome.seed);
    outcome.violations.iter().take(5).for_each(|violation| println!("  {violation}"));
    if outcome.violations.len() > 5 {
        println!("  and {} more", outcome.violations.len() - 5);
    }
}

/// Prints the totals of all seeds.
fn end(arguments: &Arguments, summary: &Summary, took: Duration) -> anyhow::Result<()> {
    let counted = match arguments.cluster {
        true => format!("{} processes of gateways", summary.crashes),
        false => format!("{} crashes of the server, {} upgrades", summary.crashes, summary.upgrades),
    };
    println!(
        "{} seeds: {} events, {counted}, {:.1} hours simulated, in {:.0} s; {} failed",
        summary.played,
        summary.events,
        summary.simulated.as_secs_f64() / 3600.0,
        took.as_secs_f64(),
        summary.failed.len(),
    );
    if let Some(path) = &arguments.json {
        write_json(path, arguments, summary, took)?;
    }
    ensure!(summary.played > 0, "no seed was played");
    if !summary.failed.is_empty() {
        bail!("{} of {} seeds failed", summary.failed.len(), summary.played);
    }
    Ok(())
}

/// Returns the options that choose the simulation and its fault.
fn options(arguments: &Arguments) -> String {
    match (arguments.cluster, arguments.fault, arguments.mutation) {
        (true, ClusterFault::None, _) => " --cluster".to_owned(),
        (true, fault, _) => format!(" --cluster --fault {}", fault.name()),
        (false, _, Mutation::None) => String::new(),
        (false, _, mutation) => format!(" --mutation {}", mutation.name()),
    }
}

fn write_json(path: &Path, arguments: &Arguments, summary: &Summary, took: Duration) -> anyhow::Result<()> {
    let failed: Vec<_> = summary
        .failed
        .iter()
        .map(|outcome| {
            let violations: Vec<_> = outcome
                .violations
                .iter()
                .map(|violation| json!({ "property": violation.property, "detail": violation.detail }))
                .collect();
            json!({ "seed": outcome.seed, "violations": violations })
        })
        .collect();
    let json = json!({
        "from": arguments.seed.unwrap_or(arguments.from),
        "seeds": summary.played,
        "cluster": arguments.cluster,
        "mutation": arguments.mutation.name(),
        "fault": arguments.fault.name(),
        "events": summary.events,
        "crashes": summary.crashes,
        "upgrades": summary.upgrades,
        "simulated_seconds": summary.simulated.as_secs(),
        "seconds": took.as_secs_f64(),
        "failed": failed,
    });
    let text = serde_json::to_string_pretty(&json)? + "\n";
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
