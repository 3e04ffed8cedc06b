//! `cargo xtask bench`: measures the server beside its peers and against its floors.
//!
//! A missed floor is printed and does not fail the command.

mod busy;
mod ceph;
mod contexts;
mod cores;
mod disk;
mod evaluations;
mod fairness;
mod flow;
mod ganesha;
mod gateways;
mod identities;
mod kerberos_site;
mod krb5;
mod lab;
mod linux;
mod load;
mod memory;
mod metadata;
mod names;
mod nconnect;
mod output;
mod path;
mod peers;
mod rsize;
mod sandbox;
mod shards;
mod slapd;
mod slow_disk;
mod test_bed;
mod trees;
mod upgrades;

use anyhow::Context;
use clap::Parser;
use output::BenchOutput;
use realm::RealmError;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure the server beside its peers and its floors.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// The server's processor time beside NFS-Ganesha's, four flavors (about 5 minutes, as root).
    Peers(peers::Arguments),
    /// The server's processor time under the Linux kernel's own client, beside NFS-Ganesha's (about
    /// 15 minutes, as root).
    Linux(linux::Arguments),
    /// Seconds that git, tar, rm and cp wait under the Linux kernel's own client, beside
    /// NFS-Ganesha (about 20 minutes, as root).
    Trees(trees::TreesArguments),
    /// Kerberos contexts set up a second on one core, beside MIT's library alone (about 15
    /// seconds).
    Contexts(Arguments),
    /// Wrap and MIC tokens on one core, beside MIT's library and others (about 2 minutes).
    Krb5(krb5::Arguments),
    /// Resident memory: idle, with idle clients, and with clients that hold a file open (about 30
    /// seconds; 10,000 clients: about two minutes).
    Memory(memory::MemoryArguments),
    /// The data path: each flavor beside sys, NFS-Ganesha and a bare loop (about 4 minutes; Ganesha
    /// as root).
    Path(path::Arguments),
    /// Two threads that serve beside one, without sockets (about 20 seconds).
    Shards(Arguments),
    /// One Kerberos context over 1 to 16 connections, in order and reordered (about a minute).
    Nconnect(Arguments),
    /// One client beside another that floods: requests, contexts, streams, metadata, slow readers;
    /// two principals, and two exports, with weights (about 18 minutes; a kind of flood and of
    /// client takes some seconds, the weights three minutes).
    Fairness(fairness::FairnessArguments),
    /// The processor time of requests with the sandbox beside that without it (about four minutes).
    Sandbox(Arguments),
    /// Sizes of reads and writes with sys, krb5i and krb5p, one and several clients (about two
    /// minutes).
    Rsize(Arguments),
    /// Cached reads of one client while others keep a slow disk busy (about a minute, as root).
    SlowDisk(Arguments),
    /// Reads of known users while others log in and their directory is stopped or killed (about
    /// three minutes, slapd).
    Identities(Arguments),
    /// Changes of names in one directory, 1 to 32 in flight, stable_names and delegations on and
    /// off (about two minutes, a disk of its own as root).
    Names(Arguments),
    /// Changes of names beside NFS-Ganesha's and a local program's: sys and krb5p, 1 to 64 in
    /// flight, one and 64 directories, several file systems (about two minutes, as root).
    Metadata(metadata::MetadataArguments),
    /// CephFS of a one-node cluster: the server's processor time and creates beside NFS-Ganesha's
    /// Ceph back end with the same library (about 5 minutes, as root).
    Ceph(ceph::CephArguments),
    /// One and two gateways over CephFS of a one-node cluster: processor time of an operation and
    /// of a gigabyte, four flavors (about 3 minutes).
    Cluster(gateways::GatewayArguments),
    /// The pause of an upgrade and its processor time, with 1,000 to 100,000 opens, locked ranges
    /// and clients, as far as this machine's descriptors allow (about three minutes).
    Upgrades(upgrades::UpgradesArguments),
    /// The published evaluations by `orthrus bench`, of this server and NFS-Ganesha; writes the
    /// tables of docs/results (about half an hour, Ganesha as root).
    Evaluations(evaluations::Arguments),
}

