//! The cost of a variant against the baseline: the averages of the later article, and the headline.

use crate::series::is_unsure;
use crate::{Figure, form};
use bench::measuring::{CaseRecord, Comparison, Load, LoadLevel, Record};
use bench::{Flavor, Unit};

/// A machine with noise above this fraction cannot show costs.
const UNSTEADY: f64 = 0.3;

/// Averages over the workloads of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Operations a second that are left, as a part of the baseline's: the mean over the loads that
    /// look for the most.
    pub operations: Option<MeanRatio>,
    /// Throughput that is left, likewise.
    pub throughput: Option<MeanRatio>,
    /// Median latency beyond the baseline's in microseconds: the mean over the light loads.
    pub latency_us: Option<f64>,
    /// Whether more than half of the light loads show no added latency, or one below the noise.
    pub latency_unsure: bool,
    /// Comparisons that it was made of, and how many of them show a difference.
    pub compared: (usize, usize),
}

/// Returns whether a case is of a light load, one that looks for latency. Where there are no two
/// loads every case is of both.
pub(crate) fn is_light(case: &CaseRecord) -> bool {
    case.axes.level().is_none_or(|level| level == LoadLevel::Low)
}

/// Returns whether a case looks for the most; on a fixed schedule none does.
pub(crate) fn is_heavy(case: &CaseRecord) -> bool {
    let scheduled = matches!(&case.load, Load::Transfer(transfer) if transfer.rate.is_some());
    !scheduled && case.axes.level().is_none_or(|level| level == LoadLevel::High)
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of the ratios of several comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanRatio {
    /// The mean of the medians.
    pub ratio: f64,
    /// Whether it is below the noise, or no comparison shows a difference.
    pub is_unsure: bool,
}

impl MeanRatio {
    /// Averages comparisons; `None` of nothing.
    pub(crate) fn of(pairs: &[CaseAgainst<'_>], noise: f64) -> Option<Self> {
        let ratio = mean(pairs.iter().map(|(_, against)| against.ratio.median))?;
        let is_shown = pairs.iter().any(|(_, against)| !is_unsure(against));
        Some(Self { ratio, is_unsure: !is_shown || (ratio - 1.0).abs() <= noise })
    }

    /// Formats it as a change: `−7 %`, `≈ +1 %` where no difference is shown.
    pub(crate) fn change(self) -> String {
        form::unsure(self.is_unsure, form::change(self.ratio))
    }
}

/// A case, and how it compares with the baseline.
pub(crate) type CaseAgainst<'a> = (&'a CaseRecord, &'a Comparison);

/// Says whether a case counts in means over the cases of a run: the server made its own choice of
/// instructions, or no case of the run has that.
pub(crate) fn is_typical(record: &Record, case: &CaseRecord) -> bool {
    let is_own = |case: &CaseRecord| case.load.layout().server_cpu.is_none();
    is_own(case) || !record.cases.iter().any(is_own)
}

fn pairs<'a>(record: &'a Record, variant: &str) -> Vec<CaseAgainst<'a>> {
    let own = record.cases.iter().filter(|case| case.variant == variant && is_typical(record, case));
    own.filter_map(|case| Some((case, case.figures.as_ref()?.against.as_ref()?))).collect()
}

/// Comparisons of a variant with the baseline in the cases that look for the most, of one unit.
pub(crate) fn heavy<'a>(record: &'a Record, variant: &str, unit: Unit) -> Vec<CaseAgainst<'a>> {
    let mut pairs = pairs(record, variant);
    pairs.retain(|(case, _)| case.unit == unit && is_heavy(case));
    pairs
}

impl Cost {
    /// Averages the costs of a variant.
    pub(crate) fn of(record: &Record, variant: &str) -> Self {
        Self::over(record, variant, |_| true)
    }

