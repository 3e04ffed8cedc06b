//! `bench compare`: two runs side by side.

use crate::Unit;
use crate::measuring::{CaseRecord, Interval, Record};
use crate::view::form::{change, latency, rate};
use crate::view::{Table, View};

/// How two medians of different runs compare.
enum Difference {
    /// The intervals do not meet, and the medians are further apart than both machines' noise.
    Significant(f64),
    /// They do not meet, but the noise could have made that.
    Noise,
    /// They meet.
    None,
}

fn differ(one: &Interval, other: &Interval, noise: f64) -> Difference {
    let ratio = other.median / one.median;
    // A single repetition has no interval to stay out of.
    if one.values < 2 || other.values < 2 || (one.low <= other.high && other.low <= one.high) {
        Difference::None
    } else if (ratio - 1.0).abs() <= noise {
        Difference::Noise
    } else {
        Difference::Significant(ratio)
    }
}

/// Shows what is in both records, the first beside the second, with a statement of what differs significantly.
pub fn compare(first: &Record, second: &Record) -> View {
    let noise =
        [first, second].map(|record| record.noise.map_or(0.0, |noise| noise.relative)).into_iter().sum();
    let how = "Rates and median latencies. Two runs did not run side by side: a difference is called significant when the intervals do not meet and the \
               medians are further apart than the noise of both runs together.";
    let mut table = Table::new(
        "Both runs",
        how,
        &["case", "first", "second", "change", "p50, first", "p50, second", "change of p50", ""],
    );
    let (mut faster, mut slower, mut same, mut within) = (Vec::new(), Vec::new(), 0, 0);
    for one in &first.cases {
        let Some((own, other)) = second.find(&one.case).and_then(|other| both(one, other)) else { continue };
        let found = differ(&own.rate, &other.rate, noise);
        let said = match found {
            Difference::Significant(ratio) => {
                let list = if ratio > 1.0 { &mut faster } else { &mut slower };
                list.push(format!("{} ({})", one.case.id(), change(ratio)));
                "significant"
            }
            Difference::Noise => {
                within += 1;
                "below the noise"
            }
            Difference::None => {
                same += 1;
                "no difference shown"
            }
        };
        table.measured(one.case.id(), cells(one.case.unit, own, other, said));
    }
    let headline = statement(&faster, &slower, same + within);
    let mut tables =
        vec![sentences("The second run is faster", &faster), sentences("The second run is slower", &slower)];
    tables.retain(|table| !table.rows.is_empty());
    tables.push(table);
    View { headline, tables, charts: Vec::new() }
}

fn both<'a>(
    one: &'a CaseRecord,
    other: &'a CaseRecord,
) -> Option<(&'a crate::measuring::Figures, &'a crate::measuring::Figures)> {
    one.figures.as_ref().zip(other.figures.as_ref())
}

fn cells(
    unit: Unit,
    own: &crate::measuring::Figures,
    other: &crate::measuring::Figures,
    said: &str,
) -> Vec<String> {
    let time =
        |interval: Option<Interval>| interval.map_or("–".to_owned(), |interval| latency(interval.median));
    let times = own.p50_us.zip(other.p50_us).map(|(own, other)| change(other.median / own.median));
    vec![
        rate(own.rate.median, unit),
        rate(other.rate.median, unit),
        change(other.rate.median / own.rate.median),
        time(own.p50_us),
        time(other.p50_us),
        times.unwrap_or_else(|| "–".to_owned()),
        said.to_owned(),
    ]
}

fn sentences(title: &str, list: &[String]) -> Table {
    let mut table = Table::new(title, "", &["case and change of its rate"]);
    list.iter().for_each(|said| table.measured(said.clone(), Vec::new()));
    table
}

fn statement(faster: &[String], slower: &[String], same: usize) -> String {
    match (faster.len(), slower.len()) {
        (0, 0) if same == 0 => "The two runs have no case in common.".to_owned(),
        (0, 0) => format!("Nothing differs significantly in {same} cases."),
        (more, less) => {
            let all = more + less + same;
            format!("Of {all} cases the second run is significantly faster in {more} and slower in {less}.")
        }
    }
}
