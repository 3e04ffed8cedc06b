//! A throw-away realm, and a server that can be restarted under the suite.

use anyhow::Context;
use bench::ServerProcess;
use miniceph::MiniCeph;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use realm::{RealmOptions, TemporaryRealm};
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Seconds until a delegation is revoked: the test of that does not renew its lease for so long,
/// and is itself too slow when both are the same.
const RECALL_TIME: &str = "5";

/// Bytes that an export of CephFS holds.
const CEPH_SIZE: u64 = 1 << 30;

/// The realm and folders that all flavors share.
pub(super) struct SuiteSite {
    realm: Option<(TemporaryRealm, PathBuf)>,
    /// The cluster whose directories are exported; without one, exports are folders.
    cluster: Option<MiniCeph>,
}

impl SuiteSite {
    /// Makes a site for `sys` only.
    pub(super) fn without_realm() -> Self {
        Self { realm: None, cluster: None }
    }

    /// With a throw-away realm and a ticket.
    ///
    /// # Errors
    /// `Missing` when MIT's programs are not there.
    pub(super) fn with_realm() -> anyhow::Result<Self> {
        let realm = TemporaryRealm::create(&RealmOptions::default())?;
        let ccache = realm.dir().join("ccache");
        realm.kinit("alice", &ccache)?;
        Ok(Self { realm: Some((realm, ccache)), cluster: None })
    }

    /// Exports directories of a cluster from now on.
    pub(super) fn use_ceph(&mut self, cluster: MiniCeph) {
        self.cluster = Some(cluster);
    }

    /// Makes what a server exports as `/export`, and returns the keys that name it.
    fn storage(&self, work: &Path) -> anyhow::Result<String> {
        let Some(cluster) = &self.cluster else {
            let folder = work.join("export");
            std::fs::create_dir(&folder)?;
            return Ok(format!("path = {folder:?}\n"));
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("export{}", NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.make_directory(&name, CEPH_SIZE)?;
        let configuration = cluster.configuration();
        Ok(format!("ceph = \"/{name}\"\nceph_user = \"admin\"\nceph_conf = {configuration:?}\n"))
    }

    /// Writes the configuration file with what the command line cannot say: only with
    /// `device_nodes` can the suite make devices, and its tests of them run.
    fn configuration(&self, work: &Path) -> anyhow::Result<PathBuf> {
        let path = work.join("orthrus.toml");
        let storage = self.storage(work)?;
        // The suite takes any port.
        let export = "pseudo = \"/export\"\nsquash = \"none\"\nsecure = false\n\
                      sec = [\"krb5p\", \"krb5i\", \"krb5\", \"sys\"]\n";
        std::fs::write(&path, format!("device_nodes = true\n\n[[export]]\n{storage}{export}"))?;
        Ok(path)
    }

    /// Returns the environment for programs that use the realm and the ticket.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some((realm, ccache)) = &self.realm else { return Vec::new() };
        let mut environment: Vec<_> =
            realm.env().into_iter().map(|(name, path)| (name, path.into_os_string())).collect();
        environment.push(("KRB5CCNAME", ccache.into()));
        environment
    }

    /// As root, the suite's user and alice are both root, since the suite makes devices. Otherwise
    /// both are the current user.
    fn arguments(&self, server: &Server<'_>) -> Vec<OsString> {
        let (work, lease) = (server.work, server.lease.to_string());
        let mut arguments = vec!["--config".into(), server.configuration.clone().into()];
        arguments.extend(["--lease-time", &lease, "--grace-time", &lease].map(OsString::from));
        arguments.extend(["--delegations", "all", "--recall-time", RECALL_TIME].map(OsString::from));
        arguments.extend(["--listen".into(), server.address.to_string().into()]);
        arguments.extend(["--state-dir".into(), work.join("state").into()]);
        if let Some((realm, _)) = &self.realm {
            arguments.extend(["--keytab".into(), realm.server_keytab().into()]);
            if geteuid().is_root() {
                arguments.extend(["--map".into(), format!("alice@{}=root", realm.name()).into()]);
            }
        }
        arguments
    }
}

/// A server with an export, a state folder and a log in a folder of its own.
pub(super) struct Server<'a> {
    site: &'a SuiteSite,
    program: &'a Path,
    work: &'a Path,
    configuration: PathBuf,
    lease: u32,
    process: Option<ServerProcess>,
    address: SocketAddr,
}

impl<'a> Server<'a> {
    /// Starts it on a free port of this machine.
    ///
    /// # Errors
    /// When it does not serve.
    pub(super) fn start(
        site: &'a SuiteSite,
        program: &'a Path,
        work: &'a Path,
        lease: u32,
    ) -> anyhow::Result<Self> {
        let (configuration, address) = (site.configuration(work)?, ([127, 0, 0, 1], 0).into());
        let mut server = Self { site, program, work, configuration, lease, process: None, address };
        server.serve()?;
        Ok(server)
    }

    /// Returns the address that it listens on.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes the program that the suite calls to have the server restarted: it asks, and waits
    /// until that is done.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn helper(&self) -> anyhow::Result<PathBuf> {
        let (path, asked) = (self.work.join("restart.sh"), self.asked());
        let asked = asked.to_str().context("the temporary folder's name is not UTF-8")?;
        std::fs::write(
            &path,
            format!("#!/bin/sh\n: >'{asked}'\nwhile [ -e '{asked}' ]; do sleep 0.1; done\n"),
        )?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Restarts the server if the helper asks for it: the server ends as in a crash and starts
    /// again on its port.
    ///
    /// # Errors
    /// When it does not start again.
    pub(super) fn restart_if_asked(&mut self) -> anyhow::Result<()> {
        if !self.asked().exists() {
            return Ok(());
        }
        self.restart()?;
        std::fs::remove_file(self.asked())?;
        Ok(())
    }

    /// Ends the server as in a crash and starts it again on its port.
    ///
    /// # Errors
    /// When it does not come back.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        if let Some(process) = self.process.take() {
            kill(Pid::from_raw(i32::try_from(process.pid())?), Signal::SIGKILL)?;
        }
        self.serve()
    }

    fn asked(&self) -> PathBuf {
        self.work.join("restart")
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(self.work.join("server.log"))?;
        let arguments = self.site.arguments(self);
        let process =
            ServerProcess::start_with_log(self.program, arguments, &self.site.environment(), Some(log))?;
        self.address = process.address();
        self.process = Some(process);
        Ok(())
    }
}
