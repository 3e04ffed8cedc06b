//! The waiting time of the Linux kernel client's users, beside NFS-Ganesha: the lab's job `trees`
//! with each server.

use super::disk::FileSystem;
use super::ganesha;
use super::lab::{LabFigures, LabJob, OWN};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use std::sync::atomic::AtomicBool;

/// Time limit of a run in seconds, several times the usual time.
const TIME_LIMIT: &str = "600";
/// The number of files in the repository, and of small ones.
const FILES: [&str; 4] = ["--set", "FILES_IN_REPOSITORY=2000", "--set", "FILES=10000"];

/// The peer, the client, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct TreesArguments {
    /// The server to compare with.
    #[arg(long, value_enum, default_value = "6.5")]
    ganesha: ganesha::Which,
    /// The client's kernel: Debian 12's 6.1, 6.12 or 7.
    #[arg(long, default_value = "6.1", value_parser = ["6.1", "6.12", "7"])]
    kernel: String,
    /// The file system in an image on the disk, on which the files lie.
    #[arg(long, value_enum, default_value = "ext4")]
    file_system: FileSystem,
    /// The flavors, such as `sys` or `sys,krb5p`.
    #[arg(long, value_delimiter = ',', default_value = "sys")]
    flavors: Vec<bench::Flavor>,
    /// Interleaved rounds of all servers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// The indices of the sides.
const LOOSE: usize = 0;
const STABLE: usize = 1;
const PEER: usize = 2;

/// Runs the benchmark.
///
/// # Errors
/// When the lab does not start, or the project's own server fails in it.
pub(crate) fn run(
    arguments: &TreesArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let package = ganesha::Package::find(arguments.ganesha).map_err(Skipped)?;
    let export_on = arguments.file_system.lab_name().map_err(Skipped)?;
    let flavors = arguments.flavors.iter().map(|flavor| flavor.name()).collect::<Vec<_>>().join(" ");
    let flavors = format!("FLAVORS={flavors}");
    let mut options = vec!["--export-on", export_on, "--time-limit", TIME_LIMIT, "--set", &flavors];
    options.extend(FILES);
    // The lab boots Debian 12's kernel, the machine's own, unless it is given another.
    if arguments.kernel != "6.1" {
        options.extend(["--kernel", &arguments.kernel]);
    }
    let stable = [&options[..], &["--stable-names"]].concat();
    output.note(&format!(
        "Linux {} in a user-mode kernel; files lie on {}, in an image on the disk; peer: {}, which \
         never syncs names",
        arguments.kernel,
        arguments.file_system.name(),
        package.name()
    ));
    output.note(&format!(
        "2,000 files in the repository and 10,000 of 5 kB; seconds that the client waits, and \
         processor time of the server: median [interval] of {} rounds, the servers in turns",
        arguments.rounds
    ));
    let peer = package.name();
    let names = ["orthrus, stable_names off", "orthrus, stable_names on", &peer];
    let sides = [(OWN, &options), (OWN, &stable), (arguments.ganesha.lab_name(), &options)];
    let mut figures = [LabFigures::new(), LabFigures::new(), LabFigures::new()];
    for _ in 0..arguments.rounds {
        for ((server, options), figures) in sides.into_iter().zip(&mut figures) {
            let reason = LabJob { server, options, job: "trees" }.run(figures, stop)?;
            if let Some(reason) = reason {
                anyhow::bail!(Skipped(format!("{server}: {reason}")));
            }
            if stopped(stop) {
                return Ok(());
            }
        }
    }
    report(output, &names, &figures);
    Ok(())
}

/// Prints a row of each program: the seconds of each side, and their ratios to the peer's.
fn report(output: &mut BenchOutput, names: &[&str; 3], figures: &[LabFigures; 3]) {
    let of = |side: usize, row: &str| -> &[f64] {
        figures.get(side).and_then(|figures| figures.get(row)).map(Vec::as_slice).unwrap_or_default()
    };
    for row in figures[PEER].keys().filter(|row| !row.ends_with("-cpu")) {
        println!("\n{row}");
        let cpu = format!("{row}-cpu");
        for (side, name) in names.iter().enumerate() {
            let waited = BenchFigure::of("", format!("{row}, {name}"), "s", of(side, row).iter().copied());
            let spent = of(side, &cpu).iter().copied();
            let spent =
                BenchFigure::of("processor time", format!("{row}, {name}, processor time"), "s", spent);
            output.line(name, [waited, spent]);
        }
        for (label, side, floor) in [("off / peer", LOOSE, 0.8), ("on / peer", STABLE, 1.3)] {
            let ratio = |row: &str| {
                let ratios = of(side, row).iter().zip(of(PEER, row)).map(|(own, peer)| own / peer);
                ratios.collect::<Vec<_>>()
            };
            let waited = BenchFigure::of("", format!("{row}: {label}"), "", ratio(row));
            let spent =
                BenchFigure::of("processor time", format!("{row}: processor time, {label}"), "", ratio(&cpu));
            output.line(label, [waited.floor(Floor::AtMost(floor)), spent]);
        }
    }
}
