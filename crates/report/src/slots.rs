//! Whether sessions have fewer slots than loads have requests in flight.

use bench::measuring::{Case, Load, Record};
use std::collections::BTreeMap;

/// Returns sentences on the variants with sessions of fewer slots than a load wants in flight.
pub fn slots_notes(record: &Record) -> Vec<String> {
    let mut few: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (variant, slots) in &record.environment.slots {
        if record.cases.iter().any(|case| case.variant == *variant && wanted(case) > *slots) {
            few.entry(*slots).or_default().push(variant);
        }
    }
    let note = |(slots, variants): (u32, Vec<&str>)| {
        format!(
            "Sessions of {} have {slots} slots: loads with more requests of a client in flight had {slots}.",
            variants.join(", ")
        )
    };
    few.into_iter().map(note).collect()
}

/// Returns the requests that a load wants in flight of each client. Loads with a number of slots of
/// their own are as they were asked for.
fn wanted(case: &Case) -> u32 {
    match &case.load {
        Load::Transfer(transfer) if transfer.layout.slots.is_none() => transfer.depth,
        _ => 0,
    }
}
