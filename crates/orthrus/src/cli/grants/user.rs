//! The commands of users: submit, end and list.

use super::GrantCaller;
use super::time::{now, parse_duration, utc};
use crate::cli::table::table;
use crate::output::{errln, out, outln};
use ::grants::{Grant, GrantReply, GrantRequest, GrantSubmission, TicketSource};
use anyhow::{Context, bail};
use serde_json::json;

/// Grant a job access to your files for as long as it may run.
///
/// You need a live ticket now (`kinit`), but not while the job waits or runs. A second grant for
/// the same job replaces the first one.
#[derive(clap::Args)]
pub(in crate::cli) struct SubmitGrant {
    #[command(flatten)]
    caller: GrantCaller,
    /// The scheduler's name of the job; of an array job, that of the whole array.
    #[arg(long)]
    job: String,
    /// An NFS service, such as nfs/server.example.org; may be repeated (default: all that the
    /// service offers).
    #[arg(long = "service", value_name = "nfs/HOST")]
    services: Vec<String>,
    /// A node of the job; may be repeated. A scheduler that assigns nodes makes this unnecessary.
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// Time until the grant is void, including the time in the queue: 36h, 7d, 1-12:00:00.
    #[arg(long = "for", value_name = "TIME", default_value = "7d", value_parser = parse_duration)]
    time: u64,
}

/// End a grant. Its tickets are not renewed, and are gone within their lifetime.
#[derive(clap::Args)]
pub(in crate::cli) struct EndGrant {
    #[command(flatten)]
    caller: GrantCaller,
    /// The job of the grant.
    job: String,
    /// The principal of the grant, for administrators and schedulers (default: your own).
    #[arg(long = "of", value_name = "PRINCIPAL")]
    owner: Option<String>,
}

/// List your grants; administrators see those of all users.
#[derive(clap::Args)]
pub(in crate::cli) struct ListGrants {
    #[command(flatten)]
    caller: GrantCaller,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl SubmitGrant {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Self { caller, job, services, nodes, time } = self;
        let deadline = now().saturating_add(time);
        let mut submission = GrantSubmission { job, services, nodes, deadline, forwarded: false };
        let mut reply = caller.call(&GrantRequest::Submit(submission.clone()))?;
        if let GrantReply::NoDelegation(why) = &reply {
            submission.forwarded = true;
            reply = caller.call(&GrantRequest::Submit(submission)).with_context(|| why.clone())?;
        }
        match reply {
            GrantReply::Submitted(grant) => {
                outln!(
                    "grant for job {} until {}: {}",
                    grant.job,
                    utc(grant.deadline),
                    grant.services.join(", ")
                );
                if let TicketSource::Renewal(until) = grant.source
                    && until < grant.deadline
                {
                    errln!(
                        "orthrus: warning: the KDC does not delegate, and your ticket can be renewed only until {}: \
                         run `kinit -r` for longer, or submit again before",
                        utc(until)
                    );
                }
                Ok(())
            }
            other => unexpected(&other),
        }
    }
}

impl EndGrant {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let request = GrantRequest::End { principal: self.owner, job: self.job };
        self.caller.call(&request).map(drop).map_err(Into::into)
    }
}

impl ListGrants {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (grants, more) = match self.caller.call(&GrantRequest::List)? {
            GrantReply::Grants { grants, more } => (grants, more),
            other => return unexpected(&other),
        };
        if self.json {
            let rows: Vec<_> = grants.iter().map(to_json).collect();
            outln!("{:#}", serde_json::Value::Array(rows));
        } else {
            out!("{}", table(rows(&grants)));
        }
        if more {
            errln!("orthrus: there are more grants than one list has");
        }
        Ok(())
    }
}

fn unexpected(reply: &GrantReply) -> anyhow::Result<()> {
    bail!("the grant service sent another reply: {reply:?}")
}

fn to_json(grant: &Grant) -> serde_json::Value {
    json!({
        "principal": grant.principal,
        "job": grant.job,
        "services": grant.services,
        "nodes": grant.nodes,
        "created": grant.created,
        "deadline": grant.deadline,
    })
}

fn rows(grants: &[Grant]) -> Vec<Vec<String>> {
    let head = ["PRINCIPAL", "JOB", "UNTIL", "SERVICES", "NODES"].map(str::to_owned).to_vec();
    let row = |grant: &Grant| {
        let nodes = if grant.nodes.is_empty() { "-".to_owned() } else { grant.nodes.join(",") };
        let (principal, job) = (grant.principal.clone(), grant.job.clone());
        vec![principal, job, utc(grant.deadline), grant.services.join(","), nodes]
    };
    std::iter::once(head).chain(grants.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_aligned_columns_and_a_row_for_each_grant() {
        let grant = Grant {
            principal: "alice@R".into(),
            job: "7".into(),
            services: vec!["nfs/a".into(), "nfs/b".into()],
            nodes: vec![],
            created: 0,
            deadline: 86_400,
            source: TicketSource::Delegation,
            ended: None,
        };
        let longer = Grant { job: "7654321_12".into(), nodes: vec!["n1".into()], ..grant.clone() };
        let text = table(rows(&[grant.clone(), longer]));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let column = |line: &str, part: &str| line.find(part).unwrap();
        assert_eq!(column(lines[0], "UNTIL"), column(lines[1], "1970-01-02 00:00:00Z"));
        assert_eq!(column(lines[0], "NODES"), column(lines[2], "n1"));
        assert_eq!(to_json(&grant)["deadline"], 86_400);
    }
}
