//! The shares of two exports with the same load on a slow disk, by the weights of a configuration
//! file.
//!
//! The exports are on an overlayfs, so that the server's threads are the limit. On ext4 itself the
//! kernel begins each read when the server asks whether it would wait, before any thread does.

use super::FairnessSelection;
use super::weights::{self, FIRST_WEIGHT, WeightedLoad, report, together};
use crate::cores::Cores;
use crate::disk::{SlowDisk, SlowOverlay};
use crate::kerberos_site::{KerberosSite, make_export, program};
use crate::load::TransferKind::Read;
use crate::load::{self, LoadedSessions};
use crate::output::BenchOutput;
use crate::stopped;
use bench::measuring::{ClientLayout, Load};
use bench::native::BenchTarget;
use bench::{Flavor, ServerProcess};
use realm::RealmOptions;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The name of these rows alone on the command line.
pub(super) const NAME: &str = "export-weights";

/// Interleaved rounds of each pair, and how long each counts: far longer than the last reads of the
/// lighter export take after the other one has ended.
const ROUNDS: u32 = 3;
const LENGTH: Duration = Duration::from_secs(16);

/// Bytes of the disk, and of the files of each export.
const DISK_SIZE: u64 = 1 << 30;
const FILE_SIZE: u64 = 64 << 20;

/// Reads that the disk does in a second: so few that neither the server nor the clients are the
/// limit.
const DISK_SPEED: u32 = 500;

/// Clients of each export, and the reads of each that are in flight: together more than an export
/// has threads.
const CLIENTS: u32 = 4;
const DEPTH: u32 = 32;

/// The export of each pair that has the weight of an export without one.
const FIRST: (&str, u32) = ("one", FIRST_WEIGHT);
/// The other exports of the pairs, with their weights.
const OTHERS: [(&str, u32); 3] = [("equal", 100), ("double", 200), ("triple", 300)];

/// A server with exports on a slow disk.
struct ExportBed {
    server: ServerProcess,
    site: KerberosSite,
    cores: Cores,
    _work: tempfile::TempDir,
    /// Dropped after the server, which has files open on it, and before the disk.
    overlay: SlowOverlay,
    disk: SlowDisk,
}

impl ExportBed {
    fn start() -> anyhow::Result<Self> {
        let cores = Cores::choose()?;
        let site = KerberosSite::start(&RealmOptions::default())?;
        let disk = SlowDisk::make(DISK_SIZE)?;
        let overlay = SlowOverlay::mount(&disk)?;
        let work = private::temporary("orthrus-xtask-")?;
        for (export, _) in exports() {
            make_export(&overlay.path().join(export))?;
        }
        let config = work.path().join("orthrus.toml");
        std::fs::write(&config, configuration(&site, overlay.path(), work.path()))?;
        let arguments: [OsString; 2] = ["--config".into(), config.into()];
        let start = || ServerProcess::start(&program()?, arguments.to_vec(), &site.environment());
        let server = cores.on_server(start)?;
        Ok(Self { server, site, cores, _work: work, overlay, disk })
    }

    fn target(&self, export: &str) -> BenchTarget {
        self.site.target("orthrus", self.server.pid(), self.server.address(), &format!("/{export}"))
    }

    /// Drops the pages of the files of a load.
    fn forget(&self, export: &str, load: &LoadedSessions<'_>) -> anyhow::Result<()> {
        let folder = self.overlay.path().join(export);
        load.files().try_for_each(|file| bench::lanl::drop_cache(&folder.join(file)))
    }
}

fn exports() -> impl Iterator<Item = (&'static str, u32)> {
    std::iter::once(FIRST).chain(OTHERS)
}

fn configuration(site: &KerberosSite, folder: &Path, work: &Path) -> String {
    let export = |(name, weight): (&str, u32)| {
        let path = folder.join(name);
        format!("\n[[export]]\npath = {path:?}\nsec = [\"krb5\"]\nsquash = \"none\"\nweight = {weight}\n")
    };
    format!(
        "listen = \"127.0.0.1:0\"\nshards = 1\nkeytab = {:?}\nstate_dir = {:?}\n{}",
        site.realm().server_keytab(),
        work.join("state"),
        exports().map(export).collect::<String>(),
    )
}

/// Measures the rows, if they are asked for and the machine can have a slow disk.
pub(super) fn run(
    selection: &FairnessSelection<'_>,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    if !selection.wants(NAME) && !selection.wants(weights::NAME) {
        return Ok(());
    }
    println!();
    if let Some(reason) = SlowDisk::missing() {
        output.note(&format!("no rows of exports with weights: {reason}"));
        return Ok(());
    }
    let bed = ExportBed::start()?;
    output.note(&format!("two exports with the same load: {}; one shard", bed.cores.describe()));
    output.note(&format!(
        "files of both: not in memory, on overlayfs above ext4 on a loop device, held back to {DISK_SPEED} reads a second"
    ));
    output.note(&format!(
        "median [interval] of {ROUNDS} rounds, each {:.1} s of each pair; a share is that of the sum of both rates",
        LENGTH.as_secs_f64()
    ));
    measure(output, &bed, stop)
}

fn measure(output: &mut BenchOutput, bed: &ExportBed, stop: &AtomicBool) -> anyhow::Result<()> {
    let name = format!("krb5, 4 KiB reads from a slow disk by {CLIENTS} clients, {DEPTH} in flight for each");
    let layout = ClientLayout { clients: CLIENTS, ..ClientLayout::ONE };
    let load: Load = load::laid_out(load::random(Read, DEPTH), layout);
    let (mut first_target, mut targets) = (bed.target(FIRST.0), OTHERS.map(|(export, _)| bed.target(export)));
    let prepare = |target, export| {
        LoadedSessions::prepare(target, export, (Flavor::Krb5, load.clone()), FILE_SIZE, stop)
    };
    bed.disk.hold_back(0)?;
    let mut first = prepare(&mut first_target, FIRST.0)?;
    let others = targets.iter_mut().zip(OTHERS).map(|(target, (export, _))| prepare(target, export));
    let mut others = others.collect::<anyhow::Result<Vec<_>>>()?;
    let mut rounds = OTHERS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for ((other, (export, _)), samples) in others.iter_mut().zip(OTHERS).zip(&mut rounds) {
            bed.disk.hold_back(0)?;
            bed.forget(FIRST.0, &first)?;
            bed.forget(export, other)?;
            bed.disk.hold_back(DISK_SPEED)?;
            samples.extend(together(&mut first, other, round, LENGTH)?);
        }
        if stopped(stop) {
            return Ok(());
        }
    }
    bed.disk.hold_back(0)?;
    println!("\n{name}");
    let load = WeightedLoad { name: &name, load: &load };
    for (other, samples) in OTHERS.iter().zip(&rounds) {
        report(output, &load, [FIRST, *other], samples);
    }
    others.into_iter().chain([first]).try_for_each(LoadedSessions::finish)
}
