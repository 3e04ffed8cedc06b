//! The servers that a run starts itself as they are needed; they export memory or a folder.

use super::folder_server;
use crate::cli::own_realm::OwnRealm;
use anyhow::Context;
use bench::link::{self, Link};
use bench::native::{ANSWER_MAX, BenchTarget, Counters, ServerSet};
use bench::{ServerProcess, counters};
use gss::Credential;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The storage that a temporary server exports.
pub(crate) enum Store {
    /// So many MiB of memory.
    Memory(u64),
    /// A fresh folder in this one.
    Folder(PathBuf),
}

impl Store {
    /// Names the server, as reports do.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Memory(_) => "this machine, orthrus serving memory".to_owned(),
            Self::Folder(parent) => {
                format!("this machine, orthrus serving a folder in {}", parent.display())
            }
        }
    }

    /// The export's name, as the server's arguments have it.
    fn export(&self) -> &'static str {
        match self {
            Self::Memory(_) => "/memory",
            Self::Folder(_) => folder_server::EXPORT,
        }
    }
}

/// Servers of this program, in a throw-away realm.
pub(crate) struct Own<'a> {
    realm: Option<OwnRealm>,
    store: Store,
    link: Option<&'a Link>,
    servers: BTreeMap<Option<String>, Running>,
}

struct Running {
    server: ServerProcess,
    target: BenchTarget,
    folder: TempDir,
}

impl<'a> Own<'a> {
    /// Makes the realm, where MIT's programs are installed; servers will be at the other end of the
    /// link, if there is one.
    ///
    /// # Errors
    /// When MIT's programs fail.
    pub(crate) fn start(store: Store, link: Option<&'a Link>) -> anyhow::Result<Self> {
        Ok(Self { realm: OwnRealm::start_if_installed()?, store, link, servers: BTreeMap::new() })
    }
}

impl ServerSet for Own<'_> {
    fn target(&mut self, server_cpu: Option<&str>) -> anyhow::Result<&BenchTarget> {
        let key = server_cpu.map(str::to_owned);
        if !self.servers.contains_key(&key) {
            let own = Started { store: &self.store, link: self.link, server_cpu };
            let folder = own.folder()?;
            let (server, target) = own.start(self.realm.as_ref(), folder.path())?;
            self.servers.insert(key.clone(), Running { server, target, folder });
        }
        self.servers.get(&key).map(|running| &running.target).context("the server is gone")
    }

    fn counters(&mut self, server_cpu: Option<&str>) -> anyhow::Result<Option<Counters>> {
        let Some(running) = self.servers.get(&server_cpu.map(str::to_owned)) else { return Ok(None) };
        counters::of_server(running.server.pid(), &log(running.folder.path())).map(Some)
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

/// A server of this program, as it is to be started.
struct Started<'a> {
    /// The storage that the server exports.
    store: &'a Store,
    /// The link to the server; without one it is on loopback.
    link: Option<&'a Link>,
    /// Its choice of instructions, where it is not its own.
    server_cpu: Option<&'a str>,
}

impl Started<'_> {
    /// Creates the folder for the server's state, and for the exported files unless they are in
    /// memory.
    ///
    /// # Errors
    /// The system's error.
    fn folder(&self) -> anyhow::Result<TempDir> {
        let parent = match self.store {
            Store::Memory(_) => std::env::temp_dir(),
            Store::Folder(parent) => parent.clone(),
        };
        let made = private::temporary_in("orthrus-bench-server-", &parent);
        made.with_context(|| format!("no folder can be made in {}", parent.display()))
    }

    /// Starts it with its state in `folder`.
    ///
    /// # Errors
    /// When it ends instead.
    fn start(&self, realm: Option<&OwnRealm>, folder: &Path) -> anyhow::Result<(ServerProcess, BenchTarget)> {
        let mut arguments = self.arguments(folder)?;
        let mut environment = Vec::new();
        arguments.extend(bench::flavor_arguments(realm.is_some()));
        if let Some(realm) = realm {
            arguments.extend(realm.server_arguments());
            environment = realm.environment();
        }
        environment.extend(self.server_cpu.map(|cpu| (krb5::CPU_VARIABLE, OsString::from(cpu))));
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let file = File::create(log(folder)).context("the server's log cannot be made")?;
        let server = link::at_server(self.link, || {
            ServerProcess::start_with_log(&program, arguments, &environment, Some(file))
        });
        let server = server.with_context(|| {
            // Returns the log of the ended server.
            std::fs::read_to_string(log(folder)).unwrap_or_default()
        })?;
        let target = BenchTarget {
            host: server.address().ip().to_string(),
            service_host: "localhost".to_owned(),
            port: server.address().port(),
            source: None,
            export: self.store.export().to_owned(),
            credential: realm.map_or(Credential::Default, OwnRealm::credential),
            others: realm.map(OwnRealm::other).into_iter().collect(),
            pid: Some(server.pid()),
            metrics: server.metrics(),
            label: self.store.label(),
            answer_max: ANSWER_MAX,
            stop: None,
        };
        Ok((server, target))
    }

    /// Returns the arguments for storage and address.
    fn arguments(&self, folder: &Path) -> anyhow::Result<Vec<OsString>> {
        let state = folder.join("state");
        Ok(match self.store {
            Store::Folder(_) => {
                let exported = folder.join("export");
                std::fs::create_dir(&exported)?;
                folder_server::arguments(&exported, &state, self.link)
            }
            Store::Memory(mebibytes) => vec![
                "--listen".into(),
                link::listen(self.link).to_string().into(),
                "--state-dir".into(),
                state.into(),
                "--memory".into(),
                mebibytes.to_string().into(),
            ],
        })
    }
}
