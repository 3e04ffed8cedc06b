//! `bench quick`: all flavors side by side in a minute: sequential and random I/O, and metadata.

use super::Blocks;
use crate::Unit;
use crate::measuring::{
    Axes, Case, Evaluation, Load, LoadLevel, Reach, Record, Settings, Transfer, Workload, WorkloadAxes,
};

/// Name of the evaluation.
pub const QUICK: &str = "quick";

/// Loads that are measured.
pub const LOADS: usize = 7;

/// Reads or writes: what they are called, whether they are random, percentage of writes, requests
/// in flight.
const TRANSFERS: [(&str, bool, u32, u32); LOADS - 1] = [
    ("Sequential read, 1 MiB", false, 0, SEQUENTIAL_DEPTH),
    ("Sequential write, 1 MiB", false, 100, SEQUENTIAL_DEPTH),
    ("Random read, 4 KiB, 64 in flight", true, 0, RANDOM_DEPTH),
    ("Random write, 4 KiB, 64 in flight", true, 100, RANDOM_DEPTH),
    ("Random read, 4 KiB, one at a time", true, 0, 1),
    ("Random write, 4 KiB, one at a time", true, 100, 1),
];

const METADATA: &str = "Metadata mix";

/// Requests in flight: what keeps both ends busy.
const SEQUENTIAL_DEPTH: u32 = 8;
const RANDOM_DEPTH: u32 = 64;

/// See the module.
pub struct Quick(Blocks);

impl Quick {
    /// Plans it; `connections` as nconnect makes them.
    pub fn new(settings: &Settings, connections: u32) -> Self {
        let reach = Reach { connections, ..Reach::default() };
        let mut blocks: Vec<Vec<Case>> = TRANSFERS
            .iter()
            .map(|(name, random, writes, depth)| {
                let (random, writes, depth) = (*random, *writes, *depth);
                let size = if random { 4096 } else { 1 << 20 };
                let transfer = Transfer { random, size, writes, depth, rate: None, reach: reach.clone() };
                let unit = if random { Unit::OperationsPerSecond } else { Unit::MegabytesPerSecond };
                let workload = if random { Workload::Random } else { Workload::Sequential };
                let load = if depth == 1 { LoadLevel::Low } else { LoadLevel::High };
                let axes = Axes::Workload(WorkloadAxes { load, workload, writes: Some(writes) });
                block(settings, name, unit, axes, &Load::Transfer(transfer))
            })
            .collect();
        let axes = Axes::Workload(WorkloadAxes {
            load: LoadLevel::High,
            workload: Workload::Metadata,
            writes: None,
        });
        blocks.push(block(settings, METADATA, Unit::OperationsPerSecond, axes, &Load::Metadata { reach }));
        Self(Blocks::new(blocks))
    }
}

fn block(settings: &Settings, name: &str, unit: Unit, axes: Axes, load: &Load) -> Vec<Case> {
    let case = |side: &String| Case {
        group: name.to_owned(),
        side: side.clone(),
        unit,
        axes: axes.clone(),
        load: load.clone(),
    };
    settings.sides.iter().map(case).collect()
}

impl Evaluation for Quick {
    fn next(&mut self, record: &Record) -> Option<Vec<Case>> {
        self.0.next(record)
    }

    fn to_come(&self, record: &Record) -> usize {
        self.0.to_come(record)
    }
}
