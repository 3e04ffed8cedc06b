//! The tables of the paper, with our figures beside the published ones.

use super::{PageSpec, findings};
use crate::average::Average;
use crate::cost::{nothing_to_compare, setting};
use crate::form::{digits, percent};
use crate::series::{lines, ratio_chart, ratio_group};
use crate::{Axis, Chart, Figure, Lines, Table, busy_bars, limits};
use bench::lanl::{LANL, bytes, large, small};
use bench::measuring::{CaseRecord, Part, Record, Sample};

/// The page of `lanl`.
pub(super) const PAGE: PageSpec = PageSpec {
    evaluation: LANL,
    headline,
    tables: &[
        |record| Some(findings::table(record)),
        |record| RATES.of(record),
        |record| TIMES.of(record),
        |record| PROCESSOR.of(record),
        |record| CACHES.of(record),
        |record| ENCTYPES.of(record),
    ],
    charts: &[left, by_size, |record| busy_bars(record, is_copy)],
};

/// Whether a case copies many files.
fn is_copy(case: &CaseRecord) -> bool {
    matches!(case.axes.part(), Some(Part::Small | Part::Large))
}

/// The time that the strongest variant takes to copy, as a fraction of the baseline's.
fn headline(record: &Record) -> String {
    let base = &record.settings.baseline;
    let rank = ["krb5p", "krb5i", "krb5", "sys"];
    let found = rank.into_iter().filter(|variant| variant != base).find_map(|variant| times(record, variant));
    found.unwrap_or_else(|| nothing_to_compare(record))
}

/// Returns the headline of one variant; `None` where no copy of it was compared.
fn times(record: &Record, variant: &str) -> Option<String> {
    let (base, setting) = (&record.settings.baseline, setting(record));
    let (mut shown, mut same) = (Vec::new(), Vec::new());
    for part in [Part::Small, Part::Large] {
        let figures = findings::cases(record, part, variant).next().and_then(|case| case.figures.as_ref());
        let Some(against) = figures.and_then(|figures| figures.against.as_ref()) else { continue };
        match against.verdict.is_significant() {
            true => {
                shown.push(format!("{} of the time with {part} files", percent(1.0 / against.ratio.median)))
            }
            false => same.push(format!("{part} files")),
        }
    }
    let (shown, same) = (shown.join(" and "), same.join(" and "));
    match (shown.is_empty(), same.is_empty()) {
        (true, true) => None,
        (true, false) => {
            Some(format!("{setting}, copies by {variant} and {base} show no difference with {same}."))
        }
        (false, true) => Some(format!("{setting}, copies by {variant} take {shown} compared with {base}.")),
        (false, false) => Some(format!(
            "{setting}, copies by {variant} take {shown} compared with {base}, and show no difference with {same}."
        )),
    }
}

/// A table of the paper: a column for each variant, a row for each group of cases of some parts.
struct PartTable {
    title: &'static str,
    how: &'static str,
    /// Head of the column with the names of the groups.
    first: &'static str,
    parts: &'static [Part],
    cell: fn(&CaseRecord) -> Option<String>,
}

const RATES: PartTable = PartTable {
    title: "Average transfer rate by file size, MB/s",
    how: "Files of zeros; the mean of all repetitions and its 95 % confidence interval, as the paper reports averages.",
    first: "file",
    parts: &[Part::Sizes],
    cell: rate,
};

const TIMES: PartTable = PartTable {
    title: "Average time to copy",
    how: "Random contents, copied from a temporary folder; the mean of all repetitions and its 95 % confidence interval.",
    first: "what",
    parts: &[Part::Small, Part::Large],
    cell: time,
};

const PROCESSOR: PartTable = PartTable {
    title: "CPU use by protocol, client / server",
    how: "The mean during the same copies, as a part of one core, from the operating system. The kernel\u{2019}s client works in threads of its own, so for a mount it is the use of the client\u{2019}s whole machine, \
          without a server on it, in steps of 10 ms. Nothing else should run there.",
    first: "what",
    parts: &[Part::Small, Part::Large],
    cell: processor,
};

