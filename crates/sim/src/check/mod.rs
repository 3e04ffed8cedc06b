//! The checker: verifies the history of a run and the content of the disk at the end.

mod data;
mod locks;
mod names;
mod records;
mod shares;

use crate::disk::SimDisk;
use crate::history::{History, Violation};

/// Returns all violations of a run.
pub(crate) fn check(history: &History, disk: &SimDisk) -> Vec<Violation> {
    let mut violations = history.complaints.clone();
    violations.extend(names::check(history, disk));
    violations.extend(data::check(history, disk));
    violations.extend(locks::check(history));
    violations.extend(shares::check(history));
    violations.extend(records::check(history, disk));
    violations
}
