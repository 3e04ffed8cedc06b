//! `bench anf`: two loads, three workloads, from pure read to pure write, as in "Performance impact
//! of Kerberos on NFSv4.1 volumes".

use super::Blocks;
use crate::Unit;
use crate::measuring::{
    Axes, Case, Evaluation, Load, LoadLevel, Reach, Record, Settings, Transfer, Workload, WorkloadAxes,
};
use anyhow::Result;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Name of the evaluation.
pub const ANF: &str = "anf";

/// Percentages of writes that are measured.
pub const WRITES: [u32; 5] = [0, 25, 50, 75, 100];

/// Requests in flight at high load: what keeps both ends busy.
const RANDOM_DEPTH: u32 = 64;
const SEQUENTIAL_DEPTH: u32 = 8;

/// Working copies at once at high load.
const GIT_CLIENTS: u32 = 8;

/// Draws the repository where nobody says otherwise.
const SEED: u64 = 2021;

/// The option that names a repository to take instead of one that is drawn.
pub const REPOSITORY: &str = "repository";

/// See the module.
pub struct Anf(Blocks);

impl Anf {
    /// Plans it; `connections` as nconnect makes them.
    pub fn new(settings: &Settings, connections: u32) -> Self {
        let mut blocks = Vec::new();
        for load in [LoadLevel::Low, LoadLevel::High] {
            for workload in [Workload::Random, Workload::Sequential] {
                for writes in WRITES {
                    blocks.push(transfer(settings, connections, load, workload, writes));
                }
            }
            blocks.push(metadata(settings, connections, load));
        }
        Self(Blocks::new(blocks))
    }
}

impl Evaluation for Anf {
    fn next(&mut self, record: &Record) -> Option<Vec<Case>> {
        self.0.next(record)
    }

    fn to_come(&self, record: &Record) -> usize {
        self.0.to_come(record)
    }

    fn copies(&self, stop: &AtomicBool) -> Result<u64> {
        self.0.copies(stop)
    }
}

/// Names the group of a workload.
pub fn group(load: LoadLevel, workload: Workload, writes: u32) -> String {
    match workload {
        Workload::Random => format!("Random 4 KiB, {writes} % writes, {load} load"),
        Workload::Sequential => format!("Sequential 1 MiB, {writes} % writes, {load} load"),
        Workload::Metadata => format!("Metadata as git makes it, {load} load"),
    }
}

fn transfer(
    settings: &Settings,
    connections: u32,
    load: LoadLevel,
    workload: Workload,
    writes: u32,
) -> Vec<Case> {
    let random = workload == Workload::Random;
    let depth = match (load, random) {
        (LoadLevel::Low, _) => 1,
        (LoadLevel::High, true) => RANDOM_DEPTH,
        (LoadLevel::High, false) => SEQUENTIAL_DEPTH,
    };
    let case = |side: &String| Case {
        group: group(load, workload, writes),
        side: side.clone(),
        unit: if random { Unit::OperationsPerSecond } else { Unit::MegabytesPerSecond },
        axes: Axes::Workload(WorkloadAxes { load, workload, writes: Some(writes) }),
        load: Load::Transfer(Transfer {
            random,
            size: if random { 4096 } else { 1 << 20 },
            writes,
            depth,
            rate: None,
            reach: Reach { connections, ..Reach::default() },
        }),
    };
    settings.sides.iter().map(case).collect()
}

fn metadata(settings: &Settings, connections: u32, load: LoadLevel) -> Vec<Case> {
    let clients = if load == LoadLevel::Low { 1 } else { GIT_CLIENTS };
    let case = |side: &String| Case {
        group: group(load, Workload::Metadata, 0),
        side: side.clone(),
        unit: Unit::OperationsPerSecond,
        axes: Axes::Workload(WorkloadAxes { load, workload: Workload::Metadata, writes: None }),
        load: Load::Git {
            seed: SEED,
            repository: settings.options.get(REPOSITORY).and_then(|path| path.as_str()).map(PathBuf::from),
            reach: Reach { clients, connections, ..Reach::default() },
        },
    };
    settings.sides.iter().map(case).collect()
}
