//! `orthrus evict` and `orthrus reload`: changes of a running server.

use super::asked_server::AskedServer;
use crate::requests::{AdminReply, AdminRequest};
use anyhow::bail;

/// Remove a client from a running server, with its opens, locks and delegations.
///
/// For a machine that is gone for good and still holds what others wait for. A client that lives
/// comes back at once with a new session, and its programs get errors for the locks that they have
/// lost. To keep it out, leave its address out of `clients` of the exports, and reload.
#[derive(clap::Args)]
pub(super) struct Evict {
    /// The client's ID, as `orthrus clients` shows it.
    client: String,
    #[command(flatten)]
    server: AskedServer,
}

impl Evict {
    /// Has the server remove the client.
    ///
    /// # Errors
    /// There is no such client; see [`AskedServer::ask`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        change(&self.server, &AdminRequest::Evict { client: self.client })
    }
}

/// Have a running server read its configuration file again.
///
/// Exports and identities of the file come into force, all of them or nothing. Prints the changes,
/// and the keys that need a restart.
#[derive(clap::Args)]
pub(super) struct ReloadArguments {
    #[command(flatten)]
    server: AskedServer,
}

impl ReloadArguments {
    /// Has the server reload.
    ///
    /// # Errors
    /// The fault in the file; see [`AskedServer::ask`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        change(&self.server, &AdminRequest::Reload)
    }
}

/// Asks for a change, and prints the lines of the answer.
fn change(server: &AskedServer, request: &AdminRequest) -> anyhow::Result<()> {
    match server.ask(request)? {
        AdminReply::Done(lines) => lines.iter().for_each(|line| println!("{line}")),
        _ => bail!("the server gave another answer: it has another version"),
    }
    Ok(())
}
