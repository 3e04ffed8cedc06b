//! `bench nconnect`: one security context over several connections, in order and reordered, and
//! what is lost by it.

use super::Blocks;
use crate::Unit;
use crate::measuring::{Axes, Case, ConnectionAxes, Evaluation, Load, Reach, Record, Settings, Transfer};

/// Name of the evaluation.
pub const NCONNECT: &str = "nconnect";

/// Connections that are measured.
const CONNECTIONS: [u32; 5] = [1, 2, 4, 8, 16];

/// Requests in flight on all connections together.
const DEPTH: u32 = 64;

/// Bytes of a request.
pub const SIZE: u64 = 4096;

/// See the module.
pub struct Nconnect(Blocks);

impl Nconnect {
    /// Plans it; reordered, a connection is held back until up to `lag_max` later calls went over
    /// others. Without, all is in order: mounts hold none back.
    pub fn new(settings: &Settings, lag_max: Option<u32>) -> Self {
        let mut blocks = Vec::new();
        for connections in CONNECTIONS {
            // On one connection there is nothing to reorder.
            let orders: &[bool] =
                if connections > 1 && lag_max.is_some() { &[false, true] } else { &[false] };
            for reordered in orders {
                blocks.push(block(settings, connections, lag_max.filter(|_| *reordered)));
            }
        }
        Self(Blocks::new(blocks))
    }
}

impl Evaluation for Nconnect {
    fn next(&mut self, record: &Record) -> Option<Vec<Case>> {
        self.0.next(record)
    }

    fn to_come(&self, record: &Record) -> usize {
        self.0.to_come(record)
    }
}

/// Names the group of a number of connections.
pub fn group(connections: u32, reordered: bool) -> String {
    let plural = if connections == 1 { "" } else { "s" };
    let order = if reordered { ", reordered" } else { "" };
    format!("{connections} connection{plural}{order}")
}

fn block(settings: &Settings, connections: u32, lag_max: Option<u32>) -> Vec<Case> {
    let case = |side: &String| Case {
        group: group(connections, lag_max.is_some()),
        side: side.clone(),
        unit: Unit::OperationsPerSecond,
        axes: Axes::Connections(ConnectionAxes { connections, reordered: lag_max.is_some() }),
        load: Load::Transfer(Transfer {
            random: true,
            size: SIZE,
            writes: 0,
            depth: DEPTH,
            rate: None,
            reach: Reach { connections, lag_max, ..Reach::default() },
        }),
    };
    settings.sides.iter().map(case).collect()
}
