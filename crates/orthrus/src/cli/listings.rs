//! `orthrus exports`, `clients`, `sessions`, `contexts`, `opens`, `locks` and `delegations`: what a
//! running server holds.

use super::asked_server::AskedServer;
use crate::api::{
    ClientRow, ContextRow, DelegationRow, ExportRow, ListingReport, LockRow, OpenRow, SessionRow,
};
use crate::cli::table::{duration, table};
use crate::output::{errln, out, outln};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use terminal::escape_json;

/// The server to ask, and the form of the answer.
#[derive(clap::Args)]
pub(super) struct ListingArguments {
    /// Only rows with this text in a field, such as a path, a principal or an address.
    filter: Option<String>,
    /// Only rows of this client: its address, or its ID as `orthrus clients` shows it.
    #[arg(long, value_name = "CLIENT", value_parser = parse_client)]
    client: Option<String>,
    /// Only rows of this principal, such as alice@EXAMPLE.ORG or sys:1000.
    #[arg(long)]
    principal: Option<String>,
    /// Only rows of this export, by the path that clients mount.
    #[arg(long, value_name = "PATH")]
    export: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: AskedServer,
}

/// Checks that a text is an address or an ID of a client: no row has another one.
fn parse_client(text: &str) -> Result<String, String> {
    let is_id = text.len() == 16 && text.chars().all(|digit| digit.is_ascii_hexdigit());
    if is_id || text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("must be an address, or an ID as `orthrus clients` shows it".to_owned())
}

impl ListingArguments {
    /// Asks the running server and prints its answer.
    ///
    /// # Errors
    /// See [`AskedServer::get`].
    pub(super) fn run<R: ListingRow>(self) -> anyhow::Result<()> {
        let query = [
            ("filter", self.filter.as_deref()),
            ("client", self.client.as_deref()),
            ("principal", self.principal.as_deref()),
            ("export", self.export.as_deref()),
        ];
        let listing: ListingReport<R> = self.server.get(R::PATH, &query)?;
        if self.json {
            outln!("{}", escape_json(&serde_json::to_string_pretty(&listing)?));
            return Ok(());
        }
        let head = R::HEAD.split(' ').map(str::to_owned).collect();
        out!("{}", table(std::iter::once(head).chain(listing.rows.iter().map(ListingRow::cells))));
        if listing.left_out > 0 {
            errln!("{} more are not listed", listing.left_out);
        }
        Ok(())
    }
}

/// A row of a listing.
pub(super) trait ListingRow: Serialize + DeserializeOwned {
    /// The request for the listing.
    const PATH: &str;
    /// The titles of the columns, separated by spaces.
    const HEAD: &str;

    /// Returns the text of each column.
    fn cells(&self) -> Vec<String>;
}

