//! One line for each sample, for spreadsheets and scripts.

use bench::Unit;
use bench::measuring::{CaseRecord, Record};
use std::fmt::Write;

const HEAD: &str = "group,side,repetition,warm_up,rate,unit,operations,bytes,seconds,offered,unserved,mean_us,p50_us,p90_us,p99_us,p999_us,max_us,client_cpu_seconds,server_cpu_seconds,failed";

/// Columns between those of a case and the reason of its failure.
const OF_SAMPLE: usize = 17;

/// Writes all samples; axes and counters are in the JSON. Samples of a failed case have the reason
/// in the last column, and a failed case without samples has a line with nothing else.
pub fn csv(record: &Record) -> String {
    let mut out = format!("{HEAD}\n");
    for case in &record.cases {
        let unit = match case.unit {
            Unit::MegabytesPerSecond => "MB/s",
            Unit::OperationsPerSecond => "IOPS",
        };
        let failed = quoted(&failed(record, case));
        if case.samples.is_empty() && !failed.is_empty() {
            let nothing = ",".repeat(OF_SAMPLE);
            let _ = writeln!(out, "{},{}{nothing},{failed}", quoted(&case.group), quoted(&case.variant));
        }
        for sample in &case.samples {
            let latency = sample.latency.as_ref();
            let figures = [
                sample.offered,
                Some(sample.unserved as f64),
                latency.map(|latency| latency.mean_us),
                latency.map(|latency| latency.p50_us),
                latency.map(|latency| latency.p90_us),
                latency.map(|latency| latency.p99_us),
                latency.map(|latency| latency.p999_us),
                latency.map(|latency| latency.max_us),
                sample.client_cpu_seconds,
                sample.server_cpu_seconds,
            ];
            let figures = figures.map(|figure| figure.map_or(String::new(), |figure| figure.to_string()));
            let _ = writeln!(
                out,
                "{},{},{},{},{},{unit},{},{},{},{},{failed}",
                quoted(&case.group),
                quoted(&case.variant),
                sample.repetition,
                sample.warm_up,
                sample.rate(case.unit),
                sample.operations,
                sample.bytes,
                sample.seconds,
                figures.join(",")
            );
        }
    }
    out
}

/// Returns the reason why a case has no figures; empty if it has.
fn failed(record: &Record, case: &CaseRecord) -> String {
    match record.failure(&case.group, &case.variant) {
        Some(missing) => missing.reason.clone(),
        None if record.is_skipped(&case.variant) && case.figures.is_none() => {
            record.blank(&case.group, &case.variant)
        }
        None => String::new(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
