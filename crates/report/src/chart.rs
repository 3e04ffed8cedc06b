//! Charts as plain data.

use super::stacks::Stacks;

/// A chart in a card of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The section that it belongs to; charts of a section stand together.
    pub section: String,
    /// The title above the chart.
    pub title: String,
    /// The kind of chart, with its data.
    pub plot: Plot,
}

impl Chart {
    /// Makes a chart of a section.
    pub fn new(section: impl Into<String>, title: impl Into<String>, plot: Plot) -> Self {
        Self { section: section.into(), title: title.into(), plot }
    }

    /// Makes a chart of lines; none without a line.
    pub fn of_lines(section: &str, title: &str, lines: Lines) -> Option<Self> {
        (!lines.lines.is_empty()).then(|| Self::new(section, title, Plot::Lines(lines)))
    }

    /// Makes a chart of bars; none without a bar.
    pub fn of_bars(section: &str, title: &str, bars: Bars) -> Option<Self> {
        (!bars.bars.is_empty()).then(|| Self::new(section, title, Plot::Bars(bars)))
    }
}

/// The kinds of charts, with their data.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Lines over a common axis.
    Lines(Lines),
    /// A bar for each variant.
    Bars(Bars),
    /// Parts of the baseline, over several loads.
    LoadParts(LoadParts),
    /// Medians with their 99th percentiles.
    Spans(Spans),
    /// Parts of the baseline's.
    Ratios(Ratios),
    /// Stages of a time, one behind the other.
    Stacks(Stacks),
}

/// Lines over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis on the left.
    pub y: Axis,
    /// A line for each variant.
    pub lines: Vec<Line>,
    /// Limits of the machine: a name and a value of the vertical axis. Limits far beyond the lines
    /// are written below the chart.
    pub limits: Vec<(String, f64)>,
}

/// A label, a range and a scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub logarithmic: bool,
}

impl Axis {
    /// An axis with equal steps, from zero.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: false }
    }

    /// Makes a logarithmic axis.
    pub fn logarithmic(label: &str) -> Self {
        Self { label: label.to_owned(), logarithmic: true }
    }
}

/// A line of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The variant that the line shows.
    pub variant: String,
    /// From left to right.
    pub points: Vec<Point>,
    /// All repetitions that count, each a place on both axes.
    pub samples: Vec<(f64, f64)>,
    /// Repetitions that only warmed up.
    pub warm_ups: Vec<(f64, f64)>,
}

/// A point with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Place on the vertical axis: a median.
    pub y: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// Whether no difference to the baseline is shown, or one that is below the noise.
    pub unsure: bool,
}

/// Figures as parts of the baseline's, in groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratios {
    /// The variant whose figures are 100 %.
    pub baseline: String,
    /// Differences below this fraction are noise, drawn as a band.
    pub noise: f64,
    /// The groups, from top to bottom.
    pub groups: Vec<RatioGroup>,
    /// Values that the axis has to hold besides its own, so that charts of a page share one scale.
    pub span: Option<(f64, f64)>,
}

/// Rows under a common name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RatioGroup {
    /// The name, such as a load.
    pub name: String,
    /// A row for each variant.
    pub rows: Vec<Ratio>,
}

/// One figure as a part of the baseline's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratio {
    /// The variant that the row shows.
    pub variant: String,
    /// The median, or a mean of medians.
    pub value: f64,
    /// Its interval, where it has one.
    pub range: Option<(f64, f64)>,
    /// The values behind the mean: ratios of repetitions, or of the cases that are averaged.
    pub parts: Vec<f64>,
    /// A published value of the same ratio.
    pub published: Option<f64>,
    /// Whether no difference to the baseline is shown, or one that is below the noise.
    pub unsure: bool,
}

impl Point {
    /// A place where a variant has failed, so that there is nothing to draw but that.
    pub fn failed(x: f64) -> Self {
        Self { x, y: f64::NAN, low: f64::NAN, high: f64::NAN, unsure: false }
    }

    /// Returns whether the variant has failed there.
    pub fn has_failed(&self) -> bool {
        self.y.is_nan()
    }
}

/// Bars of up to two parts, a row each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The names of the two parts; the second may be empty.
    pub parts: [String; 2],
    /// The unit of both parts.
    pub unit: String,
    /// One bar for each variant.
    pub bars: Vec<Bar>,
    /// Where the scale ends at least, such as at one whole core.
    pub end: Option<f64>,
    /// Limits of the machine: a name and a value. Limits far beyond the bars are written below the
    /// chart.
    pub limits: Vec<(String, f64)>,
}

/// A bar of one or two parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// The variant that the bar shows.
    pub variant: String,
    /// The parts, from left to right; nothing where it is unknown.
    pub parts: [Option<f64>; 2],
    /// The interval of their sum, where there is one.
    pub range: Option<(f64, f64)>,
    /// The text behind the bar, large and small.
    pub said: [String; 2],
    /// Whether no difference to the baseline is shown, or one that is below the noise.
    pub unsure: bool,
}

/// A figure of several loads, each as a part of the baseline's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadParts {
    /// The variant whose figure is 1.
    pub baseline: String,
    /// A row for each load.
    pub rows: Vec<LoadPart>,
}

/// The latencies of one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPart {
    /// The name of the load.
    pub name: String,
    /// The variants besides the baseline.
    pub parts: Vec<VariantPart>,
}

/// The figure of one variant as a part of the baseline's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariantPart {
    /// The variant of the figure.
    pub variant: String,
    /// Its part of the baseline's.
    pub part: f64,
    /// Whether no difference to the baseline is shown, or one that is below the noise.
    pub unsure: bool,
}

/// Latencies on a logarithmic scale, a row for each variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans {
    /// One span for each variant.
    pub spans: Vec<LatencySpan>,
    /// How far the machine could go: a name and a value in microseconds.
    pub limits: Vec<(String, f64)>,
}

/// One variant's median and 99th percentile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencySpan {
    /// The variant that the span shows.
    pub variant: String,
    /// Where it begins and ends, in microseconds.
    pub ends: [f64; 2],
    /// Whether the median shows no difference to the baseline, or one that is below the noise.
    pub unsure: bool,
    /// The text behind the span, large and small.
    pub said: [String; 2],
}
