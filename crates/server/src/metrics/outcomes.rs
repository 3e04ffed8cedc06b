//! Counts of failed operations by status, and of errors of file systems by errno.

use super::ServedRequests;
use super::errno;
use super::places::{EXPORT_COUNTERS_MAX, ExportPlaces};
use crate::log_limit::LogLimit;
use nfs4::{NfsOpnum4, Nfsstat4};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Rows of operations: one by number, and one for OP_ILLEGAL.
pub(super) const OPERATIONS: usize = 80;
/// Columns of statuses: below 100, and from 10001 on.
const STATUSES: usize = 200;
/// Pairs of operation and errno that are counted. Further ones are only logged.
const ERRNO_ROWS_MAX: usize = 256;

/// Counters of operations by status since the server's start.
#[derive(Debug)]
pub struct Outcomes {
    failures: Box<[AtomicU64]>,
    errors: Mutex<BTreeMap<(&'static str, i32), u64>>,
    undecodable: [AtomicU64; UNDECODABLE.len()],
    places: ExportPlaces,
    log: LogLimit,
}

impl Default for Outcomes {
    fn default() -> Self {
        let zeros = |_| AtomicU64::new(0);
        Self {
            failures: (0..OPERATIONS * STATUSES).map(zeros).collect(),
            errors: Mutex::default(),
            undecodable: Default::default(),
            places: ExportPlaces::default(),
            log: LogLimit::default(),
        }
    }
}

pub(super) fn row(opnum: NfsOpnum4) -> usize {
    (opnum as usize).min(OPERATIONS - 1)
}

/// Returns the name of the operation of a row.
pub(super) fn name_of(row: usize) -> &'static str {
    let found = NfsOpnum4::ALL.iter().find(|opnum| self::row(**opnum) == row);
    name(*found.unwrap_or(&NfsOpnum4::OP_ILLEGAL))
}

fn column(status: Nfsstat4) -> usize {
    match status as usize {
        low @ 0..100 => low,
        high => (high.saturating_sub(10_001) + 100).min(STATUSES - 1),
    }
}

/// Names of the errors of XDR in metrics, in the order of [`fault`].
const UNDECODABLE: [&str; 6] =
    ["truncated", "too_long", "invalid_bool", "invalid_enum", "invalid_discriminant", "trailing_bytes"];

/// Returns the index of an error in [`UNDECODABLE`].
fn fault(error: &xdr::Error) -> usize {
    match error {
        xdr::Error::Truncated { .. } => 0,
        xdr::Error::TooLong { .. } => 1,
        xdr::Error::InvalidBool(_) => 2,
        xdr::Error::InvalidEnum { .. } => 3,
        xdr::Error::InvalidDiscriminant { .. } => 4,
        xdr::Error::TrailingBytes(_) => 5,
    }
}

/// Returns the operation's name in metrics: `READ`.
fn name(opnum: NfsOpnum4) -> &'static str {
    opnum.name().strip_prefix("OP_").unwrap_or(opnum.name())
}

