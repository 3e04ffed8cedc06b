//! The servers of a run: one that somebody named, or servers of its own that export memory, started as they are needed.

use crate::cli::own_realm::OwnRealm;
use anyhow::{Context, bail};
use bench::native::{Counters, Site, Target};
use bench::{ServerProcess, counters};
use gss::Credential;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A server that somebody named.
pub struct Remote(pub Target);

impl Site for Remote {
    fn target(&mut self, server_cpu: Option<&str>) -> anyhow::Result<&Target> {
        if server_cpu.is_some() {
            bail!("the instructions of a server elsewhere cannot be chosen");
        }
        Ok(&self.0)
    }
}

/// Servers of this program's, in a throw-away realm.
pub struct Own {
    realm: Option<OwnRealm>,
    memory_mebibytes: u64,
    servers: BTreeMap<Option<String>, Running>,
}

struct Running {
    server: ServerProcess,
    target: Target,
    folder: TempDir,
}

impl Own {
    /// Makes the realm, where MIT's programs are installed; servers will have so much memory.
    ///
    /// # Errors
    /// When MIT's programs fail.
    pub fn start(memory_mebibytes: u64) -> anyhow::Result<Self> {
        Ok(Self { realm: OwnRealm::start_if_installed()?, memory_mebibytes, servers: BTreeMap::new() })
    }

    /// The server, as reports name it.
    pub const LABEL: &str = "this machine, orthrus serving memory";
}

impl Site for Own {
    fn target(&mut self, server_cpu: Option<&str>) -> anyhow::Result<&Target> {
        let key = server_cpu.map(str::to_owned);
        if !self.servers.contains_key(&key) {
            let folder = tempfile::tempdir().context("no temporary folder can be made")?;
            let (server, target) =
                memory_server(self.realm.as_ref(), folder.path(), self.memory_mebibytes, server_cpu, true)?;
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

/// Starts this program as a server that exports memory, with its state in `folder`, and with its log there if it is to
/// be asked for counters.
///
/// # Errors
/// When it ends instead.
pub fn memory_server(
    realm: Option<&OwnRealm>,
    folder: &Path,
    mebibytes: u64,
    server_cpu: Option<&str>,
    logged: bool,
) -> anyhow::Result<(ServerProcess, Target)> {
    let mut arguments: Vec<OsString> =
        ["--listen", "127.0.0.1:0", "--state-dir"].map(OsString::from).to_vec();
    arguments.push(folder.join("state").into());
    arguments.extend(["--memory".into(), mebibytes.to_string().into()]);
    let mut environment = Vec::new();
    match realm {
        Some(realm) => {
            arguments.extend(realm.server_arguments());
            environment = realm.environment();
        }
        None => arguments.extend(["--sec".into(), "sys".into()]),
    }
    environment.extend(server_cpu.map(|cpu| (krb5::CPU_VARIABLE, OsString::from(cpu))));
    let program = std::env::current_exe().context("this program cannot find itself")?;
    let file =
        logged.then(|| File::create(log(folder))).transpose().context("the server's log cannot be made")?;
    let server =
        ServerProcess::start_with_log(&program, arguments, &environment, file).with_context(|| {
            // What it said before it ended.
            std::fs::read_to_string(log(folder)).unwrap_or_default()
        })?;
    let target = Target {
        host: server.address().ip().to_string(),
        service_host: "localhost".to_owned(),
        port: server.address().port(),
        export: "/memory".to_owned(),
        credential: realm.map_or(Credential::Default, OwnRealm::credential),
        pid: Some(server.pid()),
        remote_cpu: None,
        label: Own::LABEL.to_owned(),
    };
    Ok((server, target))
}
