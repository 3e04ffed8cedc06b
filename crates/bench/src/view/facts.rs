//! Where and how a run was made.

use super::form::utc;
use crate::measuring::Record;

/// Returns names and values of what the figures depend on.
pub fn facts(record: &Record) -> Vec<(&'static str, String)> {
    let (machine, settings) = (&record.environment, &record.settings);
    vec![
        ("Server", record.target.clone()),
        ("Processor", format!("{}, {} cores", machine.processor, machine.cores)),
        ("Instructions", machine.instructions.join(", ")),
        ("Memory", format!("{:.0} GiB", machine.memory_bytes as f64 / (1u64 << 30) as f64)),
        ("Kernel", machine.kernel.clone()),
        ("Encryption type", machine.enctype.clone().unwrap_or_else(|| "unknown".into())),
        ("Program", machine.program.clone()),
        (
            "Plan",
            format!(
                "{} repetitions of {} s of each case, interleaved (all sides, then all sides again), after a warm-up of each; files of {} MiB for each side",
                settings.repetitions,
                settings.seconds,
                settings.file_size >> 20
            ),
        ),
        (
            "Method",
            "figures are medians of the repetitions, all of which are kept; intervals are those of order statistics, at 95 % \
             where there are six repetitions or more, else from the least to the greatest; ratios are of repetitions that ran \
             side by side; every byte that is read is compared with what was written; writes need not be stable until the \
             COMMIT at the end of each repetition, which counts"
                .to_owned(),
        ),
        ("Started", utc(record.started_at)),
    ]
}
