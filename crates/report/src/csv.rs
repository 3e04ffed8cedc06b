//! One line for each sample, for spreadsheets and scripts.

use bench::Unit;
use bench::measuring::Record;
use std::fmt::Write;

const HEAD: &str = "group,side,repetition,warm_up,rate,unit,operations,bytes,seconds,offered,unserved,mean_us,p50_us,p90_us,p99_us,p999_us,max_us,client_cpu_seconds,server_cpu_seconds";

/// Writes all samples; axes and counters are in the JSON.
pub fn csv(record: &Record) -> String {
    let mut out = format!("{HEAD}\n");
    for case in &record.cases {
        let unit = match case.unit {
            Unit::MegabytesPerSecond => "MB/s",
            Unit::OperationsPerSecond => "IOPS",
        };
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
                "{},{},{},{},{},{unit},{},{},{},{}",
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

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
