//! `bench quick`: all flavors side by side in a minute: sequential and random I/O, and metadata.

use super::{Blocks, block};
use crate::Unit;
use crate::measuring::{Axes, ClientLayout, Load, LoadLevel, Settings, Transfer, Workload, WorkloadAxes};

/// Name of the evaluation.
pub const QUICK: &str = "quick";

/// Loads that are measured.
pub const LOADS: usize = 7;

/// Reads or writes: name, whether random, percentage of writes, requests in flight.
const TRANSFERS: [(&str, bool, u32, u32); LOADS - 1] = [
    ("Sequential read, 1 MiB", false, 0, SEQUENTIAL_DEPTH),
    ("Sequential write, 1 MiB", false, 100, SEQUENTIAL_DEPTH),
    ("Random read, 4 KiB, 64 in flight", true, 0, RANDOM_DEPTH),
    ("Random write, 4 KiB, 64 in flight", true, 100, RANDOM_DEPTH),
    ("Random read, 4 KiB, one at a time", true, 0, 1),
    ("Random write, 4 KiB, one at a time", true, 100, 1),
];

const METADATA: &str = "Metadata mix";

/// Requests in flight, enough to keep both ends busy.
const SEQUENTIAL_DEPTH: u32 = 8;
const RANDOM_DEPTH: u32 = 64;

/// Plans it; `connections` as nconnect makes them.
pub fn quick(settings: &Settings, connections: u32) -> Blocks {
    let layout = ClientLayout { connections, ..ClientLayout::default() };
    let transfer = |(name, random, writes, depth): (&str, bool, u32, u32)| {
        let size = if random { 4096 } else { 1 << 20 };
        let transfer = Transfer { random, size, writes, depth, rate: None, layout: layout.clone() };
        let workload = if random { Workload::Random } else { Workload::Sequential };
        let load = if depth == 1 { LoadLevel::Low } else { LoadLevel::High };
        let axes = Axes::Workload(WorkloadAxes { load, workload, writes: Some(writes) });
        block(&settings.variants, name, transfer.unit(), &axes, &Load::Transfer(transfer))
    };
    let mut blocks: Vec<_> = TRANSFERS.into_iter().map(transfer).collect();
    let (load, workload) = (LoadLevel::High, Workload::Metadata);
    let axes = Axes::Workload(WorkloadAxes { load, workload, writes: None });
    let unit = Unit::OperationsPerSecond;
    blocks.push(block(&settings.variants, METADATA, unit, &axes, &Load::Metadata { layout }));
    Blocks::new(blocks)
}
