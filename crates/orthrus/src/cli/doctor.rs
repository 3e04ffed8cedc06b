//! `orthrus doctor`: the reason why a mount with Kerberos fails.

use super::asked_server::USUAL_FILE;
use crate::config::{self, ClientPattern, ExportSettings, NFS_PORT, Settings, SourceSettings, Storage};
use crate::output::{out, outln};
use crate::serve;
use anyhow::{Context, bail};
use client::Flavor;
use doctor::{ExportPlan, MountTarget, ServerPlan, Surroundings};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use vfs::SecFlavor;

/// The result of checks that found something; holds the exit status.
#[derive(Debug, thiserror::Error)]
#[error("the doctor found something")]
pub(crate) struct Unhealthy(pub u8);

/// Find why a mount with Kerberos fails, and the command that fixes it
///
/// On a client, name the export to mount: orthrus doctor SERVER:/data. On a server, use --server.
/// Checks run in the order in which a mount needs them; the first finding is the root cause.
/// Nothing is changed. Run it as the user who has the problem, and as root to include the machine's
/// keytab.
///
/// Exit status: 0 nothing is wrong, 1 something prevents the mount, 2 wrong usage, 3 warnings only.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Examine {
    /// The server and the export, as in the mount command; [ADDRESS] for IPv6.
    #[arg(value_name = "HOST:/EXPORT", value_parser = parse_source, required_unless_present = "server")]
    source: Option<(String, String)>,
    /// Examine the server on this machine.
    #[arg(long, conflicts_with_all = ["source", "sec"])]
    server: bool,
    /// The port of the server (default: 2049, or that of the configuration).
    #[arg(long)]
    port: Option<u16>,
    /// The flavor of the mount: sys, krb5, krb5i or krb5p (default: each that the export offers).
    #[arg(long)]
    sec: Option<Flavor>,
    /// With --server: read the configuration of the server from this file (default:
    /// /etc/orthrus/orthrus.toml if it exists).
    #[arg(long, short, value_name = "FILE", requires = "server")]
    config: Option<PathBuf>,
    /// The keytab of the machine or server (default: that of rpc.gssd or of the configuration).
    #[arg(long, value_name = "FILE")]
    keytab: Option<PathBuf>,
    /// With --server: the name by which clients mount (default: this machine's name).
    #[arg(long, value_name = "NAME", requires = "server")]
    host: Option<String>,
    /// With --server: also map this principal to its account.
    #[arg(long, value_name = "PRINCIPAL", requires = "server")]
    user: Option<String>,
    /// Seconds that a step on the network may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Read /etc, /proc and /sys below this folder, such as that of a container.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Splits `HOST:/EXPORT` into the host and the path of the export.
fn parse_source(text: &str) -> Result<(String, String), String> {
    let (host, export) =
        text.split_once(":/").ok_or("must be HOST:/EXPORT, such as server.example.org:/data")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        Err("the host is missing".to_owned())
    } else {
        Ok((host.to_owned(), format!("/{export}")))
    }
}

