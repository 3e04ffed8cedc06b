//! One run of the suite: a server of its own, and the suite's process, both gone at its end.

use super::checkout::Checkout;
use super::site::{Server, SuiteSite};
use super::suite::PynfsSuite;
use super::{FlavorRun, SuiteFlavor, TestGroup, outcome, stopped};
use anyhow::{Context, bail};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How much of the suite's words an error repeats, in lines from the end.
const WORDS_MAX: usize = 15;

/// Attempts at a run when the suite breaks.
const TRIES_MAX: usize = 3;
/// The suite's thread that receives everything can die of a race with a connection that is being
/// made; then it waits for ever.
const BROKEN: &str = "Exception in thread PollingThread";

/// The end of the suite's process.
enum SuiteExit {
    /// It ended with this status.
    By(ExitStatus),
    /// The session ended: pynfs printed [`BROKEN`].
    Broken,
}

/// The common parts of all runs.
pub(super) struct Session<'a> {
    pub checkout: &'a Checkout,
    pub site: &'a SuiteSite,
    pub program: &'a Path,
    pub suite: PynfsSuite,
    pub time_max: Duration,
}

impl Session<'_> {
    /// Runs a group of tests in one flavor, again if the suite breaks. The output of suite and
    /// server goes to `keep`.
    ///
    /// # Errors
    /// When the server does not start, or the suite has no result.
    pub(super) fn run(
        &self,
        flavor: SuiteFlavor,
        group: &TestGroup,
        keep: Option<&Path>,
        stop: &AtomicBool,
    ) -> anyhow::Result<FlavorRun> {
        for _ in 0..TRIES_MAX {
            if let Some(run) = self.try_run(flavor, group, keep, stop)? {
                return Ok(run);
            }
            println!("{} {}: the suite broke off ({BROKEN}); once more", flavor.name(), group.name);
        }
        bail!("{} {}: the suite broke off {TRIES_MAX} times", flavor.name(), group.name)
    }

    fn try_run(
        &self,
        flavor: SuiteFlavor,
        group: &TestGroup,
        keep: Option<&Path>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<FlavorRun>> {
        let work = private::temporary("orthrus-interop-")?;
        let result = self.run_in(flavor, group, work.path(), stop);
        if let Some(keep) = keep {
            std::fs::create_dir_all(keep)?;
            for (from, to) in [("suite.txt", "suite"), ("server.log", "server")] {
                let to =
                    keep.join(format!("{}-{}-{}-{to}.txt", self.suite.name(), flavor.name(), group.name));
                // One that did not get so far has none.
                let _ = std::fs::copy(work.path().join(from), &to);
            }
        }
        result.with_context(|| format!("{} {}", flavor.name(), group.name))
    }

    fn run_in(
        &self,
        flavor: SuiteFlavor,
        group: &TestGroup,
        work: &Path,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<FlavorRun>> {
        let begin = Instant::now();
        let mut server = Server::start(self.site, self.program, work, group.lease)?;
        if self.suite.second_start() {
            server.restart()?;
        }
        let path = work.join("suite.txt");
        let mut suite = SuiteProcess::start(self.command(flavor, group, &server, work)?, &path)?;
        let end = begin + self.time_max;
        let SuiteExit::By(status) = suite.wait(&path, end, stop, &mut server)? else { return Ok(None) };
        let said = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        match outcome::parse(&said) {
            Ok(listing) => {
                let (results, warning) = (listing.results, listing.warning);
                Ok(Some(FlavorRun { flavor, results, warning, took: begin.elapsed() }))
            }
            Err(error) => {
                let lines: Vec<&str> = said.lines().collect();
                let last = &lines[lines.len().saturating_sub(WORDS_MAX)..];
                Err(error.context(format!("the suite ended with {status}:\n{}", last.join("\n"))))
            }
        }
    }

    fn command(
        &self,
        flavor: SuiteFlavor,
        group: &TestGroup,
        server: &Server<'_>,
        work: &Path,
    ) -> anyhow::Result<Command> {
        let mut command = self.checkout.testserver(self.suite);
        command.arg(format!("{}/export", server.address()));
        command.args(["--security", flavor.name(), "--maketree", "--showomit", "-v", "--serverhelper"]);
        command
            .arg(server.helper()?)
            .args(self.suite.arguments())
            .args(&group.tests)
            .envs(self.site.environment());
        let modules = work.join("modules");
        std::fs::create_dir(&modules)?;
        for (name, text) in self.suite.modules() {
            std::fs::write(modules.join(name), text)?;
        }
        command.env("PYTHONPATH", modules);
        Ok(command)
    }
}

/// The suite's process; it does not outlive the value.
struct SuiteProcess(Child);

impl SuiteProcess {
    fn start(mut command: Command, output: &Path) -> anyhow::Result<Self> {
        let output = File::create(output)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // A group of its own: Ctrl-C is for this program, which then ends it.
        let child = command.process_group(0).spawn();
        Ok(Self(child.with_context(|| format!("{command:?} did not start"))?))
    }

    fn wait(
        &mut self,
        output: &Path,
        end: Instant,
        stop: &AtomicBool,
        server: &mut Server<'_>,
    ) -> anyhow::Result<SuiteExit> {
        let mut look_at = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(SuiteExit::By(status));
            }
            if Instant::now() >= look_at {
                if String::from_utf8_lossy(&std::fs::read(output)?).contains(BROKEN) {
                    return Ok(SuiteExit::Broken);
                }
                look_at = Instant::now() + Duration::from_secs(2);
            }
            if stopped(stop) {
                bail!("interrupted");
            }
            if Instant::now() > end {
                bail!("the suite did not end in time (--timeout)");
            }
            server.restart_if_asked()?;
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for SuiteProcess {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // With its group: a helper that waits for the server waits for nothing any more.
        let _ = nix::sys::signal::killpg(
            nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap_or(i32::MAX)),
            nix::sys::signal::Signal::SIGKILL,
        );
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
