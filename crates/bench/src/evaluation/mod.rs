//! The evaluations: which cases they measure. The crate `report` shows their records.

pub mod anf;
pub mod nconnect;
mod only;
pub mod ontap;
mod plan;
mod quick;

pub use anf::{ANF, REPOSITORY, anf};
pub use nconnect::{NCONNECT, nconnect};
pub use only::Only;
pub use ontap::{ONTAP, OntapClimb};
pub use plan::{PLAN, PlanFile, own_plan};
pub use quick::{LOADS as QUICK_LOADS, QUICK, quick};

use crate::KnownRepository;
use crate::measuring::{Axes, Case, Evaluation, Load, Record, Unit};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Cases that are known from the beginning, one block of variants after the other.
pub struct Blocks {
    left: std::vec::IntoIter<Vec<Case>>,
}

impl Blocks {
    /// Plans these blocks; an empty one is skipped.
    pub fn new(mut blocks: Vec<Vec<Case>>) -> Self {
        blocks.retain(|block| !block.is_empty());
        Self { left: blocks.into_iter() }
    }

    /// Returns the blocks that are still to come.
    pub fn left(&self) -> &[Vec<Case>] {
        self.left.as_slice()
    }
}

/// Makes the block of a group: the same load on each variant.
pub fn block(variants: &[String], group: &str, unit: Unit, axes: &Axes, load: &Load) -> Vec<Case> {
    let case = |variant: &String| Case {
        group: group.to_owned(),
        variant: variant.clone(),
        unit,
        axes: axes.clone(),
        load: load.clone(),
    };
    variants.iter().map(case).collect()
}

impl Evaluation for Blocks {
    fn next(&mut self, _record: &Record) -> Option<Vec<Case>> {
        self.left.next()
    }

    fn to_come(&self, _record: &Record) -> usize {
        self.left().iter().map(Vec::len).sum()
    }

    fn copies(&self, stop: &AtomicBool) -> Result<u64> {
        let mut most: BTreeMap<&Path, u64> = BTreeMap::new();
        for case in self.left().iter().flatten() {
            if let Load::Git { repository: Some(path), layout, .. } = &case.load {
                let clients = most.entry(path).or_default();
                *clients = u64::from(layout.clients).max(*clients);
            }
        }
        let mut sizes =
            most.into_iter().map(|(path, clients)| Ok(clients * KnownRepository::of(path, stop)?.size()));
        sizes.try_fold(0, |most, size: Result<u64>| Ok(size?.max(most)))
    }
}
