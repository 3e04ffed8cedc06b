//! `orthrus serve`: the server.

use crate::config::{self, AuditTarget, CephStorage, ExportSettings, Sandbox, Settings, Storage};
use crate::output::{errln, outln};
use crate::serve::{self, Preflight};
use anyhow::{Context, anyhow, bail};
use clap::builder::RangedU64ValueParser;
use server::engine::Delegations;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use vfs::{SecFlavor, Squash};

// The headings of the options.
const EXPORTS: &str = "Exports";
const NETWORK: &str = "Network";
const KERBEROS: &str = "Kerberos and identities";
const STATE: &str = "State";
const OBSERVATION: &str = "Observation";
const PROCESS: &str = "Process";

/// Serve folders over NFSv4.1 and 4.2, and over 4.0 for older clients.
///
/// Exports come from a file (--config) or from the command line. Mount the export of `orthrus serve
/// /srv/data` with `mount -t nfs4 -o sec=krb5p SERVER:/data /mnt`. Command-line options override
/// the file. SIGHUP reloads the exports and identities of the file, SIGUSR1 logs all counters,
/// SIGTERM and Ctrl-C stop the server.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Folders to export, each under its own name; FOLDER=/PSEUDO chooses another name.
    folders: Vec<String>,
    /// Read the configuration from this file.
    #[arg(long, short, value_name = "FILE", conflicts_with = "folders")]
    config: Option<PathBuf>,
    /// Listen on this address:port, address, or :port (default :2049).
    #[arg(help_heading = NETWORK, long, value_parser = config::parse_listen)]
    listen: Option<SocketAddr>,
    /// Allowed flavors in order of preference. `sys` trusts the user IDs that clients send, so you
    /// must name it.
    #[arg(
        help_heading = EXPORTS,
        long,
        value_delimiter = ',',
        value_name = "FLAVOR,…",
        default_value = "krb5p,krb5i,krb5",
        conflicts_with = "config"
    )]
    sec: Vec<SecFlavor>,
    /// Accept sys only from source ports below 1024, which clients reserve for privileged programs.
    #[arg(help_heading = EXPORTS, long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, conflicts_with = "config")]
    secure: bool,
    /// Refuse all changes with NFS4ERR_ROFS.
    #[arg(help_heading = EXPORTS, long, conflicts_with = "config")]
    read_only: bool,
    /// Map these callers to the anonymous user: none, root or all.
    #[arg(help_heading = EXPORTS, long, default_value = "root", conflicts_with = "config")]
    squash: Squash,
    /// Numbers of the anonymous user and its group (default: nobody, 65534:65534).
    #[arg(help_heading = EXPORTS, long, value_name = "UID:GID", value_parser = parse_anonymous, conflicts_with = "config")]
    anonymous: Option<(u32, u32)>,
    /// Let clients set the set-user-ID and set-group-ID bits of files.
    #[arg(help_heading = EXPORTS, long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, conflicts_with = "config")]
    setid: bool,
    /// Serve only programs on this machine that you or root run; close other connections unread.
    /// For trials.
    #[arg(help_heading = NETWORK, long)]
    same_user: bool,
    /// Clients that may mount: networks such as 10.0.0.0/8, host names, patterns such as
    /// *.example.org, and netgroups such as @trusted (default: all).
    #[arg(help_heading = EXPORTS, long, value_delimiter = ',', value_name = "CLIENT,…", conflicts_with = "config")]
    clients: Vec<config::ClientPattern>,
    /// Export this many MiB of memory as /memory, for measuring without a disk.
    #[arg(help_heading = EXPORTS, long, value_name = "MIB", conflicts_with = "config", value_parser = mebibytes())]
    memory: Option<u64>,
    /// Export this directory of CephFS under its own name; PATH=/PSEUDO chooses another name.
    #[arg(help_heading = EXPORTS, long, value_name = "PATH", conflicts_with = "config")]
    ceph: Option<String>,
    /// The configuration file of the Ceph cluster.
    #[arg(help_heading = EXPORTS, long, value_name = "FILE", default_value = "/etc/ceph/ceph.conf", conflicts_with = "config")]
    ceph_conf: PathBuf,
    /// The user of Ceph whose key this server has.
    #[arg(help_heading = EXPORTS, long, value_name = "NAME", default_value = "orthrus", conflicts_with = "config")]
    ceph_user: String,
    /// Serve Prometheus metrics at http://ADDRESS/metrics, without authentication; :PORT listens on
    /// loopback only.
    #[arg(help_heading = OBSERVATION, long, value_name = "ADDRESS", value_parser = config::parse_metrics)]
    metrics: Option<SocketAddr>,
    /// Serve the status as a web page at this address; :PORT listens on loopback only. The command
    /// `orthrus web` prints a link that opens it.
    #[arg(help_heading = OBSERVATION, long, value_name = "ADDRESS", value_parser = config::parse_metrics)]
    web: Option<SocketAddr>,
    /// Log opens, changes, refusals and what administrators do in JSON lines to this file, or to
    /// systemd's journal for `journal`.
    #[arg(help_heading = OBSERVATION, long, value_name = "FILE")]
    audit: Option<AuditTarget>,
    /// Keytab with the keys of the service (default: /etc/krb5.keytab if it is there).
    #[arg(help_heading = KERBEROS, long, value_name = "FILE")]
    keytab: Option<PathBuf>,
    /// The domain of owner names such as alice@example.org (default: the realm's name in lower
    /// case).
    #[arg(help_heading = KERBEROS, long)]
    domain: Option<String>,
    /// Realm whose users act as the local users of the same name; may be repeated (default: the
    /// realms of the keytab).
    #[arg(help_heading = KERBEROS, long = "realm", value_name = "REALM")]
    realms: Vec<String>,
    /// Directory for the server's secret and its client records (default: /var/lib/orthrus for
    /// root).
    #[arg(help_heading = STATE, long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Number of threads that serve connections (default: one per core).
    #[arg(help_heading = PROCESS, long, value_parser = clap::value_parser!(u16).range(..=256))]
    shards: Option<u16>,
    /// Lease time: seconds after which others may take the state of a silent client (default: 60).
    #[arg(help_heading = STATE, long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease_time: Option<u64>,
    /// Grace time: seconds after a restart in which clients may reclaim their state (default:
    /// 60).
    #[arg(help_heading = STATE, long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=3600))]
    grace_time: Option<u64>,
    /// Serve NFSv4.0, too (default: true). It has no sessions and therefore no exactly-once
    /// semantics.
    #[arg(help_heading = STATE, long, value_name = "BOOL")]
    nfs40: Option<bool>,
    /// Delegations to grant: none, read (default), or all (read and write).
    #[arg(help_heading = STATE, long, value_name = "CHOICE")]
    delegations: Option<Delegations>,
    /// Seconds within which a client must return a recalled delegation (default: the lease time).
    #[arg(help_heading = STATE, long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    recall_time: Option<u64>,
    /// Restrict the process to the system calls and TCP ports that serving needs: on (default) or
    /// off.
    #[arg(help_heading = PROCESS, long, value_name = "CHOICE")]
    sandbox: Option<Sandbox>,
    /// Let a principal act as a local user of another name; may be repeated.
    #[arg(help_heading = KERBEROS, long = "map", value_name = "PRINCIPAL=USER", value_parser = parse_map)]
    principals: Vec<(String, String)>,
    /// End when standard input does: for programs that start a server of their own.
    #[arg(long, hide = true)]
    end_with_input: bool,
    /// Try everything that a start does, report all faults, and exit. Nothing is served or changed.
    #[arg(long)]
    check: bool,
}

