//! Lock exclusion: two owners are sure of one byte at a time only if both read.

use crate::history::{History, LockHold, Violation};
use crate::trace::line;
use std::collections::BTreeMap;
use std::time::Duration;

/// Checks the locks of each byte.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut bytes: BTreeMap<(u64, usize), Vec<&LockHold>> = BTreeMap::new();
    for hold in &history.holds {
        bytes.entry((hold.file, hold.cell)).or_default().push(hold);
    }
    let mut violations = Vec::new();
    for ((_, cell), mut holds) in bytes {
        holds.sort_by_key(|hold| hold.from);
        for (at, hold) in holds.iter().enumerate() {
            let until = hold.until.unwrap_or(Duration::MAX);
            let others = holds.iter().skip(at + 1).take_while(|other| other.from < until);
            let conflict = others
                .filter(|other| other.owner != hold.owner && (other.write || hold.write))
                .find(|other| other.until.is_none_or(|until| until > other.from));
            if let Some(other) = conflict {
                let detail = format!("byte {cell} has two owners: {:?} and {:?}", hold.owner, other.owner);
                let events = vec![describe(hold), describe(other)];
                violations.push(Violation { property: "lock exclusion", detail, events });
                break;
            }
        }
    }
    violations
}

fn describe(hold: &LockHold) -> String {
    let kind = if hold.write { "writing" } else { "reading" };
    let until = hold.until.map_or("the end".to_owned(), |until| format!("{:.6}", until.as_secs_f64()));
    line(hold.from, format_args!("{:?} has the byte locked for {kind}, until {until}", hold.owner))
}
