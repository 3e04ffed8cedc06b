//! The server's cost of the Linux kernel client, beside NFS-Ganesha: the lab's job `cost` with
//! each.
//!
//! The client is a user-mode kernel on one processor, which is slow with every server. The
//! benchmark therefore compares only the servers' processor time.

use super::ganesha;
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use anyhow::Context;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

/// Number of interleaved rounds.
const ROUNDS: u32 = 3;
/// Time limit of a round in seconds, twice the usual time: with a server that loses calls it would
/// never end.
const TIME_LIMIT: &str = "480";
/// The lab's exit status on a machine that cannot run it.
const CANNOT_RUN: i32 = 77;

/// The peer, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The server to compare with.
    #[arg(long, value_enum, default_value = "installed")]
    ganesha: ganesha::Which,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// The figures of a server's rounds, by row.
type LabFigures = BTreeMap<String, Vec<f64>>;

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
    let servers = ["orthrus", arguments.ganesha.lab_name()];
    let mut peer_failed = peer.is_err();
    for _ in 0..ROUNDS {
        for (server, figures) in servers.iter().zip(&mut figures) {
            if stopped(stop) {
                return Ok(());
            }
            if peer_failed && *server != "orthrus" {
                continue;
            }
            if let Some(reason) = round(server, lies_on, figures, stop)? {
                if *server == "orthrus" {
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

/// Runs the job once with a server; returns the reason if this machine cannot.
fn round(
    server: &str,
    lies_on: &str,
    figures: &mut LabFigures,
    stop: &AtomicBool,
) -> anyhow::Result<Option<String>> {
    let mut lab = start(server, lies_on)?;
    let mut trouble = None;
    let lines = BufReader::new(lab.stdout.take().context("the lab has no output")?).lines();
    for line in lines.map_while(Result::ok) {
        if stopped(stop) {
            // Its namespaces end with it.
            nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(lab.id().cast_signed()),
                nix::sys::signal::SIGTERM,
            )?;
        }
        if let Some((row, value)) = figure(&line) {
            figures.entry(row).or_default().push(value);
        } else if line.starts_with("FAIL ") || line.starts_with("lab: ") {
            trouble = Some(line);
        }
    }
    let status = lab.wait()?;
    match trouble {
        Some(reason) if status.code() == Some(CANNOT_RUN) => Ok(Some(reason)),
        Some(reason) if server != "orthrus" => Ok(Some(reason)),
        _ if status.success() || stopped(stop) => Ok(None),
        trouble => anyhow::bail!("the lab ended with {status}: {}", trouble.unwrap_or_default()),
    }
}

fn start(server: &str, lies_on: &str) -> anyhow::Result<Child> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // The lab's own messages come between the lines of its job.
    Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .arg(root.join("tests/linux/run.sh"))
        .args([
            "--server",
            server,
            "--export-on",
            lies_on,
            "--set",
            "ROUNDS=1",
            "--set",
            "GSS_DEPTH=1",
            "--time-limit",
            TIME_LIMIT,
            "--orthrus",
        ])
        .arg(super::kerberos_site::program()?)
        .arg("cost")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("tests/linux/run.sh does not start")
}

/// Takes `figure ROW VALUE UNIT` apart.
fn figure(line: &str) -> Option<(String, f64)> {
    let mut words = line.strip_prefix("figure ")?.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
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

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn a_line_of_the_job_is_a_row_and_its_value() {
        assert_eq!(figure("figure krb5p-seqread 1.676 s/GB"), Some(("krb5p-seqread".to_owned(), 1.676)));
        assert_eq!(figure("ok mount sys"), None);
        assert_eq!(figure("figure sys-randread"), None);
    }
}
