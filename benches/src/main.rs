//! `cargo xtask bench`: measures the server beside its peers and against its floors.
//!
//! A missed floor is printed and does not fail the command.

mod contexts;
mod cores;
mod disk;
mod evaluations;
mod fairness;
mod flow;
mod ganesha;
mod kerberos_site;
mod krb5;
mod linux;
mod load_target;
mod memory;
mod names;
mod nconnect;
mod output;
mod path;
mod peers;
mod rsize;
mod shards;
mod slow_disk;
mod test_bed;

use anyhow::Context;
use clap::Parser;
use output::BenchOutput;
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
    /// Kerberos contexts set up a second on one core, beside MIT's library alone (about 15
    /// seconds).
    Contexts(Arguments),
    /// Wrap and MIC tokens on one core, beside MIT's library and others (about 2 minutes).
    Krb5(krb5::Arguments),
    /// Resident memory: idle, and with 2,000 idle connections (about 30 seconds).
    Memory(Arguments),
    /// The data path: each flavor beside sys, NFS-Ganesha and a bare loop (about 4 minutes; Ganesha
    /// as root).
    Path(path::Arguments),
    /// Two threads that serve beside one, without sockets (about 20 seconds).
    Shards(Arguments),
    /// One Kerberos context over 1 to 16 connections, in order and reordered (about a minute).
    Nconnect(Arguments),
    /// Metadata latency of one client beside another's krb5p stream (about a minute).
    Fairness(Arguments),
    /// Sizes of reads and writes with sys, krb5i and krb5p, one and several clients (about two
    /// minutes).
    Rsize(Arguments),
    /// Cached reads of one client while others keep a slow disk busy (about a minute, as root).
    SlowDisk(Arguments),
    /// Changes of names in one directory, 1 to 32 in flight, stable_names and delegations on and
    /// off (about two minutes, a disk of its own as root).
    Names(Arguments),
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

/// The end of a benchmark.
enum RunEnd {
    /// All of it was run.
    Complete,
    /// A signal came; the output has the results so far.
    Interrupted,
    /// It cannot be run here, and why.
    Skipped(String),
}

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
        steps::cargo(&["build", "--quiet", "--release", "--package", "orthrus"])?;
    }
    let stop = steps::stop_flag()?;
    let (name, arguments) = match command {
        Command::Peers(arguments) => ("peers", &arguments.output),
        Command::Linux(arguments) => ("linux", &arguments.output),
        Command::Contexts(arguments) => ("contexts", arguments),
        Command::Krb5(arguments) => ("krb5", &arguments.output),
        Command::Memory(arguments) => ("memory", arguments),
        Command::Path(arguments) => ("path", &arguments.output),
        Command::Shards(arguments) => ("shards", arguments),
        Command::Nconnect(arguments) => ("nconnect", arguments),
        Command::Fairness(arguments) => ("fairness", arguments),
        Command::Rsize(arguments) => ("rsize", arguments),
        Command::SlowDisk(arguments) => ("slow-disk", arguments),
        Command::Names(arguments) => ("names", arguments),
        // The program itself writes their reports.
        Command::Evaluations(arguments) => return evaluations::run(arguments, &stop),
    };
    let mut output = BenchOutput::new(name);
    let end = match command {
        Command::Peers(arguments) => peers::run(arguments, &mut output, &stop),
        Command::Linux(arguments) => linux::run(arguments, &mut output, &stop),
        Command::Contexts(_) => contexts::run(&mut output, &stop),
        Command::Krb5(arguments) => krb5::run(arguments, &mut output, &stop),
        Command::Memory(_) => memory::run(&mut output, &stop),
        Command::Path(arguments) => path::run(&mut output, arguments, &stop),
        Command::Shards(_) => shards::run(&mut output, &stop),
        Command::Nconnect(_) => nconnect::run(&mut output, &stop),
        Command::Fairness(_) => fairness::run(&mut output, &stop),
        Command::Rsize(_) => rsize::run(&mut output, &stop),
        Command::SlowDisk(_) => slow_disk::run(&mut output, &stop),
        Command::Names(_) => names::run(&mut output, &stop),
        Command::Evaluations(_) => Ok(RunEnd::Complete),
    };
    let end = skipped(end)?;
    match &end {
        RunEnd::Complete => {}
        RunEnd::Interrupted => output.note("interrupted: the figures are not complete"),
        RunEnd::Skipped(reason) => output.note(&format!("skipped: {reason}")),
    }
    if let Some(path) = &arguments.json {
        output.write(path).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    match end {
        RunEnd::Interrupted => anyhow::bail!("interrupted"),
        RunEnd::Complete | RunEnd::Skipped(_) => Ok(()),
    }
}

/// A machine without MIT's KDC is a reason to skip.
fn skipped(end: anyhow::Result<RunEnd>) -> anyhow::Result<RunEnd> {
    end.or_else(|error| match error.downcast_ref() {
        Some(realm::RealmError::Missing { .. }) => Ok(RunEnd::Skipped(format!("{error:#}"))),
        _ => Err(error),
    })
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