impl Arguments {
    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// The fault in the configuration, the keytab, the folders or the port, with the remedy.
    pub(super) fn run(self) -> anyhow::Result<()> {
        if self.check {
            return self.preflight();
        }
        let settings = self.settings().inspect_err(serve::tell_predecessor)?;
        let end_with_input = self.end_with_input;
        let read =
            self.config.is_some().then(|| Box::new(move || self.settings()) as Box<serve::ReadSettings>);
        serve::run(settings, read, end_with_input)
    }

    fn preflight(&self) -> anyhow::Result<()> {
        let (settings, wrong) = match &self.config {
            Some(file) => {
                let (settings, wrong) = config::examine(file)?;
                (settings, wrong.into_iter().map(anyhow::Error::from).collect())
            }
            None => {
                let (exports, wrong) = self.exports();
                (Some(Settings { exports, ..Settings::default() }), wrong)
            }
        };
        let settings = settings.map(|settings| self.override_settings(settings));
        let Preflight { faults, notes } = settings.as_ref().map(serve::check).unwrap_or_default();
        let exports = settings.map_or(0, |settings| settings.exports.len());
        notes.iter().for_each(|note| outln!("{note}"));
        let faults: Vec<_> = wrong.into_iter().chain(faults).collect();
        if faults.is_empty() {
            outln!("the configuration is right: {exports} export(s)");
            return Ok(());
        }
        faults.iter().for_each(|fault| errln!("orthrus: {fault:#}"));
        bail!("{} fault(s): the server would not serve as configured", faults.len())
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let settings = match &self.config {
            Some(file) => config::read(file)?,
            None => {
                let (exports, wrong) = self.exports();
                wrong.into_iter().next().map_or(Ok(()), Err)?;
                Settings { exports, ..Settings::default() }
            }
        };
        Ok(self.override_settings(settings))
    }

