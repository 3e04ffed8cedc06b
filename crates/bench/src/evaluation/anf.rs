//! `bench anf`: two loads, three workloads, from pure read to pure write, as in "Performance impact
//! of Kerberos on NFSv4.1 volumes".

use super::{Blocks, block};
use crate::Unit;
use crate::measuring::{
    Axes, Case, ClientLayout, Load, LoadLevel, Settings, Transfer, Workload, WorkloadAxes,
};
use std::path::PathBuf;

/// Name of the evaluation.
pub const ANF: &str = "anf";

/// Percentages of writes that are measured.
pub const WRITES: [u32; 5] = [0, 25, 50, 75, 100];

/// Requests in flight at high load, enough to keep both ends busy.
const RANDOM_DEPTH: u32 = 64;
const SEQUENTIAL_DEPTH: u32 = 8;

/// Working copies at once at high load.
const GIT_CLIENTS: u32 = 8;

/// The default seed of the repository.
const SEED: u64 = 2021;

/// The option that names a repository to take instead of one that is drawn.
pub const REPOSITORY: &str = "repository";

/// Plans it; `connections` as nconnect makes them.
pub fn anf(settings: &Settings, connections: u32) -> Blocks {
    let mut blocks = Vec::new();
    for load in [LoadLevel::Low, LoadLevel::High] {
        for workload in [Workload::Random, Workload::Sequential] {
            for writes in WRITES {
                blocks.push(transfer(settings, connections, load, workload, writes));
            }
        }
        blocks.push(metadata(settings, connections, load));
    }
    Blocks::new(blocks)
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
    let size = if random { 4096 } else { 1 << 20 };
    let layout = ClientLayout { connections, ..ClientLayout::default() };
    let transfer = Transfer { random, size, writes, depth, rate: None, layout };
    let axes = Axes::Workload(WorkloadAxes { load, workload, writes: Some(writes) });
    let group = group(load, workload, writes);
    block(&settings.variants, &group, transfer.unit(), &axes, &Load::Transfer(transfer))
}

fn metadata(settings: &Settings, connections: u32, load: LoadLevel) -> Vec<Case> {
    let clients = if load == LoadLevel::Low { 1 } else { GIT_CLIENTS };
    let git = Load::Git {
        seed: SEED,
        repository: settings.options.get(REPOSITORY).and_then(|path| path.as_str()).map(PathBuf::from),
        layout: ClientLayout { clients, connections, ..ClientLayout::default() },
    };
    let workload = Workload::Metadata;
    let axes = Axes::Workload(WorkloadAxes { load, workload, writes: None });
    block(&settings.variants, &group(load, workload, 0), Unit::OperationsPerSecond, &axes, &git)
}
