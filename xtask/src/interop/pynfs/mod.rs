//! `cargo xtask interop pynfs`: the pynfs suite against this server, in all four flavors at once.
//!
//! Each flavor has two servers with an export and a state folder of their own, one for most tests and one for those that
//! restart it. So they neither wait for nor disturb each other: most of a run is waiting for leases to run out.

mod checkout;
mod expect;
mod outcome;
mod report;
mod session;
mod site;

use super::End;
use crate::{bench, steps};
use anyhow::{Context, bail};
use checkout::Checkout;
use expect::Expectations;
use outcome::TestResult;
use report::Report;
use site::Site;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Where it is said what the tests of the 4.1 suite are expected to do.
const EXPECTATIONS: &str = "specs/interop/pynfs41.txt";

/// Why the 4.0 suite is not run.
const NO_40: &str = "4.0 suite: skipped: the server speaks NFSv4.1 and 4.2 only, and answers 4.0 with NFS4ERR_MINOR_VERS_MISMATCH";

/// Arguments of `cargo xtask interop pynfs`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A checkout of pynfs.
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Flavors to run, at the same time.
    #[arg(long, value_name = "FLAVOR,…", value_delimiter = ',', default_value = "sys,krb5,krb5i,krb5p")]
    flavor: Vec<Flavor>,
    /// Write the results to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep here what the suite and the servers said, a file each.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The Python 3 that has the suite's modules.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// After this many seconds a flavor's run is ended and has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
    /// Codes or flags of tests, such as EID5, open or nodelegations: only these are run and compared [default: all, reboot]
    tests: Vec<String>,
}

/// A security flavor, as the suite calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Flavor {
    Sys,
    Krb5,
    Krb5i,
    Krb5p,
}

impl Flavor {
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
struct Group {
    name: &'static str,
    /// Codes or flags.
    tests: Vec<String>,
    /// Flavors in which they can be run.
    flavors: &'static [Flavor],
}

const EVERY_FLAVOR: &[Flavor] = &[Flavor::Sys, Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p];

/// What of the suite is left out when nothing is asked for, and why.
const LEFT_OUT: [&str; 2] = [
    "reboot with krb5, krb5i, krb5p: the suite makes no new context after RPCSEC_GSS_CREDPROBLEM (RFC 2203 section 5.3.3.3)",
    "REBT2c, REBT3c, REBT4c: 1,000 clients, one after another, take longer than the grace time of 10 seconds, and twice that",
];

/// What is run when nothing is asked for: tests that restart the server have one that nobody else uses.
fn groups(asked: &[String]) -> Vec<Group> {
    let group = |name, tests: &[&str], flavors| Group {
        name,
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        flavors,
    };
    match asked {
        [] => vec![
            group("all", &["all"], EVERY_FLAVOR),
            group("reboot", &["reboot", "noREBT2c", "noREBT3c", "noREBT4c"], &[Flavor::Sys]),
        ],
        asked => vec![Group { name: "some", tests: asked.to_vec(), flavors: EVERY_FLAVOR }],
    }
}

/// What the suite said in one flavor.
struct Run {
    flavor: Flavor,
    results: Vec<TestResult>,
    /// After the tests: the suite removes what it made.
    warning: Option<String>,
    took: Duration,
}

impl Run {
    /// Adds the tests of another group.
    fn add(&mut self, other: Self) {
        self.results.extend(other.results);
        self.took = self.took.max(other.took);
        self.warning = self.warning.take().or(other.warning);
    }
}

/// Runs the suite in each flavor, prints the table, writes JSON when asked to.
///
/// # Errors
/// When a flavor could not be run to its end.
pub fn run(arguments: &Arguments) -> anyhow::Result<End> {
    let Some(suite) = &arguments.suite else {
        return Ok(End::Skipped(format!(
            "no suite; clone pynfs, check out {} and name the folder with --suite",
            checkout::COMMIT
        )));
    };
    let text = std::fs::read_to_string(steps::root().join(EXPECTATIONS)).context(EXPECTATIONS)?;
    let expectations = Expectations::parse(&text).context(EXPECTATIONS)?;
    let stop = bench::stop_flag()?;
    let kerberos = arguments.flavor.iter().any(|flavor| *flavor != Flavor::Sys);
    let checkout = Checkout::open(suite, &arguments.python, kerberos)?;
    checkout.remarks().iter().for_each(|remark| println!("{remark}"));
    let program = build()?;
    let (site, flavors) = site(&arguments.flavor)?;
    let time_max = Duration::from_secs(arguments.timeout);
    let session = session::Session { checkout: &checkout, site: &site, program: &program, time_max };
    let groups = groups(&arguments.tests);
    println!("pynfs 4.1 in {} flavors; about 3 minutes", flavors.len());
    let runs = at_once(&flavors, &groups, |flavor, group| {
        session.run(flavor, group, arguments.keep.as_deref(), &stop)
    })?;
    println!("{NO_40}");
    let whole = arguments.tests.is_empty();
    if whole {
        LEFT_OUT.iter().for_each(|left_out| println!("left out: {left_out}"));
    }
    let report = Report::new(&expectations, &runs, whole);
    report.print();
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report.json(checkout.commit()))?;
        std::fs::write(path, json + "\n").with_context(|| path.display().to_string())?;
    }
    match report.unexpected() {
        0 => Ok(End::AsExpected),
        count => Ok(End::Unexpected(count)),
    }
}

/// Runs each group in each flavor, in a thread each; all are waited for, so that all clean up. A flavor's runs become one.
fn at_once(
    flavors: &[Flavor],
    groups: &[Group],
    one: impl Fn(Flavor, &Group) -> anyhow::Result<Run> + Sync,
) -> anyhow::Result<Vec<Run>> {
    let of = |flavor: Flavor| groups.iter().filter(move |group| group.flavors.contains(&flavor));
    let each: Vec<(Flavor, &Group)> =
        flavors.iter().flat_map(|flavor| of(*flavor).map(|group| (*flavor, group))).collect();
    let ends: Vec<anyhow::Result<Run>> = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> =
            each.iter().map(|(flavor, group)| scope.spawn(move || one(*flavor, group))).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| bail!("a run panicked"))).collect()
    });
    let mut runs: Vec<Run> = Vec::new();
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
fn site(flavors: &[Flavor]) -> anyhow::Result<(Site, Vec<Flavor>)> {
    let sys: Vec<Flavor> = flavors.iter().copied().filter(|flavor| *flavor == Flavor::Sys).collect();
    if sys.len() == flavors.len() {
        return Ok((Site::without_realm(), sys));
    }
    match Site::with_realm() {
        Ok(site) => Ok((site, flavors.to_vec())),
        Err(error) if matches!(error.downcast_ref(), Some(realm::RealmError::Missing { .. })) => {
            println!("skipped: krb5, krb5i, krb5p: {error:#}");
            Ok((Site::without_realm(), sys))
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
