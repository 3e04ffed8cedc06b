//! The time of the server's stages with each flavor, as Orthrus reports it.

use crate::form::{digits, percent};
use crate::{Chart, PageView, Plot, Stacks, StageStack, Table};
use bench::measuring::{CaseRecord, Interval, LoadLevel, Part, Record, STAGES, Unit};

/// Title of the charts, and of the table.
const TITLE: &str = "Where the server's time goes";
pub(crate) const TABLE: &str = "Where the server's time goes: figures";

const MEBIBYTE: f64 = 1_048_576.0;

const HOW: &str = "The mean time at the server in µs, reported by the server itself; medians over the \
    repetitions. Streams (MB/s) are counted per MiB, because flavors may cut them into calls of \
    different sizes; all other loads are counted per call. Work is the elapsed time of a thread, \
    which the requests of a batch share; on a busy machine it includes waiting for a core: unwrap \
    (verify and decrypt), execute (decode, run, encode, wait for the disk), wrap (sign and encrypt) \
    and send (to the kernel). In queue, a request waits until its batch begins. A call is one RPC \
    request; an operation of the case may take several.";

/// Adds charts and a table to a page if the server published its stages.
pub(crate) fn add(view: &mut PageView, record: &Record) {
    let groups: Vec<&str> = record.groups().into_iter().filter(|group| is_telling(record, group)).collect();
    let mut table = Table::new(
        TABLE,
        HOW,
        &["case", "queue", "unwrap", "execute", "wrap", "send", "work", "(un)wrap", "per"],
    );
    for group in groups {
        let cases = || record.cases.iter().filter(|case| case.group == group);
        let rows: Vec<StageStack> = cases().filter_map(stack).collect();
        if rows.is_empty() {
            continue;
        }
        for case in cases() {
            let Some(stack) = stack(case) else { continue };
            let protection = (stack.stages[0] + stack.stages[2]) / stack.work().max(f64::MIN_POSITIVE);
            let times = [stack.wait].into_iter().chain(stack.stages).chain([stack.work()]);
            let per = per(case.unit).to_owned();
            table.measured(case.id(), times.map(digits).chain([percent(protection), per]).collect());
        }
        let [wait, stages @ ..] = STAGES.map(str::to_owned);
        let plot = Plot::Stacks(Stacks { wait, stages, rows });
        let unit = cases().next().map_or("call", |case| per(case.unit));
        let title = format!("{group}, per {unit}");
        view.charts.push(Chart { section: TITLE.to_owned(), title, plot });
    }
    if !table.rows.is_empty() {
        view.tables.push(table);
    }
}

/// Says in a sentence that the server did not tell; nothing where it did.
pub fn stages_note(record: &Record) -> Option<String> {
    let told =
        record.cases.iter().any(|case| case.samples.iter().any(|sample| sample.server_stages.is_some()));
    let measured = record.cases.iter().any(|case| case.figures.is_some());
    (measured && !told).then(|| {
        "Where the server's time went is unknown: it is not Orthrus, or its metrics endpoint was not named (--server-metrics).".to_owned()
    })
}

fn per(unit: Unit) -> &'static str {
    match unit {
        Unit::OperationsPerSecond => "call",
        Unit::MegabytesPerSecond => "MiB",
    }
}

/// The stages of a case: of one request, or of one MiB where the case moves a stream. Variants may
/// cut a stream into calls of different sizes, so that one call says nothing about the cost.
fn stack(case: &CaseRecord) -> Option<StageStack> {
    let times = case.figures.as_ref()?.server_stages.as_ref()?;
    let [wait, stages @ ..] = match case.unit {
        Unit::OperationsPerSecond => times.all().map(|interval| interval.median),
        Unit::MegabytesPerSecond => per_mebibyte(case)?,
    };
    Some(StageStack { variant: case.variant.clone(), wait, stages })
}

fn per_mebibyte(case: &CaseRecord) -> Option<[f64; STAGES.len()]> {
    let mut medians = [0.0; STAGES.len()];
    for (stage, median) in medians.iter_mut().enumerate() {
        let times = case.counted().map(|sample| {
            let seconds = sample.server_stages.as_ref()?.seconds()[stage];
            Some(seconds * 1e6 / (sample.bytes as f64 / MEBIBYTE))
        });
        *median = Interval::of(times.collect::<Option<Vec<f64>>>()?)?.median;
    }
    Some(medians)
}

/// Selects the loads of the highest rate among the many of an evaluation: pure reads, pure writes
/// and metadata. The others lie between them.
fn is_telling(record: &Record, group: &str) -> bool {
    let Some(case) = record.cases.iter().find(|case| case.group == group) else { return false };
    let axes = &case.axes;
    let pure = axes.writes().is_none_or(|writes| writes == 0 || writes == 100);
    let part = axes.part().is_none_or(|part| matches!(part, Part::Small | Part::Large));
    let ordered = axes.connections().is_none_or(|axes| !axes.reordered);
    pure && part && ordered && axes.level() != Some(LoadLevel::Low)
}
