//! The command of schedulers: assign.

use super::GrantCaller;
use ::grants::GrantRequest;
use anyhow::bail;
use std::time::Duration;

/// Announce the nodes of a run of a job, or its end; for the scheduler's controller.
///
/// Nodes get tickets only for runs that were announced for them, and for grants that name them. The
/// announcement can precede the grant.
#[derive(clap::Args)]
pub(in crate::cli) struct AssignRun {
    #[command(flatten)]
    caller: GrantCaller,
    /// The principal of the job's user.
    #[arg(long = "of", value_name = "PRINCIPAL")]
    owner: String,
    /// The job that grants refer to; of an array job, that of the whole array.
    #[arg(long)]
    job: String,
    /// The scheduler's name of this run (default: the job's).
    #[arg(long)]
    run: Option<String>,
    /// A node of the run, or several with commas; may be repeated.
    #[arg(long = "node", value_name = "NODE", value_delimiter = ',')]
    nodes: Vec<String>,
    /// The run is over.
    #[arg(long, conflicts_with = "nodes")]
    over: bool,
    /// Longest time to wait for the grant service, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    wait: u64,
}

impl AssignRun {
    pub(super) fn run(self) -> anyhow::Result<()> {
        if self.nodes.is_empty() != self.over {
            bail!("name the nodes of the run, or give --over");
        }
        let run = self.run.unwrap_or_else(|| self.job.clone());
        let request = GrantRequest::Assign { principal: self.owner, job: self.job, run, nodes: self.nodes };
        self.caller.call_patiently(&request, Duration::from_secs(self.wait)).map(drop).map_err(Into::into)
    }
}
