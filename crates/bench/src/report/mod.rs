//! Three forms of one report: a table for the terminal, JSON for programs, a page for people.

mod chart;
pub(crate) mod format;
mod headline;
mod html;
mod overview;
mod table;

pub use headline::headline;
pub use html::html;
pub use table::table;

use crate::Report;

/// Renders the report as JSON, indented, with a newline at the end.
///
/// # Errors
/// None in practice: all figures are finite.
pub fn json(report: &Report) -> serde_json::Result<String> {
    serde_json::to_string_pretty(report).map(|text| text + "\n")
}

#[cfg(test)]
mod browser_tests;
#[cfg(test)]
mod tests;
