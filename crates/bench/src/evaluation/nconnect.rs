//! `bench nconnect`: one security context over several connections, in order and reordered, and the
//! losses.

use super::{Blocks, block};
use crate::measuring::{Axes, Case, ClientLayout, ConnectionAxes, Load, Settings, Transfer};

/// Name of the evaluation.
pub const NCONNECT: &str = "nconnect";

/// Connections that are measured.
const CONNECTIONS: [u32; 5] = [1, 2, 4, 8, 16];

/// Requests in flight on all connections together.
const DEPTH: u32 = 64;

/// Bytes of a request.
pub const SIZE: u64 = 4096;

/// Plans it; reordered, a connection is held back until up to `lag_max` later calls went over
/// others. Without, all is in order: mounts hold none back.
pub fn nconnect(settings: &Settings, lag_max: Option<u32>) -> Blocks {
    let mut blocks = Vec::new();
    for connections in CONNECTIONS {
        blocks.push(connected(settings, connections, None));
        // On one connection there is nothing to reorder.
        let reordered = lag_max.filter(|_| connections > 1);
        blocks.extend(reordered.map(|lag_max| connected(settings, connections, Some(lag_max))));
    }
    Blocks::new(blocks)
}

/// Names the group of a number of connections.
pub fn group(connections: u32, reordered: bool) -> String {
    let plural = if connections == 1 { "" } else { "s" };
    let order = if reordered { ", reordered" } else { "" };
    format!("{connections} connection{plural}{order}")
}

fn connected(settings: &Settings, connections: u32, lag_max: Option<u32>) -> Vec<Case> {
    let layout = ClientLayout { connections, lag_max, ..ClientLayout::default() };
    let transfer = Transfer { random: true, size: SIZE, depth: DEPTH, layout, ..Transfer::default() };
    let reordered = lag_max.is_some();
    let axes = Axes::Connections(ConnectionAxes { connections, reordered });
    let group = group(connections, reordered);
    block(&settings.variants, &group, transfer.unit(), &axes, &Load::Transfer(transfer))
}
