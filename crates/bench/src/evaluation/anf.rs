//! `bench anf`: two loads, three workloads, from pure read to pure write, as in "Performance impact of Kerberos on NFSv4.1
//! volumes".

use super::Blocks;
use crate::Unit;
use crate::measuring::{Axes, Case, Evaluation, Load, Reach, Record, Settings, Transfer};
use anyhow::Result;
use serde_json::json;
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
        for load in ["low", "high"] {
            for workload in ["random", "sequential"] {
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
pub fn group(load: &str, workload: &str, writes: u32) -> String {
    match workload {
        "random" => format!("Random 4 KiB, {writes} % writes, {load} load"),
        "sequential" => format!("Sequential 1 MiB, {writes} % writes, {load} load"),
        _ => format!("Metadata as git makes it, {load} load"),
    }
}

fn transfer(settings: &Settings, connections: u32, load: &str, workload: &str, writes: u32) -> Vec<Case> {
    let random = workload == "random";
    let depth = match (load, random) {
        ("low", _) => 1,
        (_, true) => RANDOM_DEPTH,
        (_, false) => SEQUENTIAL_DEPTH,
    };
    let case = |side: &String| Case {
        group: group(load, workload, writes),
        side: side.clone(),
        unit: if random { Unit::OperationsPerSecond } else { Unit::MegabytesPerSecond },
        axes: Axes::from([
            ("load".to_owned(), json!(load)),
            ("workload".to_owned(), json!(workload)),
            ("writes".to_owned(), json!(writes)),
        ]),
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

fn metadata(settings: &Settings, connections: u32, load: &str) -> Vec<Case> {
    let clients = if load == "low" { 1 } else { GIT_CLIENTS };
    let case = |side: &String| Case {
        group: group(load, "metadata", 0),
        side: side.clone(),
        unit: Unit::OperationsPerSecond,
        axes: Axes::from([("load".to_owned(), json!(load)), ("workload".to_owned(), json!("metadata"))]),
        load: Load::Git {
            seed: SEED,
            repository: settings.options.get(REPOSITORY).and_then(|path| path.as_str()).map(PathBuf::from),
            reach: Reach { clients, connections, ..Reach::default() },
        },
    };
    settings.sides.iter().map(case).collect()
}
