//! `cargo xtask interop pynfs`: the suites of pynfs against this server, one minor version after
//! the other, in all four flavors at once.
//!
//! Each flavor has two servers with their own export and state folder: one for most tests and one
//! for tests that restart it. The two run in parallel without disturbing each other, since most of
//! a run waits for leases to expire.

mod checkout;
mod expect;
mod outcome;
mod report;
mod session;
mod site;
mod suite;

use super::SuiteEnd;
use anyhow::{Context, bail};
use checkout::Checkout;
use expect::Expectations;
use miniceph::{MiniCeph, MiniCephError, MiniCephOptions};
use outcome::TestResult;
use report::SuiteReport;
use site::SuiteSite;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use suite::PynfsSuite;

/// Arguments of `cargo xtask interop pynfs`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A checkout of pynfs.
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// The minor versions to run suites in.
    #[arg(long, value_name = "MINOR,…", value_delimiter = ',', default_value = "4.2,4.1,4.0")]
    minor: Vec<PynfsSuite>,
    /// Flavors to run, at the same time.
    #[arg(long, value_name = "FLAVOR,…", value_delimiter = ',', default_value = "sys,krb5,krb5i,krb5p")]
    flavor: Vec<SuiteFlavor>,
    /// Export directories of CephFS of a throw-away one-node cluster, not folders; differences are
    /// in specs/interop/pynfs42-ceph.txt.
    #[arg(long)]
    ceph: bool,
    /// Write the results to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the output of the suite and the servers here, one file each.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The Python 3 that has the suite's modules.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// After this many seconds a flavor's run is ended and has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    timeout: u64,
    /// Codes or flags of tests, such as EID5, open or nodelegations: only these are run and
    /// compared, and --minor says in which suite [default: all, reboot]
    tests: Vec<String>,
}

/// A security flavor, as the suite calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SuiteFlavor {
    Sys,
    Krb5,
    Krb5i,
    Krb5p,
}

impl SuiteFlavor {
    fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }
}

/// Tests that one server is used for.
struct TestGroup {
    name: &'static str,
    /// Test codes or flags.
    tests: Vec<String>,
    /// Flavors in which they can be run.
    flavors: &'static [SuiteFlavor],
    /// Seconds of the server's lease.
    lease: u32,
}

const EVERY_FLAVOR: &[SuiteFlavor] =
    &[SuiteFlavor::Sys, SuiteFlavor::Krb5, SuiteFlavor::Krb5i, SuiteFlavor::Krb5p];

/// The output of the suite in one flavor.
struct FlavorRun {
    flavor: SuiteFlavor,
    results: Vec<TestResult>,
    /// The suite's warning when it could not remove its files.
    warning: Option<String>,
    took: Duration,
}

impl FlavorRun {
    /// Adds the tests of another group.
    fn add(&mut self, other: Self) {
        // A test that others depend on may run in both groups.
        let known: Vec<String> = self.results.iter().map(|result| result.code.clone()).collect();
        self.results.extend(other.results.into_iter().filter(|result| !known.contains(&result.code)));
        self.took = self.took.max(other.took);
        self.warning = self.warning.take().or(other.warning);
    }
}

/// Runs the suite in each flavor, prints the table, writes JSON when asked to.
///
/// # Errors
/// When a flavor could not be run to its end.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<SuiteEnd> {
    let Some(suite) = &arguments.suite else {
        return Ok(SuiteEnd::Skipped(format!(
            "no suite; clone pynfs, check out {} and name the folder with --suite",
            checkout::COMMIT
        )));
    };
    let stop = steps::stop_flag()?;
    let kerberos = arguments.flavor.iter().any(|flavor| *flavor != SuiteFlavor::Sys);
    let checkout = Checkout::open(suite, &arguments.python, kerberos)?;
    checkout.remarks().iter().for_each(|remark| println!("{remark}"));
    let program = build()?;
    let (mut site, flavors) = site(&arguments.flavor)?;
    if arguments.ceph {
        match MiniCeph::start(&MiniCephOptions::default()) {
            Err(error @ MiniCephError::Missing { .. }) => return Ok(SuiteEnd::Skipped(error.to_string())),
            cluster => site.use_ceph(cluster?),
        }
    }
    let time_max = Duration::from_secs(arguments.timeout);
    let (mut unexpected, mut results) = (0, Vec::new());
    for suite in &arguments.minor {
        let session =
            session::Session { checkout: &checkout, site: &site, program: &program, suite: *suite, time_max };
        let report = run_suite(&session, arguments, &flavors, &stop)?;
        unexpected += report.0;
        results.push(report.1);
    }
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&serde_json::json!({ "suites": results }))?;
        std::fs::write(path, json + "\n").with_context(|| path.display().to_string())?;
    }
    match unexpected {
        0 => Ok(SuiteEnd::AsExpected),
        count => Ok(SuiteEnd::Unexpected(count)),
    }
}

