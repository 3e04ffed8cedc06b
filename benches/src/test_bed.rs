//! A realm and a server on a core of its own, with a folder on tmpfs and an export in its own
//! memory.

use super::cores::Cores;
use super::kerberos_site::{KerberosSite, make_export};
use bench::ServerProcess;
use bench::native::{BenchTarget, Counters};
use realm::RealmOptions;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size of the memory export in MiB: the files of all mounts, and room for files that are made and
/// removed.
const MEMORY: &str = "512";

/// See the module; all of it goes with the value.
pub(crate) struct TestBed {
    server: ServerProcess,
    site: Arc<KerberosSite>,
    cores: Cores,
    folder: tempfile::TempDir,
    work: tempfile::TempDir,
}

impl TestBed {
    /// Starts realm and server with one shard. The server's log goes to standard error.
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::start_with(None, false)
    }

    /// As [`TestBed::start`]; with another folder, that is exported, too, under its own name. With
    /// `logged` the server's log is kept, so that it can be asked for its counters.
    pub(crate) fn start_with(more: Option<&Path>, logged: bool) -> anyhow::Result<Self> {
        Self::make(Self::new_site()?, 1, more, logged)
    }

    fn new_site() -> anyhow::Result<Arc<KerberosSite>> {
        Ok(Arc::new(KerberosSite::start(&RealmOptions::default())?))
    }

    fn make(site: Arc<KerberosSite>, shards: u32, more: Option<&Path>, logged: bool) -> anyhow::Result<Self> {
        let cores = Cores::choose()?;
        let work = private::temporary("orthrus-xtask-")?;
        let folder = private::temporary_in("orthrus-path-", "/dev/shm".as_ref())?;
        let export = folder.path().join("data");
        make_export(&export)?;
        let mut arguments =
            vec![export.into(), "--squash".into(), "none".into(), "--memory".into(), MEMORY.into()];
        arguments.extend(more.map(Into::into));
        let log = logged.then(|| File::create(work.path().join("log"))).transpose()?;
        let server = match shards {
            1 => site.serve(cores, work.path(), &arguments, log)?,
            shards => {
                arguments.extend(["--shards".into(), shards.to_string().into()]);
                cores.on_all(|| site.start_server(work.path(), arguments, log, None))?
            }
        };
        Ok(Self { server, site, cores, folder, work })
    }

    /// As [`TestBed::start`], with so many shards. With several, the server may use all cores.
    pub(crate) fn start_with_shards(shards: u32) -> anyhow::Result<Self> {
        Self::make(Self::new_site()?, shards, None, false)
    }

    /// Starts another server of the same realm, with so many shards.
    pub(crate) fn start_another(&self, shards: u32) -> anyhow::Result<Self> {
        Self::make(Arc::clone(&self.site), shards, None, false)
    }

    /// Returns the server for the bench, as alice.
    pub(crate) fn target(&self, export: &str) -> BenchTarget {
        self.site.target("orthrus", self.server.pid(), self.server.address(), export)
    }

    /// Returns the assignment of cores.
    pub(crate) fn cores(&self) -> Cores {
        self.cores
    }

    /// The realm and its ticket.
    pub(crate) fn site(&self) -> &KerberosSite {
        &self.site
    }

    /// The folder that is exported as /data.
    pub(crate) fn export(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A folder for configuration and logs.
    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    /// Asks a server whose log is kept for its counters, by SIGUSR1.
    pub(crate) fn counters(&self) -> anyhow::Result<Counters> {
        bench::counters::of_server(self.server.pid(), &self.work().join("log"))
    }
}
