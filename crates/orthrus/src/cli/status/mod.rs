//! `orthrus status`: what a running server does now.

mod view;
mod warnings;

use super::asked_server::AskedServer;
use super::stop::stop_flag;
use crate::output::{out, outln};
use crate::requests::{AdminReply, AdminRequest, StatusReport};
use anyhow::bail;
use std::io::IsTerminal;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use view::StatusView;

/// Time between two looks at the server: rates are means of this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Moves the cursor of a terminal to its first place, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Show what a running server does: rates, flavors, the cost of encryption, and warnings.
///
/// At a terminal it shows the last second, every second, until Ctrl-C. Elsewhere, and with --once,
/// it shows one second and ends.
///
/// The columns of a flavor are microseconds for each request: `TIME` of the server's threads,
/// `PROTECTION` of it for signing and encryption, and `WAITING` for a thread or a disk.
#[derive(clap::Args)]
pub(super) struct StatusArguments {
    /// Show one second and end.
    #[arg(long)]
    once: bool,
    /// Print the counters since the start as one JSON object and end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: AskedServer,
}

impl StatusArguments {
    /// Asks the server, and shows its answers.
    ///
    /// # Errors
    /// See [`AskedServer::ask`].
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut before = self.ask()?;
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&before)?);
            return Ok(());
        }
        let live = std::io::stdout().is_terminal() && !self.once;
        let stop = stop_flag()?;
        loop {
            std::thread::sleep(INTERVAL);
            if stop.load(Relaxed) {
                return Ok(());
            }
            let now = self.ask()?;
            let view = StatusView::between(&before, &now);
            out!("{}{view}", if live { CLEAR } else { "" });
            if !live {
                return Ok(());
            }
            before = now;
        }
    }

    fn ask(&self) -> anyhow::Result<StatusReport> {
        match self.server.ask(&AdminRequest::Status)? {
            AdminReply::Status(report) => Ok(*report),
            _ => bail!("the server gave another answer: it has another version"),
        }
    }
}
