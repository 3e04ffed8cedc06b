//! The one sentence that a reader takes away.

use super::format;
use crate::{Flavor, Report, Spread, Workload};

/// Workloads and what a lower rate of them takes away, the most telling first.
const RATES: [(Workload, &str); 6] = [
    (Workload::RandomReadDepth64, "random reads"),
    (Workload::SequentialRead, "sequential throughput"),
    (Workload::SequentialWrite, "sequential writes"),
    (Workload::RandomWriteDepth64, "random writes"),
    (Workload::Metadata, "metadata operations"),
    (Workload::RandomWriteDepth1, "single random writes"),
];

/// Says what the strongest measured flavor costs against `sys`: operations, throughput, latency.
///
/// A figure is in it only where every repetition agrees on it; what is within the noise is not called a cost.
pub fn headline(report: &Report) -> String {
    let Some(flavor) =
        [Flavor::Krb5p, Flavor::Krb5i, Flavor::Krb5].into_iter().find(|flavor| has_ratio(report, *flavor))
    else {
        return "Nothing to compare: no flavor was measured beside sys.".to_owned();
    };
    let lost = |(workload, of): &(Workload, &str)| {
        let ratio = ratio(report, flavor, *workload)?;
        let percent = ((1.0 - ratio.median) * 100.0).round();
        (ratio.max < 1.0 && percent >= 1.0).then(|| format!("{percent:.0}\u{202f}% of {of}"))
    };
    // The two that say most, of those that were measured.
    let said = RATES.iter().filter(|(workload, _)| ratio(report, flavor, *workload).is_some()).take(2);
    let latency = added_latency(report, flavor)
        .map(|added| format!("{} on a single 4\u{a0}KiB read", format::latency(added)));
    let costs: Vec<String> = said.filter_map(lost).chain(latency).collect();
    match costs.as_slice() {
        [] => format!("{} costs nothing that this run could measure.", flavor.name()),
        [only] => format!("{} costs {only}.", flavor.name()),
        [first @ .., last] => format!("{} costs {} and {last}.", flavor.name(), first.join(", ")),
    }
}

fn has_ratio(report: &Report, flavor: Flavor) -> bool {
    Workload::ALL.into_iter().any(|workload| ratio(report, flavor, workload).is_some())
}

fn ratio(report: &Report, flavor: Flavor, workload: Workload) -> Option<Spread> {
    report.series(workload, flavor)?.summary.ratio_to_sys
}

/// The median's distance, where the slowest round of `sys` is below the fastest of the flavor.
fn added_latency(report: &Report, flavor: Flavor) -> Option<f64> {
    let p50 = |flavor| report.series(Workload::RandomReadDepth1, flavor).map(|series| series.summary.p50_us);
    let (own, sys) = (p50(flavor)?, p50(Flavor::Sys)?);
    (own.min > sys.max).then_some(own.median - sys.median)
}
