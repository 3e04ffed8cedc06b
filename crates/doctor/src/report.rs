//! The result of all checks, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};
use terminal::escape;

use crate::{HealthFinding, Severity};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The check found nothing wrong; the text says what is there.
    Passed(String),
    /// The findings of the check, at least one.
    Found(Vec<HealthFinding>),
    /// The check did not run, for this reason.
    Skipped(String),
}

/// One check with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRow {
    /// The name of the check, as in `docs/doctor.md`.
    pub check: &'static str,
    /// A heading of a few words.
    pub title: &'static str,
    /// The result of the check.
    pub outcome: CheckOutcome,
}

impl CheckRow {
    /// Returns whether checks that depend on this one cannot run.
    pub(crate) fn blocks(&self) -> bool {
        match &self.outcome {
            CheckOutcome::Passed(_) => false,
            CheckOutcome::Found(findings) => {
                findings.iter().any(|finding| finding.severity == Severity::Error)
            }
            CheckOutcome::Skipped(_) => true,
        }
    }

    const fn state(&self) -> &'static str {
        match &self.outcome {
            CheckOutcome::Passed(_) => "passed",
            CheckOutcome::Found(_) => "found",
            CheckOutcome::Skipped(_) => "skipped",
        }
    }
}

/// All checks in their order, and the findings with the root cause first.
#[derive(Clone, Debug)]
pub struct Examination {
    rows: Vec<CheckRow>,
}

impl Examination {
    pub(crate) fn new(rows: Vec<CheckRow>) -> Self {
        Self { rows }
    }

    /// Returns the checks in the order of the table.
    pub fn rows(&self) -> &[CheckRow] {
        &self.rows
    }

    /// Returns all findings with the names of their checks: errors before warnings, and the earlier
    /// check first. The first one is the root cause.
    pub fn findings(&self) -> Vec<(&'static str, &HealthFinding)> {
        let of = |row: &'_ CheckRow| match &row.outcome {
            CheckOutcome::Found(_) => Some(row.check),
            _ => None,
        };
        let mut found = Vec::new();
        for row in &self.rows {
            if let (Some(check), CheckOutcome::Found(findings)) = (of(row), &row.outcome) {
                found.extend(findings.iter().map(|finding| (check, finding)));
            }
        }
        found.sort_by_key(|(_, finding)| finding.severity);
        found
    }

    /// Returns the exit status: 0 without findings, 1 if one prevents the mount, 3 for warnings
    /// alone.
    pub fn status(&self) -> u8 {
        match self.findings().first() {
            None => 0,
            Some((_, finding)) if finding.severity == Severity::Error => 1,
            Some(_) => 3,
        }
    }

    /// Returns the report as JSON, as `docs/doctor.md` describes it.
    pub fn json(&self) -> Value {
        let findings: Vec<Value> = self.findings().iter().map(|(check, finding)| {
            json!({"check": check, "severity": finding.severity.word(), "cause": finding.cause, "remedy": finding.remedy})
        }).collect();
        let checks: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let note = match &row.outcome {
                    CheckOutcome::Passed(note) | CheckOutcome::Skipped(note) => Some(note),
                    CheckOutcome::Found(_) => None,
                };
                json!({"check": row.check, "title": row.title, "state": row.state(), "note": note})
            })
            .collect();
        json!({"status": self.status(), "findings": findings, "checks": checks})
    }
}

/// The report for a terminal. Servers choose names and messages in it, so that all texts are
/// escaped.
impl fmt::Display for Examination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, finding) in self.findings() {
            writeln!(out, "{:<8} {check}: {}", finding.severity, escape(&finding.cause))?;
            writeln!(out, "     fix {}", escape(&finding.remedy))?;
        }
        if !self.findings().is_empty() {
            writeln!(out)?;
        }
        for row in &self.rows {
            match &row.outcome {
                CheckOutcome::Passed(note) => {
                    writeln!(out, "{:<8} {:<14} {}", "ok", row.check, escape(note))?;
                }
                CheckOutcome::Skipped(why) => {
                    writeln!(out, "{:<8} {:<14} {}", "skipped", row.check, escape(why))?;
                }
                CheckOutcome::Found(_) => {}
            }
        }
        match self.status() {
            0 => writeln!(out, "nothing is wrong"),
            1 => writeln!(out, "the first line is the root cause"),
            _ => writeln!(out, "a mount works"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_cause_comes_before_earlier_warnings_and_decides_the_status() {
        let row = |check, finding| CheckRow { check, title: "", outcome: CheckOutcome::Found(vec![finding]) };
        let warned = row("names", HealthFinding::warning("a", "b"));
        let failed = row("kdc", HealthFinding::error("c", "d"));
        let both = Examination::new(vec![warned.clone(), failed]);
        assert_eq!((both.findings()[0].0, both.status()), ("kdc", 1));
        assert_eq!(Examination::new(vec![warned]).status(), 3);
        let none = Examination::new(vec![CheckRow {
            check: "kdc",
            title: "",
            outcome: CheckOutcome::Passed("x".into()),
        }]);
        assert_eq!(none.status(), 0);
    }

    #[test]
    fn texts_of_a_server_do_not_steer_the_terminal() {
        let hostile = "root\u{1b}[31mX\r\n\u{9b}2J\u{202e}";
        let row = |outcome| CheckRow { check: "owners", title: "", outcome };
        let all = Examination::new(vec![
            row(CheckOutcome::Found(vec![HealthFinding::warning(hostile, hostile)])),
            row(CheckOutcome::Passed(hostile.to_owned())),
            row(CheckOutcome::Skipped(hostile.to_owned())),
        ]);
        let shown = all.to_string();
        assert!(!shown.replace('\n', "").contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
        assert_eq!(shown.lines().count(), 2 + 1 + 2 + 1, "{shown}");
    }
}