/// Formats cells of different types.
fn cells(cells: &[&dyn ToString]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

fn known(path: &Option<String>) -> String {
    path.clone().unwrap_or_else(|| "-".to_owned())
}

impl ListingRow for ExportRow {
    const PATH: &str = "/v1/exports";
    const HEAD: &str = "EXPORT FSID CLIENTS SEC ACCESS SQUASH";

    fn cells(&self) -> Vec<String> {
        let clients = if self.clients.is_empty() { "any".to_owned() } else { self.clients.join(",") };
        let access = if self.read_only { "ro" } else { "rw" };
        let squash = match self.squash.as_str() {
            "none" => "none".to_owned(),
            who => format!("{who} to {}", self.anon_uid),
        };
        // Any program of a client may then name any user.
        let any_port = self.sec.iter().any(|flavor| flavor == "sys") && !self.secure;
        let sec = format!("{}{}", self.sec.join(":"), if any_port { " from any port" } else { "" });
        if !self.refer.is_empty() {
            let refer = format!("refer to {}", self.refer.join(","));
            return cells(&[&self.export, &self.fsid, &clients, &sec, &refer, &"-"]);
        }
        cells(&[&self.export, &self.fsid, &clients, &sec, &access, &squash])
    }
}

impl ListingRow for ClientRow {
    const PATH: &str = "/v1/clients";
    const HEAD: &str = "ADDRESS PRINCIPAL VERSION STATE SILENT SESSIONS OPENS LOCKS DELEGATIONS ID OWNER";

    fn cells(&self) -> Vec<String> {
        cells(&[
            &self.address,
            &self.principal,
            &self.version,
            &self.state,
            &duration(self.silent),
            &self.sessions,
            &self.opens,
            &self.locks,
            &self.delegations,
            &self.id,
            &self.owner,
        ])
    }
}

impl ListingRow for SessionRow {
    const PATH: &str = "/v1/sessions";
    const HEAD: &str = "ADDRESS PRINCIPAL VERSION CONNECTIONS SLOTS FLAVORS BACKCHANNEL CLIENT SESSION";

    fn cells(&self) -> Vec<String> {
        let backchannel = match &self.backchannel {
            None => "none".to_owned(),
            Some(channel) => format!("{} {}", channel.state, channel.flavors.join(":")).trim_end().to_owned(),
        };
        let flavors = if self.flavors.is_empty() { "-".to_owned() } else { self.flavors.join(":") };
        let slots = format!("{}/{}", self.slots_running, self.slots_granted);
        cells(&[
            &self.address,
            &self.principal,
            &self.version,
            &self.connections,
            &slots,
            &flavors,
            &backchannel,
            &self.client,
            &self.session,
        ])
    }
}

impl ListingRow for ContextRow {
    const PATH: &str = "/v1/contexts";
    const HEAD: &str = "PRINCIPAL UID ENCTYPE DELEGATED EXPIRES SILENT";

    fn cells(&self) -> Vec<String> {
        let uid = self.uid.map_or_else(|| "nobody".to_owned(), |uid| uid.to_string());
        let delegated = if self.delegated { "yes" } else { "no" };
        let silent = self.silent.map_or_else(|| "-".to_owned(), duration);
        cells(&[&self.principal, &uid, &self.enctype, &delegated, &duration(self.expires), &silent])
    }
}

impl ListingRow for OpenRow {
    const PATH: &str = "/v1/opens";
    const HEAD: &str = "ADDRESS USER ACCESS DENY LOCKS STATEID EXPORT PATH";

    fn cells(&self) -> Vec<String> {
        cells(&[
            &self.address,
            &self.user,
            &self.access,
            &self.deny,
            &self.locks,
            &self.stateid,
            &self.export,
            &known(&self.path),
        ])
    }
}

impl ListingRow for LockRow {
    const PATH: &str = "/v1/locks";
    const HEAD: &str = "ADDRESS USER KIND FIRST LAST STATEID EXPORT PATH";

    fn cells(&self) -> Vec<String> {
        let last = self.last.map_or_else(|| "end".to_owned(), |last| last.to_string());
        cells(&[
            &self.address,
            &self.user,
            &self.kind,
            &self.first,
            &last,
            &self.stateid,
            &self.export,
            &known(&self.path),
        ])
    }
}

impl ListingRow for DelegationRow {
    const PATH: &str = "/v1/delegations";
    const HEAD: &str = "ADDRESS USER KIND STATE STATEID EXPORT PATH";

    fn cells(&self) -> Vec<String> {
        cells(&[
            &self.address,
            &self.user,
            &self.kind,
            &self.state,
            &self.stateid,
            &self.export,
            &known(&self.path),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_or_an_id() {
        for good in ["10.78.0.2", "2001:db8::1", "00000000deadbeef"] {
            assert_eq!(parse_client(good).as_deref(), Ok(good));
        }
        for wrong in ["10.78.0.999", "node", "deadbeef", ""] {
            assert!(parse_client(wrong).is_err(), "{wrong}");
        }
    }
}
