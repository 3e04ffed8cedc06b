//! Development commands: `cargo xtask --help`.

mod chart;
mod ci;
mod cluster;
mod exposure;
mod fuzz;
mod generated_page;
mod hostile;
mod interop;
mod licences;
mod limits;
#[cfg(test)]
mod links;
mod memcheck;
mod outcome;
mod protocol;
mod read_plus;
mod simulate;
mod soak;
mod tests;
mod tidy;
mod upgrade;

use clap::{Parser, Subcommand};
use generated_page::PageTask;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

/// Development commands of Orthrus.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything that must pass before a change lands (about 30 minutes on two cores).
    Ci(ci::Arguments),
    /// Measure the server beside its peers and its floors: runs the package `benches`.
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the benchmarks; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Run test suites by others against the server; each result is compared with specs/interop.
    #[command(subcommand)]
    Interop(interop::Command),
    /// Generate the wire types from specs/; with --check only say whether they are current.
    Codegen {
        /// Fail if the checked-in files differ from the generated ones.
        #[arg(long)]
        check: bool,
    },
    /// Run each fuzz target for a bounded time.
    Fuzz(fuzz::Arguments),
    /// Run the tests of krb5 under the address sanitizer and valgrind, on every set of instructions
    /// (about 5 minutes).
    Memcheck,
    /// Play seeds of the simulation: clients, network, crashes and clocks, with a checker outside
    /// (docs/simulation.md).
    Simulate(simulate::Arguments),
    /// List directories of very many names while they change, on the disk and on tmpfs (a million:
    /// a minute after the build).
    BigDirectory {
        /// How many names stay; a fifth as many come and go.
        #[arg(long, default_value_t = 1_000_000)]
        entries: u32,
    },
    /// Serve as many connections as a site may have, from several addresses (100,000: a minute
    /// after the build, 1 GB of memory, and `ulimit -Hn` of 400,000).
    Connections {
        /// How many there are at once.
        #[arg(long, default_value_t = 100_000)]
        count: u32,
    },
    /// Flood the server without credentials next to honest clients of each flavor (about 8
    /// minutes).
    Hostile(hostile::Arguments),
    /// Soak the program: many client sessions that come, work and go, with limits for memory and
    /// descriptors.
    Soak(soak::Arguments),
    /// Upgrade the server under load with every flavor, to a next version and back, many times in a
    /// row (a second for each upgrade of each flavor).
    Upgrade(upgrade::UpgradeArguments),
    /// Let gateways of a cluster, and daemons of its file system, fail under native clients and a
    /// Linux client (two minutes after the build, as root; docs/cluster.md).
    Cluster,
    /// Draw the README's chart from a result of `bench krb5 --json`.
    Chart(chart::Arguments),
    /// Write docs/limits.md from the sources.
    Limits,
    /// Write docs/protocol-support.md: each operation and attribute, its state and its tests.
    Protocol {
        /// Fail if the checked-in page differs from the generated one.
        #[arg(long)]
        check: bool,
    },
    /// Check the language, names and dependencies of the tree; findings may only become fewer.
    Tidy(tidy::Arguments),
    /// Read sparse files with a Linux kernel that sends READ_PLUS, under QEMU without KVM (a minute
    /// and a half after the build; the first run downloads 100 MB of packages; not part of CI).
    ReadPlus,
    /// Check the licence of every dependency, and advisories where cargo-deny and its database are
    /// present.
    Licences,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Bench { arguments } => bench(&arguments),
        Command::Interop(command) => interop::run(&command),
        Command::Codegen { check } => codegen(check),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Memcheck => memcheck::run().map(|_| ()),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::BigDirectory { entries } => big_directory(entries),
        Command::Connections { count } => connections(count),
        Command::Hostile(arguments) => hostile::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Cluster => cluster::run(),
        Command::Chart(arguments) => chart::run(&arguments),
        Command::Limits => limits::run(PageTask::Write),
        Command::Protocol { check } => protocol::run(if check { PageTask::Check } else { PageTask::Write }),
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::ReadPlus => read_plus::run(),
        Command::Licences => licences::check(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn big_directory(entries: u32) -> anyhow::Result<()> {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--package", "e2e", "--test", "programs", "--"]);
    cargo.args(["large::what_stays", "--nocapture", "--test-threads", "1"]);
    steps::run(cargo.env("ORTHRUS_ENTRIES", entries.to_string()))
}

fn connections(count: u32) -> anyhow::Result<()> {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--release", "--package", "e2e", "--test", "programs", "--"]);
    cargo.args(["many::thousands_of", "--nocapture", "--test-threads", "1"]);
    steps::run(cargo.env("ORTHRUS_CONNECTIONS", count.to_string()))
}

/// Becomes the program of the package `benches`; returns only if that fails.
fn bench(arguments: &[std::ffi::OsString]) -> anyhow::Result<()> {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "benches", "--"]).args(arguments);
    Err(anyhow::Error::from(cargo.exec()).context("cargo did not start"))
}

fn codegen(check: bool) -> anyhow::Result<()> {
    let mut arguments = vec!["run", "--quiet", "--package", "xdrgen", "--"];
    arguments.extend(check.then_some("--check"));
    steps::cargo(&arguments)
}

#[cfg(test)]
mod command_line {
    use clap::CommandFactory;

    #[test]
    fn every_command_can_be_parsed() {
        super::Arguments::command().debug_assert();
    }
}
