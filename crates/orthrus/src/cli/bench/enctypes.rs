//! A realm and a server for each encryption type, all on the same folder.
//!
//! KDC, client and server agree on the type of a context, each with its own list. To be sure of the
//! type, each realm knows no other. The client sees all of them in one configuration.

use super::folder_server::{self, FolderServer};
use anyhow::{Context, bail};
use bench::ServerProcess;
use bench::link::Link;
use bench::native::BenchTarget;
use gss::Credential;
use realm::{Enctypes, RealmEnctype, RealmOptions, TemporaryRealm};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;

/// The servers, by side: `krb5p-17`.
pub(super) struct EnctypeServers {
    // Ended before its realm.
    servers: BTreeMap<String, (ServerProcess, BenchTarget)>,
    _realms: Vec<TemporaryRealm>,
}

impl EnctypeServers {
    /// Starts them; `beside` has the folder, and the realm that this process used until now and
    /// goes on to see. This process must not have threads yet.
    ///
    /// # Errors
    /// The output of MIT's programs or of a server.
    pub(super) fn start(
        enctypes: &[RealmEnctype],
        beside: &FolderServer,
        link: Option<&Link>,
    ) -> anyhow::Result<Self> {
        let mut found = Self { servers: BTreeMap::new(), _realms: Vec::new() };
        let Some(own) = beside.krb5_conf().filter(|_| !enctypes.is_empty()) else { return Ok(found) };
        let mut configuration = std::fs::read_to_string(own)?;
        for enctype in enctypes {
            let (variant, host) = (variant(*enctype), format!("type{}.orthrus.test", enctype.number()));
            let options = RealmOptions {
                realm: host.to_uppercase(),
                enctypes: Enctypes::only(*enctype),
                hosts: vec![host.clone()],
                ..RealmOptions::default()
            };
            let realm = TemporaryRealm::create(&options)?;
            let (server, target) = start(&realm, &host, &variant, beside, link)?;
            found.servers.insert(variant, (server, target));
            write!(
                configuration,
                "\n[realms]\n  {0} = {{\n    kdc = {1}\n  }}\n",
                realm.name(),
                realm.kdc()
            )?;
            write!(configuration, "[domain_realm]\n  {host} = {}\n", realm.name())?;
            found._realms.push(realm);
        }
        let merged = beside.folder().join("krb5.conf");
        std::fs::write(&merged, all_types(&configuration))?;
        gss::use_configuration(&merged)?;
        Ok(found)
    }

    /// Returns the sides, by number.
    pub(super) fn variants(&self) -> Vec<String> {
        self.servers.keys().cloned().collect()
    }

    /// Returns how to get to a side's server; `None` when it is none of these.
    pub(super) fn target(&self, variant: &str) -> Option<&BenchTarget> {
        self.servers.get(variant).map(|(_, target)| target)
    }
}

/// Checks that a side's context has the type that it is measured for.
///
/// # Errors
/// Names the type that it has.
pub(super) fn ensure_type(variant: &str, found: Option<&str>) -> anyhow::Result<()> {
    let number = variant.rsplit_once('-').and_then(|(_, number)| number.parse::<i32>().ok());
    let wanted = [
        RealmEnctype::Aes128Sha1,
        RealmEnctype::Aes256Sha1,
        RealmEnctype::Aes128Sha2,
        RealmEnctype::Aes256Sha2,
    ]
    .into_iter()
    .find(|enctype| Some(enctype.number()) == number);
    match wanted {
        Some(wanted) if found != Some(wanted.name()) => {
            bail!("its context has the encryption type {}", found.unwrap_or("none"))
        }
        _ => Ok(()),
    }
}

fn variant(enctype: RealmEnctype) -> String {
    format!("krb5p-{}", enctype.number())
}

fn start(
    realm: &TemporaryRealm,
    host: &str,
    variant: &str,
    beside: &FolderServer,
    link: Option<&Link>,
) -> anyhow::Result<(ServerProcess, BenchTarget)> {
    let ccache = realm.dir().join("ccache");
    realm.kinit("alice", &ccache)?;
    let mut arguments =
        folder_server::arguments(&beside.exported(), &beside.folder().join(format!("state-{variant}")), link);
    arguments.extend(["--keytab".into(), realm.server_keytab().into_os_string()]);
    let environment: Vec<(&str, OsString)> =
        realm.env().into_iter().map(|(name, path)| (name, path.into_os_string())).collect();
    let log = beside.folder().join(format!("log-{variant}"));
    let server =
        folder_server::start(arguments, &environment, &log, link).with_context(|| variant.to_owned())?;
    let target =
        folder_server::target(&server, host, Credential::Ccache(format!("FILE:{}", ccache.display())));
    Ok((server, target))
}

/// Lets the client have all types: each realm has one, and would be refused by a client that is
/// bound to others.
fn all_types(configuration: &str) -> String {
    let own = |line: &&str| !line.trim_start().starts_with("permitted_enctypes");
    let mut text = configuration.lines().filter(own).collect::<Vec<_>>().join("\n");
    let names = [
        "aes256-cts-hmac-sha1-96",
        "aes128-cts-hmac-sha1-96",
        "aes256-cts-hmac-sha384-192",
        "aes128-cts-hmac-sha256-128",
    ];
    text = text.replacen(
        "[libdefaults]\n",
        &format!("[libdefaults]\n  permitted_enctypes = {}\n", names.join(" ")),
        1,
    );
    text + "\n"
}
