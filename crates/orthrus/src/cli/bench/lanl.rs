//! `orthrus bench lanl`: the evaluation of "Kerberized Network File System for Clusters".

use super::arguments::TargetArguments;
use super::enctypes::{EnctypeServers, ensure_type};
use super::evaluate;
use super::folder_server::FolderServer;
use super::keep;
use super::mounts::{MountArguments, Mounts};
use crate::cli::stop;
use anyhow::{Context, ensure};
use bench::Flavor;
use bench::ServerProbe;
use bench::lanl::{
    Caches, Carrier, Copier, CopyWay, LANL, LanlScope, NativeCarrier, OnMount, SCALE_MIN, SCP, ServerCache,
    Sources, SshCarrier, lanl, room,
};
use bench::link::Link;
use bench::measuring::{Part, Record, Settings};
use bench::mounted::{CopyProgram, Ssh, SshFolder};
use bench::native::BenchTarget;
use nix::unistd::geteuid;
use realm::RealmEnctype;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Scale and repetitions of --quick.
const QUICK: (f64, u32) = (0.002, 6);

/// Repeat "Kerberized Network File System for Clusters" (LANL): its tests with your figures.
///
/// This measures the transfer rate of files of 100 kB to 2 GB, and time and CPU use of copying
/// 10,000 files of 5 kB and 20 files of 500 MB, with sys, krb5, krb5i, krb5p and SCP side by side:
/// 10 repetitions, averages with confidence intervals. It adds cold and warm caches and the
/// encryption types 17 to 20, which the paper leaves open.
///
/// Without a target, it starts a server on a temporary folder in a throw-away realm, and an SSH
/// server for scp; both use loopback and end with this command. With HOST:/EXPORT, it measures that
/// server with the project's client. With --mount, it copies with cp through the Linux client, as
/// in the paper. It creates a folder at each place and removes it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  orthrus bench lanl --quick                       a look at everything: a minute
  orthrus bench lanl --scale 0.02                  a fiftieth of the sizes: about 10 minutes
  orthrus bench lanl --folder /srv/disk            all of it, as published: hours; 21 GB of disk
  orthrus bench lanl --parts small,large --scale 0.1 server.example.org:/home
  orthrus bench lanl --mount sys=/mnt/sys krb5=/mnt/krb5 krb5p=/mnt/krb5p --scp-folder /srv/disk
  orthrus bench lanl --scale 0.1 server.example.org:/home --scp alice@server.example.org:/srv/disk
  sudo orthrus bench lanl --scale 0.1 --mount server.example.org:/home --mount-options vers=4.2,nconnect=4")]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    /// Flavors to compare; the first is the baseline.
    #[arg(long, value_delimiter = ',', value_name = "FLAVOR,…", default_value = "sys,krb5,krb5i,krb5p")]
    flavors: Vec<Flavor>,
    /// Number of interleaved repetitions of each case [default: 10].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Fraction of the published file sizes and number of small files [default: 1].
    #[arg(long, value_name = "PART", value_parser = parse_scale)]
    scale: Option<f64>,
    /// Take a rough look: 6 repetitions at a scale of 0.002.
    #[arg(long)]
    quick: bool,
    /// Parts to run: sizes, small, large, caches, enctypes (only with a server that the bench
    /// starts) [default: all that are possible].
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    parts: Vec<Part>,
    /// Encryption types to compare: 17 to 20.
    #[arg(long, value_delimiter = ',', value_name = "NUMBER,…", default_value = "17,18,19,20", value_parser = parse_enctype)]
    enctypes: Vec<RealmEnctype>,
    /// Directory for the files to copy [default: a temporary one].
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Directory on this machine for the copies of scp, on the disk of the measured server. Without
    /// it, SCP is measured only beside a server that the bench starts.
    #[arg(long, value_name = "DIR")]
    scp_folder: Option<PathBuf>,
    /// Copy over SSH to this host with your keys, agent and known hosts; this never prompts. It
    /// creates a folder in DIR and removes it. The host's processor time stays unknown.
    #[arg(long, value_name = "[USER@]HOST:/DIR", conflicts_with_all = ["scp_folder", "link"])]
    scp: Option<SshFolder>,
    /// Program that copies over SSH: scp or sftp.
    #[arg(long, value_name = "PROGRAM", default_value = "scp")]
    with: CopyProgram,
    /// Configuration file of ssh for --scp (ssh -F).
    #[arg(long, value_name = "FILE", requires = "scp")]
    ssh_config: Option<PathBuf>,
    /// Skip the copies by SCP.
    #[arg(long, conflicts_with_all = ["scp_folder", "scp"])]
    no_scp: bool,
    /// Write the report to PREFIX.html, .json, .csv and .md [default: orthrus-lanl].
    #[arg(long, value_name = "PREFIX")]
    output: Option<PathBuf>,
    /// Continue an interrupted run from its PREFIX.json.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Refuses a scale that the evaluation does not know, before a server starts.
fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| (SCALE_MIN..=1.0).contains(scale));
    scale.ok_or_else(|| format!("the scale has to be from {SCALE_MIN} to 1"))
}

fn parse_enctype(text: &str) -> Result<RealmEnctype, String> {
    use RealmEnctype::{Aes128Sha1, Aes128Sha2, Aes256Sha1, Aes256Sha2};
    let all = [Aes128Sha1, Aes256Sha1, Aes128Sha2, Aes256Sha2];
    let found = all.into_iter().find(|enctype| enctype.number().to_string() == text);
    found.ok_or_else(|| "allowed are 17, 18, 19 and 20".to_owned())
}

/// The servers that a run starts itself.
struct OwnServers {
    // Ended before the folder goes, in which they have their states.
    enctypes: EnctypeServers,
    folder: FolderServer,
}

/// Where the sides come from.
enum Variants {
    Own(Box<OwnServers>),
    Remote(BenchTarget),
    Mounted(Mounts, ServerProbe),
}

impl Arguments {
    /// Measures.
    ///
    /// # Errors
    /// Nothing to measure, no room, a report that cannot be written; and, after the report was
    /// written, when the run was not complete.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // Before there is anything to clean up.
        let stop = stop::stop_flag()?;
        let link = self.target.link()?;
        let mut variants = self.variants(link.as_ref())?;
        if let Variants::Remote(target) = &mut variants {
            target.stop = Some(stop.clone());
        }
        let scope = self.scope(&variants);
        let mut evaluation = lanl(&scope)?;
        let room = room(&evaluation);
        let title = "What Kerberos costs a cluster: copies by NFSv4 and by SCP";
        let mut record = Record::begin(LANL, title, self.settings(&scope));
        record.target = match &variants {
            Variants::Own(own) => own.folder.label(),
            Variants::Remote(target) => target.label.clone(),
            Variants::Mounted(..) => self.mount.label(),
        };
        record.environment.link = link.as_ref().map(Link::spec);
        let files = evaluate::begin(&mut record, self.output.clone(), self.resume.as_deref())?;
        let cache = self.server_cache(&variants);
        let parent = self.source.clone().unwrap_or_else(std::env::temp_dir);
        let (sources, scp) = (Sources::in_folder(&parent)?, self.over_ssh(&variants));
        scp.as_ref().map_or(Ok(()), OverSsh::check)?;
        let local = self.is_local(&variants);
        let ways = &mut |variant: &str| variants.way(variant, scp.as_ref(), link.as_ref(), &stop);
        let mut driver = Copier::new(ways, sources, room, cache, &stop)?;
        evaluate::conduct(&mut record, &mut driver, &files, &stop, &mut evaluation, link.as_ref())?;
        drop(driver);
        keep::note(&mut record, local);
        note(&mut record, scope.scale, cache, scope.caches);
        record.notes.extend(self.ssh_note());
        evaluate::publish(&record, &files)
    }

    fn variants(&self, link: Option<&Link>) -> anyhow::Result<Variants> {
        if self.mount.any() {
            let mounts = self.mount.resolve(self.target.port(), &self.flavors)?;
            return Ok(Variants::Mounted(mounts, self.target.probe()));
        }
        if let Some(target) = self.target.remote()? {
            ensure!(
                !self.parts.contains(&Part::Enctypes),
                "encryption types are compared with a server of one's own only"
            );
            return Ok(Variants::Remote(target));
        }
        let folder = FolderServer::start(self.target.folder(), link)?;
        let wanted = self.parts.is_empty() || self.parts.contains(&Part::Enctypes);
        let enctypes = if wanted && folder.has_realm() { self.enctypes.as_slice() } else { &[] };
        let enctypes = EnctypeServers::start(enctypes, &folder, link)?;
        Ok(Variants::Own(Box::new(OwnServers { enctypes, folder })))
    }

    fn scope(&self, variants: &Variants) -> LanlScope {
        let (readers, enctypes, client) = match variants {
            Variants::Own(own) => (self.names(), own.enctypes.variants(), false),
            Variants::Remote(_) => (self.names(), Vec::new(), false),
            Variants::Mounted(mounts, _) => (mounts.variants(), Vec::new(), true),
        };
        let mut all = readers.clone();
        if !self.no_scp {
            all.push(SCP.to_owned());
        }
        // The types are compared with sys, and with each other.
        let base = readers.first().filter(|_| !enctypes.is_empty()).cloned();
        let parts = if self.parts.is_empty() { Part::ALL.to_vec() } else { self.parts.clone() };
        LanlScope {
            scale: self.scale.unwrap_or(if self.quick { QUICK.0 } else { 1.0 }),
            variants: all,
            readers,
            enctypes: base.into_iter().chain(enctypes).collect(),
            parts,
            caches: Caches { server: self.server_cache(variants) != ServerCache::Unknown, client },
        }
    }

    fn names(&self) -> Vec<String> {
        self.flavors.iter().map(|flavor| flavor.name().to_owned()).collect()
    }

    fn settings(&self, scope: &LanlScope) -> Settings {
        let mut variants = scope.variants.clone();
        let more: Vec<String> =
            scope.enctypes.iter().filter(|variant| !variants.contains(variant)).cloned().collect();
        variants.extend(more);
        let repetitions = self.repetitions.unwrap_or(if self.quick { QUICK.1 } else { 10 });
        let mut settings = Settings::new(repetitions, 0.0, 0, variants);
        let parts: Vec<&str> = scope.parts.iter().map(|part| part.name()).collect();
        settings.options.insert("scale".into(), json!(scope.scale));
        settings.options.insert("parts".into(), json!(parts));
        settings.options.extend(self.scp.as_ref().map(|there| ("scp".into(), json!(there.to_string()))));
        if self.with != CopyProgram::Scp {
            settings.options.insert("with".into(), json!(self.with.name()));
        }
        settings
    }

    /// The file beneath a server of our own is known; of others on this machine root can make the
    /// system forget all.
    fn server_cache(&self, variants: &Variants) -> ServerCache {
        match variants {
            Variants::Own(..) => ServerCache::File,
            _ if self.is_local(variants) && geteuid().is_root() => ServerCache::All,
            _ => ServerCache::Unknown,
        }
    }

    fn is_local(&self, variants: &Variants) -> bool {
        matches!(variants, Variants::Own(..)) || self.target.server_pid().is_some()
    }

    fn over_ssh(&self, variants: &Variants) -> Option<OverSsh> {
        if let Some(there) = &self.scp {
            let (host, config) = (there.host.clone(), self.ssh_config.clone());
            return Some(OverSsh::To(Ssh { host, config, program: self.with }, there.folder.clone()));
        }
        let folder = match (&self.scp_folder, variants) {
            (Some(folder), _) => folder.clone(),
            (None, Variants::Own(own)) => own.folder.beside(),
            _ => return None,
        };
        Some(OverSsh::Here(folder, self.with))
    }

    /// Says how SSH copied, where that is not scp to this machine.
    fn ssh_note(&self) -> Option<String> {
        let program = self.with.name();
        match &self.scp {
            Some(there) => Some(format!(
                "The copies over SSH were made by {program} to {there}, whose processor time is not known."
            )),
            None if self.with != CopyProgram::Scp && !self.no_scp => {
                Some(format!("The copies over SSH were made by {program}."))
            }
            None => None,
        }
    }
}

