//! The pages of the evaluations.

mod anf;
mod findings;
mod lanl;
mod nconnect;
mod ontap;
mod quick;
#[cfg(test)]
pub(crate) mod tests;

pub use findings::{Finding, Verdict, findings};
pub use lanl::scale_note;

use crate::{View, headline, plain, server_stages};
use bench::evaluation::{ANF, NCONNECT, ONTAP, QUICK};
use bench::lanl::LANL;
use bench::measuring::Record;

/// Turns a record into the view of its evaluation. A record of an unknown evaluation gets the
/// tables and charts that every record has.
pub fn view(record: &Record) -> View {
    let mut view = match record.evaluation.as_str() {
        ANF => anf::view(record),
        ONTAP => ontap::view(record),
        NCONNECT => nconnect::view(record),
        QUICK => quick::view(record),
        LANL => lanl::view(record),
        _ => plain(record, headline(record)),
    };
    server_stages::add(&mut view, record);
    view
}
