//! The paper's tests in the lab: from one node with nothing else running, and from all nodes at the
//! same time.
//!
//! The nodes measure with `orthrus bench lanl` on their mounts. First one node compares all
//! flavors, interleaved; that is the report. Then each flavor and each of the two copies runs
//! alone, on one node and on all. All nodes thus do the same at the same time, and the server's
//! processor time is known for it.

mod record;
mod table;

pub use record::{Copied, Lanl, Side};
pub use table::table;

use crate::network::LabMachine;
use crate::status::pid_of;
use crate::{FLAVORS, LabFolder, LabOptions, LabRecord, NodeScript, files, node_name, processes};
use anyhow::{Context, bail};
use bench::measuring::Record as Report;
use report::{csv, markdown, page};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The copies of the paper: 10,000 files of 5 kB, 20 files of 500 MB.
const PARTS: [&str; 2] = ["small", "large"];
/// The part of a node's memory that the files to copy may take: the rest is for the kernel and its
/// caches.
const SOURCES_SHARE: f64 = 0.25;
/// Bytes of the 20 files of 500 MB, the most that lies in a node's memory at once.
const LARGE_BYTES: f64 = 20.0 * 500e6;

/// The options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scope {
    /// The part of the published sizes and numbers.
    pub scale: f64,
    /// Repetitions of each test.
    pub repetitions: u32,
}

impl Scope {
    /// Returns the largest scale at which the copies fit into the memory of a node.
    pub fn scale_max(memory_mib: u32) -> f64 {
        f64::from(memory_mib) * f64::from(1 << 20) * SOURCES_SHARE / LARGE_BYTES
    }

    fn script(self, parts: &str, flavors: &str) -> String {
        format!(
            "LANL_PARTS='{parts}' LANL_FLAVORS='{flavors}' LANL_SCALE={} LANL_REPETITIONS={}\n{}",
            self.scale,
            self.repetitions,
            files::LANL
        )
    }
}

