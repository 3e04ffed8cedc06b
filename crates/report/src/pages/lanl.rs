//! The tables of the paper, ours beside what it found.

use super::findings;
use crate::average::Average;
use crate::cost::setting;
use crate::form::{digits, percent};
use crate::{Axis, Chart, Figure, Lines, Plot, Ratio, RatioGroup, Ratios, Row, Table, View};
use crate::{busy_bars, limits, lines, ratio};
use bench::lanl::{bytes, large, small};
use bench::measuring::{CaseRecord, Part, Record, Sample};

/// Shows a record of `lanl`.
pub fn view(record: &Record) -> View {
    let tables = [
        Some(findings::table(record)),
        rates(record),
        times(record),
        processor(record),
        caches(record),
        enctypes(record),
    ];
    let mut charts: Vec<Chart> = left(record).into_iter().chain(by_size(record)).collect();
    charts.extend(busy_bars(record, is_copy));
    View { headline: headline(record), tables: tables.into_iter().flatten().collect(), charts }
}

/// Whether a case copies many files.
fn is_copy(one: &CaseRecord) -> bool {
    matches!(one.case.axes.part(), Some(Part::Small | Part::Large))
}

/// The time that the strongest variant takes to copy, as a fraction of the baseline's.
fn headline(record: &Record) -> String {
    let base = &record.settings.baseline;
    let rank = ["krb5p", "krb5i", "krb5", "sys"];
    let said = |side: &str| {
        let said = [Part::Small, Part::Large].into_iter().filter_map(|part| {
            let against = findings::cases(record, part, side).next()?.figures.as_ref()?.against.as_ref()?;
            Some(match against.verdict.is_significant() {
                true => format!("{} of the time with {part} files", percent(1.0 / against.ratio.median)),
                false => format!("about the same time with {part} files"),
            })
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| {
            format!("{}, copies by {side} take {} compared with {base}.", setting(record), said.join(" and "))
        })
    };
    let found = rank.into_iter().filter(|side| side != base).find_map(said);
    found.unwrap_or_else(|| format!("Nothing to compare: no flavor was measured beside {base}."))
}

/// A table with a column for each side; rows of cases that `wanted` picks, by group.
fn by_side(
    record: &Record,
    texts: [&str; 3],
    sides: &[&str],
    wanted: impl Fn(&CaseRecord) -> bool,
    cell: impl Fn(&CaseRecord) -> Option<String>,
) -> Option<Table> {
    let [title, how, first] = texts;
    let mut columns = vec![first];
    columns.extend(sides);
    let mut table = Table::new(title, how, &columns);
    for group in record.groups() {
        let of = |side: &&str| record.side(group, side).filter(|one| wanted(one));
        if sides.iter().any(|side| of(side).is_some_and(|one| one.counted().next().is_some())) {
            let measured = |side: &&str| of(side).filter(|_| record.failure(group, side).is_none());
            let text =
                |side: &&str| measured(side).and_then(&cell).unwrap_or_else(|| record.blank(group, side));
            let cells = sides.iter().map(text).collect();
            table.rows.push(Row { name: group.to_owned(), cells, ..Row::default() });
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The sides of a part, in the order in which they were asked for.
fn sides<'a>(record: &'a Record, parts: &[Part]) -> Vec<&'a str> {
    let has = |side: &&str| {
        let own = record.cases.iter().filter(|one| one.case.side == **side);
        own.into_iter().any(|one| one.case.axes.part().is_some_and(|part| parts.contains(&part)))
    };
    record.settings.sides.iter().map(String::as_str).filter(has).collect()
}

fn rates(record: &Record) -> Option<Table> {
    by_side(
        record,
        [
            "Average transfer rate by file size, MB/s",
            "Files of zeros; the mean of all repetitions and its 95 % confidence interval, as the paper reports averages.",
            "file",
        ],
        &sides(record, &[Part::Sizes]),
        |one| one.case.axes.part() == Some(Part::Sizes),
        |one| Some(Average::of(one.counted().map(|sample| sample.rate(one.case.unit)))?.words(digits)),
    )
}

fn times(record: &Record) -> Option<Table> {
    by_side(
        record,
        [
            "Average time to copy",
            "Random contents, copied from a temporary folder; the mean of all repetitions and its 95 % confidence interval.",
            "what",
        ],
        &sides(record, &[Part::Small, Part::Large]),
        is_copy,
        |one| Some(Average::of(one.counted().map(|sample| sample.seconds))?.time()),
    )
}

fn processor(record: &Record) -> Option<Table> {
    let sides = sides(record, &[Part::Small, Part::Large]);
    let wanted = |one: &CaseRecord| is_copy(one);
    let cell = |one: &CaseRecord| {
        let part = |seconds: Option<f64>, of: f64| seconds.map(|seconds| seconds / of);
        let client =
            Average::of(one.counted().filter_map(|sample| part(sample.client_cpu_seconds, sample.seconds)));
        let server =
            Average::of(one.counted().filter_map(|sample| part(sample.server_cpu_seconds, sample.seconds)));
        let words = |found: Option<Average>| found.map_or("unknown".to_owned(), |found| percent(found.mean));
        Some(format!("{} / {}", words(client), words(server)))
    };
    by_side(
        record,
        [
            "CPU use by protocol, client / server",
            "The mean during the same copies, as a part of one core, from the operating system. Of a mount it is what all of the client\u{2019}s \
             machine used, but for the server where that is on the same machine, in steps of 10 ms, because the kernel\u{2019}s client works in threads of its own: nothing else should run there.",
            "what",
        ],
        &sides,
        wanted,
        cell,
    )
}

fn caches(record: &Record) -> Option<Table> {
    by_side(
        record,
        [
            "Reading with cold and warm caches, MB/s",
            "What the authors left open. A warm cache has had the same file read before; how a cache was made cold is said in the notes.",
            "what",
        ],
        &sides(record, &[Part::Caches]),
        |one| one.case.axes.part() == Some(Part::Caches),
        |one| Some(Average::of(one.counted().map(|sample| sample.rate(one.case.unit)))?.words(digits)),
    )
}

fn enctypes(record: &Record) -> Option<Table> {
    by_side(
        record,
        [
            "By encryption type",
            "What the authors left open: the same copies with each encryption type of RFC 3962 (17, 18) and RFC 8009 (19, 20), side by side.",
            "what",
        ],
        &sides(record, &[Part::Enctypes]),
        |one| one.case.axes.part() == Some(Part::Enctypes),
        |one| Some(Average::of(one.counted().map(|sample| sample.seconds))?.time()),
    )
}

/// Rates of the copies of many files as parts of the baseline's.
fn left(record: &Record) -> Option<Chart> {
    let groups = record.groups().into_iter().filter_map(|name| {
        let wanted = |one: &&CaseRecord| one.case.group == name && is_copy(one);
        let rows: Vec<Ratio> =
            record.cases.iter().filter(wanted).filter_map(|one| ratio(record, one)).collect();
        (!rows.is_empty()).then(|| RatioGroup { name: name.to_owned(), rows })
    });
    let groups: Vec<RatioGroup> = groups.collect();
    let (baseline, noise) = (record.settings.baseline.clone(), record.relative_noise());
    (!groups.is_empty()).then(|| Chart {
        section: "Transfer rates".to_owned(),
        title: format!("Copies of many files, beside {baseline}"),
        plot: Plot::Ratios(Ratios { baseline, noise, groups, span: None }),
    })
}

fn by_size(record: &Record) -> Option<Chart> {
    let megabytes = |one: &CaseRecord, _: Option<&Sample>| Some(one.case.axes.copies()?.bytes? as f64 / 1e6);
    let lines = lines(record, |one| one.case.axes.part() == Some(Part::Sizes), Figure::Rate, megabytes);
    (!lines.is_empty()).then(|| Chart {
        section: "Transfer rates".to_owned(),
        title: "One file, by its size".to_owned(),
        plot: Plot::Lines(Lines {
            x: Axis::logarithmic("MB of the file"),
            y: Axis::linear("MB/s"),
            lines,
            limits: limits::of_throughput(record),
        }),
    })
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
