//! The effect of one client's stream on another client: the latency of metadata operations with and
//! without it.
//!
//! Both clients share the client's core, and the figure must show the server. So the stream's
//! thread runs under SCHED_IDLE: whenever the other client has work, which is rare, the kernel
//! takes the core from the stream at once. The remaining time is enough to keep the server busy,
//! which the output shows.

use super::load_target::{LoadTarget, TargetLoad};
use super::output::{BenchOutput, Floor};
use super::test_bed::TestBed;
use super::{RunEnd, stopped};
use anyhow::{Context, ensure};
use bench::measuring::{Interval, Sample};
use bench::{Endpoint, ExportMount, Flavor};
use nix::unistd::gettid;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interleaved rounds, and how long each half of one counts.
const ROUNDS: u32 = 7;
const LENGTH: Duration = Duration::from_millis(1000);

/// How long the stream runs before the other client is looked at.
const LEAD_IN: Duration = Duration::from_millis(200);

/// The stream: 1 MiB reads, as deep as the sequential rows of the other benchmarks.
const STREAM: TargetLoad = TargetLoad::sequential(false, 16, 1 << 20);

/// The p99 latency beside the stream, in times that without it.
const FLOOR: Floor = Floor::AtMost(3.0);

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work, or the system does not let a thread step back.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<RunEnd> {
    let test_bed = TestBed::start()?;
    output.note(&format!("{}; one shard", test_bed.cores().describe()));
    output.note("first client: krb5p, reads of 1 MiB, 16 in flight; second client: the metadata mix, one operation at a time");
    output.note("the first client's thread has the scheduling policy SCHED_IDLE: it never keeps the second one from the client's core");
    output.note(&format!(
        "median [interval] of {ROUNDS} rounds, each {:.0} s without and {:.0} s with the stream",
        LENGTH.as_secs_f64(),
        LENGTH.as_secs_f64()
    ));
    let load_target = test_bed.load_target(stop);
    for flavor in [Flavor::Sys, Flavor::Krb5p] {
        let mut rounds = Vec::new();
        let mut stream = load_target.mount("/data", Flavor::Krb5p, load_target.options(Flavor::Krb5p)?)?;
        let mut other = load_target.mount("/data", flavor, load_target.options(flavor)?)?;
        for round in 0..ROUNDS {
            let alone = load_target.repeat(&mut other, TargetLoad::Metadata, round, LENGTH)?;
            let beside = with_stream(&load_target, &mut stream, || {
                load_target.repeat(&mut other, TargetLoad::Metadata, round, LENGTH)
            })?;
            if stopped(stop) {
                return Ok(RunEnd::Interrupted);
            }
            let (second, first) = beside;
            rounds.extend(alone.zip(second).map(|(alone, beside)| FairnessRound {
                alone,
                beside,
                stream: first,
            }));
        }
        report(output, flavor, &rounds);
        other.finish()?;
        stream.finish()?;
    }
    Ok(RunEnd::Complete)
}

/// The second client without and with the stream, and the stream's rate in MB/s.
struct FairnessRound {
    alone: Sample,
    beside: Sample,
    stream: f64,
}

/// Does something while another thread streams; returns the stream's rate in MB/s, too.
fn with_stream<T>(
    load_target: &LoadTarget<'_>,
    mount: &mut ExportMount,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, f64)> {
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let streaming = scope.spawn(|| {
            step_back()?;
            let (mut bytes, mut seconds) = (0, 0.0);
            let slice = Duration::from_millis(100);
            while !enough.load(Ordering::Relaxed) {
                let Some(one) = load_target.plain(mount, STREAM, slice)? else { break };
                bytes += one.bytes;
                seconds += one.seconds;
            }
            anyhow::Ok(bytes as f64 / 1e6 / seconds)
        });
        std::thread::sleep(LEAD_IN);
        let done = work();
        enough.store(true, Ordering::Relaxed);
        let rate = streaming.join().ok().context("the stream panicked")??;
        Ok((done?, rate))
    })
}

/// Gives the calling thread the policy SCHED_IDLE, by util-linux' chrt.
pub(crate) fn step_back() -> anyhow::Result<()> {
    let thread = gettid().to_string();
    let status = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
    ensure!(status.context("chrt did not start")?.success(), "chrt --idle failed");
    Ok(())
}

fn report(output: &mut BenchOutput, flavor: Flavor, rounds: &[FairnessRound]) {
    println!("\nthe second client with {}", flavor.name());
    let name = |what: &str| format!("fairness {}, {what}", flavor.name());
    for (what, with) in [("without the stream", false), ("with the stream", true)] {
        let each = |value: fn(&Sample) -> Option<f64>| {
            Interval::of(
                rounds.iter().filter_map(|round| value(if with { &round.beside } else { &round.alone })),
            )
        };
        let (Some(p50), Some(p99)) = (each(Sample::p50_us), each(Sample::p99_us)) else { continue };
        output.interval(&name(&format!("p50 {what}")), "µs", p50, None);
        output.interval(&name(&format!("p99 {what}")), "µs", p99, None);
        let busy = each(|one| Some(one.busy(one.server_cpu_seconds?)));
        let busy = busy.map_or(0.0, |busy| busy.median * 100.0);
        println!(
            "  {what:18}   p50 {:8.1} µs   p99 {:8.1} µs [{:.1} to {:.1}]   server {busy:3.0} %",
            p50.median, p99.median, p99.low, p99.high
        );
    }
    if let Some(rate) = Interval::of(rounds.iter().map(|round| round.stream)) {
        output.interval(&name("rate of the stream"), "MB/s", rate, None);
        println!("  the stream: {:.0} MB/s", rate.median);
    }
    let ratios = rounds.iter().filter_map(|round| Some(round.beside.p99_us()? / round.alone.p99_us()?));
    if let Some(ratio) = Interval::of(ratios) {
        output.interval(&name("p99 with/without"), "ratio", ratio, Some(FLOOR));
        println!(
            "  p99 with / without: {:5.2} [{:.2} to {:.2}]   {}",
            ratio.median,
            ratio.low,
            ratio.high,
            FLOOR.verdict(ratio.median)
        );
    }
}
