//! `orthrus bench ontap`: its options.

use super::arguments::{RunArguments, TargetArguments};
use super::evaluate::{RunRequest, either};
use super::mounts::MountArguments;
use super::on_mounts;
use anyhow::bail;
use bench::evaluation::{self, ONTAP};
use serde_json::json;

/// Repeat "Encrypt your NFS packets end to end with krb5p" (ONTAP 9.2): latency against IOPS, one
/// curve per flavor.
///
/// Sequential reads and writes of 4 and 8 KiB run on a fixed schedule that climbs until each flavor
/// is saturated. Latency counts from the time when a request was due. A server that the bench
/// starts is also measured with portable code instead of the processor's AES instructions. This
/// takes about 18 minutes with the default of 6 repetitions of 0.25 s. With --mount, fio measures
/// the peak of a mount, and threads that read and write files run the schedule.
#[derive(clap::Args)]
pub(crate) struct Ontap {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Numbers of clients; the article has 12 [default: 1,12]. On a mount each client is a job with
    /// its own file.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,
    /// Further instruction sets (ORTHRUS_CPU) for the server that the bench starts [default:
    /// portable].
    #[arg(long, value_delimiter = ',', value_name = "CHOICE,…")]
    server_cpu: Vec<String>,
}

impl Ontap {
    /// Measures.
    ///
    /// # Errors
    /// The same as [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let own = self.target.remote()?.is_none() && !self.mount.any();
        if !own && !self.server_cpu.is_empty() {
            bail!("--server-cpu is for a server of one's own: leave HOST:/EXPORT and --mount out");
        }
        let clients = match (self.clients.is_empty(), self.run.quick) {
            (true, true) => vec![2],
            (true, false) => vec![1, 12],
            (false, _) => self.clients,
        };
        let choices = match (self.server_cpu.is_empty(), own && !self.run.quick) {
            (true, true) => vec!["portable".to_owned()],
            _ => self.server_cpu,
        };
        let curves = 4 * (clients.len() + choices.len());
        let mut settings = self.run.settings(6, 0.25, 10 * curves);
        settings.options.insert("clients".into(), json!(clients));
        settings.options.insert("server_cpu".into(), json!(choices));
        let title = "What Kerberos costs: latency against IOPS";
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let evaluation = &mut evaluation::OntapClimb::new(&clients, &choices);
        let request = RunRequest { name: ONTAP, title, settings, evaluation, files: 2, counting: false };
        either(mounts, &self.target, &self.run, request)
    }
}