    /// Averages the costs of a variant in the groups of cases that `wanted` selects.
    pub(crate) fn over(record: &Record, variant: &str, wanted: impl Fn(&str) -> bool) -> Self {
        let is_wanted = |(case, _): &CaseAgainst<'_>| wanted(&case.group);
        let mut pairs = pairs(record, variant);
        pairs.retain(is_wanted);
        let noise = record.relative_noise();
        let ratio = |unit| {
            let mut heavy = heavy(record, variant, unit);
            heavy.retain(is_wanted);
            MeanRatio::of(&heavy, noise)
        };
        let unsure = |(case, _): &&CaseAgainst<'_>| {
            case.figures.as_ref().is_some_and(|figures| Figure::Median.is_unsure(figures, noise))
        };
        let all = pairs.iter().filter(|(case, against)| is_light(case) && against.added_us.is_some());
        let light = pairs.iter().filter(|(case, _)| is_light(case));
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

/// Returns whether a record compares a variant with its baseline in a group of cases.
pub(crate) fn is_compared(record: &Record, group: &str, variant: &str) -> bool {
    pairs(record, variant).iter().any(|(case, _)| case.group == group)
}

/// Counts the cases of a variant that failed, or were skipped because it had failed too often, and
/// all cases, among the ones that `wanted` selects.
pub(crate) fn failed(record: &Record, variant: &str, wanted: impl Fn(&CaseRecord) -> bool) -> (usize, usize) {
    let own = || record.cases.iter().filter(|case| case.variant == variant && wanted(case));
    let is_out = |case: &&CaseRecord| {
        record.failure(&case.group, variant).is_some()
            || (record.is_skipped(variant) && case.figures.is_none())
    };
    (own().filter(is_out).count(), own().count())
}

/// Returns the strongest variant that was compared with the baseline, whichever that is.
pub(crate) fn strongest(record: &Record) -> Option<&str> {
    let rank = |variant: &&str| ["krb5p", "krb5i", "krb5", "sys"].iter().position(|known| known == variant);
    let variants = record.variants().into_iter().filter(|variant| Cost::of(record, variant).compared.0 > 0);
    variants.min_by_key(|variant| rank(variant).unwrap_or(usize::MAX))
}

/// Says where the run was made, as the beginning of a sentence: `On two shared cores over
/// loopback`.
pub(crate) fn setting(record: &Record) -> String {
    const WORDS: [&str; 9] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];
    let environment = &record.environment;
    let count = WORDS.get(environment.cores).map_or(environment.cores.to_string(), |word| (*word).into());
    let cores = if environment.cores == 1 { "core" } else { "cores" };
    let shared = record.target.starts_with("this machine")
        || record.notes.iter().any(|note| note.starts_with("Client and server shared this machine"));
    match (environment.link, shared) {
        (Some(link), _) => format!("On {count} shared {cores} over a link of {link}"),
        (None, true) if environment.mounts.is_empty() => format!("On {count} shared {cores} over loopback"),
        (None, true) => format!("On {count} shared {cores} through the Linux client"),
        (None, false) => format!("With {count} client {cores} and {}", record.target),
    }
}

/// Returns one sentence: the fraction of the baseline's rates that the strongest variant keeps, and
/// its added latency, with the setting, for any baseline.
pub(crate) fn headline(record: &Record) -> String {
    let base = &record.settings.baseline;
    let Some(variant) = strongest(record) else { return nothing_to_compare(record) };
    let cost = Cost::of(record, variant);
    let noise = record.relative_noise();
    let rate = |mean: Option<MeanRatio>, of: &str| {
        // A difference that the machine's noise can make is no result.
        let MeanRatio { ratio, .. } = mean.filter(|mean| !mean.is_unsure)?;
        let shown = ((ratio - 1.0) * 100.0).round().abs() >= 1.0;
        shown.then(|| (ratio, format!("{} of {of}", form::percent(ratio))))
    };
    let rates = [rate(cost.operations, "IOPS"), rate(cost.throughput, "throughput")];
    let rates: Vec<(f64, String)> = rates.into_iter().flatten().collect();
    let verb = match rates.iter().all(|(ratio, _)| *ratio < 1.0) {
        true => "keeps",
        false => "reaches",
    };
    let kept: Vec<&str> = rates.iter().map(|(_, said)| said.as_str()).collect();
    let kept = (!kept.is_empty()).then(|| format!("{verb} {}", kept.join(" and ")));
    let latency = cost.latency_us.filter(|added| added.abs() >= 0.1 && !cost.latency_unsure).map(|added| {
        let verb = if added > 0.0 { "adds" } else { "saves" };
        format!("{verb} {} of latency", form::latency(added.abs()))
    });
    let parts: Vec<String> = kept.into_iter().chain(latency).collect();
    let setting = setting(record);
    let said = if noise > UNSTEADY {
        format!(
            "{setting}, the machine was too unsteady ({}) to compare {variant} with {base}.",
            form::within(noise)
        )
    } else if cost.compared.1 == 0 || parts.is_empty() {
        format!("{setting}, this run shows no difference between {variant} and {base}.")
    } else {
        format!("{setting}, {variant} {} compared with {base}.", parts.join(" and "))
    };
    said + &failures(record, variant)
}

/// Returns the headline of a run without a comparison: the reason, and the remedy if there is one.
pub(crate) fn nothing_to_compare(record: &Record) -> String {
    let base = &record.settings.baseline;
    let is_other = |variant: &&str| *variant != base && variant.parse::<Flavor>().is_ok();
    let others: Vec<&str> = record.variants().into_iter().filter(is_other).collect();
    let has_figures =
        |variant: &str| record.cases.iter().any(|case| case.variant == variant && case.figures.is_some());
    let measured = others.iter().find(|variant| has_figures(variant));
    match (others.is_empty(), measured) {
        (true, _) => format!("Nothing to compare: no flavor was measured beside {base}."),
        (_, None) => format!("Nothing to compare: {} failed in all cases.", others.join(", ")),
        (_, Some(first)) if !has_figures(base) => format!(
            "Nothing to compare: {base}, the baseline, has no figures. Leave it out to compare with {first}."
        ),
        _ => format!("Nothing to compare: no case has figures of {base} and of another flavor."),
    }
}

/// Returns a sentence on the failed cases of a variant, which are part of no mean; empty without.
fn failures(record: &Record, variant: &str) -> String {
    match failed(record, variant, |case| is_typical(record, case)) {
        (0, _) => String::new(),
        (1, all) => format!(" One of its {all} cases failed and is not in that."),
        (failed, all) => format!(" {failed} of its {all} cases failed and are not in that."),
    }
}
