//! `orthrus lab run` and `orthrus lab shell`: something on the nodes and machines of a lab that is
//! up.

use super::{LabLocation, stop_flag};
use crate::output::{errln, out, outln};
use ::cluster::{LabFolder, LabMachine, LabRecord, NodeScript, lanl, node_name};
use anyhow::{Context, bail};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Instant;
use terminal::shell_word;

/// Run a script on every node at once, as root; /nfs/sys, /nfs/krb5, /nfs/krb5i and /nfs/krb5p are
/// the server's export.
#[derive(clap::Args)]
pub(crate) struct RunInLab {
    #[command(flatten)]
    place: LabLocation,
    /// Shell script, which may source /lab/lib.sh and has its node's name in NODE; or `lanl`, the
    /// paper's tests on one node and on all.
    script: PathBuf,
    /// Run on this node only; may be repeated.
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// Set a variable for scripts that source /lab/lib.sh; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    settings: Vec<(String, String)>,
    /// For lanl: fraction of the published sizes and numbers of files.
    #[arg(long, value_name = "PART", default_value_t = 0.005)]
    scale: f64,
    /// For lanl: repetitions of each test.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// For lanl: write the results to PREFIX.json and .txt, and those of one node alone to
    /// PREFIX-alone.html, .json, .csv and .md.
    #[arg(long, value_name = "PREFIX", default_value = "orthrus-lab-lanl")]
    output: PathBuf,
}

/// Run a command as root on kdc, server, names, head or a node; without one, the first four open a
/// shell.
#[derive(clap::Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    place: LabLocation,
    /// kdc, server, names, head, node1, node2, …
    machine: String,
    /// The command with its arguments, after --.
    #[arg(last = true)]
    command: Vec<String>,
}

impl RunInLab {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (folder, record) = self.place.open()?;
        if self.script.as_os_str() == "lanl" {
            return self.lanl(&folder, &record);
        }
        let script =
            std::fs::read_to_string(&self.script).with_context(|| self.script.display().to_string())?;
        let nodes = chosen(&record, &self.nodes)?;
        ::cluster::set(&folder, &self.settings)?;
        on_nodes(&folder, &record, &nodes, &script)
    }

    fn lanl(&self, folder: &LabFolder, record: &LabRecord) -> anyhow::Result<()> {
        let scope = lanl::Scope { scale: self.scale, repetitions: self.repetitions };
        let (start, stop) = (Instant::now(), stop_flag()?);
        let results = lanl::run(folder, record, scope, &self.output, &stop, &mut |begins| {
            errln!("{:6.1} s  {begins}", start.elapsed().as_secs_f64());
        })?;
        let file = PathBuf::from(format!("{}.json", self.output.display()));
        std::fs::write(&file, serde_json::to_vec_pretty(&results)?)
            .with_context(|| file.display().to_string())?;
        let table = lanl::table(&results);
        let text = PathBuf::from(format!("{}.txt", self.output.display()));
        std::fs::write(&text, &table).with_context(|| text.display().to_string())?;
        out!("{table}");
        let prefix = self.output.display();
        outln!("results: {prefix}.json, .txt, {prefix}-alone.html, .json, .csv, .md");
        Ok(())
    }
}

/// Runs a script, prints its lines behind the names of their nodes, and fails where it failed.
fn on_nodes(folder: &LabFolder, record: &LabRecord, nodes: &[String], script: &str) -> anyhow::Result<()> {
    let job = NodeScript::start(folder, record, nodes, script)?;
    let ended = job.wait(&*stop_flag()?, &mut |node, line| match nodes {
        [_] => outln!("{line}"),
        _ => outln!("{node:8} {line}"),
    })?;
    let failed: Vec<String> = ended
        .iter()
        .filter(|one| one.code != 0)
        .map(|one| format!("{} with status {}", one.node, one.code))
        .collect();
    if !failed.is_empty() {
        bail!("it ended on {}", failed.join(", on "));
    }
    Ok(())
}

/// Returns the nodes that were named, or all.
fn chosen(record: &LabRecord, named: &[String]) -> anyhow::Result<Vec<String>> {
    let all: Vec<String> = (1..=record.options.nodes).map(node_name).collect();
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("there is no {unknown}; there are {}", all.join(", "));
    }
    Ok(if named.is_empty() { all } else { named.to_vec() })
}

impl Shell {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (folder, record) = self.place.open()?;
        let Some(machine) = LabMachine::of_name(&self.machine) else {
            let nodes = chosen(&record, std::slice::from_ref(&self.machine))?;
            if self.command.is_empty() {
                bail!("name a command: orthrus lab shell {} -- mount", self.machine);
            }
            let words: Vec<String> = self.command.iter().map(|word| shell_word(word)).collect();
            return on_nodes(&folder, &record, &nodes, &words.join(" "));
        };
        let supervisor = record.supervisor.context("the lab has no process")?;
        let mut command = std::process::Command::new("nsenter");
        command
            .arg(format!("--target={}", supervisor.pid))
            .args(["--mount", "--pid", "--uts", "--ipc", "--"]);
        command.arg("nsenter").arg(format!("--net={}", folder.net(machine).display())).arg("--");
        command.env("KRB5_CONFIG", folder.file("realm/krb5.conf"));
        command.env("KRB5_KDC_PROFILE", folder.file("realm/kdc.conf"));
        match self.command.is_empty() {
            true if std::io::stdin().is_terminal() => command.arg("bash"),
            true => bail!("name a command: orthrus lab shell {} -- ip address", self.machine),
            false => command.args(&self.command),
        };
        Err(command.exec()).context("nsenter (package util-linux)")
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(plain) {
        return Err("the name has letters, digits and _ only".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_a_value() {
        assert_eq!(parse_setting("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        for text in ["A", "=x", "1=x", "A B=x", "A;B=x"] {
            assert!(parse_setting(text).is_err(), "{text}");
        }
    }
}
