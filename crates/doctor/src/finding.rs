//! Findings: a cause in one sentence, and the command that removes it.

use std::fmt;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It prevents the mount, or the access of the user.
    Error,
    /// It costs throughput or safety, or will prevent a mount later.
    Warning,
}

impl Severity {
    /// Returns the word for reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

/// A fault and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthFinding {
    /// The weight, which decides the exit status.
    pub severity: Severity,
    /// The cause in one sentence.
    pub cause: String,
    /// The command that fixes it, or the line to write into a file.
    pub remedy: String,
}

impl HealthFinding {
    /// Makes a finding that prevents the mount.
    pub(crate) fn error(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Error, cause: cause.into(), remedy: remedy.into() }
    }

    /// Makes a finding that does not prevent the mount.
    pub(crate) fn warning(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, cause: cause.into(), remedy: remedy.into() }
    }
}
