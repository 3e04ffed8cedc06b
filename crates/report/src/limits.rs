//! How far the machine could go, as lines of charts: in bytes, in requests of a size, in time.

use super::Table;
use super::form::digits;
use bench::measuring::{Case, Load, MachineLimit, Record, Unit};

/// Returns the limits on throughput that concern this run: its own encryption type, and the link if
/// there was one.
fn moving(record: &Record) -> impl Iterator<Item = (String, &MachineLimit)> {
    let enctype = record.environment.enctype.as_deref().unwrap_or("aes256-cts-hmac-sha1-96");
    let linked = record.limits.iter().any(|limit| limit.name == "link");
    let name = move |limit: &MachineLimit| match limit.name.split_once(", ") {
        Some(("sealing", of)) => (of == enctype).then(|| "one core seals".to_owned()),
        Some(("opening", of)) => (of == enctype).then(|| "one core opens".to_owned()),
        _ => (!linked || limit.name != "loopback").then(|| limit.name.clone()),
    };
    let of_bytes = record.limits.iter().filter(|limit| limit.unit == "MB/s");
    of_bytes.filter_map(move |limit| Some((name(limit)?, limit)))
}

/// Limits of a throughput in MB/s.
pub(crate) fn of_throughput(record: &Record) -> Vec<(String, f64)> {
    moving(record).map(|(name, limit)| (name, limit.value)).collect()
}

/// Converts the same limits to requests of `size` bytes a second.
pub(crate) fn of_requests(record: &Record, size: u64) -> Vec<(String, f64)> {
    moving(record).map(|(name, limit)| (name, limit.value * 1e6 / size.max(1) as f64)).collect()
}

/// The least that a request takes, in microseconds.
pub(crate) fn of_latency(record: &Record) -> Vec<(String, f64)> {
    let linked = record.limits.iter().any(|limit| limit.name == "link round trip");
    let fits = |limit: &&MachineLimit| limit.unit == "us" && (!linked || limit.name != "loopback round trip");
    record.limits.iter().filter(fits).map(|limit| (limit.name.clone(), limit.value)).collect()
}

/// Limits of a case's rate, where its load has a size.
pub(crate) fn of_case(record: &Record, case: &Case) -> Vec<(String, f64)> {
    match (&case.load, case.unit) {
        (_, Unit::MegabytesPerSecond) => of_throughput(record),
        (Load::Transfer(transfer), _) => of_requests(record, transfer.size),
        _ => Vec::new(),
    }
}

/// The machine's limits as a table; none where they were not measured.
pub(crate) fn limits_table(record: &Record) -> Option<Table> {
    let how = "Measured in this run. The charts draw them as lines; for requests of one size, a line is the rate that the limit allows.";
    let mut table =
        Table::new("How far this machine could go", how, &["limit", "figure", "how it was measured"]);
    for limit in &record.limits {
        let unit = if limit.unit == "us" { "µs" } else { &limit.unit };
        table
            .measured(limit.name.clone(), vec![format!("{} {unit}", digits(limit.value)), limit.how.clone()]);
    }
    table.unless_empty()
}
