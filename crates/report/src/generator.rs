//! Whether the load generator held anything up.

use crate::form::digits;
use bench::measuring::{CaseRecord, Interval, Load, Record, Sample};

/// The rates that one core of the client should reach: 4 KiB reads a second with sys, MB/s with
/// krb5p.
const READS: f64 = 400_000.0;
const SEALED: f64 = 2_000.0;

/// From this part of its cores on a client is busy all the time.
const BUSY: f64 = 0.95;

/// Says in sentences how much one core of this client drives, and in which cases the client had no
/// time left.
pub fn generator_notes(record: &Record) -> Vec<String> {
    // Mounts and copies use other load generators.
    if !record.environment.mounts.is_empty() || record.is_of_copies() {
        return Vec::new();
    }
    let mut notes: Vec<String> = [reads(record), sealed(record)].into_iter().flatten().collect();
    notes.extend(saturated(record));
    notes
}

fn pure_reads(case: &CaseRecord, least: u64, most: u64) -> bool {
    let Load::Transfer(transfer) = &case.load else { return false };
    transfer.writes == 0
        && transfer.rate.is_none()
        && transfer.depth >= 8
        && (least..=most).contains(&transfer.size)
}

/// Work for a second of the client's processor time: the best of the medians of the cases that fit.
fn driven(record: &Record, variant: &str, sizes: (u64, u64), work: fn(&Sample) -> f64) -> Option<f64> {
    let fits =
        record.cases.iter().filter(|case| case.variant == variant && pure_reads(case, sizes.0, sizes.1));
    let median = |case: &CaseRecord| {
        let rates = case.counted().map(|sample| Some(work(sample) / sample.client_cpu_seconds?));
        Some(Interval::of(rates.collect::<Option<Vec<f64>>>()?)?.median)
    };
    fits.filter_map(median).reduce(f64::max)
}

fn verdict(found: f64, wanted: f64) -> &'static str {
    if found >= wanted {
        ""
    } else {
        " That is less than it should be: the client limits the figures of a faster server."
    }
}

fn reads(record: &Record) -> Option<String> {
    let found = driven(record, "sys", (4096, 4096), |sample| sample.operations as f64)?;
    Some(format!(
        "One core of the load generator drives {} reads of 4 KiB a second with sys (by its processor time; {} are wanted).{}",
        digits(found),
        digits(READS),
        verdict(found, READS)
    ))
}

fn sealed(record: &Record) -> Option<String> {
    let found = driven(record, "krb5p", (128 << 10, u64::MAX), |sample| sample.bytes as f64 / 1e6)?;
    Some(format!(
        "One core of it moves {} MB/s of krb5p reads ({} are wanted).{}",
        digits(found),
        digits(SEALED),
        verdict(found, SEALED)
    ))
}

/// Names the groups in which the client was busy all the time, and the server was not or its time
/// is unknown.
fn saturated(record: &Record) -> Option<String> {
    let cores = record.environment.cores.max(1) as f64;
    let held_up = |case: &&CaseRecord| {
        let threads = f64::from(case.load.layout().clients).min(cores);
        let busy = |seconds: Option<f64>, sample: &Sample| seconds.map(|seconds| sample.busy(seconds));
        let mut samples = case.counted().peekable();
        samples.peek().is_some()
            && samples.all(|sample| {
                let client = busy(sample.client_cpu_seconds, sample).unwrap_or(0.0);
                let server = busy(sample.server_cpu_seconds, sample).unwrap_or(0.0);
                client >= BUSY * threads && server < client
            })
    };
    let found: Vec<&CaseRecord> = record.cases.iter().filter(held_up).collect();
    let is_known = |case: &&CaseRecord| case.counted().all(|sample| sample.server_cpu_seconds.is_some());
    let said = match found.iter().all(is_known) {
        true => "the client was busy all the time and the server was not, so the client held it up",
        false => {
            "the client was busy all the time, so it may have held up the server, whose time is not known"
        }
    };
    let names: Vec<String> = found.iter().map(|case| case.id()).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("In one case {said}: {}.", names.join("; "))),
        count @ 2..=4 => Some(format!("In {count} cases {said}: {}.", names.join("; "))),
        count => Some(format!(
            "In {count} of {} cases {said}: {}; and others.",
            record.cases.len(),
            names.get(..3).unwrap_or_default().join("; ")
        )),
    }
}
