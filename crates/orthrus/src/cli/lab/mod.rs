//! `orthrus lab`: a cluster of Linux clients behind NAT, on this machine.

mod run;

use crate::output::outln;
use ::cluster::{FolderOnFailure, LabFolder, LabOptions, LabRecord, LabStorage, Needs, Progress};
use anyhow::{Context, bail};
use bench::link::LinkSpec;
use realm::Enctypes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Run a cluster on this machine: KDC, NFS server, name service, a head node with NAT, Linux
/// clients behind it.
///
/// The cluster consists of namespaces below one process, and of one folder; `lab down` ends the
/// process and removes the folder. This needs root and a few packages; `lab up` names missing ones.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    Up(LabUp),
    Status(ShowStatus),
    Run(run::RunInLab),
    Shell(run::Shell),
    Down(LabDown),
    #[command(hide = true)]
    Hold(LabHold),
}

/// Where a lab is.
#[derive(clap::Args)]
struct LabLocation {
    /// Folder of the lab.
    #[arg(long, value_name = "DIR", default_value = ::cluster::DIR)]
    dir: PathBuf,
}

/// Check the requirements, then start the cluster; it runs until `lab down`.
#[derive(clap::Args)]
pub(super) struct LabUp {
    #[command(flatten)]
    place: LabLocation,
    /// Number of compute nodes.
    #[arg(long, default_value_t = 3)]
    nodes: u8,
    /// Memory of a node in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: u32,
    /// Encryption types of all keys, as for `orthrus realm up`; Linux 6.1 of Debian 12 supports
    /// those of sha1 only.
    #[arg(long, default_value = "sha1", value_parser = parse_enctypes)]
    enctypes: String,
    /// Storage of the exported folder: disk (the file system of DIR) or tmpfs.
    #[arg(long, default_value = "disk", value_parser = parse_storage)]
    export_on: LabStorage,
    /// Another user-mode Linux kernel for the nodes; --modules names its modules.
    #[arg(long, value_name = "FILE", requires = "modules")]
    kernel: Option<PathBuf>,
    /// The folder with the modules of the nodes' kernel.
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Rate of every cable of the two networks in each direction, such as 1gbit (as at LANL) or
    /// 10gbit,100us [default: unlimited].
    #[arg(long, value_name = "RATE[,DELAY]")]
    link: Option<LinkSpec>,
    /// Check the requirements and exit.
    #[arg(long)]
    check: bool,
    /// Keep the folder with the logs if the start fails.
    #[arg(long)]
    keep: bool,
}

/// Show the processes, the mounts of the nodes, and the clients of the server.
#[derive(clap::Args)]
pub(super) struct ShowStatus {
    #[command(flatten)]
    place: LabLocation,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Stop the cluster and remove its folder.
#[derive(clap::Args)]
pub(super) struct LabDown {
    #[command(flatten)]
    place: LabLocation,
}

/// The process that a lab hangs on; `lab up` starts it.
#[derive(clap::Args)]
pub(super) struct LabHold {
    dir: PathBuf,
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// Names the missing part or the failed step, with the remedy.
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Up(up) => up.run(),
            Self::Status(status) => status.run(),
            Self::Run(run) => run.run(),
            Self::Shell(shell) => shell.run(),
            Self::Down(down) => down.run(),
            Self::Hold(hold) => ::cluster::hold(&hold.dir),
        }
    }
}

impl LabLocation {
    fn folder(&self) -> anyhow::Result<LabFolder> {
        let dir = std::path::absolute(&self.dir).with_context(|| self.dir.display().to_string())?;
        Ok(LabFolder::at(&dir))
    }

    fn open(&self) -> anyhow::Result<(LabFolder, LabRecord)> {
        let folder = self.folder()?;
        let record = folder.open()?;
        Ok((folder, record))
    }
}

