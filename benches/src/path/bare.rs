//! Sequential reads with `sys` beside a bare loop that preads the same file and sends the same
//! bytes.

use super::LENGTH;
use super::rows::{ExportStore, SEQUENTIAL_READ};
use crate::load::{FILE_SIZE, LoadedSessions};
use crate::output::{BenchFigure, BenchOutput, Floor};
use crate::test_bed::TestBed;
use crate::{flow, stopped};
use anyhow::Context;
use bench::measuring::{Sample, compare};
use bench::{Flavor, Unit};
use std::fs::File;
use std::sync::atomic::AtomicBool;

/// The minimum ratio of the program to the loop, in bytes for each second of processor time.
const FLOOR: Floor = Floor::AtLeast(0.95);

/// Measures both in turns.
pub(super) fn measure(
    output: &mut BenchOutput,
    test_bed: &TestBed,
    rounds: u32,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut server = test_bed.target(ExportStore::Tmpfs.export());
    let load = (Flavor::Sys, SEQUENTIAL_READ);
    let mut sessions = LoadedSessions::prepare(&mut server, "bare", load, FILE_SIZE, stop)?;
    let file = File::open(test_bed.export().join(sessions.file())).context("the client's file")?;
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        own.extend(sessions.repeat(round, LENGTH)?);
        bare.push(Sample { repetition: round, ..flow::stream(test_bed.cores(), &file, LENGTH)? });
        if stopped(stop) {
            return Ok(());
        }
    }
    sessions.finish()?;

    println!(
        "\nseqread sys beside a bare loop: pread of 1 MiB, send, on the server's core; the client's core receives as the client does"
    );
    let unit = Unit::MegabytesPerSecond;
    for (name, measured) in [("orthrus", &own), ("bare", &bare)] {
        let row = |what: &str| format!("seqread sys beside a bare loop: {name}, {what}");
        output.line(name, super::flavors::raw(&row, unit, measured));
    }
    let cost = compare(&own, &bare, |a, b| Some(b.server_cost(unit)? / a.server_cost(unit)?));
    let cost = BenchFigure::new("", "seqread sys against bare loop", "of the loop's", cost).floor(FLOOR);
    output.line("bytes a second of the core", [cost]);
    let rate = compare(&own, &bare, |a, b| Some(a.rate(unit) / b.rate(unit)));
    output.line("rate", [BenchFigure::new("", "seqread sys against bare loop, rate", "of the loop's", rate)]);
    Ok(())
}
