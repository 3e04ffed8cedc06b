//! `orthrus bench`: what each flavor costs.

use super::measure::{self, PlanArguments, Target};
use super::own_realm::OwnRealm;
use super::own_server;
use crate::config::NFS_PORT;
use anyhow::{Context, bail};
use gss::Credential;
use std::ffi::OsString;
use std::path::PathBuf;

/// Measure what each security flavor costs.
#[derive(clap::Subcommand)]
pub enum Command {
    Quick(Quick),
}

/// Compare the flavors in about a minute: sequential and random I/O, and metadata.
///
/// Without TARGET it starts a server of its own that exports memory, in a throw-away realm. With HOST:/EXPORT it measures
/// that server; the Kerberos flavors then use your ticket (kinit) or --keytab. It makes a folder of its own in the export
/// and removes it.
#[derive(clap::Args)]
pub struct Quick {
    /// The export to measure, HOST:/EXPORT.
    target: Option<String>,
    /// The server's port.
    #[arg(long, default_value_t = NFS_PORT)]
    port: u16,
    /// Credential cache with the ticket to use (default: yours, as KRB5CCNAME and krb5.conf say).
    #[arg(long, value_name = "CACHE", conflicts_with = "keytab")]
    ccache: Option<String>,
    /// Keytab to get a ticket with, for --principal.
    #[arg(long, value_name = "FILE", requires = "principal")]
    keytab: Option<PathBuf>,
    /// The principal of --keytab.
    #[arg(long, requires = "keytab")]
    principal: Option<String>,
    /// Process of a server on this machine, to read its processor time.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    #[command(flatten)]
    plan: PlanArguments,
}

impl Command {
    /// Runs the bench.
    ///
    /// # Errors
    /// An unreachable server, a missing ticket, a report that cannot be written.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Quick(quick) => quick.run(),
        }
    }
}

impl Quick {
    fn run(self) -> anyhow::Result<()> {
        let Some(text) = &self.target else { return self.run_own() };
        let (host, export) = split_target(text)?;
        let target = Target {
            service_host: host.clone(),
            host,
            port: self.port,
            export,
            credential: self.credential(),
            pid: self.server_pid,
            label: text.clone(),
        };
        measure::run(&target, &self.plan, &*measure::stop_flag()?)
    }

    fn run_own(self) -> anyhow::Result<()> {
        let realm = OwnRealm::start_if_installed()?;
        let stop = measure::stop_flag()?;
        let state = tempfile::tempdir().context("no temporary folder can be made")?;
        let mut arguments: Vec<OsString> =
            vec!["--listen".into(), "127.0.0.1:0".into(), "--state-dir".into()];
        arguments.push(state.path().into());
        arguments.push("--memory".into());
        arguments.push(self.plan.memory_mebibytes().to_string().into());
        let mut environment = Vec::new();
        if let Some(realm) = &realm {
            arguments.extend(realm.server_arguments());
            environment = realm.environment();
        } else {
            arguments.extend(["--sec".into(), "sys".into()]);
        }
        let server = own_server::start(arguments, &environment)?;
        let target = Target {
            host: server.address().ip().to_string(),
            service_host: "localhost".to_owned(),
            port: server.address().port(),
            export: "/memory".to_owned(),
            credential: realm.as_ref().map_or(Credential::Default, OwnRealm::credential),
            pid: Some(server.pid()),
            label: "this machine, orthrus serving memory".to_owned(),
        };
        measure::run(&target, &self.plan, &stop)
    }

    fn credential(&self) -> Credential {
        match (&self.ccache, &self.keytab, &self.principal) {
            (Some(cache), ..) => Credential::Ccache(cache.clone()),
            (None, Some(path), Some(principal)) => {
                Credential::Keytab { path: path.clone(), principal: principal.clone() }
            }
            _ => Credential::Default,
        }
    }
}

/// Splits `HOST:/EXPORT`; an IPv6 address stands in brackets.
fn split_target(text: &str) -> anyhow::Result<(String, String)> {
    let Some((host, export)) = text.split_once(":/") else {
        bail!("{text:?} is no target; it must be HOST:/EXPORT, such as server.example.org:/home");
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        bail!("{text:?} names no host; it must be HOST:/EXPORT, such as server.example.org:/home");
    }
    Ok((host.to_owned(), format!("/{export}")))
}
