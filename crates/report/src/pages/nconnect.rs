//! The page of `nconnect`: rates by number of connections, and losses.

use super::PageSpec;
use crate::cost::headline;
use crate::form::{part_apart, rate};
use crate::series::lines;
use crate::{Axis, Chart, Figure, Lines, Table, busy_bars, limits};
use bench::Unit;
use bench::evaluation::nconnect::{NCONNECT, SIZE, group};
use bench::measuring::{CaseRecord, Record};

/// The page of `nconnect`.
pub(super) const PAGE: PageSpec = PageSpec {
    evaluation: NCONNECT,
    headline: sentence,
    tables: &[rates, lost],
    charts: &[curves, |record| {
        busy_bars(record, |case| case.axes.connections().is_some_and(|axes| !axes.reordered))
    }],
};

/// Returns the loss over all connections, with its cost.
fn sentence(record: &Record) -> String {
    let lost: u64 = record.cases.iter().map(losses).sum();
    match lost {
        0 if !record.skipped.is_empty() => headline(record),
        0 => format!(
            "{} Nothing was dropped, reconnected or sent again over any number of connections.",
            headline(record)
        ),
        lost => {
            format!("{} Several connections lost {lost} calls, connections or contexts.", headline(record))
        }
    }
}

/// Counts events that must not happen: drops, reconnects, repeated calls, renewed contexts.
fn losses(case: &CaseRecord) -> u64 {
    [
        "window_drops",
        "client_reconnects",
        "client_calls_repeated",
        "client_contexts_renewed",
        "client_bad_xids",
    ]
    .iter()
    .map(|name| case.counter(name))
    .sum()
}

fn rates(record: &Record) -> Option<Table> {
    let variants = record.variants();
    let how = "IOPS with 64 requests in flight on all connections together, in brackets as a part of the same flavor on one connection. \
               These did not run side by side: ≈ marks a change within their intervals or below the noise of the machine. Reordered: the client holds connections back at random, so that calls arrive in another order than that of their sequence numbers. Published: knfsd of Linux 6.18 \
               with krb5p and nconnect=8 falls from about 1 GB/s to about 0, because calls overrun the 128 entries of its window.";
    let first = "random reads of 4 KiB";
    let mut table = Table::by_variant("IOPS by number of connections", how, first, &variants);
    for name in record.groups() {
        let cell = |variant: &&str| {
            let rate_of = |name: &str| Some(record.variant(name, variant)?.figures.as_ref()?.rate);
            let own = rate_of(name)?;
            let single = rate_of(&group(1, false)).filter(|_| name != group(1, false));
            let part = single.map_or(String::new(), |single| {
                format!(" ({})", part_apart(&own, &single, record.relative_noise()))
            });
            Some(format!("{}{part}", rate(own.median, Unit::OperationsPerSecond)))
        };
        let blank = |variant: &&str| record.blank(name, variant);
        table.measured(
            name,
            variants.iter().map(|variant| cell(variant).unwrap_or_else(|| blank(variant))).collect(),
        );
    }
    Some(table)
}

fn lost(record: &Record) -> Option<Table> {
    let on_mounts = !record.environment.mounts.is_empty();
    Some(if on_mounts { lost_on_mounts(record) } else { lost_by_client(record) })
}

fn lost_by_client(record: &Record) -> Table {
    let told =
        record.cases.iter().flat_map(CaseRecord::counted).any(|sample| sample.counters.contains_key("calls"));
    let how = if told {
        "Counted by server and client over all repetitions; all counts should be 0. Behind: calls that arrived after 32 or more later ones of their context, \
         which servers with a window of 32 would drop."
    } else {
        "Counted by the client over all repetitions; all counts should be 0. The server does not report its drops: a drop shows as a reconnect or a repeated call."
    };
    let mut table = Table::new(
        "What was lost",
        how,
        &["case", "drops", "reconnects", "sent again", "contexts made anew", "behind by 32 or more"],
    );
    for case in record.cases.iter().filter(|case| case.figures.is_some()) {
        let count = |name: &str| case.counter(name).to_string();
        let drops = if told { count("window_drops") } else { "unknown".to_owned() };
        let calls = case.counter("client_calls").max(1);
        let behind: u64 = case
            .counted()
            .flat_map(|sample| &sample.counters)
            .filter(|(name, _)| {
                name.strip_prefix("lag_").and_then(|lag| lag.parse().ok()).is_some_and(|lag: u32| lag >= 32)
            })
            .map(|(_, count)| count)
            .sum();
        let behind = if told {
            format!("{:.1} %", behind as f64 * 100.0 / calls as f64)
        } else {
            "unknown".to_owned()
        };
        let cells = vec![
            drops,
            count("client_reconnects"),
            count("client_calls_repeated"),
            count("client_contexts_renewed"),
            behind,
        ];
        table.measured(case.id(), cells);
    }
    table
}

/// Returns the statistics of the kernel client.
fn lost_on_mounts(record: &Record) -> Table {
    let how = "Counted by the kernel's client over all repetitions (/proc/self/mountstats); all counts should be 0. A call that \
               the server drops for its sequence window shows as a repeated call on a new connection. The kernel does not count new \
               contexts. On a mount, calls cannot be reordered on purpose.";
    let columns = ["case", "calls", "reconnects", "sent again", "timeouts", "replies to no call"];
    let mut table = Table::new("What was lost", how, &columns);
    for case in record.cases.iter().filter(|case| case.figures.is_some()) {
        let counted = [
            "client_calls",
            "client_reconnects",
            "client_calls_repeated",
            "client_timeouts",
            "client_bad_xids",
        ];
        table.measured(case.id(), counted.map(|name| case.counter(name).to_string()).to_vec());
    }
    table
}

fn curves(record: &Record) -> Vec<Chart> {
    // One connection is the first point of both charts.
    let place = |case: &CaseRecord| case.axes.connections();
    let chart = |(reordered, title)| {
        let wanted = |case: &CaseRecord| {
            place(case).is_some_and(|axes| axes.reordered == reordered || axes.connections == 1)
        };
        let lines = lines(record, wanted, Figure::Rate, |case, _| Some(f64::from(place(case)?.connections)));
        let (x, y) = (Axis::logarithmic("connections"), Axis::linear("IOPS"));
        let limits = limits::of_requests(record, SIZE);
        Chart::of_lines("IOPS by number of connections", title, Lines { x, y, lines, limits })
    };
    [(false, "In order"), (true, "Reordered")].into_iter().filter_map(chart).collect()
}
