//! `orthrus evict`, `revoke`, `reload` and `drain`: changes of a running server.

use super::asked_server::AskedServer;
use crate::api::{self, ChangeReport, ClientRow, ListingReport, WebLink};
use crate::output::outln;
use clap::ArgGroup;
use serde::Serialize;
use std::time::Duration;

/// How often a drain asks for the clients that are left.
const DRAIN_POLL: Duration = Duration::from_secs(1);

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
    /// Asks the server to remove the client.
    ///
    /// # Errors
    /// There is no such client; see [`AskedServer::post`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        change(&self.server, "/v1/evict", &api::EvictRequest { client: self.client })
    }
}

/// Revoke an open, a lock or a delegation of a running server.
///
/// For a file that others wait for, where the rest of the client's state shall stay. The client
/// learns that an administrator did it: programs get errors for the file that they have open or
/// locked. They may open and lock it again; to prevent that, change the permissions first.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("state").args(["stateid", "principal"]).required(true))]
pub(super) struct Revoke {
    /// The stateid, as `orthrus opens`, `orthrus locks` and `orthrus delegations` show it.
    stateid: Option<String>,
    /// Revoke all opens, locks and delegations of this user, such as alice@EXAMPLE.ORG or sys:1000.
    #[arg(long)]
    principal: Option<String>,
    #[command(flatten)]
    server: AskedServer,
}

impl Revoke {
    /// Asks the server to revoke the state.
    ///
    /// # Errors
    /// There is no such state; see [`AskedServer::post`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Self { stateid, principal, server } = self;
        let by_principal = principal.map(api::RevokeRequest::Principal);
        match by_principal.or(stateid.map(api::RevokeRequest::Stateid)) {
            Some(request) => change(&server, "/v1/revoke", &request),
            None => Ok(()),
        }
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
    /// Asks the server to reload.
    ///
    /// # Errors
    /// The fault in the file; see [`AskedServer::post`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        change(&self.server, "/v1/reload", &())
    }
}

/// Have a running server take no new clients, and end when the last one has left.
///
/// Clients that are known go on until they unmount. Clients that have been silent for a lease do
/// not count. A server without clients ends after 10 seconds, and nothing starts it again. Prints
/// how many are left, and returns when the server has ended. Ctrl-C ends the command alone, not the
/// drain.
#[derive(clap::Args)]
pub(super) struct Drain {
    /// Serve new clients again.
    #[arg(long)]
    cancel: bool,
    /// Return as soon as the drain has begun.
    #[arg(long, conflicts_with = "cancel")]
    no_wait: bool,
    #[command(flatten)]
    server: AskedServer,
}

impl Drain {
    /// Asks the server to drain, and waits for its end.
    ///
    /// # Errors
    /// See [`AskedServer::post`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        change(&self.server, "/v1/drain", &api::DrainRequest { cancel: self.cancel })?;
        if self.cancel || self.no_wait {
            return Ok(());
        }
        let mut shown = None;
        loop {
            match self.clients_left() {
                Ok(Some(left)) if shown.replace(left) != Some(left) => {
                    outln!("{left} clients are left; `orthrus clients` lists them");
                }
                Ok(None) => break,
                // A server that ends closes the connection without an answer.
                Ok(Some(_)) | Err(_) => {}
            }
            std::thread::sleep(DRAIN_POLL);
        }
        outln!("the server has ended");
        Ok(())
    }

    /// Returns the number of clients; `None` if the server has ended.
    fn clients_left(&self) -> anyhow::Result<Option<usize>> {
        let listing: Option<ListingReport<ClientRow>> = self.server.get_again("/v1/clients", &[])?;
        Ok(listing.map(|listing| listing.rows.iter().filter(|row| row.state == "active").count()))
    }
}

/// Print a link to the web page of a running server.
///
/// The page shows the same as `orthrus status`. The link is good once, within five minutes; the
/// browser that opens it may see the page for twelve hours, or until the server ends or is
/// upgraded. The server has a page if `web` is set.
#[derive(clap::Args)]
pub(super) struct WebArguments {
    #[command(flatten)]
    server: AskedServer,
}

impl WebArguments {
    /// Asks the server for a link, and prints it.
    ///
    /// # Errors
    /// The server has no web page; see [`AskedServer::post`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        let WebLink { link } = self.server.post("/v1/web", &())?;
        outln!("{link}");
        Ok(())
    }
}

/// Asks for a change, and prints the lines of the answer.
fn change(server: &AskedServer, path: &str, request: &impl Serialize) -> anyhow::Result<()> {
    let ChangeReport { lines } = server.post(path, request)?;
    lines.iter().for_each(|line| outln!("{line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cli::Arguments;
    use clap::Parser;

    #[test]
    fn a_revocation_needs_a_stateid_or_a_principal() {
        let refused =
            |arguments: &[&str]| Arguments::try_parse_from(arguments).err().map(|error| error.to_string());
        let none = refused(&["orthrus", "revoke"]).expect("it names nothing");
        assert!(none.contains("STATEID") && none.contains("--principal"), "{none}");
        assert_eq!(refused(&["orthrus", "revoke", "--principal", "sys:4"]), None);
        assert_eq!(refused(&["orthrus", "revoke", "07"]), None);
        assert!(refused(&["orthrus", "revoke", "07", "--principal", "sys:4"]).is_some());
    }
}
