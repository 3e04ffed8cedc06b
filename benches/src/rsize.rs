//! The sizes of reads and writes to offer with integrity and privacy: sequential ones of one and of
//! several clients, with the same number of bytes in flight.

use super::load_target::{LoadTarget, TargetLoad};
use super::output::{BenchFigure, BenchOutput};
use super::stopped;
use super::test_bed::TestBed;
use anyhow::Context;
use bench::workload;
use bench::{Endpoint, ExportMount, Flavor, cpu};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Sizes of a read or write.
const SIZES: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// Bytes in flight of all clients together.
const IN_FLIGHT: usize = 8 << 20;

/// Clients that work at once, each its own file with a session of its own.
const CLIENTS: [usize; 2] = [1, 8];

/// Interleaved rounds, and how long each size counts in one.
const ROUNDS: u32 = 5;
const LENGTH: Duration = Duration::from_millis(400);

/// Measures reads, then writes, with each flavor and number of clients.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let test_bed = TestBed::start()?;
    let load_target = test_bed.load_target(stop);
    output.note(&format!("{}; one shard; the clients share their core", test_bed.cores().describe()));
    output.note(&format!(
        "sys, krb5i and krb5p, sequential reads and writes on tmpfs, {} MiB in flight in all; median [interval] of {ROUNDS} interleaved rounds of {:.1} s",
        IN_FLIGHT >> 20,
        LENGTH.as_secs_f64()
    ));
    for write in [false, true] {
        for flavor in [Flavor::Sys, Flavor::Krb5i, Flavor::Krb5p] {
            for clients in CLIENTS {
                let Some(figures) = measure(&load_target, write, flavor, clients)? else {
                    return Ok(());
                };
                report(output, write, flavor, clients, &figures);
            }
        }
    }
    Ok(())
}

/// The rounds of one size.
#[derive(Default)]
struct SizeFigures {
    /// The server's processor time in s/GB.
    cost: Vec<f64>,
    /// The rates in MB/s.
    rate: Vec<f64>,
}

fn measure(
    load_target: &LoadTarget<'_>,
    write: bool,
    flavor: Flavor,
    clients: usize,
) -> anyhow::Result<Option<[SizeFigures; SIZES.len()]>> {
    let slots = u32::try_from(IN_FLIGHT / SIZES[0] / clients)?;
    let mounts = (0..clients).map(|_| load_target.mount_with("/data", flavor, slots));
    let mut mounts = mounts.collect::<anyhow::Result<Vec<_>>>()?;
    // The benchmark also tries sizes beyond the server's offer.
    mounts.iter_mut().for_each(ExportMount::exceed_offer);
    let mut figures = <[SizeFigures; SIZES.len()]>::default();
    for round in 0..ROUNDS {
        for (size, figures) in SIZES.into_iter().zip(&mut figures) {
            let load = TargetLoad::sequential(write, IN_FLIGHT / size / clients, size);
            if round == 0 {
                together(load_target, &mut mounts, load)?;
            }
            let (cost, rate) = together(load_target, &mut mounts, load)?;
            if stopped(load_target.stop) {
                return Ok(None);
            }
            figures.cost.push(cost);
            figures.rate.push(rate);
        }
    }
    mounts.iter_mut().try_for_each(Endpoint::finish)?;
    Ok(Some(figures))
}

/// Lets all clients work at once; returns the server's processor time in s/GB, and MB/s.
fn together(
    load_target: &LoadTarget<'_>,
    mounts: &mut [ExportMount],
    load: TargetLoad,
) -> anyhow::Result<(f64, f64)> {
    let used = || cpu::of_process(load_target.pid).context("the server is gone");
    let (before, start) = (used()?, Instant::now());
    let parts = workload::together(mounts, |_, mount| load_target.plain(mount, load, LENGTH));
    let bytes =
        parts.into_iter().try_fold(0, |bytes, one| anyhow::Ok(bytes + one?.map_or(0, |one| one.bytes)))?;
    let used = used()?.saturating_sub(before).as_secs_f64();
    Ok((used / (bytes as f64 / 1e9), bytes as f64 / 1e6 / start.elapsed().as_secs_f64()))
}

fn report(output: &mut BenchOutput, write: bool, flavor: Flavor, clients: usize, figures: &[SizeFigures]) {
    let name = flavor.name();
    let (what, short) = if write { ("writes", "wsize") } else { ("reads", "rsize") };
    let plural = if clients == 1 { "" } else { "s" };
    println!("\n{name} {what}, {clients} client{plural}");
    for (size, figures) in SIZES.into_iter().zip(figures) {
        let row = format!("{short} {} KiB {name}, {clients} client{plural}", size >> 10);
        let cost =
            BenchFigure::of("server", format!("{row}, server cpu"), "s/GB", figures.cost.iter().copied());
        let rate = BenchFigure::of("", format!("{row}, rate"), "MB/s", figures.rate.iter().copied());
        let title = format!("{:5} KiB x {:3}", size >> 10, IN_FLIGHT / size / clients);
        output.line(&title, [cost, rate.brief()]);
    }
}