const CACHES: PartTable = PartTable {
    title: "Reading with cold and warm caches, MB/s",
    how: "The paper leaves this open. With a warm cache, the same file was read before; the notes say how caches were made cold.",
    first: "what",
    parts: &[Part::Caches],
    cell: rate,
};

const ENCTYPES: PartTable = PartTable {
    title: "By encryption type",
    how: "The paper leaves this open: the same copies with each encryption type of RFC 3962 (17, 18) and RFC 8009 (19, 20), side by side.",
    first: "what",
    parts: &[Part::Enctypes],
    cell: time,
};

impl PartTable {
    /// Makes the table; none where nothing of it was measured.
    fn of(&self, record: &Record) -> Option<Table> {
        let is_of = |case: &CaseRecord| case.axes.part().is_some_and(|part| self.parts.contains(&part));
        // The variants of these parts, in the order in which they were asked for.
        let has = |variant: &&str| record.cases.iter().any(|case| case.variant == **variant && is_of(case));
        let variants: Vec<&str> = record.settings.variants.iter().map(String::as_str).filter(has).collect();
        let mut table = Table::by_variant(self.title, self.how, self.first, &variants);
        for group in record.groups() {
            let of = |variant: &&str| record.variant(group, variant).filter(|case| is_of(case));
            if variants.iter().any(|variant| of(variant).is_some_and(|case| case.counted().next().is_some()))
            {
                let measured =
                    |variant: &&str| of(variant).filter(|_| record.failure(group, variant).is_none());
                let text = |variant: &&str| {
                    measured(variant).and_then(self.cell).unwrap_or_else(|| record.blank(group, variant))
                };
                table.measured(group, variants.iter().map(text).collect());
            }
        }
        table.unless_empty()
    }
}

fn rate(case: &CaseRecord) -> Option<String> {
    Some(Average::of(case.counted().map(|sample| sample.rate(case.unit)))?.words(digits))
}

fn time(case: &CaseRecord) -> Option<String> {
    Some(Average::of(case.counted().map(|sample| sample.seconds))?.time())
}

fn processor(case: &CaseRecord) -> Option<String> {
    let words = |seconds: fn(&Sample) -> Option<f64>| {
        let busy = case.counted().filter_map(|sample| Some(sample.busy(seconds(sample)?)));
        Average::of(busy).map_or("unknown".to_owned(), |found| percent(found.mean))
    };
    let client = words(|sample| sample.client_cpu_seconds);
    Some(format!("{client} / {}", words(|sample| sample.server_cpu_seconds)))
}

/// Rates of the copies of many files as parts of the baseline's.
fn left(record: &Record) -> Vec<Chart> {
    let groups = record.groups().into_iter().map(|name| ratio_group(record, name, is_copy));
    let title = format!("Copies of many files, beside {}", record.settings.baseline);
    ratio_chart(record, "Transfer rates", title, groups).into_iter().collect()
}

fn by_size(record: &Record) -> Vec<Chart> {
    let megabytes = |case: &CaseRecord, _: Option<&Sample>| Some(case.axes.copies()?.bytes? as f64 / 1e6);
    let lines = lines(record, |case| case.axes.part() == Some(Part::Sizes), Figure::Rate, megabytes);
    let (x, y) = (Axis::logarithmic("MB of the file"), Axis::linear("MB/s"));
    let limits = limits::of_throughput(record);
    Chart::of_lines("Transfer rates", "One file, by its size", Lines { x, y, lines, limits })
        .into_iter()
        .collect()
}

/// Says by how much a run is smaller than the published one.
pub fn scale_note(scale: f64) -> Option<String> {
    (scale < 1.0).then(|| {
        let (small, large) = (small(scale), large(scale));
        format!(
            "Scaled down to {}\u{202f}% of the published sizes: files of up to {} instead of 2 GB, {} small files instead of 10,000, {} files of {} \
             instead of 500 MB.",
            digits(scale * 100.0),
            bytes((2e9 * scale) as u64),
            small.files,
            large.files,
            bytes(large.size)
        )
    })
}
