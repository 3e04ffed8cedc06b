//! The evaluations: which cases they measure, and how their records are shown.

mod anf;
mod anf_view;
mod compare;
mod cost;
mod generator;
mod nconnect;
mod ontap;
mod ontap_view;
mod plan;
mod quick;
mod quick_view;
mod share;
mod stages;
#[cfg(test)]
pub(crate) mod tests;

pub use anf::{ANF, Anf, REPOSITORY};
pub use compare::Compared;
pub use cost::{Cost, headline};
pub use generator::generator_notes;
pub use nconnect::{NCONNECT, Nconnect};
pub use ontap::{ONTAP, Ontap};
pub use plan::{OwnPlan, PLAN, PlanFile};
pub use quick::{LOADS as QUICK_LOADS, QUICK, Quick};
pub use share::{Share, share_sentence};
pub use stages::stages_note;

use crate::KnownRepository;
use crate::lanl::LANL;
use crate::measuring::{Case, Evaluation, Load, Record};
use crate::view::{View, plain};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Cases that are known from the beginning, one block of sides after the other.
struct Blocks {
    left: std::vec::IntoIter<Vec<Case>>,
}

impl Blocks {
    fn new(blocks: Vec<Vec<Case>>) -> Self {
        Self { left: blocks.into_iter() }
    }
}

impl Evaluation for Blocks {
    fn next(&mut self, _record: &Record) -> Option<Vec<Case>> {
        self.left.next()
    }

    fn to_come(&self, _record: &Record) -> usize {
        self.left.as_slice().iter().map(Vec::len).sum()
    }

    fn copies(&self, stop: &AtomicBool) -> Result<u64> {
        let mut most: BTreeMap<&Path, u64> = BTreeMap::new();
        for case in self.left.as_slice().iter().flatten() {
            if let Load::Git { repository: Some(path), reach, .. } = &case.load {
                let clients = most.entry(path).or_default();
                *clients = u64::from(reach.clients).max(*clients);
            }
        }
        let mut sizes =
            most.into_iter().map(|(path, clients)| Ok(clients * KnownRepository::of(path, stop)?.size()));
        sizes.try_fold(0, |most, size: Result<u64>| Ok(size?.max(most)))
    }
}

/// Shows a record as its evaluation does.
pub fn view(record: &Record) -> View {
    let mut view = match record.evaluation.as_str() {
        ANF => anf_view::view(record),
        ONTAP => ontap_view::view(record),
        NCONNECT => nconnect::view(record),
        QUICK => quick_view::view(record),
        LANL => crate::lanl::view(record),
        _ => plain(record, headline(record)),
    };
    stages::add(&mut view, record);
    if let Some(link) = record.environment.link {
        view.headline = format!("Over a link of {link}: {}", view.headline);
    }
    view
}
