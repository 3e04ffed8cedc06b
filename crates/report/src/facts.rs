//! Where and how a run was made.

use super::form::{latency, utc};
use bench::measuring::Record;

/// Returns the conditions of a run as names and values.
pub(crate) fn facts(record: &Record) -> Vec<(&'static str, String)> {
    let machine = &record.environment;
    let [plan, method] = plan_and_method(record);
    let mut facts = vec![
        ("Server", record.target.clone()),
        ("Processor", format!("{}, {} cores", machine.processor, machine.cores)),
        ("Instructions", machine.instructions.join(", ")),
        ("Memory", format!("{:.0} GiB", machine.memory_bytes as f64 / (1u64 << 30) as f64)),
        ("Kernel", machine.kernel.clone()),
        ("Encryption type", machine.enctype.clone().unwrap_or_else(|| "unknown".into())),
        ("Program", machine.program.clone()),
        ("Plan", plan),
        ("Method", method),
        ("Started", utc(record.started_at)),
    ];
    facts.extend(machine.link.map(|link| ("Network", link.words())));
    facts
}

/// Describes loads, repetitions and statistics. Copies run to their end; other loads run for a
/// fixed time.
fn plan_and_method(record: &Record) -> [String; 2] {
    let settings = &record.settings;
    let interleaved = "of each case, interleaved, after a warm-up of each";
    let drawn = "figures are medians of the repetitions, all of which are kept; intervals are those of order statistics, at 95 % \
         where there are six repetitions or more, else from the least to the greatest; ratios are of repetitions that ran \
         side by side";
    if record.is_of_copies() {
        return [
            format!("{} repetitions {interleaved}", settings.repetitions),
            format!(
                "{drawn}; where an average is named, it is the mean with Student's 95 % interval. A copy is timed from its beginning until \
                 what copies says that it is done: for NFS all is then on the server's stable storage, for SCP it need not be. The warm-up's copies \
                 are compared with their source, and all that is read with what was written"
            ),
        ];
    }
    let (seconds, mebibytes) = (settings.seconds, settings.file_size >> 20);
    [
        format!(
            "{} repetitions of {} {interleaved}; files of {mebibytes} MiB for each flavor",
            settings.repetitions,
            latency(seconds * 1e6)
        ),
        if record.environment.mounts.is_empty() {
            format!(
                "{drawn}; every byte that is read is compared with what was written; writes need not be stable until the \
                 COMMIT at the end of each repetition, which counts"
            )
        } else {
            format!(
                "{drawn}; reads and writes are fio's (libaio, past the client's cache on NFS, fsync at the end), which does not compare \
                 what it reads; metadata is git's, and an operation is a file that a command has to make, look at or remove"
            )
        },
    ]
}
