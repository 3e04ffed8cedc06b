//! Runs the published evaluations against this server and NFS-Ganesha and writes the tables of
//! docs/results.
//!
//! Each server exports a folder on tmpfs in the same throw-away realm. The program's own commands
//! measure it, as they would measure any server. A run that fails in the middle leaves a report of
//! the cases that it measured. The repository keeps the tables only; JSON, CSV and HTML stay under
//! `target`.

use super::ganesha::{self, Ganesha, MemoryFolder, Package};
use super::kerberos_site::{KerberosSite, make_export, program};
use super::stopped;
use anyhow::Context;
use bench::MetricsEndpoint;
use bench::link::{self, Link, LinkSpec};
use realm::RealmOptions;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

/// Exit status of a run that came to its end and has left something out.
const SKIPPED: i32 = 3;

/// The evaluations to run, and the folders of the reports.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the complete reports (HTML, JSON, CSV, Markdown), relative to the repository;
    /// each is named by its server and evaluation.
    #[arg(long, value_name = "DIR", default_value = "target/evaluations")]
    output: PathBuf,
    /// Folder for a copy of the Markdown tables, relative to the repository.
    #[arg(long, value_name = "DIR", default_value = "docs/results")]
    tables: PathBuf,
    /// Servers to measure, in this order.
    #[arg(long, value_delimiter = ',', default_value = "orthrus,ganesha")]
    servers: Vec<ServerName>,
    /// The NFS-Ganesha to measure; its version is part of the reports' names.
    #[arg(long = "ganesha", value_enum, default_value = "installed")]
    peer: ganesha::Which,
    /// Evaluations to run on each server.
    #[arg(long, value_delimiter = ',', default_value = "anf,ontap,nconnect,lanl")]
    evaluations: Vec<Published>,
    /// The approximate time of each, except of lanl.
    #[arg(long, default_value = "4m")]
    time: String,
    /// The part of the published file sizes, for lanl.
    #[arg(long, default_value = "0.02")]
    scale: String,
    /// Number of repetitions of lanl.
    #[arg(long, default_value = "6")]
    repetitions: String,
    /// Flavors; the first is the baseline.
    #[arg(long, default_value = "sys,krb5,krb5i,krb5p")]
    flavors: String,
    /// Put a link of this rate, and delay in each direction, between client and servers, instead of
    /// loopback: 10gbit, 10gbit,100us. Needs root.
    #[arg(long, value_name = "RATE[,DELAY]")]
    link: Option<LinkSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum ServerName {
    Orthrus,
    Ganesha,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Published {
    Anf,
    Ontap,
    Nconnect,
    Lanl,
}

/// A server to measure.
enum MeasuredServer<'a> {
    Orthrus,
    Ganesha(&'a Package),
}

impl MeasuredServer<'_> {
    /// Returns the server's name in reports, such as `ganesha-6-5`: text after a dot would be an
    /// extension.
    fn name(&self) -> String {
        match self {
            Self::Orthrus => "orthrus".to_owned(),
            Self::Ganesha(package) => package.name().replace([' ', '.'], "-"),
        }
    }
}

/// The name of a server's report, without an extension.
fn report(server: &str, evaluation: Published) -> String {
    format!("{server}-{evaluation:?}").to_lowercase()
}

/// The name of the page that has both servers' reports.
fn compared(peer: &str, evaluation: Published) -> String {
    report(&format!("compared-{peer}"), evaluation)
}

/// A server that runs; dropping it ends it.
struct RunningServer {
    pid: u32,
    address: SocketAddr,
    metrics: Option<MetricsEndpoint>,
    _process: Box<dyn std::any::Any>,
}

