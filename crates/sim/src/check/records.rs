//! Records appended under a lock: an acknowledged one is in the file once, any other at most once.

use crate::disk::SimDisk;
use crate::history::{Append, History, Violation};
use crate::trace::line;
use crate::work::appends::records;
use std::collections::BTreeMap;

/// Checks the file of records as it is at the end.
pub(super) fn check(history: &History, disk: &SimDisk) -> Vec<Violation> {
    let content = disk.read("a/log").unwrap_or_default();
    let mut found: BTreeMap<u64, usize> = BTreeMap::new();
    let mut violations = Vec::new();
    for (at, record) in records(&content).into_iter().enumerate() {
        // A crash may lose a write that was not acknowledged, and keep a later one behind it.
        let bytes = content.chunks(crate::work::appends::RECORD).nth(at).unwrap_or_default();
        match record {
            Some(id) => *found.entry(id).or_default() += 1,
            None if bytes.iter().all(|byte| *byte == 0) => {}
            None => {
                let detail = format!("record {at} of the file is none");
                violations.push(Violation {
                    property: "no read of data never written",
                    detail,
                    events: Vec::new(),
                });
            }
        }
    }
    for append in &history.appends {
        let times = found.remove(&append.id).unwrap_or(0);
        let property = match (times, append.acked) {
            (0, Some(_)) => "no lost acknowledged data",
            (0 | 1, _) => continue,
            _ => "exactly once",
        };
        let detail = format!("record {:016x} is in the file {times} times", append.id);
        violations.push(Violation { property, detail, events: events(history, append) });
    }
    for id in found.into_keys() {
        let detail = format!("record {id:016x} is there, but no client has written it");
        violations.push(Violation { property: "no read of data never written", detail, events: Vec::new() });
    }
    violations
}

/// Describes the records appended around the same time, and the crashes.
fn events(history: &History, append: &Append) -> Vec<String> {
    let at = history.appends.iter().position(|other| other.id == append.id).unwrap_or(0);
    let near = history.appends.iter().skip(at.saturating_sub(3)).take(8);
    let describe = |append: &Append| {
        let acked = append.acked.map_or("never".to_owned(), |at| format!("{:.6}", at.as_secs_f64()));
        line(append.begin, format_args!("client {} appends {:016x}, done {acked}", append.client, append.id))
    };
    let mut events: Vec<String> = near.map(describe).collect();
    events.extend(history.crashes.iter().map(|at| line(*at, format_args!("the server crashes"))));
    events.sort();
    events
}
