//! The server's cost of the Linux kernel client, beside NFS-Ganesha: the lab's job `cost` with
//! each.
//!
//! The client is a user-mode kernel on one processor, which is slow with every server. The
//! benchmark therefore compares only the servers' processor time.

use super::ganesha;
use super::lab::{LabFigures, LabJob, OWN};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use std::sync::atomic::AtomicBool;

/// Number of interleaved rounds.
const ROUNDS: u32 = 3;
/// Time limit of a round in seconds, twice the usual time: with a server that loses calls it would
/// never end.
const TIME_LIMIT: &str = "480";
/// The peer, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The server to compare with.
    #[arg(long, value_enum, default_value = "installed")]
    ganesha: ganesha::Which,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// Runs the benchmark.
///
/// # Errors
/// When the lab does not start, or the project's own server fails in it.
pub(crate) fn run(arguments: &Arguments, output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let peer = ganesha::Package::find(arguments.ganesha);
    let name = peer.as_ref().map_or("ganesha".to_owned(), ganesha::Package::name);
    // Both servers export the same.
    let tmpfs = peer.as_ref().map_or(true, ganesha::Package::exports_tmpfs);
    let lies_on = if tmpfs { "tmpfs" } else { "ext4" };
    if let Err(reason) = &peer {
        output.note(&format!("without a peer: {reason}"));
    }
    output.note(&format!(
        "Linux client in a user-mode kernel; folder on {lies_on}; 1 MiB sequential and 4 KiB random direct I/O; in flight: 16 with sys, 1 with Kerberos, \
         where NFS-Ganesha 4.3 loses calls with more; server's processor time, median [interval] of {ROUNDS} rounds, the servers in turns"
    ));
    let mut figures = [LabFigures::new(), LabFigures::new()];
    output.note(&format!("peer: {name}"));
    output.note(ganesha::METADATA_REMARK);
    let servers = [OWN, arguments.ganesha.lab_name()];
    let settings = ["--set", "ROUNDS=1", "--set", "GSS_DEPTH=1", "--time-limit", TIME_LIMIT];
    let options = [&["--export-on", lies_on], &settings[..]].concat();
    let mut peer_failed = peer.is_err();
    for _ in 0..ROUNDS {
        for (server, figures) in servers.iter().zip(&mut figures) {
            if stopped(stop) {
                return Ok(());
            }
            if peer_failed && *server != OWN {
                continue;
            }
            let round = LabJob { server, options: &options, job: "cost" };
            if let Some(reason) = round.run(figures, stop)? {
                if *server == OWN {
                    anyhow::bail!(Skipped(reason));
                }
                output.note(&format!("{server}: {reason}; it is left out from here on"));
                peer_failed = true;
            }
        }
    }
    report(output, &name, &figures);
    Ok(())
}

fn report(output: &mut BenchOutput, name: &str, [own, peer]: &[LabFigures; 2]) {
    println!();
    for (row, values) in own {
        let unit = if row.contains("seq") { "s/GB" } else { "us" };
        let figure = |label, server: &str, values: &[f64]| {
            BenchFigure::of(label, format!("{row}, {server}"), unit, values.iter().copied())
        };
        let ours = figure("orthrus", "orthrus", values);
        let theirs = figure("peer", name, peer.get(row).map(Vec::as_slice).unwrap_or_default());
        let ratio = ours.median().zip(theirs.median()).map(|(ours, theirs)| ours / theirs);
        let ratio = ratio
            .map(|ratio| BenchFigure::once("ratio", format!("{row}, ratio"), "", ratio).floor(floor(row)));
        output.line(row, [ours, theirs].into_iter().chain(ratio));
    }
}

/// Returns the floor of the same row with our client, which holds here too.
fn floor(row: &str) -> Option<Floor> {
    match row {
        "sys-randread" => Some(Floor::AtMost(0.25)),
        "krb5p-seqread" => Some(Floor::AtMost(0.1)),
        _ => None,
    }
}
