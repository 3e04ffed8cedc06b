//! `orthrus cluster`: the members of a cluster of gateways.

use crate::cli::table::table;
use crate::config::{self, ClusterSettings};
use crate::output::{out, outln};
use crate::serve::membership::store_options;
use anyhow::{Context, bail};
use grace::{Database, DatabaseChange, NodeId};
use grace_rados::GraceStore;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The configuration that is read if none is named.
const DEFAULT_CONFIG: &str = "/etc/orthrus/orthrus.toml";
/// How long a command waits for the Ceph cluster.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two readings of the signs of life: longer than between two of these.
const BEAT_PAUSE: Duration = Duration::from_millis(2500);
/// Attempts while members change the database.
const RACES_MAX: usize = 50;

/// Show and change the members of a cluster of gateways.
///
/// The members share their grace period through an object of RADOS, which `ganesha-rados-grace`
/// shows and changes as well. The place comes from the table [cluster] of a configuration, or from
/// options.
#[derive(clap::Subcommand)]
pub(super) enum ClusterCommand {
    Status(ClusterStatus),
    Join(JoinCluster),
    Leave(LeaveCluster),
    Lift(LiftNeed),
}

/// The place of the shared state.
#[derive(clap::Args)]
struct SharedPlace {
    /// Take the place from this configuration (default: /etc/orthrus/orthrus.toml if it is there).
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The pool of the shared state.
    #[arg(long)]
    pool: Option<String>,
    /// The namespace in the pool.
    #[arg(long)]
    namespace: Option<String>,
    /// The object of the grace database.
    #[arg(long)]
    object: Option<String>,
    /// The user of Ceph.
    #[arg(long, value_name = "NAME")]
    ceph_user: Option<String>,
    /// The configuration file of the Ceph cluster.
    #[arg(long, value_name = "FILE")]
    ceph_conf: Option<PathBuf>,
    /// The file with the key of the user.
    #[arg(long, value_name = "FILE")]
    ceph_keyring: Option<PathBuf>,
}

impl SharedPlace {
    fn settings(&self) -> anyhow::Result<ClusterSettings> {
        let default = Path::new(DEFAULT_CONFIG);
        let file = self.config.as_deref().or_else(|| default.exists().then_some(default));
        let settings = match file {
            // Errors elsewhere in the file do not concern the cluster.
            Some(file) => match config::examine(file)? {
                (Some(settings), _) => settings.cluster,
                (None, errors) => errors.into_iter().next().map_or(Ok(None), Err)?,
            },
            None => None,
        };
        if let (Some(file), None) = (&self.config, &settings) {
            bail!("{} has no table [cluster]", file.display());
        }
        let mut settings = settings.unwrap_or_default();
        let set = |to: &mut String, from: &Option<String>| from.iter().for_each(|text| to.clone_from(text));
        set(&mut settings.pool, &self.pool);
        set(&mut settings.namespace, &self.namespace);
        set(&mut settings.object, &self.object);
        set(&mut settings.ceph_user, &self.ceph_user);
        settings.ceph_conf = self.ceph_conf.clone().unwrap_or(settings.ceph_conf);
        settings.ceph_keyring = self.ceph_keyring.clone().or(settings.ceph_keyring);
        Ok(settings)
    }

    fn open(&self) -> anyhow::Result<Arc<GraceStore>> {
        Ok(GraceStore::open(&store_options(&self.settings()?, TIMEOUT))?)
    }
}

/// List the members, with their flags, clients and sessions.
///
/// NEED: clients of the member have state to reclaim. ENFORCES: the member refuses new opens and
/// locks of shared files. ALIVE: it gives signs of life.
#[derive(clap::Args)]
pub(super) struct ClusterStatus {
    #[command(flatten)]
    place: SharedPlace,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Add members, and make the shared state of a new cluster.
///
/// A gateway starts only if it is a member.
#[derive(clap::Args)]
pub(super) struct JoinCluster {
    #[command(flatten)]
    place: SharedPlace,
    /// The names of the members, as `node` in their configurations.
    #[arg(required = true)]
    nodes: Vec<NodeId>,
}

/// Remove a member that is gone for good. If it runs, it ends.
#[derive(clap::Args)]
pub(super) struct LeaveCluster {
    #[command(flatten)]
    place: SharedPlace,
    /// The name of the member.
    node: String,
    /// Remove it although it has clients on record, which can reclaim nothing then.
    #[arg(long)]
    force: bool,
}

/// End the wait for the clients of a member, which can reclaim nothing then.
#[derive(clap::Args)]
pub(super) struct LiftNeed {
    #[command(flatten)]
    place: SharedPlace,
    /// The name of the member.
    node: String,
}

impl ClusterCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The shared state cannot be used, or there is no such member.
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Status(command) => command.run(),
            Self::Join(command) => command.run(),
            Self::Leave(command) => command.run(),
            Self::Lift(command) => command.run(),
        }
    }
}

/// Changes the database, as often as others are faster. `None` from `change` leaves it as it is.
fn edit(store: &GraceStore, change: impl Fn(&mut Database)) -> anyhow::Result<bool> {
    for _ in 0..RACES_MAX {
        let (version, before) = store.database()?;
        let mut after = before.clone();
        change(&mut after);
        let Some(change) = DatabaseChange::between(&before, after) else { return Ok(false) };
        if store.write(version, &change)? {
            return Ok(true);
        }
    }
    bail!("the members change the grace database all the time; try again")
}