/// Where copies over SSH go.
enum OverSsh {
    /// To a folder of this machine, by a server that this run starts.
    Here(PathBuf, CopyProgram),
    /// To a folder of a host.
    To(Ssh, PathBuf),
}

impl OverSsh {
    /// Finds out before anything is measured whether a host can be copied to.
    fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::To(ssh, folder) => SshCarrier::to_host(ssh.clone(), folder)?.finish(),
            Self::Here(..) => Ok(()),
        }
    }

    fn way(&self, link: Option<&Link>) -> anyhow::Result<CopyWay> {
        let carrier: Box<dyn Carrier> = match self {
            Self::Here(folder, program) => Box::new(SshCarrier::to_own_server(folder, *program, link)?),
            Self::To(ssh, folder) => Box::new(SshCarrier::to_host(ssh.clone(), folder)?),
        };
        Ok(CopyWay { carrier, enctype: None, facts: None })
    }
}

impl Variants {
    fn way(
        &mut self,
        variant: &str,
        scp: Option<&OverSsh>,
        link: Option<&Link>,
        stop: &AtomicBool,
    ) -> anyhow::Result<CopyWay> {
        if variant == SCP {
            let there = scp.context(
                "name a host with --scp, or a folder on the server's disk with --scp-folder, on this machine, to compare with SCP",
            )?;
            return there.way(link);
        }
        match self {
            Self::Own(own) => {
                let OwnServers { enctypes, folder } = own.as_ref();
                match enctypes.target(variant) {
                    Some(target) => native(target, Flavor::Krb5p, variant, Some(folder.exported())),
                    None => {
                        native(folder.target(variant)?, flavor(variant)?, variant, Some(folder.exported()))
                    }
                }
            }
            Self::Remote(target) => native(target, flavor(variant)?, variant, None),
            Self::Mounted(mounts, server) => {
                let place = mounts.place(variant, None, stop)?;
                let facts = place.facts().clone();
                let enctype = facts.kerberos();
                Ok(CopyWay {
                    carrier: Box::new(OnMount::new(place, server.clone())?),
                    enctype,
                    facts: Some(facts),
                })
            }
        }
    }
}