/// Runs one suite in each flavor and prints its table; returns how much of it was not expected, and
/// all of it as JSON.
fn run_suite(
    session: &session::Session<'_>,
    arguments: &Arguments,
    flavors: &[SuiteFlavor],
    stop: &AtomicBool,
) -> anyhow::Result<(usize, serde_json::Value)> {
    let suite = session.suite;
    let path = suite.expectations();
    let text = std::fs::read_to_string(steps::root().join(path)).context(path)?;
    let mut expectations = Expectations::parse(&text).context(path)?;
    if let Some(path) = suite.ceph_expectations().filter(|_| arguments.ceph) {
        let text = std::fs::read_to_string(steps::root().join(path)).context(path)?;
        expectations.override_by(Expectations::parse(&text).context(path)?);
    }
    println!("\npynfs {} in {} flavors; about {} minutes", suite.name(), flavors.len(), suite.minutes());
    let runs = at_once(flavors, &suite.groups(&arguments.tests), |flavor, group| {
        session.run(flavor, group, arguments.keep.as_deref(), stop)
    })?;
    let whole = arguments.tests.is_empty();
    if whole {
        suite.left_out().iter().for_each(|left_out| println!("left out: {left_out}"));
    }
    let report = SuiteReport::new(suite, &expectations, &runs, whole);
    report.print();
    Ok((report.unexpected(), report.json(session.checkout.commit())))
}

/// Runs each group in each flavor, in a thread each; all are waited for, so that all clean up. A
/// flavor's runs become one.
fn at_once(
    flavors: &[SuiteFlavor],
    groups: &[TestGroup],
    one: impl Fn(SuiteFlavor, &TestGroup) -> anyhow::Result<FlavorRun> + Sync,
) -> anyhow::Result<Vec<FlavorRun>> {
    let of = |flavor: SuiteFlavor| groups.iter().filter(move |group| group.flavors.contains(&flavor));
    let each: Vec<(SuiteFlavor, &TestGroup)> =
        flavors.iter().flat_map(|flavor| of(*flavor).map(|group| (*flavor, group))).collect();
    let ends: Vec<anyhow::Result<FlavorRun>> = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> =
            each.iter().map(|(flavor, group)| scope.spawn(move || one(*flavor, group))).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| bail!("a run panicked"))).collect()
    });
    let mut runs: Vec<FlavorRun> = Vec::new();
    for end in ends {
        let run = end?;
        match runs.iter_mut().find(|known| known.flavor == run.flavor) {
            Some(known) => known.add(run),
            None => runs.push(run),
        }
    }
    Ok(runs)
}

/// A realm where one can be had; without MIT's KDC only `sys` is left, and it is said why.
fn site(flavors: &[SuiteFlavor]) -> anyhow::Result<(SuiteSite, Vec<SuiteFlavor>)> {
    let sys: Vec<SuiteFlavor> =
        flavors.iter().copied().filter(|flavor| *flavor == SuiteFlavor::Sys).collect();
    if sys.len() == flavors.len() {
        return Ok((SuiteSite::without_realm(), sys));
    }
    match SuiteSite::with_realm() {
        Ok(site) => Ok((site, flavors.to_vec())),
        Err(error) if matches!(error.downcast_ref(), Some(realm::RealmError::Missing { .. })) => {
            println!("skipped: krb5, krb5i, krb5p: {error:#}");
            Ok((SuiteSite::without_realm(), sys))
        }
        Err(error) => Err(error),
    }
}

/// Builds the server as this program is built: with `cargo xtask` its assertions are on.
fn build() -> anyhow::Result<PathBuf> {
    let mut arguments = vec!["build", "--quiet", "--package", "orthrus"];
    arguments.extend((!cfg!(debug_assertions)).then_some("--release"));
    steps::cargo(&arguments)?;
    Ok(std::env::current_exe()?.with_file_name("orthrus"))
}

/// Ends a wait for the suite early when a signal has come.
fn stopped(stop: &AtomicBool) -> bool {
    stop.load(std::sync::atomic::Ordering::Relaxed)
}
