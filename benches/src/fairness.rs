//! The effect of one client's stream on another client: the latency of metadata operations with and
//! without it.

use super::busy::{BusyWork, beside, report};
use super::load::{self, FILE_SIZE, LoadedSessions, METADATA};
use super::output::{BenchFigure, BenchOutput};
use super::stopped;
use super::test_bed::TestBed;
use bench::Flavor;
use bench::measuring::Load;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interleaved rounds, and how long each half of one counts.
const ROUNDS: u32 = 7;
const LENGTH: Duration = Duration::from_millis(1000);

/// How long the stream runs before the other client is looked at.
const LEAD_IN: Duration = Duration::from_millis(200);

/// The stream: 1 MiB reads, as deep as the sequential rows of the other benchmarks, and how long it
/// goes on at once.
const STREAM: Load = load::sequential(false, 16, 1 << 20);
const SLICE: Duration = Duration::from_millis(100);

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work, or the system does not let a thread step back.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let test_bed = TestBed::start()?;
    output.note(&format!("{}; one shard", test_bed.cores().describe()));
    output.note("first client: krb5p, reads of 1 MiB, 16 in flight; second client: the metadata mix, one operation at a time");
    output.note("the first client's thread has the scheduling policy SCHED_IDLE: it never keeps the second one from the client's core");
    let seconds = LENGTH.as_secs_f64();
    output.note(&format!(
        "median [interval] of {ROUNDS} rounds, each {seconds:.0} s without and {seconds:.0} s with the stream"
    ));
    for flavor in [Flavor::Sys, Flavor::Krb5p] {
        let (mut rounds, mut rates) = (Vec::new(), Vec::new());
        let mut servers = [test_bed.target("/data"), test_bed.target("/data")];
        let [first, second] = &mut servers;
        let load = (Flavor::Krb5p, STREAM);
        let mut stream = LoadedSessions::prepare(first, "stream", load, FILE_SIZE, stop)?;
        let mut other = LoadedSessions::prepare(second, "other", (flavor, METADATA), FILE_SIZE, stop)?;
        for round in 0..ROUNDS {
            let mut measure = || other.repeat(round, LENGTH);
            let alone = measure()?;
            let (mut bytes, mut seconds) = (0, 0.0);
            let streaming: BusyWork<'_> = Box::new(|| {
                let one = stream.plain(SLICE)?.unwrap_or_default();
                (bytes, seconds) = (bytes + one.bytes, seconds + one.seconds);
                Ok(())
            });
            let second = beside(vec![streaming], LEAD_IN, measure)?;
            if stopped(stop) {
                return Ok(());
            }
            rates.push(bytes as f64 / 1e6 / seconds);
            rounds.extend(alone.zip(second));
        }
        let name = format!("fairness {}", flavor.name());
        report(output, &name, ["without the stream", "with the stream"], "with/without", &rounds);
        let rate = BenchFigure::of("", format!("{name}, rate of the stream"), "MB/s", rates);
        output.line("the stream", [rate.brief()]);
        other.finish()?;
        stream.finish()?;
    }
    Ok(())
}