fn flavor(variant: &str) -> anyhow::Result<Flavor> {
    variant.parse().map_err(anyhow::Error::msg)
}

fn native(
    target: &BenchTarget,
    flavor: Flavor,
    variant: &str,
    beneath: Option<PathBuf>,
) -> anyhow::Result<CopyWay> {
    let folder = bench::folder_name(Some(variant));
    let mut carrier = NativeCarrier::connect(target, flavor, &folder, beneath)?;
    let enctype = carrier.enctype().map(str::to_owned);
    if let Err(error) = ensure_type(variant, enctype.as_deref()) {
        let _ = carrier.finish();
        return Err(error);
    }
    Ok(CopyWay { carrier: Box::new(carrier), enctype, facts: None })
}

/// Adds the notes of this evaluation to the record.
fn note(record: &mut Record, scale: f64, cache: ServerCache, caches: Caches) {
    record.notes.extend(report::scale_note(scale));
    keep::note_mounts(record);
    record.notes.push(
        match cache {
            ServerCache::File => "The server's cache was made cold by asking the system to forget the file (posix_fadvise); a file system in memory has nothing to forget.",
            ServerCache::All => "The server's cache was made cold by making this machine forget all that it had cached (drop_caches).",
            ServerCache::Unknown => "The server's caches could not be made cold: it is not known to be on this machine, or we are not root. --server-pid names its process.",
        }
        .to_owned(),
    );
    let client = match caches.client {
        true => "The client's cache was made cold by asking the system to forget the file (posix_fadvise).",
        false => "The project's client keeps no data: its cache is always cold.",
    };
    record.notes.push(client.to_owned());
}
