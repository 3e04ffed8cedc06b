//! The processor time of a server that is observed, beside one that is not: with an audit log, and
//! with a trace of another caller.

use super::LENGTH;
use crate::kerberos_site::program;
use crate::load::TransferKind::Read;
use crate::load::{self, FILE_SIZE, LoadedSessions, METADATA};
use crate::output::{BenchFigure, BenchOutput, Floor};
use crate::stopped;
use crate::test_bed::TestBed;
use anyhow::{Context, ensure};
use bench::Flavor;
use bench::measuring::{Load, Sample, compare};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;

/// Rounds for each round of the other rows: the difference is smaller than those of flavors.
const REPEATS: u32 = 3;

/// The processor time of reads beside an audit log or the trace of another caller.
const READ_FLOOR: Floor = Floor::AtMost(1.02);

/// The loads, and the bound on their processor time. The audit log writes lines for changes only.
const LOADS: [(&str, Load, Option<Floor>); 2] =
    [("4 KiB reads, 64 in flight", load::random(Read, 64), Some(READ_FLOOR)), ("metadata", METADATA, None)];

/// Measures both loads without an observer, with a trace, and on a server with an audit log.
pub(super) fn measure(
    output: &mut BenchOutput,
    test_bed: &TestBed,
    rounds: u32,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    println!();
    let rounds = rounds * REPEATS;
    output.note(&format!(
        "sys, {rounds} rounds: processor time of a server with an audit log on tmpfs, and with `orthrus trace` of a \
         principal that makes no call, beside that of one without an observer"
    ));
    let state = private::temporary("orthrus-audited-")?;
    let log = test_bed.export().with_file_name("audit");
    let arguments = ["--squash".into(), "none".into(), "--audit".into(), log.into_os_string()];
    let exports: Vec<OsString> = [test_bed.export().into_os_string()].into_iter().chain(arguments).collect();
    let audited = test_bed.site().serve(test_bed.cores(), state.path(), &exports, None)?;
    for (name, load, floor) in LOADS {
        let audited = test_bed.site().target("orthrus", audited.pid(), audited.address(), "/data");
        let mut targets = [test_bed.target("/data"), audited];
        let [plain, audited] = &mut targets;
        let prepare = |target, name| {
            LoadedSessions::prepare(target, name, (Flavor::Sys, load.clone()), FILE_SIZE, stop)
        };
        let (mut plain, mut audited) = (prepare(plain, "plain")?, prepare(audited, "audited")?);
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for round in 0..rounds {
            let [alone, traced, logged] = &mut samples;
            alone.extend(plain.repeat(round, LENGTH)?);
            logged.extend(audited.repeat(round, LENGTH)?);
            let trace = AttachedTrace::start(&test_bed.work().join("state"))?;
            traced.extend(plain.repeat(round, LENGTH)?);
            drop(trace);
            if stopped(stop) {
                return Ok(());
            }
        }
        report(output, name, &load, floor, &samples);
        plain.finish()?;
        audited.finish()?;
    }
    Ok(())
}

fn report(
    output: &mut BenchOutput,
    name: &str,
    load: &Load,
    floor: Option<Floor>,
    [alone, traced, logged]: &[Vec<Sample>; 3],
) {
    let unit = load::unit(load);
    let ratio = |label: &str, observed: &[Sample]| {
        let cost = compare(observed, alone, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
        BenchFigure::new(label, format!("{name}, {label}, server cpu"), "x", cost).floor(floor)
    };
    let costs = alone.iter().filter_map(|sample| sample.server_cost(unit));
    let alone = BenchFigure::of("server", format!("{name}, not observed"), "µs/op", costs).brief();
    output.line(name, [alone, ratio("audit log", logged), ratio("trace", traced)]);
}

/// A trace of a principal that makes no call; it ends with the value.
struct AttachedTrace {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl AttachedTrace {
    /// Starts a trace, and returns when it has begun.
    fn start(state: &Path) -> anyhow::Result<Self> {
        let program: PathBuf = program()?;
        let mut command = Command::new(program);
        command.args(["trace", "--json", "--principal", "nobody@NOWHERE.TEST", "--state-dir"]).arg(state);
        let mut child = command.stdout(Stdio::piped()).spawn().context("the trace did not start")?;
        let lines = BufReader::new(child.stdout.take().context("the trace has no output")?);
        let mut trace = Self { child, lines };
        let mut line = String::new();
        // The first line is a sign of life.
        trace.lines.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the trace has not begun");
        Ok(trace)
    }
}

impl Drop for AttachedTrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
