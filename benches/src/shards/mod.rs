//! One shard and two: the mutual cost of threads that serve at once.
//!
//! The benchmark has no sockets, so that client and kernel take no time of the cores: threads call
//! the server as shards do. A server that scales has twice the rate with two threads, and the same
//! processor time for each call.

mod caller;
mod inside;
mod worker;

use super::output::{BenchFigure, BenchOutput};
use super::{Skipped, stopped};
use inside::{ShardSample, ShardWork};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use worker::ShardWorker;

/// Interleaved rounds of each row.
const ROUNDS: usize = 15;

/// How long each repetition runs.
const LENGTH: Duration = Duration::from_millis(100);

/// A row: its name, its work, and whether both threads use one session.
const ROWS: [(&str, ShardWork, bool); 6] = [
    ("SEQUENCE sys", ShardWork::Sequence, false),
    ("read 4 KiB sys", ShardWork::Read, false),
    ("read 4 KiB sys, one session", ShardWork::Read, true),
    ("OPEN CLOSE sys", ShardWork::OpenClose, false),
    ("LOCK LOCKU sys", ShardWork::Lock, false),
    ("read 4 KiB krb5", ShardWork::ReadKrb5, false),
];

/// Measures the rows, one after the other.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    if std::thread::available_parallelism()?.get() < 2 {
        anyhow::bail!(Skipped("two threads need two cores".to_owned()));
    }
    output.note(&format!(
        "in one process, without sockets, memory backend; ticks of {} calls; {ROUNDS} interleaved rounds of {} ms;",
        worker::DEPTH,
        LENGTH.as_millis()
    ));
    output.note("calls a second, and processor time for each call; median, smallest and largest");
    for (name, work, together) in ROWS {
        let samples = row(work, together, stop)?;
        if stopped(stop) {
            return Ok(());
        }
        report(output, name, &samples);
    }
    Ok(())
}

/// Measures one thread and two in turn.
fn row(work: ShardWork, together: bool, stop: &AtomicBool) -> anyhow::Result<Vec<[ShardSample; 2]>> {
    let server = inside::server()?;
    let first = ShardWorker::new(&server, 1)?;
    let second = if together { first.beside(2) } else { ShardWorker::new(&server, 2)? };
    let mut workers = [first, second];
    for worker in &mut workers {
        worker.choose(&server, work)?;
    }
    let mut samples = Vec::new();
    for round in 0..=ROUNDS {
        let [first, _] = &mut workers;
        let alone = inside::measure(&server, std::slice::from_mut(first), LENGTH, stop)?;
        let both = inside::measure(&server, &mut workers, LENGTH, stop)?;
        // The first round warms up.
        if round > 0 && !stopped(stop) {
            samples.push([alone, both]);
        }
    }
    Ok(samples)
}

fn report(output: &mut BenchOutput, name: &str, samples: &[[ShardSample; 2]]) {
    type Column = fn(&[ShardSample; 2]) -> f64;
    let columns: [(&str, &str, Column); 6] = [
        ("1 thread", "calls/s", |[one, _]| one.rate),
        ("2 threads", "calls/s", |[_, two]| two.rate),
        ("2 to 1", "ratio", |[one, two]| two.rate / one.rate),
        ("cpu/call 1 thread", "us", |[one, _]| one.cpu_us),
        ("cpu/call 2 threads", "us", |[_, two]| two.cpu_us),
        ("cpu/call 2 to 1", "ratio", |[one, two]| two.cpu_us / one.cpu_us),
    ];
    let figure = |(column, unit, value): (&str, &'static str, Column)| {
        let figure = BenchFigure::of(column, format!("{name}: {column}"), unit, samples.iter().map(value));
        if unit == "ratio" { figure } else { figure.brief() }
    };
    output.line(name, columns.map(figure));
}
