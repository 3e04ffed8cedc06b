//! The one sentence that a reader takes away.

use super::format;
use crate::{Flavor, Report, Workload};

/// Says what the strongest measured flavor costs against `sys`: operations, throughput, latency.
pub fn headline(report: &Report) -> String {
    let Some(flavor) =
        [Flavor::Krb5p, Flavor::Krb5i, Flavor::Krb5].into_iter().find(|flavor| has_ratio(report, *flavor))
    else {
        return "Nothing to compare: no flavor was measured beside sys.".to_owned();
    };
    let mut parts = Vec::new();
    if let Some(ratio) = ratio(report, flavor, Workload::RandomReadDepth64) {
        parts.push(format!("{} of random reads", change(ratio)));
    }
    if let Some(ratio) = ratio(report, flavor, Workload::SequentialRead) {
        parts.push(format!("{} of sequential throughput", change(ratio)));
    }
    if let Some(added) = added_latency(report, flavor) {
        parts.push(format!("{} on a single 4 KiB read", signed_latency(added)));
    }
    if parts.is_empty() {
        return format!("{} was measured beside sys; see the figures below.", flavor.name());
    }
    format!("{} against sys: {}.", flavor.name(), parts.join(", "))
}

fn has_ratio(report: &Report, flavor: Flavor) -> bool {
    Workload::ALL.into_iter().any(|workload| ratio(report, flavor, workload).is_some())
}

fn ratio(report: &Report, flavor: Flavor, workload: Workload) -> Option<f64> {
    report.series(workload, flavor)?.summary.ratio_to_sys.map(|spread| spread.median)
}

fn change(ratio: f64) -> String {
    let percent = ((ratio - 1.0) * 100.0).round();
    match percent {
        0.0 => "±0\u{202f}%".to_owned(),
        gain if gain > 0.0 => format!("+{gain:.0}\u{202f}%"),
        loss => format!("−{:.0}\u{202f}%", -loss),
    }
}

fn added_latency(report: &Report, flavor: Flavor) -> Option<f64> {
    let median =
        |flavor| report.series(Workload::RandomReadDepth1, flavor).map(|series| series.summary.p50_us.median);
    Some(median(flavor)? - median(Flavor::Sys)?)
}

fn signed_latency(added: f64) -> String {
    let sign = if added < 0.0 { "−" } else { "+" };
    format!("{sign}{}", format::latency(added.abs()))
}
