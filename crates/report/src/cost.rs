//! What a side costs against the baseline: the averages of the later article, and the sentence that a reader takes away.

use crate::{Figure, form};
use bench::Unit;
use bench::measuring::{CaseRecord, Comparison, Load, LoadLevel, Record};

/// A machine whose noise is more than this part does not tell costs.
const UNSTEADY: f64 = 0.3;

/// Averages over the workloads of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Operations a second that are left, as a part of the baseline's: the mean over the loads that look for the most.
    pub operations: Option<f64>,
    /// Throughput that is left, likewise.
    pub throughput: Option<f64>,
    /// Median latency beyond the baseline's in microseconds: the mean over the light loads.
    pub latency_us: Option<f64>,
    /// Whether more than half of the light loads show no added latency, or one below the noise.
    pub latency_unsure: bool,
    /// Comparisons that it was made of, and how many of them show a difference.
    pub compared: (usize, usize),
}

/// Says whether a case is of a light load, one that looks for latency. Where there are no two loads every case is of both.
pub fn is_light(one: &CaseRecord) -> bool {
    one.case.axes.level().is_none_or(|level| level == LoadLevel::Low)
}

/// Says whether a case looks for the most; on a fixed schedule none does.
pub fn is_heavy(one: &CaseRecord) -> bool {
    let scheduled = matches!(&one.case.load, Load::Transfer(transfer) if transfer.rate.is_some());
    !scheduled && one.case.axes.level().is_none_or(|level| level == LoadLevel::High)
}

/// The mean; `None` of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Comparisons of a side with the baseline in the cases that look for the most, of one unit.
pub fn heavy<'a>(record: &'a Record, side: &str, unit: Unit) -> Vec<(&'a CaseRecord, &'a Comparison)> {
    let cases =
        record.cases.iter().filter(|one| one.case.side == side && one.case.unit == unit && is_heavy(one));
    cases.filter_map(|one| Some((one, one.figures.as_ref()?.against.as_ref()?))).collect()
}

impl Cost {
    /// Averages what a side costs.
    pub fn of(record: &Record, side: &str) -> Self {
        let pairs: Vec<(&CaseRecord, &Comparison)> = record
            .cases
            .iter()
            .filter(|one| one.case.side == side)
            .filter_map(|one| Some((one, one.figures.as_ref()?.against.as_ref()?)))
            .collect();
        let ratio = |unit: Unit| {
            let heavy = pairs.iter().filter(|(one, _)| is_heavy(one) && one.case.unit == unit);
            mean(heavy.map(|(_, against)| against.ratio.median))
        };
        let noise = record.relative_noise();
        let unsure = |(one, _): &&(&CaseRecord, &Comparison)| {
            one.figures.as_ref().is_some_and(|figures| Figure::Median.is_unsure(figures, noise))
        };
        let all = pairs.iter().filter(|(one, against)| is_light(one) && against.added_us.is_some());
        let light = pairs.iter().filter(|(one, _)| is_light(one));
        let shown = pairs.iter().filter(|(_, against)| against.verdict.is_significant()).count();
        Self {
            operations: ratio(Unit::OperationsPerSecond),
            throughput: ratio(Unit::MegabytesPerSecond),
            latency_us: mean(light.filter_map(|(_, against)| Some(against.added_us?.median))),
            latency_unsure: 2 * all.clone().filter(unsure).count() > all.count(),
            compared: (pairs.len(), shown),
        }
    }
}

/// Cases of a side that failed, or were never tried because it had failed too often, and all of them, among those that
/// `wanted` picks.
pub fn failed(record: &Record, side: &str, wanted: impl Fn(&CaseRecord) -> bool) -> (usize, usize) {
    let own = || record.cases.iter().filter(|one| one.case.side == side && wanted(one));
    let is_out = |one: &&CaseRecord| {
        record.failure(&one.case.group, side).is_some() || (record.is_left_out(side) && one.figures.is_none())
    };
    (own().filter(is_out).count(), own().count())
}

/// Says what the strongest measured side costs: operations, throughput, latency.
pub fn headline(record: &Record) -> String {
    let strongest = ["krb5p", "krb5i", "krb5"].into_iter().find(|side| Cost::of(record, side).compared.0 > 0);
    let Some(side) = strongest else {
        let tried: Vec<&str> =
            record.sides().into_iter().filter(|side| *side != record.settings.baseline).collect();
        return match tried.is_empty() {
            true => "Nothing to compare: no flavor was measured beside sys.".to_owned(),
            false => format!("Nothing to compare: {} failed at all that was tried.", tried.join(", ")),
        };
    };
    let cost = Cost::of(record, side);
    let noise = record.relative_noise();
    let change = |ratio: Option<f64>, of: &str| {
        let lost = 1.0 - ratio?;
        // What the machine's own unsteadiness could have made is not called a cost.
        (lost > noise && (lost * 100.0).round() >= 1.0)
            .then(|| format!("{:.0}\u{202f}% of {of}", lost * 100.0))
    };
    let costs = [change(cost.operations, "IOPS"), change(cost.throughput, "throughput")];
    let latency = cost.latency_us.filter(|added| *added >= 0.1).map(form::latency);
    let said: Vec<String> = costs.into_iter().flatten().chain(latency).collect();
    let told = match said.as_slice() {
        _ if noise > UNSTEADY => format!(
            "This machine was too unsteady ({}) for this run to say what {side} costs you.",
            form::within(noise)
        ),
        _ if cost.compared.1 == 0 => format!("{side} costs you nothing that this run could measure."),
        [] => format!("{side} costs you nothing that this run could measure."),
        [only] => format!("{side} costs you {only}."),
        [first @ .., last] => format!("{side} costs you {} and {last}.", first.join(", ")),
    };
    match failed(record, side, |_| true) {
        (0, _) => told,
        (1, all) => format!("{told} One of its {all} cases failed and is not in that."),
        (failed, all) => format!("{told} {failed} of its {all} cases failed and are not in that."),
    }
}
