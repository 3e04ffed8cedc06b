//! A server of this program on a folder, with all flavors, in a throw-away realm.

use crate::cli::own_realm::OwnRealm;
use anyhow::{Context, bail};
use bench::ServerProcess;
use bench::link::{self, Link};
use bench::native::{ANSWER_MAX, BenchTarget};
use gss::Credential;
use nix::unistd::{getegid, geteuid};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Pseudo path of the export.
pub(super) const EXPORT: &str = "/data";

/// A realm, a folder, a server that exports it. All goes when this is dropped.
pub(super) struct FolderServer {
    // Ended before its folder goes.
    _server: ServerProcess,
    target: BenchTarget,
    realm: Option<OwnRealm>,
    folder: TempDir,
}

impl FolderServer {
    /// Makes a folder in `parent` (by default where temporary files are) and starts the server on
    /// it, at the other end of the link if there is one.
    ///
    /// # Errors
    /// A folder that cannot be written to; a server that ends instead.
    pub(super) fn start(parent: Option<&Path>, link: Option<&Link>) -> anyhow::Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = private::temporary_in("orthrus-lanl-server-", &parent);
        let folder = folder.with_context(|| format!("no folder can be made in {}", parent.display()))?;
        for name in ["export", "scp"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let realm = OwnRealm::start_if_installed()?;
        let arguments = arguments(&folder.path().join("export"), &folder.path().join("state"), link);
        let (mut arguments, mut environment) = (arguments, Vec::new());
        arguments.extend(bench::flavor_arguments(realm.is_some()));
        if let Some(realm) = &realm {
            arguments.extend(realm.server_arguments());
            environment = realm.environment();
        }
        let server = start(arguments, &environment, &folder.path().join("log"), link)?;
        let credential = realm.as_ref().map_or(Credential::Default, OwnRealm::credential);
        let target = target(&server, "localhost", credential);
        Ok(Self { _server: server, target, realm, folder })
    }

    /// Returns whether there is a realm; without one only sys can be measured.
    pub(super) fn has_realm(&self) -> bool {
        self.realm.is_some()
    }

    /// Returns the configuration of the realm.
    pub(super) fn krb5_conf(&self) -> Option<PathBuf> {
        self.realm.as_ref().map(|realm| realm.realm().krb5_conf())
    }

    /// Returns how to get there with a flavor.
    ///
    /// # Errors
    /// A Kerberos flavor without a realm.
    pub(super) fn target(&self, variant: &str) -> anyhow::Result<&BenchTarget> {
        if self.realm.is_none() && variant != "sys" {
            bail!(
                "there is no realm: MIT's programs are not installed (apt install krb5-kdc krb5-admin-server krb5-user)"
            );
        }
        Ok(&self.target)
    }

    /// Names the server in the report.
    pub(super) fn label(&self) -> String {
        let parent = self.folder.path().parent().unwrap_or(self.folder.path());
        format!("this machine, orthrus serving a folder in {}", parent.display())
    }

    /// Returns the folder that is exported.
    pub(super) fn exported(&self) -> PathBuf {
        self.folder.path().join("export")
    }

    /// Returns a folder on the same file system that is not exported.
    pub(super) fn beside(&self) -> PathBuf {
        self.folder.path().join("scp")
    }

    /// Returns the folder of all.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Starts this program as a server with a log file of its own.
///
/// # Errors
/// Its log if it ends instead.
pub(super) fn start(
    arguments: Vec<OsString>,
    environment: &[(&str, OsString)],
    log: &Path,
    link: Option<&Link>,
) -> anyhow::Result<ServerProcess> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let file = File::create(log).with_context(|| log.display().to_string())?;
    let run = || ServerProcess::start_with_log(&program, arguments, environment, Some(file));
    link::at_server(link, run).with_context(|| std::fs::read_to_string(log).unwrap_or_default())
}

/// Returns the server's arguments except its keys: all flavors, and every caller squashed to the
/// user of this process, which owns the folder.
pub(super) fn arguments(exported: &Path, state: &Path, link: Option<&Link>) -> Vec<OsString> {
    let mut export = exported.as_os_str().to_owned();
    export.push("=");
    export.push(EXPORT);
    vec![
        export,
        "--listen".into(),
        link::listen(link).to_string().into(),
        "--squash".into(),
        "all".into(),
        "--anonymous".into(),
        format!("{}:{}", geteuid(), getegid()).into(),
        "--setid".into(),
        "false".into(),
        "--state-dir".into(),
        state.into(),
    ]
}

/// How to get to a server of this machine.
pub(super) fn target(server: &ServerProcess, service_host: &str, credential: Credential) -> BenchTarget {
    BenchTarget {
        host: server.address().ip().to_string(),
        service_host: service_host.to_owned(),
        port: server.address().port(),
        source: None,
        export: EXPORT.to_owned(),
        credential,
        others: Vec::new(),
        pid: Some(server.pid()),
        metrics: server.metrics(),
        label: String::new(),
        answer_max: ANSWER_MAX,
        stop: None,
    }
}
