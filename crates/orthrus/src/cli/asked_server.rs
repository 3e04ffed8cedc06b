//! The running server that a command asks.

use crate::config::{self, Settings};
use crate::requests::{self, AdminReply, AdminRequest};
use crate::serve;
use anyhow::bail;
use std::path::{Path, PathBuf};

/// The options that name the server.
#[derive(clap::Args)]
pub(super) struct AskedServer {
    /// Read the state directory of the server from this configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// State directory of the server to ask, instead of that of the file.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl AskedServer {
    /// Asks the server.
    ///
    /// # Errors
    /// The fault in the configuration; no server runs, this user may not ask it, or it refuses.
    pub(super) fn ask(&self, request: &AdminRequest) -> anyhow::Result<AdminReply> {
        let folder = self.folder()?;
        match requests::ask(&folder, request)? {
            Ok(reply) => checked(reply, &folder),
            Err(why) => bail!("{why}; name its state directory with --state-dir or --config"),
        }
    }

    /// Asks the server again. Returns `None` if it runs no longer.
    ///
    /// # Errors
    /// As [`AskedServer::ask`].
    pub(super) fn ask_again(&self, request: &AdminRequest) -> anyhow::Result<Option<AdminReply>> {
        let folder = self.folder()?;
        match requests::ask(&folder, request)? {
            Ok(reply) => checked(reply, &folder).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Returns the state directory of the server.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let mut settings = match &self.config {
            Some(file) => config::read(file)?,
            None => Settings::default(),
        };
        settings.state_dir = self.state_dir.clone().or(settings.state_dir);
        serve::state_dir(&settings)
    }
}

/// Returns the reply unless it is an error.
fn checked(reply: AdminReply, folder: &Path) -> anyhow::Result<AdminReply> {
    match reply {
        AdminReply::Error(why) => bail!("the server of {}: {why}", folder.display()),
        reply => Ok(reply),
    }
}
