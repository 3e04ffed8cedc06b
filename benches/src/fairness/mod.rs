//! The effect of one client on another client.

mod beside;
mod export_weights;
mod floods;
mod neighbours;
mod weights;

use crate::output::BenchOutput;
use anyhow::ensure;
use bench::Flavor;
use std::sync::atomic::AtomicBool;

/// The rows to measure, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct FairnessArguments {
    /// Measure only these busy clients: `stream`, `storm`, or a kind of flood; or `weights`, or
    /// of these only `export-weights` (as root).
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// Measure only these clients beside a flood: `reads`, `deep-reads`, `stream` or `metadata`.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    victims: Vec<String>,
    /// Flavors of the other client.
    #[arg(long, value_delimiter = ',', default_value = "sys,krb5p", value_name = "FLAVOR,…")]
    flavors: Vec<Flavor>,
    /// Numbers of shards of the server, for the floods.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_name = "NUMBER,…",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    shards: Vec<u32>,
    /// Interleaved rounds of each row, for the floods.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Flood another server on the same cores, which shows the part of the cores in the effect.
    #[arg(long)]
    apart: bool,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// The rows that are asked for.
struct FairnessSelection<'a>(&'a FairnessArguments);

impl FairnessSelection<'_> {
    /// Returns whether a busy client is measured.
    fn wants(&self, busy: &str) -> bool {
        let only = &self.0.only;
        only.is_empty() || only.iter().any(|name| name == busy)
    }

    /// Returns whether a client beside a flood is measured.
    fn wants_victim(&self, name: &str) -> bool {
        let victims = &self.0.victims;
        victims.is_empty() || victims.iter().any(|victim| victim == name)
    }

    /// Returns the flavors of the other client.
    fn flavors(&self) -> impl Iterator<Item = Flavor> + '_ {
        self.0.flavors.iter().copied()
    }

    /// Checks that all names are known.
    fn check(&self) -> anyhow::Result<()> {
        let busy: Vec<_> = neighbours::names()
            .chain(floods::floods().map(|flood| flood.name))
            .chain([weights::NAME, export_weights::NAME])
            .collect();
        let victims: Vec<_> = beside::victims().map(|victim| victim.name).collect();
        for (asked, known) in [(&self.0.only, busy), (&self.0.victims, victims)] {
            let unknown = asked.iter().find(|name| !known.contains(&name.as_str()));
            ensure!(unknown.is_none(), "{:?} is unknown; there are {}", unknown, known.join(", "));
        }
        Ok(())
    }
}

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work, or the system does not let a thread step back.
pub(crate) fn run(
    arguments: &FairnessArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let selection = FairnessSelection(arguments);
    selection.check()?;
    output.note("the busy clients' threads have the scheduling policy SCHED_IDLE: they never keep the other one from the client's core");
    neighbours::run(&selection, output, stop)?;
    beside::run(&selection, output, stop)?;
    weights::run(&selection, output, stop)?;
    export_weights::run(&selection, output, stop)
}
