//! `orthrus grants`: access to files for batch jobs.

mod node;
mod scheduler;
mod serve;
mod time;
mod user;

use ::grants::{GrantCallError, GrantReply, GrantRequest, GrantServer};
use anyhow::bail;
use gss::Credential;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port of the grant service, unless the server's name has one.
const GRANTS_PORT: u16 = 7049;

/// Keep the access of batch jobs to their files, without keys or tickets of users on any node.
///
/// Users submit and list grants. A scheduler assigns jobs to nodes. On a node, the agent keeps
/// short tickets for the jobs that a prolog attaches.
#[derive(clap::Subcommand)]
pub(super) enum GrantsCommand {
    Submit(user::SubmitGrant),
    End(user::EndGrant),
    List(user::ListGrants),
    Serve(serve::ServeGrants),
    Assign(scheduler::AssignRun),
    Agent(node::KeepTickets),
    Attach(node::AttachRun),
    Detach(node::DetachRun),
}

impl GrantsCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The refusal of the service, or the reason why it was not asked.
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Submit(command) => command.run(),
            Self::End(command) => command.run(),
            Self::List(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Assign(command) => command.run(),
            Self::Agent(command) => command.run(),
            Self::Attach(command) => command.run(),
            Self::Detach(command) => command.run(),
        }
    }
}

/// The grant service and the credential of the caller.
#[derive(clap::Args)]
struct GrantCaller {
    /// Host name of the grant service, and its port if that is not 7049.
    #[arg(long, value_name = "HOST[:PORT]", env = "ORTHRUS_GRANTS", value_parser = parse_server)]
    server: GrantServer,
    /// Use the tickets of this cache (default: your own).
    #[arg(long, value_name = "CACHE", conflicts_with = "keytab")]
    ccache: Option<String>,
    /// Use a key of this file instead of a ticket, for scripts.
    #[arg(long, value_name = "FILE", requires = "principal")]
    keytab: Option<PathBuf>,
    /// The principal of the key.
    #[arg(long, requires = "keytab")]
    principal: Option<String>,
}

impl GrantCaller {
    fn call(&self, request: &GrantRequest) -> Result<GrantReply, GrantCallError> {
        self.server.call(&self.credential(), request)
    }

    /// Sends a request that may run twice, and again while the service is busy, within `time`.
    fn call_patiently(&self, request: &GrantRequest, time: Duration) -> Result<GrantReply, GrantCallError> {
        self.server.call_patiently(&self.credential(), request, time)
    }

    fn credential(&self) -> Credential {
        match (&self.ccache, &self.keytab, &self.principal) {
            (Some(cache), ..) => Credential::Ccache(cache.clone()),
            (None, Some(path), Some(principal)) => {
                Credential::Keytab { path: path.clone(), principal: principal.clone() }
            }
            _ => Credential::Default,
        }
    }
}

fn parse_server(text: &str) -> Result<GrantServer, String> {
    let (host, port) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let port =
        port.map_or(Ok(GRANTS_PORT), |port| port.parse().map_err(|_| format!("{port:?} is no port")))?;
    ::grants::check_node(host).map_err(|error| error.to_string())?;
    Ok(GrantServer { host: host.to_owned(), port })
}

/// Returns the first principal of the service `host` in a keytab, and its realm. `node` chooses
/// one.
fn host_principal(keytab: &Path, node: Option<&str>) -> anyhow::Result<(String, String)> {
    let entries =
        gss::keytab_entries(keytab).map_err(|error| anyhow::anyhow!("{}: {error}", keytab.display()))?;
    for entry in entries {
        if let [service, host] = entry.components.as_slice()
            && service == "host"
            && node.is_none_or(|node| node == host)
        {
            return Ok((format!("host/{host}@{}", entry.realm), entry.realm));
        }
    }
    bail!("{} has no key of host/{}", keytab.display(), node.unwrap_or("NODE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_with_or_without_a_port() {
        let server = |host: &str, port| GrantServer { host: host.into(), port };
        assert_eq!(parse_server("a.example"), Ok(server("a.example", GRANTS_PORT)));
        assert_eq!(parse_server("a.example:99"), Ok(server("a.example", 99)));
        for wrong in ["", ":99", "a:b", "a b", "-x:1"] {
            assert!(parse_server(wrong).is_err(), "{wrong:?}");
        }
    }
}