    fn override_settings(&self, mut settings: Settings) -> Settings {
        let set = |to: &mut Duration, from: Option<u64>| {
            if let Some(seconds) = from {
                *to = Duration::from_secs(seconds);
            }
        };
        set(&mut settings.lease_time, self.lease_time);
        set(&mut settings.grace_time, self.grace_time);
        settings.recall_time = self.recall_time.map(Duration::from_secs).or(settings.recall_time);
        settings.nfs40 = self.nfs40.unwrap_or(settings.nfs40);
        settings.delegations = self.delegations.unwrap_or(settings.delegations);
        settings.sandbox = self.sandbox.unwrap_or(settings.sandbox);
        settings.listen = self.listen.unwrap_or(settings.listen);
        settings.same_user |= self.same_user;
        settings.metrics = self.metrics.or(settings.metrics);
        settings.web = self.web.or(settings.web);
        settings.audit = self.audit.clone().or(settings.audit);
        settings.shards = self.shards.map_or(settings.shards, usize::from);
        settings.keytab = self.keytab.clone().or(settings.keytab);
        settings.state_dir = self.state_dir.clone().or(settings.state_dir);
        settings.domain = self.domain.clone().unwrap_or(settings.domain);
        settings.principals.extend(self.principals.iter().cloned());
        if !self.realms.is_empty() {
            settings.realms = self.realms.clone();
        }
        settings
    }

    /// Returns the exports of the command line, and an error for each that is wrong.
    fn exports(&self) -> (Vec<ExportSettings>, Vec<anyhow::Error>) {
        let mut taken = HashMap::new();
        let memory = self.memory.map(|mebibytes| {
            Ok(ExportSettings::new(Storage::Memory(mebibytes.saturating_mul(1 << 20)), "/memory"))
        });
        let mut tried: Vec<_> = self.folders.iter().map(|text| folder(text, &mut taken)).collect();
        tried.extend(memory);
        tried.extend(self.ceph.iter().map(|text| self.ceph(text, &mut taken)));
        if tried.is_empty() {
            tried.push(Err(anyhow!(
                "nothing to export: name a folder (orthrus serve /srv/data) or a file (--config \
                 /etc/orthrus/orthrus.toml)"
            )));
        }
        let (mut exports, mut wrong) = (Vec::new(), Vec::new());
        for tried in tried {
            tried.map_or_else(|error| wrong.push(error), |export| exports.push(export));
        }
        for export in &mut exports {
            export.flavors = self.sec.clone();
            export.secure = self.secure;
            export.read_only = self.read_only;
            export.squash = self.squash;
            export.setid = self.setid;
            (export.anon_uid, export.anon_gid) = self.anonymous.unwrap_or((export.anon_uid, export.anon_gid));
            export.clients = Some(self.clients.clone()).filter(|clients| !clients.is_empty());
        }
        (exports, wrong)
    }
}

impl Arguments {
    /// Makes an export of `PATH` or `PATH=/PSEUDO` of CephFS.
    fn ceph(&self, text: &str, taken: &mut HashMap<String, u32>) -> anyhow::Result<ExportSettings> {
        let (path, pseudo) = match text.rsplit_once("=/") {
            Some((path, _)) => (path, text.get(path.len() + 1..)),
            None => (text, None),
        };
        let storage = Storage::Ceph(CephStorage {
            path: vfs::normalise(path).context("--ceph: the path in CephFS")?,
            file_system: None,
            user: self.ceph_user.clone(),
            configuration: std::path::absolute(&self.ceph_conf)?,
            keyring: None,
            snapshots: false,
            mounts: 0,
        });
        let pseudo = match pseudo {
            Some(pseudo) => vfs::normalise(pseudo)?,
            None => config::distinct_pseudo(taken, &storage),
        };
        Ok(ExportSettings::new(storage, pseudo))
    }
}

/// Makes an export of `FOLDER` or `FOLDER=/PSEUDO`.
fn folder(text: &str, taken: &mut HashMap<String, u32>) -> anyhow::Result<ExportSettings> {
    let (path, pseudo) = split_pseudo(text);
    if path.as_os_str().is_empty() {
        bail!("the name of a folder is empty: a variable of the shell may not be set");
    }
    let storage = Storage::Folder(path.canonicalize().with_context(|| path.display().to_string())?);
    let pseudo = match pseudo {
        Some(pseudo) => vfs::normalise(pseudo)?,
        None => config::distinct_pseudo(taken, &storage),
    };
    Ok(ExportSettings::new(storage, pseudo))
}

/// Splits `FOLDER=/PSEUDO`; a folder with "=/" in its own name is found if it exists.
fn split_pseudo(text: &str) -> (PathBuf, Option<&str>) {
    match text.rsplit_once("=/") {
        Some((folder, pseudo)) if !PathBuf::from(text).exists() => {
            (folder.into(), text.get(text.len() - pseudo.len() - 1..))
        }
        _ => (text.into(), None),
    }
}

/// Parses a size within the bounds of the key `memory`.
fn mebibytes() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(config::MEMORY.start() >> 20..=config::MEMORY.end() >> 20)
}

/// Parses `UID:GID` as two numbers.
fn parse_anonymous(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    numbers.ok_or_else(|| "must be UID:GID, two numbers, such as 65534:65534".to_owned())
}

/// Parses `PRINCIPAL=USER` as two names.
fn parse_map(text: &str) -> Result<(String, String), String> {
    let (principal, user) =
        text.rsplit_once('=').ok_or("must be PRINCIPAL=USER, such as admin@EXAMPLE.ORG=root")?;
    config::check_principal(principal)?;
    Ok((principal.to_owned(), user.to_owned()))
}
