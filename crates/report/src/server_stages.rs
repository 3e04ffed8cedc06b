//! Where the server's time goes, of each flavor, as a server tells it that is Orthrus.

use crate::form::{digits, percent};
use crate::{Chart, Plot, Stack, Stacks, Table, View};
use bench::measuring::{CaseRecord, LoadLevel, Part, Record, STAGES};

/// Title of the charts, and of the table.
const TITLE: &str = "Where the server's time goes";
const TABLE: &str = "Where the server's time goes: figures";

const HOW: &str = "The mean time of one request at the server in µs, told by the server itself; medians over the repetitions. Work is a thread's time, which the \
                   requests of a batch share; it is time that passed, and on a busy machine waiting for a core is part of it: unwrap (verify and decrypt), execute (decode, run, encode; a disk that is waited for is part of it), wrap (sign \
                   and encrypt) and send (to the kernel). In queue a request waits until its batch begins: reading what has arrived is part of that, \
                   and no processor works meanwhile for it alone. A request is one call: a case's operation may take several.";

/// Adds charts and a table to what an evaluation shows, where the server told.
pub fn add(view: &mut View, record: &Record) {
    let groups: Vec<&str> = record.groups().into_iter().filter(|group| is_telling(record, group)).collect();
    let mut table = Table::new(
        TABLE,
        HOW,
        &["case", "queue", "unwrap", "execute", "wrap", "send", "work", "unwrap and wrap"],
    );
    for group in groups {
        let cases = || record.cases.iter().filter(|one| one.case.group == group);
        let rows: Vec<Stack> = cases().filter_map(stack).collect();
        if rows.is_empty() {
            continue;
        }
        for one in cases() {
            let Some(stack) = stack(one) else { continue };
            let protection = (stack.stages[0] + stack.stages[2]) / stack.work().max(f64::MIN_POSITIVE);
            let times = [stack.wait].into_iter().chain(stack.stages).chain([stack.work()]);
            table.measured(one.case.id(), times.map(digits).chain([percent(protection)]).collect());
        }
        let [wait, stages @ ..] = STAGES.map(str::to_owned);
        let plot = Plot::Stacks(Stacks { wait, stages, rows });
        view.charts.push(Chart { section: TITLE.to_owned(), title: group.to_owned(), plot });
    }
    if !table.rows.is_empty() {
        view.tables.push(table);
    }
}

/// Says in a sentence that the server did not tell; nothing where it did.
pub fn stages_note(record: &Record) -> Option<String> {
    let told = record.cases.iter().any(|one| one.samples.iter().any(|sample| sample.server_stages.is_some()));
    let measured = record.cases.iter().any(|one| one.figures.is_some());
    (measured && !told).then(|| {
        "Where the server's time went is unknown: it is not Orthrus, or its metrics endpoint was not named (--server-metrics).".to_owned()
    })
}

fn stack(one: &CaseRecord) -> Option<Stack> {
    let times = one.figures.as_ref()?.server_stages.as_ref()?;
    let [wait, stages @ ..] = times.all().map(|interval| interval.median);
    Some(Stack { side: one.case.side.clone(), wait, stages })
}

/// Of the many loads of an evaluation those that look for the most, in order, of pure reads, pure writes and metadata: what lies
/// between is between them.
fn is_telling(record: &Record, group: &str) -> bool {
    let Some(one) = record.cases.iter().find(|one| one.case.group == group) else { return false };
    let axes = &one.case.axes;
    let pure = axes.writes().is_none_or(|writes| writes == 0 || writes == 100);
    let part = axes.part().is_none_or(|part| matches!(part, Part::Small | Part::Large));
    let ordered = axes.connections().is_none_or(|axes| !axes.reordered);
    pure && part && ordered && axes.level() != Some(LoadLevel::Low)
}
