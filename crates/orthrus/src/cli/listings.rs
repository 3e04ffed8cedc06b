//! `orthrus exports`, `clients`, `contexts`, `opens`, `locks` and `delegations`: what a running
//! server holds.

use super::asked_server::AskedServer;
use crate::cli::table::table;
use crate::output::{errln, out, outln};
use crate::requests::{AdminReply, AdminRequest, ExportRow, ListingKind, ListingReport, ListingRows};
use anyhow::bail;

/// The server to ask, and the form of the answer.
#[derive(clap::Args)]
pub(super) struct ListingArguments {
    /// Only rows with this text in a column, such as a path, a principal or an address.
    filter: Option<String>,
    #[command(flatten)]
    server: AskedServer,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl ListingArguments {
    /// Asks the running server and prints its answer.
    ///
    /// # Errors
    /// See [`AskedServer::ask`].
    pub(super) fn run(self, kind: ListingKind) -> anyhow::Result<()> {
        let AdminReply::List(mut report) = self.server.ask(&AdminRequest::List { kind })? else {
            bail!("the server gave another answer: it has another version");
        };
        report.retain(self.filter.as_deref().unwrap_or_default());
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&report)?);
            return Ok(());
        }
        out!("{}", table(std::iter::once(report.head()).chain(report.cells())));
        if report.left_out > 0 {
            errln!("{} more are not listed", report.left_out);
        }
        Ok(())
    }
}

impl ListingReport {
    /// Drops the rows in which no column has the text.
    fn retain(&mut self, text: &str) {
        let mut kept = self.cells().into_iter().map(|row| row.iter().any(|cell| cell.contains(text)));
        let mut keep = move || kept.next().unwrap_or(true);
        match &mut self.rows {
            ListingRows::Exports(rows) => rows.retain(|_| keep()),
            ListingRows::Clients(rows) => rows.retain(|_| keep()),
            ListingRows::Contexts(rows) => rows.retain(|_| keep()),
            ListingRows::Opens(rows) => rows.retain(|_| keep()),
            ListingRows::Locks(rows) => rows.retain(|_| keep()),
            ListingRows::Delegations(rows) => rows.retain(|_| keep()),
        }
    }

    fn head(&self) -> Vec<String> {
        let head = match self.rows {
            ListingRows::Exports(_) => "EXPORT CLIENTS SEC ACCESS SQUASH",
            ListingRows::Clients(_) => {
                "ADDRESS PRINCIPAL VERSION STATE SILENT SESSIONS OPENS LOCKS DELEGATIONS ID OWNER"
            }
            ListingRows::Contexts(_) => "PRINCIPAL UID ENCTYPE DELEGATED EXPIRES SILENT",
            ListingRows::Opens(_) => "ADDRESS USER ACCESS DENY LOCKS EXPORT PATH",
            ListingRows::Locks(_) => "ADDRESS USER KIND FIRST LAST EXPORT PATH",
            ListingRows::Delegations(_) => "ADDRESS PRINCIPAL KIND STATE EXPORT PATH",
        };
        head.split(' ').map(str::to_owned).collect()
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let known = |path: &Option<String>| path.clone().unwrap_or_else(|| "-".to_owned());
        let strings = |cells: &[&dyn ToString]| cells.iter().map(|cell| cell.to_string()).collect();
        match &self.rows {
            ListingRows::Exports(rows) => rows.iter().map(export_cells).collect(),
            ListingRows::Clients(rows) => rows
                .iter()
                .map(|row| {
                    let silent = format!("{} s", row.silent);
                    let counts: [&dyn ToString; 4] =
                        [&row.sessions, &row.opens, &row.locks, &row.delegations];
                    let first: [&dyn ToString; 5] =
                        [&row.address, &row.principal, &row.version, &row.state, &silent];
                    strings(&[&first[..], &counts, &[&row.id, &row.owner]].concat())
                })
                .collect(),
            ListingRows::Contexts(rows) => rows
                .iter()
                .map(|row| {
                    let uid = row.uid.map_or_else(|| "nobody".to_owned(), |uid| uid.to_string());
                    let delegated = if row.delegated { "yes" } else { "no" };
                    let expires = format!("{} s", row.expires);
                    let silent = row.silent.map_or_else(|| "-".to_owned(), |silent| format!("{silent} s"));
                    strings(&[&row.principal, &uid, &row.enctype, &delegated, &expires, &silent])
                })
                .collect(),
            ListingRows::Opens(rows) => rows
                .iter()
                .map(|row| {
                    let path = known(&row.path);
                    strings(&[
                        &row.address,
                        &row.user,
                        &row.access,
                        &row.deny,
                        &row.locks,
                        &row.export,
                        &path,
                    ])
                })
                .collect(),
            ListingRows::Locks(rows) => rows
                .iter()
                .map(|row| {
                    let last = row.last.map_or_else(|| "end".to_owned(), |last| last.to_string());
                    let path = known(&row.path);
                    strings(&[&row.address, &row.user, &row.kind, &row.first, &last, &row.export, &path])
                })
                .collect(),
            ListingRows::Delegations(rows) => rows
                .iter()
                .map(|row| {
                    let path = known(&row.path);
                    strings(&[&row.address, &row.principal, &row.kind, &row.state, &row.export, &path])
                })
                .collect(),
        }
    }
}

fn export_cells(row: &ExportRow) -> Vec<String> {
    let clients = if row.clients.is_empty() { "any".to_owned() } else { row.clients.join(",") };
    let access = if row.read_only { "ro" } else { "rw" };
    let squash = match row.squash.as_str() {
        "none" => "none".to_owned(),
        who => format!("{who} to {}", row.anon_uid),
    };
    // Any program of a client may then name any user.
    let any_port = row.sec.iter().any(|flavor| flavor == "sys") && !row.secure;
    let sec = format!("{}{}", row.sec.join(":"), if any_port { " from any port" } else { "" });
    vec![row.export.clone(), clients, sec, access.to_owned(), squash]
}
