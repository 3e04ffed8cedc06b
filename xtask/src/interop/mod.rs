//! `cargo xtask interop`: foreign test suites, one command each.
//!
//! The suites are not part of the repository. `specs/interop` lists the tests that are not expected
//! to pass, each with its reason.

mod pynfs;

use anyhow::bail;

/// The suite to run.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Run the suites of pynfs in NFSv4.2, 4.1 and 4.0, each in all four flavors at once (about 11,
    /// 11 and 5 minutes).
    ///
    /// Each result is compared with specs/interop/pynfs42.txt, pynfs41.txt and pynfs40.txt, which
    /// give a reason for each test that is not expected to pass; a pass that was not expected
    /// counts as much as a failure. docs/interop.md says how to read the results.
    ///
    /// pynfs is no part of this repository: clone
    /// git://git.linux-nfs.org/projects/cdmackay/pynfs.git and name the folder with --suite. It is
    /// built there. Without --suite the run says which commit it expects, and is skipped. A realm
    /// and a server for each flavor are made for the run and are gone after it.
    ///
    /// Exit status: 0 when every result is as expected or the run was skipped; 1 when one is not,
    /// when something is missing (it is named with its package) or when the run was interrupted; 2
    /// for a wrong command line.
    Pynfs(pynfs::Arguments),
}

/// The outcome of a suite.
enum SuiteEnd {
    /// Each test had its expected outcome.
    AsExpected,
    /// So many did not.
    Unexpected(usize),
    /// It cannot be run here, and why.
    Skipped(String),
}

/// Runs a suite.
///
/// # Errors
/// When a test has an unexpected outcome, a run is interrupted, or the installed suite does not
/// work.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let end = match command {
        Command::Pynfs(arguments) => pynfs::run(arguments)?,
    };
    match end {
        SuiteEnd::AsExpected => Ok(()),
        SuiteEnd::Unexpected(count) => bail!("{count} results are not as specs/interop says"),
        SuiteEnd::Skipped(reason) => {
            println!("skipped: {reason}");
            Ok(())
        }
    }
}
