//! `orthrus bench nconnect`: its options.

use super::arguments::{RunArguments, TargetArguments};
use super::evaluate::{RunRequest, either};
use super::mounts::MountArguments;
use super::on_mounts;
use bench::evaluation::{self, NCONNECT};
use serde_json::json;

/// Measure one security context over 1, 2, 4, 8 and 16 connections, in order and reordered, and
/// count lost calls.
///
/// The load is random reads of 4 KiB, 64 in flight, in nine cases per flavor. This takes about 3
/// minutes with the default of 6 repetitions of 0.5 s. With --mount SERVER:/EXPORT, as root, it
/// mounts with nconnect=1, 2, 4, 8 and 16 in turn and reads with fio; the kernel's client then
/// counts the losses.
#[derive(clap::Args)]
pub(crate) struct Nconnect {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Number of calls that may overtake a delayed connection. Orthrus has a window of 8192 calls,
    /// other servers 32 to 512. Not available on mounts: the kernel's client cannot delay a
    /// connection.
    #[arg(long, default_value_t = 4096, value_name = "CALLS", conflicts_with = "mounts", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    lag: u32,
}

impl Nconnect {
    /// Measures.
    ///
    /// # Errors
    /// The same as [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let title = "What several connections do to Kerberos";
        let lag = (!self.mount.any()).then_some(self.lag);
        let mut settings = self.run.settings(6, 0.5, if lag.is_some() { 9 } else { 5 });
        settings.options.extend(lag.map(|lag| ("lag".into(), json!(lag))));
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let mounts = mounts.map(on_mounts::Target::by_connections).transpose()?;
        let evaluation = &mut evaluation::nconnect(&settings, lag);
        let request = RunRequest { name: NCONNECT, title, settings, evaluation, files: 1, counting: true };
        either(mounts, &self.target, &self.run, request)
    }
}