impl JoinCluster {
    fn run(self) -> anyhow::Result<()> {
        let store = self.place.open()?;
        if store.create()? {
            outln!("made the grace database {}", store.options().object);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
        store.secret_or(&secret)?;
        for node in &self.nodes {
            let added = edit(&store, |database| database.add(node.clone()))?;
            outln!("{node} is a member{}", if added { "" } else { " already" });
        }
        Ok(())
    }
}

/// Finds a member, by the name that the list shows.
fn member(store: &GraceStore, name: &str) -> anyhow::Result<NodeId> {
    let (_, database) = store.database()?;
    let found = database.nodes().map(|(node, _)| node.clone()).find(|node| node.to_string() == name);
    found.with_context(|| {
        let names: Vec<String> = database.nodes().map(|(node, _)| node.to_string()).collect();
        format!("{name} is no member; there are: {}", names.join(", "))
    })
}

impl LeaveCluster {
    fn run(self) -> anyhow::Result<()> {
        let store = self.place.open()?;
        let node = member(&store, &self.node)?;
        let clients = store.records(&node).map_or(0, |records| records.len());
        if clients > 0 && !self.force {
            bail!(
                "{node} has {clients} clients on record: move them to another gateway and let it drain (`orthrus \
                 drain`), or remove it with --force: they can reclaim nothing then"
            );
        }
        edit(&store, |database| database.remove(&node))?;
        store.remove_node(&node)?;
        outln!("{node} is no member any more");
        Ok(())
    }
}

impl LiftNeed {
    fn run(self) -> anyhow::Result<()> {
        let store = self.place.open()?;
        let node = member(&store, &self.node)?;
        match edit(&store, |database| database.lift(&node))? {
            true => outln!("nobody waits for the clients of {node} any more"),
            false => outln!("nobody waits for the clients of {node}"),
        }
        let (_, database) = store.database()?;
        if database.epochs().is_grace() {
            outln!("the grace period goes on for others, or until all members refuse new state");
        }
        Ok(())
    }
}

/// The cluster as JSON.
#[derive(Serialize)]
struct ClusterOutput {
    epoch: u64,
    /// 0 outside of a grace period.
    recovery: u64,
    members: Vec<MemberOutput>,
}

#[derive(Serialize)]
struct MemberOutput {
    node: String,
    needs_grace: bool,
    enforces: bool,
    /// `None` for another program.
    alive: Option<bool>,
    clients: usize,
    sessions: usize,
    host: String,
    instance: Option<u64>,
}

impl ClusterStatus {
    fn run(self) -> anyhow::Result<()> {
        let store = self.place.open()?;
        let before = store.view()?.1.beats;
        std::thread::sleep(BEAT_PAUSE);
        let (_, view) = store.view()?;
        let mut members = Vec::new();
        for (node, flags) in view.database.nodes() {
            let summary = store.node(node)?;
            let beat = view.beats.get(node);
            members.push(MemberOutput {
                node: node.to_string(),
                needs_grace: flags.needs_grace(),
                enforces: flags.is_enforcing(),
                alive: beat.map(|beat| before.get(node) != Some(beat)),
                clients: store.records(node)?.len(),
                sessions: summary.sessions.open.len(),
                host: summary.host.split(' ').next().unwrap_or_default().to_owned(),
                instance: view.database.instance(node),
            });
        }
        let epochs = view.database.epochs();
        let output = ClusterOutput { epoch: epochs.current, recovery: epochs.recovery, members };
        match self.json {
            true => outln!("{}", serde_json::to_string_pretty(&output)?),
            false => out!("{}", text(&output)),
        }
        Ok(())
    }
}

fn text(cluster: &ClusterOutput) -> String {
    let grace = match cluster.recovery {
        0 => "no grace period".to_owned(),
        epoch => format!("grace period: clients of epoch {epoch} reclaim"),
    };
    let head = ["MEMBER", "NEED", "ENFORCES", "ALIVE", "CLIENTS", "SESSIONS", "HOST"];
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let row = |member: &MemberOutput| {
        vec![
            member.node.clone(),
            yes(member.needs_grace),
            yes(member.enforces),
            member.alive.map_or("-".to_owned(), yes),
            member.clients.to_string(),
            member.sessions.to_string(),
            member.host.clone(),
        ]
    };
    let rows = std::iter::once(head.map(str::to_owned).to_vec()).chain(cluster.members.iter().map(row));
    format!("epoch {}, {grace}\n{}", cluster.epoch, table(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_stand_in_a_table() {
        let member = |node: &str, alive| MemberOutput {
            node: node.to_owned(),
            needs_grace: alive == Some(true),
            enforces: true,
            alive,
            clients: 3,
            sessions: 1,
            host: "host1".to_owned(),
            instance: None,
        };
        let members = vec![member("gw1", Some(true)), member("\u{1b}gw2", None)];
        let said = text(&ClusterOutput { epoch: 7, recovery: 6, members });
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "epoch 7, grace period: clients of epoch 6 reclaim");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["gw1", "yes", "yes", "yes", "3", "1", "host1"]
        );
        assert!(!said.contains('\u{1b}') && lines[3].contains("no"), "{said}");
    }
}
