//! Sentences that a reader needs before two runs are compared.

use super::ComparedCase;
use crate::form::latency;
use bench::measuring::Record;

/// Returns the notes on both runs: the incomplete ones, and the conditions that differ.
pub(super) fn notes(names: [&str; 2], records: [&Record; 2], cases: &[ComparedCase]) -> Vec<String> {
    let incomplete = names.into_iter().zip(records).filter(|(_, record)| !record.complete);
    let mut notes: Vec<String> = incomplete
        .map(|(name, record)| {
            let why = record.stopped_by.as_deref().unwrap_or("it was interrupted");
            format!("{name} is not complete: {why}.")
        })
        .collect();
    let [first, second] = records;
    if first.evaluation != second.evaluation {
        notes.push("The runs are of different evaluations.".to_owned());
    }
    notes.extend(differences(names, records));
    let is_confident =
        |case: &ComparedCase| case.rate.first.is_confident() && case.rate.second.is_confident();
    if !cases.is_empty() && !cases.iter().any(is_confident) {
        notes.push(
            "Fewer than six repetitions cannot show a difference, and no case has six in both runs."
                .to_owned(),
        );
    }
    notes
}

/// Returns a sentence on the conditions that differ beside the server; `None` where none do.
fn differences([one, other]: [&str; 2], records: [&Record; 2]) -> Option<String> {
    let [first, second] = records.map(conditions);
    let differs: Vec<String> = first
        .into_iter()
        .zip(second)
        .filter(|((_, first), (_, second))| first != second)
        .map(|((name, first), (_, second))| format!("{name} ({first}; {second})"))
        .collect();
    (!differs.is_empty()).then(|| {
        format!(
            "Beside the server, {one} and {other} differ in {}. Their figures may differ for that reason.",
            differs.join(", ")
        )
    })
}

/// Returns the conditions of a run that its figures depend on, without the server. All runs have
/// the same ones in the same order.
fn conditions(record: &Record) -> Vec<(&'static str, String)> {
    let (machine, settings) = (&record.environment, &record.settings);
    // The text of a plan fills a page; a table has the loads that differ.
    let options = settings.options.iter().filter(|(name, _)| *name != "plan");
    let options = options.map(|(name, value)| format!("{name} {value}"));
    let slots = machine.slots.iter().map(|(variant, slots)| format!("{variant} {slots}"));
    let client = if machine.mounts.is_empty() { "the project\u{2019}s" } else { "mounts" };
    let all = [
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.to_string()),
        ("instructions", machine.instructions.join(" ")),
        ("kernel", machine.kernel.clone()),
        ("program", machine.program.clone()),
        ("encryption type", machine.enctype.clone().unwrap_or_default()),
        ("slots of a session", slots.collect::<Vec<_>>().join(" ")),
        ("network", machine.link.map_or(String::new(), |link| link.to_string())),
        ("client", client.to_owned()),
        ("length of a repetition", latency(settings.seconds * 1e6)),
        ("file size", format!("{} MiB", settings.file_size >> 20)),
        ("options", options.collect::<Vec<_>>().join(" ")),
    ];
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    all.into_iter().map(|(name, value)| (name, or_none(value))).collect()
}