impl Outcomes {
    /// Counts an operation that has failed.
    pub(crate) fn count_failure(&self, opnum: NfsOpnum4, status: Nfsstat4) {
        if let Some(counter) = self.failures.get(row(opnum) * STATUSES + column(status)) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Returns the place of an export's counters.
    pub(crate) fn place(&self, id: u32, pseudo_path: &str) -> u8 {
        self.places.place(id, pseudo_path)
    }

    /// Returns the number and the pseudo path of each export with counters of its own; the first
    /// has place 1. Place 0 is that of requests without an export. The last place, which has no
    /// name, is that of all further exports.
    pub fn export_names(&self) -> Vec<(u32, String)> {
        self.places.names()
    }

    /// The largest number of exports with counters of their own.
    pub const EXPORTS_MAX: usize = EXPORT_COUNTERS_MAX;

    /// Counts and logs arguments that cannot be decoded. `operation` is a name as in the RFC.
    pub(crate) fn note_undecodable(&self, operation: &'static str, error: xdr::Error) {
        self.undecodable[fault(&error)].fetch_add(1, Relaxed);
        tracing::debug!(operation, "arguments cannot be decoded: {error}");
    }

    /// Counts and logs an error of the file system below an operation on an export, such as EIO.
    /// The log has at most a line a second.
    pub(crate) fn note_error(&self, now: Duration, opnum: NfsOpnum4, export: &str, errno: i32) {
        let name = name(opnum);
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < ERRNO_ROWS_MAX || errors.contains_key(&(name, errno)) {
            *errors.entry((name, errno)).or_default() += 1;
        }
        drop(errors);
        if let Some(suppressed) = self.log.permit(now) {
            let error = std::io::Error::from_raw_os_error(errno);
            let remedy = errno::remedy(errno);
            tracing::error!(
                operation = name,
                export,
                suppressed,
                "the file system failed: {error}; {remedy}"
            );
        }
    }

    /// Returns all counts of operations that are not zero: operation, status, count.
    pub fn statuses(&self, served: &ServedRequests) -> Vec<(&'static str, &'static str, u64)> {
        let (mut counts, successes) = (Vec::new(), served.successes());
        for opnum in NfsOpnum4::ALL {
            for status in Nfsstat4::ALL {
                let count: u64 = match status {
                    Nfsstat4::NFS4_OK => successes.get(row(*opnum)).copied().unwrap_or_default(),
                    _ => {
                        let counter = self.failures.get(row(*opnum) * STATUSES + column(*status));
                        counter.map_or(0, |count| count.load(Relaxed))
                    }
                };
                if count > 0 {
                    counts.push((name(*opnum), status.name(), count));
                }
            }
        }
        counts
    }

    /// Returns the counts of undecodable arguments: kind of error, count. Kinds without a count are
    /// omitted.
    pub fn undecodable(&self) -> Vec<(&'static str, u64)> {
        let counts = UNDECODABLE.into_iter().zip(self.undecodable.iter().map(|count| count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the counts of errors of file systems: operation, errno, count.
    pub fn errors(&self) -> Vec<(&'static str, i32, u64)> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().map(|((operation, errno), count)| (*operation, *errno, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use xdr::Error as XdrError;

    #[test]
    fn every_operation_and_status_has_a_counter_of_its_own() {
        let rows: BTreeSet<_> = NfsOpnum4::ALL.iter().map(|opnum| row(*opnum)).collect();
        let columns: BTreeSet<_> = Nfsstat4::ALL.iter().map(|status| column(*status)).collect();
        assert_eq!((rows.len(), columns.len()), (NfsOpnum4::ALL.len(), Nfsstat4::ALL.len()));
    }

    #[test]
    fn operations_are_counted_by_status() {
        let (outcomes, served) = (Outcomes::default(), ServedRequests::default());
        for _ in 0..40 {
            served.shared().succeeded(NfsOpnum4::OP_READ);
        }
        outcomes.count_failure(NfsOpnum4::OP_READ, Nfsstat4::NFS4ERR_IO);
        outcomes.count_failure(NfsOpnum4::OP_ILLEGAL, Nfsstat4::NFS4ERR_OP_ILLEGAL);
        let expected =
            [("READ", "NFS4_OK", 40), ("READ", "NFS4ERR_IO", 1), ("ILLEGAL", "NFS4ERR_OP_ILLEGAL", 1)];
        assert_eq!(outcomes.statuses(&served), expected);
    }

    #[test]
    fn errors_of_file_systems_are_counted_by_errno_in_a_bounded_table() {
        let outcomes = Outcomes::default();
        for errno in (0..1000).chain([5, 5]) {
            outcomes.note_error(Duration::ZERO, NfsOpnum4::OP_WRITE, "/", errno);
        }
        let errors = outcomes.errors();
        assert_eq!(errors.len(), ERRNO_ROWS_MAX);
        assert!(errors.contains(&("WRITE", 5, 3)));
    }

    #[test]
    fn undecodable_arguments_are_counted_by_the_error_of_xdr() {
        let outcomes = Outcomes::default();
        let truncated = XdrError::Truncated { needed: 8, remaining: 4 };
        for error in [truncated, XdrError::InvalidBool(2), truncated] {
            outcomes.note_undecodable("READ", error);
        }
        assert_eq!(outcomes.undecodable(), [("truncated", 2), ("invalid_bool", 1)]);
    }
}
