//! One flavor's run: a server, an export, and the suite's process, all gone at its end.

use super::checkout::Checkout;
use super::{Flavor, Run, outcome, stopped};
use anyhow::{Context, bail};
use bench::ServerProcess;
use nix::unistd::geteuid;
use realm::{RealmOptions, TemporaryRealm};
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Seconds of the lease: many tests wait until one has run out, so a short one; below 10 some of them are too slow themselves.
const LEASE: &str = "10";

/// How much of the suite's words an error repeats, in lines from the end.
const WORDS_MAX: usize = 15;

/// What all flavors share.
pub struct Site {
    realm: Option<(TemporaryRealm, PathBuf)>,
}

impl Site {
    /// For `sys` alone.
    pub fn without_realm() -> Self {
        Self { realm: None }
    }

    /// With a throw-away realm and a ticket.
    ///
    /// # Errors
    /// `Missing` when MIT's programs are not there.
    pub fn with_realm() -> anyhow::Result<Self> {
        let realm = TemporaryRealm::create(&RealmOptions::default())?;
        let ccache = realm.dir().join("ccache");
        realm.kinit("alice", &ccache)?;
        Ok(Self { realm: Some((realm, ccache)) })
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some((realm, ccache)) = &self.realm else { return Vec::new() };
        let mut environment: Vec<_> =
            realm.env().into_iter().map(|(name, path)| (name, path.into_os_string())).collect();
        environment.push(("KRB5CCNAME", ccache.into()));
        environment
    }

    /// As root, the suite's user is root and alice is, too: it makes devices. Otherwise both are who runs this.
    fn serve(&self, program: &Path, work: &Path) -> anyhow::Result<ServerProcess> {
        let export = work.join("export");
        std::fs::create_dir(&export)?;
        let mut arguments: Vec<OsString> = vec![export.into()];
        arguments.extend(
            ["--squash", "none", "--listen", "127.0.0.1:0", "--lease-time", LEASE].map(OsString::from),
        );
        arguments.extend(["--grace-time", LEASE, "--state-dir"].map(OsString::from));
        arguments.push(work.join("state").into());
        if let Some((realm, _)) = &self.realm {
            arguments.extend(["--keytab".into(), realm.server_keytab().into()]);
            if geteuid().is_root() {
                arguments.extend(["--map".into(), format!("alice@{}=root", realm.name()).into()]);
            }
        }
        let log = File::create(work.join("server.log"))?;
        ServerProcess::start_with_log(program, arguments, &self.environment(), Some(log))
    }
}

/// What all runs have in common.
pub struct Session<'a> {
    pub checkout: &'a Checkout,
    pub site: &'a Site,
    pub program: &'a Path,
    pub tests: &'a [String],
    pub time_max: Duration,
}

impl Session<'_> {
    /// Runs the suite in one flavor; what suite and server said goes to `keep`.
    ///
    /// # Errors
    /// When the server does not start, or the suite comes to no result.
    pub fn run(&self, flavor: Flavor, keep: Option<&Path>, stop: &AtomicBool) -> anyhow::Result<Run> {
        let work = tempfile::Builder::new().prefix("orthrus-interop-").tempdir()?;
        let result = self.run_in(flavor, work.path(), stop);
        if let Some(keep) = keep {
            std::fs::create_dir_all(keep)?;
            for (from, to) in [("suite.txt", "suite"), ("server.log", "server")] {
                let to = keep.join(format!("{}-{to}.txt", flavor.name()));
                std::fs::copy(work.path().join(from), &to).with_context(|| to.display().to_string())?;
            }
        }
        result.with_context(|| flavor.name())
    }

    fn run_in(&self, flavor: Flavor, work: &Path, stop: &AtomicBool) -> anyhow::Result<Run> {
        let begin = Instant::now();
        let server = self.site.serve(self.program, work)?;
        let path = work.join("suite.txt");
        let mut suite = Suite::start(self.command(flavor, server.address()), &path)?;
        let status = suite.wait(begin + self.time_max, stop)?;
        let said = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        match outcome::parse(&said) {
            Ok(listing) => {
                Ok(Run { flavor, results: listing.results, warning: listing.warning, took: begin.elapsed() })
            }
            Err(error) => {
                let lines: Vec<&str> = said.lines().collect();
                let last = &lines[lines.len().saturating_sub(WORDS_MAX)..];
                Err(error.context(format!("the suite ended with {status}:\n{}", last.join("\n"))))
            }
        }
    }

    fn command(&self, flavor: Flavor, address: SocketAddr) -> Command {
        let mut command = self.checkout.testserver();
        command.arg(format!("{address}/export")).args([
            "--security",
            flavor.name(),
            "--maketree",
            "--showomit",
            "-v",
        ]);
        command.args(self.tests).envs(self.site.environment());
        command
    }
}

/// The suite's process; it does not outlive the value.
struct Suite(Child);

impl Suite {
    fn start(mut command: Command, output: &Path) -> anyhow::Result<Self> {
        let output = File::create(output)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // A group of its own: Ctrl-C is for this program, which then ends it.
        let child = command.process_group(0).spawn();
        Ok(Self(child.with_context(|| format!("{command:?} did not start"))?))
    }

    fn wait(&mut self, end: Instant, stop: &AtomicBool) -> anyhow::Result<ExitStatus> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if stopped(stop) {
                bail!("interrupted");
            }
            if Instant::now() > end {
                bail!("the suite did not end in time (--timeout)");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