/// Runs the paper's tests; the reports of one node alone go to PREFIX-alone.html and so on. `say`
/// gets the title of each step.
///
/// # Errors
/// A scale for which the nodes have no memory; a node on which the bench fails, with the end of its
/// output; `stop`.
/// words; `stop`.
pub fn run(
    folder: &LabFolder,
    record: &LabRecord,
    scope: Scope,
    prefix: &Path,
    stop: &AtomicBool,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Lanl> {
    let options = &record.options;
    let most = Scope::scale_max(options.memory_mib);
    if !(scope.scale > 0.0 && scope.scale <= most) {
        bail!(
            "--scale {}: nodes of {} MiB can do up to {most:.4}; `lab up --memory` gives them more",
            scope.scale,
            options.memory_mib
        );
    }
    // Where the program lies, a node may have something else: /tmp for one is its own.
    fs::copy(&options.program, folder.share().join("orthrus"))
        .context("the program cannot be given to the nodes")?;
    let all: Vec<String> = (1..=options.nodes).map(node_name).collect();
    let first = all.get(..1).unwrap_or_default();
    let mut conductor = Conductor { folder, record, scope, stop };

    say("one node alone, all flavors interleaved");
    let bench = conductor.bench(first, "sizes,small,large", &FLAVORS.join(" "))?;
    alone(options, scope, &bench, prefix)?;
    let mut lanl = Lanl::new(options, scope);
    for nodes in [first, &all] {
        for part in PARTS {
            for flavor in FLAVORS {
                say(&format!("{} of {} nodes, {part} files, {flavor}", nodes.len(), all.len()));
                let bench = conductor.bench(nodes, part, flavor)?;
                lanl.sides.push(bench.side(nodes.len(), part, flavor)?);
            }
        }
        if all.len() == 1 {
            break;
        }
    }
    Ok(lanl)
}

/// Writes the report of one node alone, with the properties of its network.
fn alone(options: &LabOptions, scope: Scope, bench: &BenchFiles, prefix: &Path) -> anyhow::Result<()> {
    let (_, report) = bench.reports.first().context("no report")?;
    let mut report = Report::parse(report)?;
    // The node's own command can be repeated on a node only.
    let link = options.link.map(|link| format!(" --link {}", link.argument())).unwrap_or_default();
    report.command = format!(
        "orthrus lab up --nodes {} --memory {}{link} && orthrus lab run lanl --scale {} --repetitions {}",
        options.nodes, options.memory_mib, scope.scale, scope.repetitions
    );
    report.notes.push(format!(
        "The client is a node of a lab with {} nodes (`orthrus lab`): a user-mode Linux kernel behind the head node's NAT, with one processor and no AES instructions.",
        options.nodes
    ));
    report.notes.extend(
        options.link.map(|link| format!("Every cable of the lab carried {link}, in each direction.")),
    );
    let view = report::view(&report);
    for (kind, text) in [
        ("html", page(&report, &view)),
        ("json", report.json()?),
        ("csv", csv(&report)),
        ("md", markdown(&report, &view)),
    ] {
        let file = PathBuf::from(format!("{}-alone.{kind}", prefix.display()));
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Runs the bench on nodes.
struct Conductor<'a> {
    folder: &'a LabFolder,
    record: &'a LabRecord,
    scope: Scope,
    stop: &'a AtomicBool,
}

/// The files that the bench wrote.
struct BenchFiles {
    /// Each node with its report, as JSON.
    reports: Vec<(String, String)>,
    server_cpu: Duration,
}

impl Conductor<'_> {
    fn bench(&mut self, nodes: &[String], parts: &str, flavors: &str) -> anyhow::Result<BenchFiles> {
        let server = self
            .record
            .supervisor
            .and_then(|supervisor| pid_of(&processes::all(supervisor), LabMachine::Server.name()));
        let server = server.context("the server has ended")?;
        let cpu = || bench::cpu::of_process(server).context("the server has ended");
        let before = cpu()?;
        let job = NodeScript::start(self.folder, self.record, nodes, &self.scope.script(parts, flavors))?;
        let ended = job.wait(self.stop, &mut |_, _| {})?;
        let server_cpu = cpu()?.saturating_sub(before);
        if let Some(failed) = ended.iter().find(|one| one.code != 0) {
            let lines: Vec<&str> = failed.output.lines().collect();
            let last = lines.iter().skip(lines.len().saturating_sub(4)).copied().collect::<Vec<_>>();
            bail!("{} ended with status {}: {}", failed.node, failed.code, last.join(" | "));
        }
        let mut reports = Vec::new();
        for node in nodes {
            let file = job.dir().join(format!("{node}.json"));
            let report = fs::read_to_string(&file);
            let report = report.with_context(|| format!("{node} left no report: {}", file.display()))?;
            reports.push((node.clone(), report));
        }
        Ok(BenchFiles { reports, server_cpu })
    }
}

impl BenchFiles {
    fn side(&self, nodes: usize, part: &str, flavor: &str) -> anyhow::Result<Side> {
        let mut copies = Vec::new();
        for (node, report) in &self.reports {
            let report = serde_json::from_str(report).with_context(|| format!("the report of {node}"))?;
            copies.extend(record::copies(&report, part, flavor));
        }
        if copies.is_empty() {
            bail!("nothing was measured: {part} files, {flavor}");
        }
        Ok(Side {
            nodes,
            part: part.to_owned(),
            flavor: flavor.to_owned(),
            copies,
            server_cpu_seconds: self.server_cpu.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copied_files_fit_into_the_memory_of_a_node() {
        let most = Scope::scale_max(256);
        assert!(most * LARGE_BYTES < 256.0 * 1048576.0 / 2.0);
        assert!(most > 0.005, "the default scale must be possible with the default memory: {most}");
    }

    #[test]
    fn settings_come_before_the_script_that_reads_them() {
        let script = Scope { scale: 0.005, repetitions: 3 }.script("small", "sys krb5p");
        assert!(script.starts_with(
            "LANL_PARTS='small' LANL_FLAVORS='sys krb5p' LANL_SCALE=0.005 LANL_REPETITIONS=3\n"
        ));
    }
}
