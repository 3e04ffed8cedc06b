//! The exit of a run that has skipped flavors or cases.

/// A run that came to its end and has left something out: exit status [`LeftOut::STATUS`]. The
/// report is whole.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LeftOut(pub String);

impl LeftOut {
    /// The exit status; 0 is for a run that has measured all, 1 for one that did not come to its
    /// end.
    pub(crate) const STATUS: u8 = 3;
}
