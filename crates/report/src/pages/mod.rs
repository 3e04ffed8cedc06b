//! The pages of the evaluations: one file each, whose `PAGE` declares headline, tables and charts.
//! No other list of a page's contents exists.

mod anf;
mod findings;
mod lanl;
mod nconnect;
mod ontap;
mod quick;
#[cfg(test)]
pub(crate) mod tests;

pub use lanl::scale_note;

use crate::cost::headline;
use crate::{Chart, PageView, Table, beside, busy_bars, figures, rate_bars, server_stages};
use bench::evaluation::PLAN;
use bench::measuring::Record;

/// The declaration of the page of an evaluation.
struct PageSpec {
    /// The evaluation, by its name in records.
    evaluation: &'static str,
    /// The sentence that a reader takes away.
    headline: fn(&Record) -> String,
    /// The tables, the most telling first; one that is none is not shown.
    tables: &'static [fn(&Record) -> Option<Table>],
    /// The charts, in their order.
    charts: &'static [fn(&Record) -> Vec<Chart>],
}

/// The pages of the evaluations that have one of their own.
const PAGES: [PageSpec; 5] = [anf::PAGE, lanl::PAGE, nconnect::PAGE, ontap::PAGE, quick::PAGE];

/// The page of all other records: all figures, rates and processor time.
const PLAIN: PageSpec = PageSpec {
    evaluation: PLAN,
    headline,
    tables: &[figures::figures_table],
    charts: &[beside, rate_bars, |record| busy_bars(record, |_| true)],
};

/// Turns a record into the view of its evaluation. A record of an unknown evaluation gets the
/// tables and charts that every record has.
pub fn view(record: &Record) -> PageView {
    let page = PAGES.iter().find(|page| page.evaluation == record.evaluation).unwrap_or(&PLAIN);
    let mut view = PageView {
        headline: (page.headline)(record),
        tables: page.tables.iter().filter_map(|table| table(record)).collect(),
        charts: page.charts.iter().flat_map(|charts| charts(record)).collect(),
    };
    server_stages::add(&mut view, record);
    view
}
