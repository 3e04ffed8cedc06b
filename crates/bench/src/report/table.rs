//! The table for the terminal.

use super::format;
use crate::{Report, Series, Workload};

/// Renders a table of at most 100 columns; nothing but text, so that it can be piped.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    let head = ["", "rate", "to sys", "", "p50", "p99", "client CPU", "server CPU"];
    out.push_str(&line(&head.map(String::from)));
    for workload in Workload::ALL {
        let series: Vec<&Series> =
            report.series.iter().filter(|series| series.workload == workload).collect();
        if series.is_empty() {
            continue;
        }
        out.push_str(&format!("\n{}\n", workload.title()));
        series.into_iter().for_each(|series| out.push_str(&row(series)));
    }
    for missing in &report.left_out {
        out.push_str(&format!("\n{} was not measured: {}\n", missing.flavor.name(), missing.reason));
    }
    if !report.complete {
        let why = report.stopped_by.as_deref().unwrap_or("interrupted");
        out.push_str(&format!("\nNot complete: {why}\n"));
    }
    out
}

fn row(series: &Series) -> String {
    let summary = &series.summary;
    let unit = format::cpu_unit(series.unit);
    let cpu = |value: f64| format!("{} {unit}", format::digits(value));
    line(&[
        format!("  {}", series.flavor.name()),
        format::rate(summary.rate.median, series.unit),
        summary.ratio_to_sys.map_or("-".into(), |ratio| format::percent(ratio.median)),
        format::spread(&summary.rate),
        format::latency(summary.p50_us.median),
        format::latency(summary.p99_us.median),
        cpu(summary.client_cpu.median),
        summary.server_cpu.map_or("unknown".into(), |spread| cpu(spread.median)),
    ])
}

fn line(cells: &[String; 8]) -> String {
    let [name, rate, ratio, spread, p50, p99, client, server] = cells;
    let text =
        format!("{name:9} {rate:>13} {ratio:>7} {spread:>6} {p50:>9} {p99:>9} {client:>13} {server:>13}");
    text.trim_end().to_owned() + "\n"
}
