//! Facts that checks gather, for themselves and for later checks.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use client::Flavor;
use gss::KeytabEntry;
use ldap::LdapSettings;

use crate::Surroundings;
use crate::ccache::CacheContent;
use crate::gssd::GssdOptions;
use crate::krb5_conf::Krb5Conf;
use terminal::shell_word;

/// The port of NFS (RFC 8881 section 2.9.3).
const NFS_PORT: u16 = 2049;

/// The server and the export to mount.
#[derive(Clone, Debug)]
pub struct MountTarget {
    /// The host as in the mount command; this machine's name for a server.
    pub host: String,
    /// The path of the export, such as `/data`.
    pub export: String,
    /// The port of the server.
    pub port: u16,
    /// The flavor of the mount, if the user named one.
    pub flavor: Option<Flavor>,
}

impl MountTarget {
    /// Returns the command that lists the exports of the server, with the options of the mount.
    pub(crate) fn listing(&self) -> String {
        let port = (self.port != NFS_PORT).then(|| format!("port={}", self.port));
        let flavor = self.flavor.map(|flavor| format!("sec={flavor}"));
        let options: Vec<_> = port.into_iter().chain(flavor).collect();
        let options = if options.is_empty() { String::new() } else { format!(" -o {}", options.join(",")) };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("mount -t nfs4{options} {}:/ /mnt && ls /mnt    # names of the exports", shell_word(&host))
    }
}

/// An export of a server's configuration.
#[derive(Clone, Debug)]
pub struct ExportPlan {
    /// The path that clients mount.
    pub pseudo: String,
    /// The folder; `None` for an export without one on this machine.
    pub folder: Option<PathBuf>,
    /// Whether it refers clients to other servers.
    pub refers: bool,
    /// Whether its rules admit the address that the server is asked from; `None` if that depends
    /// on names.
    pub admits: Option<bool>,
}

/// Maps a principal: the local account in words, or the reason why there is none.
pub type Explain = Box<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// Decides about a host name.
pub type AcceptsHost = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A server's configuration, as far as checks need it.
pub struct ServerPlan {
    /// The file of the configuration, if one was named.
    pub file: Option<PathBuf>,
    /// The hosts whose keys are accepted, as patterns; empty: all.
    pub hosts: Vec<String>,
    /// Returns whether the keys of a host are accepted.
    pub accepts_host: AcceptsHost,
    /// The reason why the configuration is wrong, if it is.
    pub fault: Option<String>,
    /// The services whose keys are accepted, such as `nfs`.
    pub services: Vec<String>,
    /// The domain of owner names.
    pub domain: String,
    /// The exports in the order of the configuration.
    pub exports: Vec<ExportPlan>,
    /// The directories of accounts.
    pub directories: Vec<LdapSettings>,
    /// A principal to map, if the user named one.
    pub user: Option<String>,
    /// The mapping of the configuration.
    pub explain: Explain,
    /// Whether an export offers a Kerberos flavor.
    pub kerberos: bool,
}

impl ServerPlan {
    /// Returns a command of `orthrus` that reads the configuration.
    pub(crate) fn command(&self, command: &str) -> String {
        match &self.file {
            Some(file) => format!("orthrus {command} --config {}", shell_word(&file.to_string_lossy())),
            None => format!("orthrus {command}"),
        }
    }
}

/// A Kerberos identity that works: tickets in a private copy of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Tickets {
    pub cache: String,
    pub principal: String,
}

/// All facts of a run. Fields are filled by the check that their comment names.
pub struct Facts {
    pub(crate) machine: Surroundings,
    pub(crate) target: MountTarget,
    pub(crate) server: Option<ServerPlan>,
    /// A private folder for copies of caches, removed at the end.
    pub(crate) folder: tempfile::TempDir,
    pub(crate) conf: Krb5Conf,
    pub(crate) gssd: GssdOptions,
    /// `names`: the server's addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// `names`: the name of the first address.
    pub(crate) reverse: Option<String>,
    /// `port`: the address that accepts connections.
    pub(crate) address: Option<SocketAddr>,
    /// `versions`: the minor versions of NFSv4 that the server has.
    pub(crate) minors: Vec<u32>,
    /// `flavors`: those that the export offers, in the server's order.
    pub(crate) flavors: Vec<Flavor>,
    /// `clock`: the KDC's clock minus this machine's, in seconds.
    pub(crate) kdc_ahead: i64,
    /// `ticket`: the user's cache.
    pub(crate) cache: Option<(String, CacheContent)>,
    /// `keytab`: the entries of the file, without their keys.
    pub(crate) entries: Vec<KeytabEntry>,
    /// `ticket`: the user's tickets.
    pub(crate) user: Option<Tickets>,
    /// `keytab`: the machine's tickets.
    pub(crate) host: Option<Tickets>,
    /// `service`: the server's principal, as the KDC names it.
    pub(crate) service: Option<String>,
    /// `service`: the encryption type of the KDC's ticket for it.
    pub(crate) service_etype: Option<u32>,
    /// `machine`: the cause why there is no context.
    pub(crate) refusal: Option<String>,
    /// `machine` and `user`: the tickets that a context works with.
    pub(crate) working: Vec<Tickets>,
    /// `requests`: owner, group and mode of the export, and the rights of the user.
    pub(crate) root: Option<RootAttributes>,
}