/// Runs the evaluations one after the other.
///
/// # Errors
/// When realm or server do not start, or no evaluation of this server is complete.
pub(crate) fn run(arguments: &Arguments, stop: &AtomicBool) -> anyhow::Result<()> {
    let folder = &arguments.output;
    for folder in [folder, &arguments.tables] {
        std::fs::create_dir_all(steps::root().join(folder))
            .with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    // The KDC is at the client's end. Servers at the other are named by their address, in Kerberos
    // too.
    let link = arguments.link.map(Link::make).transpose()?;
    let hosts = link.iter().map(|link| link.server().to_string()).collect();
    let site = KerberosSite::start(&RealmOptions { hosts, ..RealmOptions::default() })?;
    let mut failed: Vec<Published> = Vec::new();
    let peer = match arguments.servers.contains(&ServerName::Ganesha) {
        true => Package::find(arguments.peer).inspect_err(|reason| println!("skipped: {reason}")).ok(),
        false => None,
    };
    let servers = arguments.servers.iter().filter_map(|name| match name {
        ServerName::Orthrus => Some(MeasuredServer::Orthrus),
        ServerName::Ganesha => peer.as_ref().map(MeasuredServer::Ganesha),
    });
    let servers: Vec<MeasuredServer<'_>> = servers.collect();
    for server in &servers {
        for evaluation in &arguments.evaluations {
            if stopped(stop) {
                anyhow::bail!("interrupted");
            }
            let prefix = folder.join(report(&server.name(), *evaluation));
            println!("\n=== {}", prefix.display());
            if !measure(arguments, &site, link.as_ref(), server, *evaluation, &prefix)? {
                println!("{} {evaluation:?}: incomplete; the report says why", server.name());
                failed.extend(matches!(server, MeasuredServer::Orthrus).then_some(*evaluation));
            }
            copy_tables(&prefix, &arguments.tables)?;
        }
    }
    if let Some(peer) = &peer {
        println!("{}", ganesha::METADATA_REMARK);
        let peer = MeasuredServer::Ganesha(peer).name();
        for evaluation in &arguments.evaluations {
            compare(folder, &peer, *evaluation)?;
            copy_tables(&folder.join(compared(&peer, *evaluation)), &arguments.tables)?;
        }
    }
    anyhow::ensure!(failed.is_empty(), "{failed:?} of this server are incomplete");
    Ok(())
}

/// Copies the Markdown tables of the report with this prefix into `tables`, if the report exists.
fn copy_tables(prefix: &Path, tables: &Path) -> anyhow::Result<()> {
    let from = steps::root().join(prefix).with_extension("md");
    let to = steps::root().join(tables).join(from.file_name().context("a report has a name")?);
    if from == to || !from.exists() {
        return Ok(());
    }
    std::fs::copy(&from, &to).with_context(|| format!("{} cannot be written", to.display()))?;
    Ok(())
}

/// Puts both servers' reports of an evaluation on one page, where there are both, of this run or of
/// one before.
fn compare(folder: &Path, peer: &str, evaluation: Published) -> anyhow::Result<()> {
    let records = ["orthrus", peer].map(|name| folder.join(report(name, evaluation) + ".json"));
    if !records.iter().all(|record| steps::root().join(record).exists()) {
        return Ok(());
    }
    let mut command = Command::new(program()?);
    command.current_dir(steps::root()).args(["bench", "compare"]).args(records);
    let status = command
        .arg("--output")
        .arg(folder.join(compared(peer, evaluation)))
        .stdout(Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "{evaluation:?} of both servers cannot be compared");
    Ok(())
}

/// Runs one evaluation with a server of its own, and returns whether it came to its end.
fn measure(
    arguments: &Arguments,
    site: &KerberosSite,
    link: Option<&Link>,
    name: &MeasuredServer<'_>,
    evaluation: Published,
    prefix: &Path,
) -> anyhow::Result<bool> {
    let work = private::temporary("orthrus-xtask-")?;
    let folder = match name {
        MeasuredServer::Orthrus => {
            MemoryFolder::Tmpfs(private::temporary_in("orthrus-evaluations-", "/dev/shm".as_ref())?)
        }
        MeasuredServer::Ganesha(package) => package.folder()?,
    };
    println!("{} exports a folder on {}", name.name(), folder.kind());
    let disk = folder.path();
    let mut command = Command::new(program()?);
    // The reports repeat the command line with paths relative to the repository's root.
    command.current_dir(steps::root());
    command.env("ORTHRUS_LOG", "warn").envs(site.environment());
    command.args(["bench", &format!("{evaluation:?}").to_lowercase()]);
    command.args(["--flavors", &arguments.flavors]).arg("--output").arg(prefix);
    match evaluation {
        Published::Lanl => {
            command.args(["--scale", &arguments.scale, "--repetitions", &arguments.repetitions]);
        }
        _ => {
            command.args(["--time", &arguments.time]);
        }
    }
    if let Some(link) = link {
        command.args(["--link", &link.spec().argument()]);
    }
    // With servers of its own lanl compares the encryption types as well, ontap the instructions,
    // and nconnect counts drops.
    let own = matches!(name, MeasuredServer::Orthrus) && evaluation != Published::Anf;
    if own && evaluation == Published::Lanl {
        command.arg("--folder").arg(&disk);
    }
    let server = if own { None } else { Some(start(site, link, name, work.path(), &disk)?) };
    if let Some(server) = &server {
        let host = link.map_or("localhost".to_owned(), |link| link.server().to_string());
        if let Some(link) = link {
            command.args(["--link-namespace", &link.namespace()]);
        }
        command.arg(format!("{host}:/data")).args(["--port", &server.address.port().to_string()]);
        command.args(["--server-pid", &server.pid.to_string()]).arg("--ccache").arg(site.ccache());
        if let Some(metrics) = &server.metrics {
            command.args(["--server-metrics", &metrics.to_string()]);
        }
        if evaluation == Published::Lanl {
            command.arg("--scp-folder").arg(&disk);
        }
    }
    let status = command.status().context("the program did not start")?;
    // Others may fail at some cases; the report names them.
    let skipped = matches!(name, MeasuredServer::Ganesha(_)) && status.code() == Some(SKIPPED);
    Ok(status.success() || skipped)
}

/// Starts a server that exports a folder of `disk` as /data.
fn start(
    site: &KerberosSite,
    link: Option<&Link>,
    name: &MeasuredServer<'_>,
    work: &Path,
    disk: &Path,
) -> anyhow::Result<RunningServer> {
    let export = disk.join("data");
    make_export(&export)?;
    Ok(match name {
        MeasuredServer::Orthrus => {
            let server =
                site.start_server(work, vec![export.into(), "--squash".into(), "none".into()], None, link)?;
            let (pid, address, metrics) = (server.pid(), server.address(), server.metrics());
            RunningServer { pid, address, metrics, _process: Box::new(server) }
        }
        MeasuredServer::Ganesha(package) => {
            let free = || Ok(TcpListener::bind(link::listen(link))?.local_addr()?);
            let address = link::at_server(link, free)?;
            let server = Ganesha::start(package, work, &export, site.realm(), address, link)?;
            RunningServer { pid: server.pid(), address, metrics: None, _process: Box::new(server) }
        }
    })
}
