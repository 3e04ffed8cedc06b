//! `orthrus clients`, `opens`, `locks` and `delegations`: what a running server holds.

use crate::cli::table::table;
use crate::config::{self, Settings};
use crate::requests::{self, AdminReply, AdminRequest, ListingKind, ListingReport, ListingRows};
use crate::serve;
use anyhow::bail;
use std::path::PathBuf;

/// The server to ask, and the form of the answer.
#[derive(clap::Args)]
pub(super) struct ListingArguments {
    /// Only rows with this text in a column, such as a path, a principal or an address.
    filter: Option<String>,
    /// Read the state directory of the server from this configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// State directory of the server to ask, instead of that of the file.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl ListingArguments {
    /// Asks the running server and prints its answer.
    ///
    /// # Errors
    /// The fault in the configuration; no server runs, or this user may not ask it.
    pub(super) fn run(self, kind: ListingKind) -> anyhow::Result<()> {
        let mut settings = match &self.config {
            Some(file) => config::read(file)?,
            None => Settings::default(),
        };
        settings.state_dir = self.state_dir.clone().or(settings.state_dir);
        let folder = serve::state_dir(&settings)?;
        let mut report = match requests::ask(&folder, &AdminRequest::List { kind })? {
            Ok(AdminReply::List(report)) => report,
            Ok(AdminReply::Error(why)) => bail!("the server of {}: {why}", folder.display()),
            Ok(AdminReply::Id(_)) => bail!("the server of {} gave another answer", folder.display()),
            Err(why) => bail!("{why}; name its state directory with --state-dir or --config"),
        };
        report.retain(self.filter.as_deref().unwrap_or_default());
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
            return Ok(());
        }
        print!("{}", table(std::iter::once(report.head()).chain(report.cells())));
        if report.left_out > 0 {
            eprintln!("{} more are not listed", report.left_out);
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
            ListingRows::Clients(rows) => rows.retain(|_| keep()),
            ListingRows::Opens(rows) => rows.retain(|_| keep()),
            ListingRows::Locks(rows) => rows.retain(|_| keep()),
            ListingRows::Delegations(rows) => rows.retain(|_| keep()),
        }
    }

    fn head(&self) -> Vec<String> {
        let head = match self.rows {
            ListingRows::Clients(_) => {
                "ADDRESS PRINCIPAL VERSION STATE SILENT SESSIONS OPENS LOCKS DELEGATIONS ID OWNER"
            }
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
