//! The common site of the benchmarks: a throw-away realm with a ticket, and the program as a server
//! on one core.

use super::cores::Cores;
use anyhow::Context;
use bench::ServerProcess;
use bench::link::{self, Link};
use bench::native::BenchTarget;
use client::{Flavor, Options, Security};
use gss::Credential;
use realm::{RealmOptions, TemporaryRealm};
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After this time without an answer a server is said to hang.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A realm and alice's ticket.
pub(crate) struct KerberosSite {
    realm: TemporaryRealm,
    ccache: PathBuf,
}

impl KerberosSite {
    /// Makes a realm, and makes this process, which must have no threads, use it.
    ///
    /// # Errors
    /// Names the package when MIT's programs are missing.
    pub(crate) fn start(options: &RealmOptions) -> anyhow::Result<Self> {
        let realm = TemporaryRealm::create(options)?;
        let ccache = realm.dir().join("ccache");
        realm.kinit("alice", &ccache)?;
        gss::use_configuration(&realm.krb5_conf())?;
        Ok(Self { realm, ccache })
    }

    /// Returns the throw-away realm.
    pub(crate) fn realm(&self) -> &realm::Realm {
        &self.realm
    }

    /// Returns the cache with alice's ticket.
    pub(crate) fn credential(&self) -> Credential {
        Credential::Ccache(format!("FILE:{}", self.ccache.display()))
    }

    /// Gets a ticket of another user.
    pub(crate) fn login(&self, user: &str) -> anyhow::Result<()> {
        Ok(self.realm.kinit(user, &self.ccache_of(user))?)
    }

    /// Returns the ticket of another user who has logged in.
    pub(crate) fn credential_of(&self, user: &str) -> Credential {
        Credential::Ccache(format!("FILE:{}", self.ccache_of(user).display()))
    }

    fn ccache_of(&self, user: &str) -> PathBuf {
        self.realm.dir().join(format!("ccache-{user}"))
    }

    /// How to connect as alice, or as this user with `sys`.
    pub(crate) fn options(&self, address: SocketAddr, flavor: Flavor) -> Options {
        let security = Security::of(flavor, "localhost", self.credential());
        let mut options = Options::new(address.ip().to_string(), security).port(address.port());
        options.call_timeout = ANSWER_MAX;
        options.reconnect_max = ANSWER_MAX;
        options.connect_timeout = ANSWER_MAX;
        options
    }

    /// Returns a server of this machine for the bench, as alice.
    pub(crate) fn target(&self, label: &str, pid: u32, address: SocketAddr, export: &str) -> BenchTarget {
        BenchTarget {
            host: address.ip().to_string(),
            service_host: "localhost".to_owned(),
            port: address.port(),
            source: None,
            export: export.to_owned(),
            credential: self.credential(),
            others: Vec::new(),
            pid: Some(pid),
            metrics: None,
            label: label.to_owned(),
            answer_max: ANSWER_MAX,
            stop: None,
        }
    }

    /// Starts the program, as it ships, on the server's core and with one thread that serves. Its
    /// log goes to a file, or to standard error.
    pub(crate) fn serve(
        &self,
        cores: Cores,
        state: &Path,
        exports: &[OsString],
        log: Option<File>,
    ) -> anyhow::Result<ServerProcess> {
        let mut arguments = exports.to_vec();
        arguments.extend(["--shards", "1"].map(OsString::from));
        cores.on_server(|| self.start_server(state, arguments, log, None))
    }

    /// Starts the program, as it ships, wherever the kernel has it run; at the other end of the
    /// link, if there is one.
    pub(crate) fn start_server(
        &self,
        state: &Path,
        mut arguments: Vec<OsString>,
        log: Option<File>,
        link: Option<&Link>,
    ) -> anyhow::Result<ServerProcess> {
        arguments.extend(bench::flavor_arguments(true));
        arguments.extend(["--listen".into(), link::listen(link).to_string().into(), "--keytab".into()]);
        arguments.push(self.realm.server_keytab().into());
        arguments.extend(["--state-dir".into(), state.join("state").into()]);
        let program = program()?;
        link::at_server(link, || ServerProcess::start_with_log(&program, arguments, &self.environment(), log))
    }

    /// The realm's environment variables.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.realm.env().into_iter().map(|(name, path)| (name, path.into_os_string())).collect()
    }

    /// Where alice's ticket is.
    pub(crate) fn ccache(&self) -> &Path {
        &self.ccache
    }
}

/// Makes a folder to export, in which all users may write.
pub(crate) fn make_export(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?)
}

/// The release build: it is beside this program's own.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).context("this program has no folder")?;
    Ok(target.join("release/orthrus"))
}
