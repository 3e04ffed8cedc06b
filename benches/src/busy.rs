//! The effect of busy clients on the latency of another one.
//!
//! All clients share the client's core, and the figures must show the server. So the threads of the
//! busy clients run under SCHED_IDLE: whenever the other client has work, which is rare, the kernel
//! takes the core from them at once. The remaining time is enough to keep the server busy.

use super::output::{BenchFigure, BenchOutput, Floor};
use anyhow::{Context, ensure};
use bench::measuring::{Interval, Sample};
use nix::unistd::gettid;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The p99 latency beside the others, in times that without them.
pub(crate) const FLOOR: Floor = Floor::AtMost(3.0);

/// A piece of the work of a busy client, which is repeated.
pub(crate) type BusyWork<'a> = Box<dyn FnMut() -> anyhow::Result<()> + Send + 'a>;

/// Runs `work` while threads of their own repeat the others' work. They begin `lead_in` earlier.
///
/// # Errors
/// The errors of all of them, and an error if the system does not let a thread step back.
pub(crate) fn beside<T>(
    others: Vec<BusyWork<'_>>,
    lead_in: Duration,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let enough = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = |mut other: BusyWork<'_>| {
            step_back()?;
            while !enough.load(Ordering::Relaxed) {
                other()?;
            }
            anyhow::Ok(())
        };
        let threads: Vec<_> = others.into_iter().map(|other| scope.spawn(move || busy(other))).collect();
        std::thread::sleep(lead_in);
        let done = work();
        enough.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().ok().context("a busy client panicked")??;
        }
        done
    })
}

/// Gives the calling thread the policy SCHED_IDLE.
fn step_back() -> anyhow::Result<()> {
    schedule(["--idle", "0"])
}

/// Runs `work` under the policy SCHED_RR: the calling thread takes a core from others at once, as
/// if it had one of its own.
///
/// # Errors
/// The errors of the work, and an error if the system does not let a thread step forward.
pub(crate) fn ahead<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    schedule(["--rr", "1"])?;
    let done = work();
    schedule(["--other", "0"])?;
    done
}

/// Gives the calling thread a policy and a priority, by util-linux' chrt.
fn schedule([policy, priority]: [&str; 2]) -> anyhow::Result<()> {
    let thread = gettid().to_string();
    let status = Command::new("chrt").args([policy, "--pid", priority, &thread]).status();
    ensure!(status.context("chrt did not start")?.success(), "chrt {policy} failed; --rr needs root");
    Ok(())
}

/// Reports the latencies of rounds, each without the others and with them, under the names of both
/// conditions.
pub(crate) fn report(
    output: &mut BenchOutput,
    name: &str,
    [without, with]: [&str; 2],
    (ratio, floor): (&str, Floor),
    rounds: &[(Sample, Sample)],
) {
    println!("\n{name}");
    for (condition, second) in [(without, false), (with, true)] {
        let each = |value: fn(&Sample) -> Option<f64>| {
            Interval::of(rounds.iter().filter_map(|(one, two)| value(if second { two } else { one })))
        };
        let figure = |what: &str, unit, value: fn(&Sample) -> Option<f64>| {
            BenchFigure::new(what, format!("{name}, {what} {condition}"), unit, each(value))
        };
        let busy = figure("server busy", "of a core", |one| Some(one.busy(one.server_cpu_seconds?)));
        let p50 = figure("p50", "µs", Sample::p50_us).brief();
        output.line(condition, [p50, figure("p99", "µs", Sample::p99_us), busy.brief()]);
    }
    let ratios = rounds.iter().filter_map(|(one, two)| Some(two.p99_us()? / one.p99_us()?));
    let row = format!("{name}, p99 {ratio}");
    output.line(&format!("p99 {ratio}"), [BenchFigure::of("", row, "ratio", ratios).floor(floor)]);
}
