//! What a record shows: tables and charts as plain data, and the forms in which they are written.
//!
//! An evaluation makes a [`View`] of a [`Record`](crate::measuring::Record); text, Markdown, CSV and the page are written from
//! it without knowing which evaluation it was.

mod bars;
mod chart;
mod compared;
mod csv;
mod facts;
mod figures;
pub mod form;
mod html;
mod limit_lines;
pub mod limits;
mod lines;
mod page;
mod parts;
mod ratios;
mod samples;
mod scale;
mod series;
mod side;
mod spans;
mod stacks;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use chart::{
    Axis, Bar, Bars, Chart, Line, Lines, Part, Parts, Plot, Point, Ratio, RatioGroup, Ratios, Span, Spans,
};
pub use compared::{compared_markdown, compared_page};
pub use csv::csv;
pub use figures::{ALL, beside, busy_bars, noise_sentence, plain, rate_bars};
pub use limits::limits_table;
pub use page::page;
pub use series::{Figure, is_unsure, line, lines, ratio};
pub use side::meaning;
pub use stacks::{Stack, Stacks};
pub use table::{Kind, Row, Table};
pub use text::{markdown, tables, terminal};

/// Whose processor time a flavor costs, as a sentence under the headline; copies have a table of it.
fn share(record: &crate::measuring::Record) -> Option<String> {
    (record.evaluation != crate::lanl::LANL).then(|| crate::evaluation::share_sentence(record)).flatten()
}

/// What a reader of a run gets to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The one sentence that a reader takes away.
    pub headline: String,
    /// Tables, the most telling first.
    pub tables: Vec<Table>,
    /// Charts.
    pub charts: Vec<Chart>,
}