impl LabUp {
    fn run(self) -> anyhow::Result<()> {
        let (kernel, modules) = (self.kernel.as_deref(), self.modules.as_deref());
        let needs = ::cluster::check(self.nodes, self.memory, kernel, modules, self.link);
        print_needs(&needs);
        if let Some(missing) = needs.missing() {
            bail!("cannot run here: {missing}");
        }
        if self.check {
            return Ok(());
        }
        let absolute = |path: &Path| std::path::absolute(path).with_context(|| path.display().to_string());
        let options = LabOptions {
            dir: absolute(&self.place.dir)?,
            nodes: self.nodes,
            memory_mib: self.memory,
            enctypes: self.enctypes,
            storage: self.export_on,
            program: std::env::current_exe()?,
            kernel: absolute(&needs.kernel)?,
            modules: absolute(&needs.modules)?,
            nat: needs.nat,
            link: self.link,
        };
        let (start, stop) = (Instant::now(), stop_flag()?);
        let on_failure = if self.keep { FolderOnFailure::Keep } else { FolderOnFailure::Remove };
        ::cluster::up(&options, on_failure, &stop, &mut |progress| match progress {
            Progress::Summary(text) => outln!("\n{text}"),
            Progress::Step(title) => outln!("{:5.1} s  {title}", start.elapsed().as_secs_f64()),
        })?;
        outln!(
            "{:5.1} s  up: every node has the export mounted with each flavor\n",
            start.elapsed().as_secs_f64()
        );
        let dir = match options.dir == Path::new(::cluster::DIR) {
            true => String::new(),
            false => format!(" --dir {}", options.dir.display()),
        };
        outln!("orthrus lab status{dir}\northrus lab run{dir} lanl\northrus lab down{dir}");
        Ok(())
    }
}

fn print_needs(needs: &Needs) {
    for need in &needs.all {
        match &need.found {
            Ok(found) => outln!("ok       {}: {found}", need.what),
            Err(missing) => outln!("MISSING  {}: {missing}", need.what),
        }
    }
}

impl ShowStatus {
    fn run(self) -> anyhow::Result<()> {
        let (folder, record) = self.place.open()?;
        let status = ::cluster::status(&folder, &record);
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&status)?);
            return Ok(());
        }
        for part in status.machines.iter().chain(&status.nodes) {
            let state = match part.pid {
                Some(pid) => format!("process {pid}, {} MiB", part.resident_kib / 1024),
                None => "ENDED".to_owned(),
            };
            let mounted = match part.mounted.is_empty() {
                true => String::new(),
                false => format!(", mounted {}", part.mounted.join(" ")),
            };
            outln!("{:8} {:12} {state}{mounted}", part.name, part.address.to_string());
        }
        let clients = status.clients.map_or("an unknown number of".to_owned(), |clients| clients.to_string());
        let peers = status.peers.iter().map(|(address, count)| format!("{count} connections from {address}"));
        outln!("the server knows {clients} clients: {}", peers.collect::<Vec<_>>().join(", "));
        Ok(())
    }
}

impl LabDown {
    fn run(self) -> anyhow::Result<()> {
        let folder = self.place.folder()?;
        match ::cluster::down(&folder)? {
            true => outln!("the lab in {} has ended; nothing is left of it", folder.path().display()),
            false => outln!("there is no lab in {}", folder.path().display()),
        }
        Ok(())
    }
}

/// Becomes true with Ctrl-C, SIGTERM and the end of the terminal.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// The realm is made by another process, which takes the same text.
fn parse_enctypes(text: &str) -> Result<String, realm::RealmError> {
    text.parse::<Enctypes>().map(|_| text.to_owned())
}

fn parse_storage(text: &str) -> Result<LabStorage, String> {
    match text {
        "disk" => Ok(LabStorage::Disk),
        "tmpfs" => Ok(LabStorage::Tmpfs),
        _ => Err("disk or tmpfs".to_owned()),
    }
}