/// Where the figures go.
#[derive(clap::Args)]
#[group(id = "output")]
pub struct Arguments {
    /// Write the figures to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The reason why a benchmark cannot be run here.
#[derive(Debug)]
struct Skipped(String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// A benchmark with its arguments. After a signal it returns with the results so far.
type Run<'a> = Box<dyn FnOnce(&mut BenchOutput, &AtomicBool) -> anyhow::Result<()> + 'a>;

fn main() -> ExitCode {
    match run(&CommandLine::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the program as it ships, measures, prints, and writes JSON when asked to.
///
/// # Errors
/// When something that is there does not work; neither a missed floor nor a missing peer is an
/// error.
fn run(command: &Command) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        // A debug build of the client would be the bottleneck.
        return Err(again_as_release());
    }
    if !matches!(command, Command::Krb5(_) | Command::Shards(_)) {
        steps::cargo(&["build", "--release", "--package", "orthrus"])?;
    }
    let stop = steps::stop_flag()?;
    let (name, arguments, run): (_, _, Run<'_>) = match command {
        Command::Peers(peers) => ("peers", &peers.output, Box::new(|to, stop| peers::run(peers, to, stop))),
        Command::Linux(linux) => ("linux", &linux.output, Box::new(|to, stop| linux::run(linux, to, stop))),
        Command::Trees(trees) => ("trees", &trees.output, Box::new(|to, stop| trees::run(trees, to, stop))),
        Command::Contexts(arguments) => ("contexts", arguments, Box::new(contexts::run)),
        Command::Krb5(krb5) => ("krb5", &krb5.output, Box::new(|to, stop| krb5::run(krb5, to, stop))),
        Command::Memory(memory) => {
            ("memory", &memory.output, Box::new(|to, stop| memory::run(memory, to, stop)))
        }
        Command::Path(path) => ("path", &path.output, Box::new(|to, stop| path::run(path, to, stop))),
        Command::Shards(arguments) => ("shards", arguments, Box::new(shards::run)),
        Command::Nconnect(arguments) => ("nconnect", arguments, Box::new(nconnect::run)),
        Command::Fairness(fairness) => {
            ("fairness", &fairness.output, Box::new(|to, stop| fairness::run(fairness, to, stop)))
        }
        Command::Sandbox(arguments) => ("sandbox", arguments, Box::new(sandbox::run)),
        Command::Rsize(arguments) => ("rsize", arguments, Box::new(rsize::run)),
        Command::Identities(arguments) => ("identities", arguments, Box::new(identities::run)),
        Command::SlowDisk(arguments) => ("slow-disk", arguments, Box::new(slow_disk::run)),
        Command::Names(arguments) => ("names", arguments, Box::new(names::run)),
        Command::Metadata(metadata) => {
            ("metadata", &metadata.output, Box::new(|to, stop| metadata::run(metadata, to, stop)))
        }
        Command::Ceph(ceph) => ("ceph", &ceph.output, Box::new(|to, stop| ceph::run(ceph, to, stop))),
        Command::Cluster(cluster) => {
            ("cluster", &cluster.output, Box::new(|to, stop| gateways::run(cluster, to, stop)))
        }
        Command::Upgrades(upgrades) => {
            ("upgrades", &upgrades.output, Box::new(|to, stop| upgrades::run(upgrades, to, stop)))
        }
        // The program itself writes their reports.
        Command::Evaluations(arguments) => return evaluations::run(arguments, &stop),
    };
    let mut output = BenchOutput::new(name);
    match run(&mut output, &stop) {
        // A machine without MIT's KDC is a reason to skip.
        Err(error)
            if error.is::<Skipped>() || matches!(error.downcast_ref(), Some(RealmError::Missing { .. })) =>
        {
            output.note(&format!("skipped: {error:#}"));
        }
        end => end?,
    }
    if stopped(&stop) {
        output.note("interrupted: the figures are not complete");
    }
    if let Some(path) = &arguments.json {
        output.write(path).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    anyhow::ensure!(!stopped(&stop), "interrupted");
    Ok(())
}

/// Becomes this command, built with optimisation; returns only when that fails.
fn again_as_release() -> anyhow::Error {
    let mut command = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["run", "--quiet", "--release", "--package", "benches", "--"])
        .args(std::env::args_os().skip(1));
    anyhow::Error::from(command.exec()).context("cargo did not start")
}

fn stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_can_be_parsed() {
        super::CommandLine::command().debug_assert();
    }
}
