//! The evaluations: which cases they measure. The crate `report` shows their records.

pub mod anf;
pub mod nconnect;
mod only;
pub mod ontap;
mod plan;
mod quick;

pub use anf::{ANF, Anf, REPOSITORY};
pub use nconnect::{NCONNECT, Nconnect};
pub use only::Only;
pub use ontap::{ONTAP, Ontap};
pub use plan::{OwnPlan, PLAN, PlanFile};
pub use quick::{LOADS as QUICK_LOADS, QUICK, Quick};

use crate::KnownRepository;
use crate::measuring::{Case, Evaluation, Load, Record};
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
