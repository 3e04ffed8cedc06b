//! Reports on the records of `orthrus-bench`: tables and charts as plain data, and the page,
//! Markdown, CSV and text that are written from them.
//!
//! | module | what it does |
//! |---|---|
//! | `pages` | one file for each evaluation declares its page; [`view`] makes a [`PageView`] |
//! | `comparison` | two records side by side |
//! | `cost`, `cpu_attribution`, `server_stages`, `generator` | parts that several pages share |
//! | `chart`, `table` | charts and tables as data |
//! | `lines`, `bars`, `spans`, `ratios`, `parts`, `stacks` | each draws one kind of chart as SVG |
//! | `page`, `html`, `text`, `csv` | the output formats, the same for each evaluation |
//!
//! This crate reads records and measures nothing; `bench` measures and knows no page.

mod average;
mod bars;
mod chart;
mod comparison;
mod cost;
mod cpu_attribution;
mod csv;
mod facts;
mod figures;
pub mod form;
mod generator;
mod html;
mod limit_lines;
mod limits;
mod lines;
mod other_load;
mod page;
mod pages;
mod parts;
mod ratios;
mod samples;
mod scale;
mod series;
mod server_stages;
mod slots;
mod spans;
mod stacks;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod variant;
mod warnings;

pub use average::Average;
use chart::{
    Axis, Chart, LatencySpan, Lines, LoadPart, LoadParts, Plot, Ratio, RatioGroup, Ratios, Spans, VariantPart,
};
pub use comparison::{Compared, compared_markdown, compared_page};
use cpu_attribution::attribution_sentence;
pub use csv::csv;
use figures::{ALL, beside, busy_bars, noise_sentence, rate_bars};
pub use generator::generator_notes;
use limits::limits_table;
pub use other_load::other_load_note;
pub use page::page;
pub use pages::{scale_note, view};
use series::Figure;
pub use server_stages::stages_note;
pub use slots::slots_notes;
use stacks::{Stacks, StageStack};
use table::{RowKind, Table, TableRow};
pub use text::{markdown, tables, terminal};
use warnings::warnings;

/// Returns a sentence for the place under the headline: the side whose processor time a flavor
/// costs. Copies have a table instead.
fn share(record: &bench::measuring::Record) -> Option<String> {
    (!record.is_of_copies()).then(|| attribution_sentence(record)).flatten()
}

/// The content of a run's page, independent of the output format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageView {
    /// The one sentence that a reader takes away.
    pub headline: String,
    /// Tables, the most telling first.
    pub tables: Vec<Table>,
    /// All charts, in order.
    pub charts: Vec<Chart>,
}
