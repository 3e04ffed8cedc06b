//! `orthrus evict`, `orthrus reload` and `orthrus drain`: changes of a running server.

use super::asked_server::AskedServer;
use crate::output::outln;
use crate::requests::{AdminReply, AdminRequest, ListingKind, ListingRows};
use anyhow::bail;
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

/// Have a running server take no new clients, and end when the last one has left.
///
/// Clients that are known go on until they unmount. Clients that have been silent for a lease do
/// not count. Prints how many are left, and returns when the server has ended. Ctrl-C ends the
/// command alone, not the drain.
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
    /// Has the server drain, and waits for its end.
    ///
    /// # Errors
    /// See [`AskedServer::ask`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        change(&self.server, &AdminRequest::Drain { cancel: self.cancel })?;
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
        let list = AdminRequest::List { kind: ListingKind::Clients };
        match self.server.ask_again(&list)? {
            None => Ok(None),
            Some(AdminReply::List(report)) => match report.rows {
                ListingRows::Clients(rows) => {
                    Ok(Some(rows.iter().filter(|row| row.state == "active").count()))
                }
                _ => bail!("the server gave another answer: it has another version"),
            },
            Some(_) => bail!("the server gave another answer: it has another version"),
        }
    }
}

/// Asks for a change, and prints the lines of the answer.
fn change(server: &AskedServer, request: &AdminRequest) -> anyhow::Result<()> {
    match server.ask(request)? {
        AdminReply::Done(lines) => lines.iter().for_each(|line| outln!("{line}")),
        _ => bail!("the server gave another answer: it has another version"),
    }
    Ok(())
}
