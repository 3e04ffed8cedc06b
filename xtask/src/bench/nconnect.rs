//! One Kerberos context over several connections, in order and reordered: what arrives late is served as well, and
//! nothing is repeated.

use super::bed::{Bed, Counters};
use super::output::{Floor, Output};
use super::stand::{Load, Stand, server_cost};
use super::{End, stopped};
use anyhow::Context;
use bench::{Endpoint, Flavor, Measurement, Mount, Spread, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Connections of the session.
const CONNECTIONS: [usize; 5] = [1, 2, 4, 8, 16];

/// Calls that may overtake a connection that is held back. Half of the server's window, so that the benchmark shows
/// the server, not a client that asks for more than it was given.
const LAG_MAX: u32 = 4096;

/// Interleaved rounds, and how long each way counts in one.
const ROUNDS: u32 = 5;
const LENGTH: Duration = Duration::from_millis(250);

/// 4 KiB reads at random places, 64 in flight in all.
const LOAD: Load = Load::random(false, 64);
const SLOTS: u32 = 64;

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work.
pub fn run(output: &mut Output, stop: &AtomicBool) -> anyhow::Result<End> {
    let bed = Bed::start_logged()?;
    let stand = bed.stand(stop);
    output.note(&format!("{}; one shard, one context for all connections of a row", bed.cores().describe()));
    output.note(&format!(
        "random reads of 4 KiB, 64 in flight in all; median [least to most] of {ROUNDS} interleaved rounds of {:.2} s",
        LENGTH.as_secs_f64()
    ));
    output.note(&format!(
        "reordered: the client holds connections back at random, up to half of them at once, each until up to {LAG_MAX} later calls went over others"
    ));
    for flavor in [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
        let mut ways = ways(&stand, flavor)?;
        for round in 0..ROUNDS {
            for way in &mut ways {
                way.repeat(&bed, &stand, round).with_context(|| way.name.clone())?;
            }
            if stopped(stop) {
                return Ok(End::Interrupted);
            }
        }
        report(output, flavor, &ways);
        ways.iter_mut().try_for_each(|way| way.mount.finish())?;
    }
    Ok(End::Complete)
}

/// One row: so many connections, in order or not.
struct Way {
    name: String,
    connections: usize,
    reordered: bool,
    mount: Mount,
    measured: Vec<Measurement>,
    /// What the server's counters have grown by.
    grown: Counters,
}

fn ways(stand: &Stand<'_>, flavor: Flavor) -> anyhow::Result<Vec<Way>> {
    let both = CONNECTIONS.into_iter().flat_map(|connections| [(connections, false), (connections, true)]);
    // On one connection there is nothing to reorder.
    let ways = both.filter(|(connections, reordered)| *connections > 1 || !reordered);
    ways.map(|(connections, reordered)| {
        let mut options = stand.options(flavor)?.connections(connections);
        options.slots_max = SLOTS;
        options.lag_max = reordered.then_some(LAG_MAX);
        let mount = stand.mount("/data", flavor, options)?;
        let order = if reordered { ", reordered" } else { "" };
        let name = format!("nconnect {connections} {}{order}", flavor.name());
        Ok(Way { name, connections, reordered, mount, measured: Vec::new(), grown: Counters::new() })
    })
    .collect()
}

impl Way {
    fn repeat(&mut self, bed: &Bed, stand: &Stand<'_>, round: u32) -> anyhow::Result<()> {
        let before = bed.counters()?;
        self.measured.extend(stand.repeat(&mut self.mount, LOAD, round, LENGTH)?);
        for (name, after) in bed.counters()? {
            let grown = after.saturating_sub(before.get(&name).copied().unwrap_or(0));
            *self.grown.entry(name).or_default() += grown;
        }
        Ok(())
    }

    fn grown(&self, name: &str) -> u64 {
        self.grown.get(name).copied().unwrap_or(0)
    }

    /// The part of the calls in each bucket of lags, with the least lag of the bucket.
    fn lags(&self) -> BTreeMap<u32, f64> {
        let counts = self.grown.iter().filter_map(|(name, count)| {
            let lag: u32 = name.strip_prefix("lag_")?.parse().ok()?;
            (*count > 0).then_some((lag, *count as f64))
        });
        let counts: BTreeMap<_, _> = counts.collect();
        let all: f64 = counts.values().sum();
        counts.into_iter().map(|(lag, count)| (lag, count / all)).collect()
    }
}

fn report(output: &mut Output, flavor: Flavor, ways: &[Way]) {
    println!("\n{}", flavor.name());
    let Some(single) = ways.first() else { return };
    for way in ways {
        let unit = Unit::OperationsPerSecond;
        let Some(rate) = Spread::of(way.measured.iter().map(|one| one.rate(unit))) else { continue };
        output.spread(&way.name, "1/s", rate, None);
        let mut line = format!("  {:28} {:8.0} 1/s", way.name, rate.median);
        if let Some(cost) = Spread::of(way.measured.iter().filter_map(|one| server_cost(one, unit))) {
            output.spread(&format!("{}, server cpu", way.name), "µs/op", cost, None);
            line += &format!("   server {:6.2} µs/op", cost.median);
        }
        let pairs = way.measured.iter().zip(&single.measured);
        if way.connections > 1
            && let Some(ratio) = Spread::of(pairs.map(|(own, one)| own.rate(unit) / one.rate(unit)))
        {
            let floor = (way.connections == 8 && !way.reordered).then_some(Floor::AtLeast(1.0));
            output.spread(&format!("{} against 1", way.name), "ratio", ratio, floor);
            line += &format!("   {:5.3} of 1 [{:.3} to {:.3}]", ratio.median, ratio.min, ratio.max);
            line += &floor.map(|floor| format!(" {}", floor.verdict(ratio.median))).unwrap_or_default();
        }
        println!("{line}");
        println!("    {}", losses(output, way));
        println!("    {}", lags(output, way));
    }
}

/// What must not happen at all.
fn losses(output: &mut Output, way: &Way) -> String {
    let statistics = way.mount.statistics();
    let counts = [
        ("window drops", way.grown("window_drops")),
        ("reconnects", statistics.reconnects + way.grown("accepted")),
        ("retransmissions", statistics.calls_repeated),
        ("replies nobody waited for", statistics.replies_dropped),
    ];
    let all = counts.map(|(name, count)| {
        output.figure(&format!("{}, {name}", way.name), "times", count as f64, Some(Floor::AtMost(0.0)));
        format!("{count} {name}")
    });
    let verdict = if counts.iter().all(|(_, count)| *count == 0) { "met" } else { "NOT MET" };
    format!("{}   none at all: {verdict}", all.join(", "))
}

/// How far calls arrived behind later ones of the context, as the server counts it.
fn lags(output: &mut Output, way: &Way) -> String {
    let lags = way.lags();
    for (lag, part) in &lags {
        output.figure(&format!("{}, lag from {lag}", way.name), "of the calls", *part, None);
    }
    let shown = lags.iter().map(|(lag, part)| format!("{lag}: {:.2} %", part * 100.0));
    format!("behind by at least … {}", shown.collect::<Vec<_>>().join("  "))
}
