//! `orthrus bench anf`: its options.

use super::arguments::{RunArguments, TargetArguments};
use super::evaluate::{RunRequest, either};
use super::mounts::MountArguments;
use super::on_mounts;
use anyhow::Context;
use bench::evaluation::{self, ANF, REPOSITORY};
use serde_json::json;
use std::path::PathBuf;

/// Repeat "Performance impact of Kerberos on NFSv4.1 volumes" (Azure NetApp Files): its two tables
/// with your figures.
///
/// The loads are random 4 KiB and sequential 1 MiB, each from pure read to pure write in five
/// steps, at low and high load, and the operations of git: 22 loads for each flavor. This takes
/// about 11 minutes with the default of 6 repetitions of 1 s, and a minute with --quick. With
/// --mount, fio and git measure mounts, as in the articles.
#[derive(clap::Args)]
pub(crate) struct Anf {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Number of connections per session, like the mount option nconnect.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    connections: u32,
    /// Git repository for the metadata load: cloned on mounts, and used for names and lengths of
    /// files without --mount [default: one generated from a seed].
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

impl Anf {
    /// Measures.
    ///
    /// # Errors
    /// The same as [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut settings = self.run.settings(6, 1.0, 22);
        settings.options.insert("connections".into(), json!(self.connections));
        if let Some(path) = &self.repository {
            let path = path.canonicalize().with_context(|| format!("the repository {}", path.display()))?;
            settings.options.insert(REPOSITORY.into(), json!(path));
        }
        let title = "What Kerberos costs: low and high load, from pure read to pure write";
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let evaluation = &mut evaluation::anf(&settings, self.connections);
        let request = RunRequest { name: ANF, title, settings, evaluation, files: 1, counting: false };
        either(mounts, &self.target, &self.run, request)
    }
}
