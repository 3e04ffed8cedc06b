//! The sizes of reads and writes to offer with integrity and privacy: sequential ones of one and of
//! several clients, with the same number of bytes in flight.

use super::load::TransferKind::{self, Read, Write};
use super::load::{self, FILE_SIZE};
use super::output::{BenchFigure, BenchOutput};
use super::test_bed::TestBed;
use bench::Flavor;
use bench::measuring::{Case, CaseRecord, ClientLayout, Load, Settings};
use bench::native::NativeDriver;
use std::sync::atomic::AtomicBool;

/// Sizes of a read or write.
const SIZES: [u32; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// Bytes in flight of all clients together.
const IN_FLIGHT: u32 = 8 << 20;

/// Clients that work at once, each its own file with a session of its own.
const CLIENTS: [u32; 2] = [1, 8];

/// Interleaved rounds, and how many seconds each size counts in one.
const ROUNDS: u32 = 5;
const SECONDS: f64 = 0.4;

/// Measures reads, then writes, with each flavor and number of clients.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let test_bed = TestBed::start()?;
    output.note(&format!("{}; one shard; the clients share their core", test_bed.cores().describe()));
    output.note(&format!(
        "sys, krb5i and krb5p, sequential reads and writes on tmpfs, {} MiB in flight in all; median [interval] of {ROUNDS} interleaved rounds of {SECONDS:.1} s",
        IN_FLIGHT >> 20,
    ));
    let mut blocks = Vec::new();
    for kind in [Read, Write] {
        for flavor in [Flavor::Sys, Flavor::Krb5i, Flavor::Krb5p] {
            for clients in CLIENTS {
                blocks.push(SIZES.into_iter().map(|size| case(kind, flavor, clients, size)).collect());
            }
        }
    }
    let mut server = test_bed.target("/data");
    let driver = NativeDriver::new(&mut server, "bench-rsize", stop);
    let settings = Settings::new(ROUNDS, SECONDS, FILE_SIZE, Vec::new());
    load::measure(blocks, driver, settings, stop, |cases| report(output, cases))
}

/// The load of one size. The benchmark also tries sizes beyond the server's offer.
fn case(kind: TransferKind, flavor: Flavor, clients: u32, size: u32) -> Case {
    let (name, what) = (
        flavor.name(),
        match kind {
            Read => "reads",
            Write => "writes",
        },
    );
    let plural = if clients == 1 { "" } else { "s" };
    let slots = Some(IN_FLIGHT / SIZES[0] / clients);
    let layout = ClientLayout { clients, slots, exceeds_offer: true, ..ClientLayout::ONE };
    let load = load::sequential(kind, IN_FLIGHT / size / clients, size.into());
    let group = format!("{name} {what}, {clients} client{plural}");
    load::case(&group, &format!("{} KiB", size >> 10), flavor, load::laid_out(load, layout))
}

fn report(output: &mut BenchOutput, cases: &[CaseRecord]) {
    println!("\n{}", cases.first().map_or("", |one| &one.group));
    for one in cases {
        let (Load::Transfer(transfer), Some(figures)) = (&one.load, &one.figures) else { continue };
        let short = if transfer.writes > 0 { "wsize" } else { "rsize" };
        let clients = one.group.rsplit(", ").next().unwrap_or_default();
        let row = format!("{short} {} {}, {clients}", one.variant, one.flavor());
        let cost = BenchFigure::new("server", format!("{row}, server cpu"), "s/GB", figures.server_cpu);
        let rate = BenchFigure::new("", format!("{row}, rate"), "MB/s", Some(figures.rate));
        let title = format!("{:>9} x {:3}", one.variant, transfer.depth);
        output.line(&title, [cost, rate.brief()]);
    }
}
