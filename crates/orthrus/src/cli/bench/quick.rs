//! `orthrus bench quick`: the flavors side by side in about a minute.

use super::arguments::TargetArguments;
use super::site::memory_server;
use crate::cli::measure::{self, PlanArguments};
use crate::cli::own_realm::OwnRealm;
use anyhow::Context;

/// Compare the flavors in about a minute: sequential and random I/O, and metadata.
///
/// Without TARGET it starts a server of its own that exports memory, in a throw-away realm. With HOST:/EXPORT it measures
/// that server; the Kerberos flavors then use your ticket (kinit) or --keytab. It makes a folder of its own in the export
/// and removes it.
#[derive(clap::Args)]
pub struct Quick {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    plan: PlanArguments,
}

impl Quick {
    /// Measures.
    ///
    /// # Errors
    /// An unreachable server, a missing ticket, a report that cannot be written.
    pub fn run(self) -> anyhow::Result<()> {
        if let Some(target) = self.target.remote()? {
            return measure::run(&target, &self.plan, &*measure::stop_flag()?);
        }
        let realm = OwnRealm::start_if_installed()?;
        let stop = measure::stop_flag()?;
        let state = tempfile::tempdir().context("no temporary folder can be made")?;
        let (_server, target) =
            memory_server(realm.as_ref(), state.path(), self.plan.memory_mebibytes(), None, false)?;
        measure::run(&target, &self.plan, &stop)
    }
}