/// The attributes of the export's root directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootAttributes {
    pub owner: String,
    pub group: String,
    pub mode: u32,
    pub may_modify: bool,
    pub principal: Option<String>,
}

impl Facts {
    pub(crate) fn new(
        machine: Surroundings,
        target: MountTarget,
        server: Option<ServerPlan>,
    ) -> Result<Self, private::PrivateError> {
        let folder = private::temporary("orthrus-doctor-")?;
        let conf = Krb5Conf::read(&machine.krb5_conf);
        let gssd = GssdOptions::read(&machine);
        Ok(Self {
            machine,
            target,
            server,
            folder,
            conf,
            gssd,
            addresses: Vec::new(),
            reverse: None,
            address: None,
            minors: Vec::new(),
            flavors: Vec::new(),
            kdc_ahead: 0,
            cache: None,
            entries: Vec::new(),
            user: None,
            host: None,
            service: None,
            service_etype: None,
            refusal: None,
            working: Vec::new(),
            root: None,
        })
    }

    /// Returns whether the mount uses Kerberos: a server with Kerberos, or an export that offers
    /// it, or one whose flavors are not known.
    pub(crate) fn kerberos(&self) -> bool {
        if let Some(server) = &self.server {
            return server.kerberos;
        }
        match self.target.flavor {
            Some(flavor) => flavor != Flavor::Sys,
            None => self.flavors.is_empty() || self.flavors.iter().any(|flavor| *flavor != Flavor::Sys),
        }
    }

    /// Returns whether rpc.gssd acts for the user with the key of the machine: for root, unless an
    /// option or the environment says otherwise.
    pub(crate) fn acts_as_machine(&self) -> bool {
        self.machine.uid == 0 && !self.gssd.root_needs_ticket && self.machine.ccache.is_none()
    }

    /// Returns the host name that Kerberos is asked for, as rpc.gssd forms it: addresses and names
    /// without a dot are replaced by the name of the address.
    pub(crate) fn service_host(&self) -> &str {
        let host = self.target.host.as_str();
        let plain = host.parse::<IpAddr>().is_ok() || !host.contains('.') || self.gssd.reverse_dns;
        match &self.reverse {
            Some(name) if plain => name,
            _ => host,
        }
    }

    /// Returns the realm of the server.
    pub(crate) fn realm(&self) -> Option<String> {
        let mapped = self.conf.realm_of(self.service_host());
        mapped.or(self.conf.default_realm()).map(str::to_owned)
    }

    /// Returns the realm of the first key of the keytab, unless one is of the default realm.
    pub(crate) fn realm_of_keytab(&self) -> Option<&str> {
        let default = self.conf.default_realm();
        let own = |realm: &str| Some(realm) == default;
        let realms = || self.entries.iter().map(|entry| entry.realm.as_str());
        realms().find(|realm| own(realm)).or_else(|| realms().next())
    }

    /// Returns the newest minor version that the server has; 1 if that is not known.
    pub(crate) fn minor(&self) -> u32 {
        self.minors.iter().max().copied().unwrap_or(1)
    }

    /// Returns the tickets that requests are made with: the user's, else the machine's. For root
    /// that acts as the machine, the machine's come first.
    pub(crate) fn tickets(&self) -> Option<&Tickets> {
        let (user, host) = (self.user.as_ref(), self.host.as_ref());
        if self.acts_as_machine() { host.or(user) } else { user.or(host) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exports_are_listed_with_the_options_of_the_mount() {
        let listing = |host: &str, port, flavor| {
            MountTarget { host: host.to_owned(), export: "/data".to_owned(), port, flavor }.listing()
        };
        assert!(listing("nfs", 2049, None).starts_with("mount -t nfs4 nfs:/ /mnt && ls /mnt"));
        let named = listing("2001:db8::1", 2050, Some(Flavor::Krb5p));
        assert!(named.starts_with("mount -t nfs4 -o port=2050,sec=krb5p '[2001:db8::1]':/ /mnt"), "{named}");
    }

    #[test]
    fn a_remedy_names_the_file_that_was_given() {
        let mut plan = ServerPlan {
            file: Some("/etc/my server.toml".into()),
            hosts: Vec::new(),
            accepts_host: Box::new(|_| true),
            fault: None,
            services: Vec::new(),
            domain: String::new(),
            exports: Vec::new(),
            directories: Vec::new(),
            user: None,
            explain: Box::new(|_| Ok(String::new())),
            kerberos: false,
        };
        assert_eq!(plan.command("serve --check"), "orthrus serve --check --config '/etc/my server.toml'");
        plan.file = None;
        assert_eq!(plan.command("id alice"), "orthrus id alice");
    }
}
