//! Lines and ratios that are drawn from the cases of a record, with all their repetitions.

use super::chart::{Chart, Line, Plot, Point, Ratio, RatioGroup, Ratios};
use bench::measuring::{CaseRecord, Comparison, Figures, Interval, Record, Sample};

/// The figure of a case that a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The rate in the case's unit.
    Rate,
    /// The median latency in microseconds.
    Median,
    /// The 99th percentile of the latency in microseconds.
    Tail,
}

impl Figure {
    /// Returns the figure with its interval.
    pub(crate) fn of(self, figures: &Figures) -> Option<Interval> {
        match self {
            Self::Rate => Some(figures.rate),
            Self::Median => figures.p50_us,
            Self::Tail => figures.p99_us,
        }
    }

    fn of_sample(self, case: &CaseRecord, sample: &Sample) -> Option<f64> {
        match self {
            Self::Rate => Some(sample.rate(case.unit)),
            Self::Median => Some(sample.latency.as_ref()?.p50_us),
            Self::Tail => Some(sample.latency.as_ref()?.p99_us),
        }
    }

    /// Returns whether a case shows no difference to the baseline in this figure.
    pub(crate) fn is_unsure(self, figures: &Figures, noise: f64) -> bool {
        let Some(against) = &figures.against else { return false };
        match (self, against.added_us, figures.p50_us) {
            (Self::Rate, ..) => is_unsure(against),
            (_, Some(added), Some(own)) => {
                !added.excludes(0.0) || added.median.abs() <= noise * (own.median - added.median)
            }
            _ => false,
        }
    }
}

/// Returns whether a comparison shows no difference, or one that is below the noise.
pub(crate) fn is_unsure(against: &Comparison) -> bool {
    !against.verdict.is_significant()
}

/// Draws a line for each variant, of the cases that `wanted` picks; `x` is where a case stands, or
/// one of its samples. A variant without a point has no line.
pub(crate) fn lines(
    record: &Record,
    wanted: impl Fn(&CaseRecord) -> bool,
    figure: Figure,
    x: impl Fn(&CaseRecord, Option<&Sample>) -> Option<f64>,
) -> Vec<Line> {
    let noise = record.relative_noise();
    let of = |variant: &&str| {
        let mut line = Line { variant: (*variant).to_owned(), ..Line::default() };
        for case in record.cases.iter().filter(|case| case.variant == **variant && wanted(case)) {
            let Some(at) = x(case, None) else { continue };
            let Some(figures) = &case.figures else {
                line.points.extend(record.failure(&case.group, variant).map(|_| Point::failed(at)));
                continue;
            };
            let Some(Interval { median, low, high, .. }) = figure.of(figures) else { continue };
            line.points.push(Point { x: at, y: median, low, high, unsure: figure.is_unsure(figures, noise) });
            for sample in &case.samples {
                let place = x(case, Some(sample)).zip(figure.of_sample(case, sample));
                if sample.warm_up { line.warm_ups.extend(place) } else { line.samples.extend(place) }
            }
        }
        (!line.points.is_empty()).then_some(line)
    };
    record.variants().iter().filter_map(of).collect()
}

/// Makes a chart of parts of the baseline's, of the groups that have any; none without.
pub(crate) fn ratio_chart(
    record: &Record,
    section: impl Into<String>,
    title: impl Into<String>,
    groups: impl IntoIterator<Item = RatioGroup>,
) -> Option<Chart> {
    let groups: Vec<RatioGroup> = groups.into_iter().filter(|group| !group.rows.is_empty()).collect();
    let (baseline, noise) = (record.settings.baseline.clone(), record.relative_noise());
    let plot = |groups| Plot::Ratios(Ratios { baseline, noise, groups, span: None });
    (!groups.is_empty()).then(|| Chart::new(section, title, plot(groups)))
}

/// Returns the rates of a group's cases that `wanted` picks, as parts of the baseline's.
pub(crate) fn ratio_group(record: &Record, group: &str, wanted: impl Fn(&CaseRecord) -> bool) -> RatioGroup {
    let own = record.cases.iter().filter(|case| case.group == group && wanted(case));
    RatioGroup { name: group.to_owned(), rows: own.filter_map(|case| ratio(record, case)).collect() }
}

/// The rate of a case as a part of the baseline's, with all pairs of repetitions; `None` of the
/// baseline.
pub(crate) fn ratio(record: &Record, case: &CaseRecord) -> Option<Ratio> {
    let against = case.figures.as_ref()?.against.as_ref()?;
    let base = record.variant(&case.group, &record.settings.baseline)?;
    let unit = case.unit;
    let pair = |own: &Sample| {
        let same = base.counted().find(|base| base.repetition == own.repetition)?;
        Some(own.rate(unit) / same.rate(unit)).filter(|ratio| ratio.is_finite())
    };
    Some(Ratio {
        variant: case.variant.clone(),
        value: against.ratio.median,
        range: Some((against.ratio.low, against.ratio.high)),
        parts: case.counted().filter_map(pair).collect(),
        published: None,
        unsure: is_unsure(against),
    })
}
