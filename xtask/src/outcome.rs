//! The result of a check that may be impossible on this machine.

/// The result of a check that did not fail.
pub(crate) enum CiOutcome {
    /// It found nothing wrong.
    Passed,
    /// It, or a part of it, cannot run here; with the reason.
    Skipped(String),
}
