//! The commands of nodes: the agent, and those of a scheduler's prolog and epilog.

use super::{host_principal, parse_server};
use crate::cli::stop;
use crate::output::outln;
use crate::service_manager::ServiceManager;
use ::grants::{AgentSettings, AttachedRun, GrantServer, NodeAgent, RunStatus};
use anyhow::{Context, bail};
use nix::unistd::User;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The folders of the agent of this node.
#[derive(clap::Args)]
struct AgentFolders {
    /// Folder of the agent, which belongs to root.
    #[arg(long, value_name = "DIR", default_value = "/run/orthrus-grants")]
    dir: PathBuf,
    /// Folder in which rpc.gssd looks for ticket caches.
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    caches: PathBuf,
}

/// Keep tickets for the runs on this node, as krb5cc_UID_orthrus in the folder of ticket caches.
///
/// A file of a user with that name is never replaced. Tickets are renewed at half of their
/// lifetime, and removed when a run is detached, its grant ends, or they expire.
#[derive(clap::Args)]
pub(in crate::cli) struct KeepTickets {
    #[command(flatten)]
    folders: AgentFolders,
    /// Host name of the grant service, and its port if that is not 7049.
    #[arg(long, value_name = "HOST[:PORT]", env = "ORTHRUS_GRANTS", value_parser = parse_server)]
    server: GrantServer,
    /// Keytab with the key of host/NODE.
    #[arg(long, value_name = "FILE", default_value = "/etc/krb5.keytab")]
    keytab: PathBuf,
    /// Name of this node in the keytab (default: that of its first key of host/NODE).
    #[arg(long)]
    node: Option<String>,
    /// Stop at the end of standard input, for tests.
    #[arg(long, hide = true)]
    end_with_input: bool,
}

/// Attach a run to the agent, and wait for its tickets; for a scheduler's prolog.
///
/// The exit status is 0 even if there are no tickets, since most jobs have no grant; the output
/// says why.
#[derive(clap::Args)]
pub(in crate::cli) struct AttachRun {
    #[command(flatten)]
    folders: AgentFolders,
    /// The job that the grant refers to; of an array job, that of the whole array.
    #[arg(long)]
    job: String,
    /// The scheduler's name of this run (default: the job's).
    #[arg(long)]
    run: Option<String>,
    /// The local user of the job.
    #[arg(long)]
    user: String,
    /// Realm of the user (default: the realm of the keytab).
    #[arg(long)]
    realm: Option<String>,
    /// Keytab that names the realm.
    #[arg(long, value_name = "FILE", default_value = "/etc/krb5.keytab")]
    keytab: PathBuf,
    /// Longest time to wait for tickets, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u64,
}

/// Detach a run and wait until its tickets are gone; for a scheduler's epilog.
#[derive(clap::Args)]
pub(in crate::cli) struct DetachRun {
    #[command(flatten)]
    folders: AgentFolders,
    /// The scheduler's name of the run.
    #[arg(long)]
    run: String,
    /// Longest time to wait for the agent, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u64,
}

impl KeepTickets {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let stop = stop::stop_flag()?;
        let (principal, _) = host_principal(&self.keytab, self.node.as_deref())?;
        let AgentFolders { dir: folder, caches } = self.folders;
        let name = principal.clone();
        let mut agent = NodeAgent::open(AgentSettings {
            server: self.server,
            keytab: self.keytab,
            principal,
            folder,
            caches,
        })?;
        outln!("orthrus keeps tickets as {name}");
        let manager = ServiceManager::from_environment();
        manager.ready(&format!("keeps tickets as {name}"));
        if self.end_with_input {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                stop.store(true, Ordering::Relaxed);
            });
        }
        agent.serve(&stop);
        manager.stopping();
        Ok(())
    }
}

impl AttachRun {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let user = User::from_name(&self.user)?.with_context(|| format!("no user {} here", self.user))?;
        if user.uid.is_root() {
            bail!("root has no tickets of users");
        }
        let realm = match self.realm {
            Some(realm) => realm,
            None => host_principal(&self.keytab, None)?.1,
        };
        let run = AttachedRun {
            run: self.run.unwrap_or_else(|| self.job.clone()),
            job: self.job,
            principal: format!("{}@{realm}", self.user),
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
        };
        match ::grants::attach(&self.folders.dir, &run, Duration::from_secs(self.wait))? {
            RunStatus::Ready { file, ends } => {
                outln!("{} until {}", file.display(), super::time::utc(ends))
            }
            RunStatus::Waiting(why) => outln!("no tickets for run {}: {why}", run.run),
        }
        Ok(())
    }
}

impl DetachRun {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let AgentFolders { dir, caches } = self.folders;
        ::grants::detach(&dir, &caches, &self.run, Duration::from_secs(self.wait)).map_err(Into::into)
    }
}