impl Examine {
    /// Prints the findings.
    ///
    /// # Errors
    /// [`Unhealthy`] if there are findings.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let root = std::path::absolute(&self.root).context("no current folder")?;
        let mut machine = Surroundings::of_process(&root);
        machine.limit = Duration::from_secs(self.timeout);
        if let Some(keytab) = &self.keytab {
            machine.keytab.clone_from(keytab);
        }
        let (table, target, plan) = match &self.source {
            Some((host, export)) => {
                let port = self.port.unwrap_or(NFS_PORT);
                let target =
                    MountTarget { host: host.clone(), export: export.clone(), port, flavor: self.sec };
                (doctor::CLIENT, target, None)
            }
            None => {
                let (target, plan) = self.server(&mut machine)?;
                (doctor::SERVER, target, Some(plan))
            }
        };
        let diagnosis =
            doctor::examine(table, machine, target, plan).context("no private folder for tickets")?;
        if self.json {
            outln!("{:#}", diagnosis.json());
        } else {
            out!("{diagnosis}");
        }
        match diagnosis.status() {
            0 => Ok(()),
            status => bail!(Unhealthy(status)),
        }
    }

    /// Describes the server by its configuration.
    fn server(&self, machine: &mut Surroundings) -> anyhow::Result<(MountTarget, ServerPlan)> {
        let usual = self.root.join(USUAL_FILE.trim_start_matches('/'));
        let file = self.config.clone().or_else(|| usual.symlink_metadata().is_ok().then_some(usual));
        let read = file.as_ref().map_or_else(|| Ok(Settings::default()), |file| config::read(file));
        let (mut settings, mut fault) = match read {
            Ok(settings) => (settings, None),
            Err(error) => (Settings::default(), Some(format!("{:#}", anyhow::Error::from(error)))),
        };
        settings.keytab = self.keytab.clone().or(settings.keytab);
        if let Some(keytab) = &settings.keytab {
            machine.keytab.clone_from(keytab);
        } else {
            settings.keytab = machine.keytab.exists().then(|| machine.keytab.clone());
        }
        let mut directories = Vec::new();
        for source in &settings.identity.sources {
            let SourceSettings::Ldap(table) = source else { continue };
            match table.settings() {
                Ok(directory) => directories.push(directory),
                Err(error) => fault = fault.or(Some(format!("{error:#}"))),
            }
        }
        let address = asked_address(settings.listen.ip());
        let exports = settings.exports.iter().map(|export| plan(export, address)).collect();
        let kerberos = settings.exports.is_empty() || settings.exports.iter().any(offers_kerberos);
        let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let listen = settings.listen;
        let host = self.host.clone().unwrap_or_else(own);
        machine.listens = Some(address);
        let target = MountTarget {
            host,
            export: "/".to_owned(),
            port: self.port.unwrap_or(listen.port()),
            flavor: None,
        };
        let plan = ServerPlan {
            file,
            fault,
            services: settings.keytab_services.clone(),
            hosts: settings.keytab_hosts.clone(),
            accepts_host: {
                let patterns = settings.keytab_hosts.clone();
                Box::new(move |host| serve::accepts_host(&patterns, host))
            },
            domain: serve::owner_domain(&settings),
            exports,
            directories,
            user: self.user.clone(),
            kerberos,
            explain: Box::new(move |principal| {
                let report = serve::explain(&settings, principal).map_err(|error| format!("{error:#}"))?;
                match (report.identity, report.reason) {
                    (Some(account), None) => {
                        Ok(format!("{principal} acts as uid {}, gid {}", account.uid, account.gid))
                    }
                    (_, why) => Err(why.unwrap_or_else(|| "no reason given".to_owned())),
                }
            }),
        };
        Ok((target, plan))
    }
}

/// Returns the address at which the server on this machine is asked: loopback if it listens on all.
fn asked_address(listens: IpAddr) -> IpAddr {
    if listens.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { listens }
}

/// Describes an export to a doctor that asks from an address.
fn plan(export: &ExportSettings, address: IpAddr) -> ExportPlan {
    ExportPlan {
        pseudo: export.pseudo.clone(),
        folder: match &export.storage {
            Storage::Folder(path) => Some(path.clone()),
            Storage::Memory(_) | Storage::Ceph(_) | Storage::Elsewhere(_) => None,
        },
        refers: matches!(export.storage, Storage::Elsewhere(_)),
        admits: admits(export, address),
    }
}

/// Returns whether clients of an export may use Kerberos, by its rules if it has some.
fn offers_kerberos(export: &ExportSettings) -> bool {
    export.terms().iter().flat_map(|terms| &terms.flavors).any(|flavor| *flavor != SecFlavor::Sys)
}

/// Returns whether an export is for a client with this address; `None` if names decide.
fn admits(export: &ExportSettings, address: IpAddr) -> Option<bool> {
    let terms = export.terms();
    let patterns = || terms.iter().flat_map(|terms| &terms.clients);
    let admitted = patterns().any(|pattern| match pattern {
        ClientPattern::Any => true,
        ClientPattern::Network(network) => network.contains(address),
        ClientPattern::Named(_) => false,
    });
    if admitted {
        return Some(true);
    }
    if patterns().any(|pattern| matches!(pattern, ClientPattern::Named(_))) { None } else { Some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_an_export_decide_whether_it_offers_kerberos() {
        let offers = |rest: &str| {
            let export = toml::from_str(&format!("memory = 1048576\n{rest}")).expect("it is an export");
            offers_kerberos(&export)
        };
        assert!(offers("") && !offers("sec = [\"sys\"]"));
        assert!(offers("sec = [\"sys\"]\n[[rule]]\nclients = [\"*\"]\nsec = [\"krb5p\"]"));
        assert!(!offers("[[rule]]\nclients = [\"*\"]\nsec = [\"sys\"]"));
    }
}
