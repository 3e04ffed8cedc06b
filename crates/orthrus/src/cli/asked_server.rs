//! The running server that a command asks.

use crate::api::{self, ApiClient, ApiError};
use crate::config::{self, Settings};
use crate::output::errln;
use crate::serve;
use anyhow::{Context, anyhow};
use nix::unistd::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file of the server that a service manager starts.
pub(super) const USUAL_FILE: &str = "/etc/orthrus/orthrus.toml";

/// The options that name the server.
#[derive(clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct AskedServer {
    /// Read the state directory of the server from this configuration file (default:
    /// /etc/orthrus/orthrus.toml if this user may read it).
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// State directory of the server to ask, instead of that of the file.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl AskedServer {
    /// Asks the server for a report.
    ///
    /// # Errors
    /// The fault in the configuration; no server runs, this user may not ask it, or it refuses.
    pub(super) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> anyhow::Result<T> {
        self.with_remedy(self.client()?.get(path, query))
    }

    /// Asks the server for a report again. Returns `None` if it runs no longer.
    ///
    /// # Errors
    /// As [`AskedServer::get`].
    pub(super) fn get_again<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> anyhow::Result<Option<T>> {
        match self.client()?.get(path, query) {
            Ok(answer) => Ok(Some(answer)),
            Err(ApiError::NoServer(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the server for a change.
    ///
    /// # Errors
    /// As [`AskedServer::get`].
    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        self.with_remedy(self.client()?.post(path, body))
    }

    /// Asks the server for a change that may take some time. The outer error is that of the
    /// configuration.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub(super) fn post_within<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        time: Duration,
    ) -> anyhow::Result<Result<T, ApiError>> {
        Ok(self.client()?.patient(time).post(path, body))
    }

    /// Follows a report line by line, until the server ends or `each` breaks off.
    ///
    /// # Errors
    /// As [`AskedServer::get`].
    pub(super) fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
        each: impl FnMut(T) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        self.with_remedy(self.client()?.follow(path, query, each))
    }

    fn client(&self) -> anyhow::Result<ApiClient> {
        let state_dir = match (&self.state_dir, &self.config) {
            (Some(folder), _) => Some(folder.clone()),
            (None, Some(file)) => config::state_dir_of(file)
                .context("no state directory; --state-dir names that of the server without a file")?,
            (None, None) => usual_state_dir(Path::new(USUAL_FILE)),
        };
        let settings = Settings { state_dir, ..Settings::default() };
        Ok(ApiClient::new(&serve::state_dir(&settings)?))
    }

    fn with_remedy<T>(&self, answer: Result<T, ApiError>) -> anyhow::Result<T> {
        answer.map_err(|error| match error {
            ApiError::NoServer(why) => anyhow!(self.no_server(&why)),
            error => error.into(),
        })
    }

    /// Adds the remedy to the reason why there is no server.
    pub(super) fn no_server(&self, why: &str) -> String {
        match (&self.state_dir, &self.config) {
            (None, Some(_)) => format!(
                "{why}; if `state_dir` has changed since the server was started, name the former one with --state-dir"
            ),
            (None, None) if !geteuid().is_root() => format!(
                "{why}; run the command as root if the server is the machine's, or name its state directory with \
                 --state-dir or --config"
            ),
            _ => format!("{why}; name its state directory with --state-dir or --config"),
        }
    }
}

/// Returns the settings of the usual file for root, and for a user that may ask its server. Others
/// have servers of their own, with the defaults. Faults of the file go to standard error.
pub(super) fn usual_settings(file: &Path) -> Settings {
    let is_asked = nix::unistd::geteuid().is_root() || usual_state_dir(file).is_some();
    let Some((settings, faults)) = is_asked.then(|| config::examine(file).ok()).flatten() else {
        return Settings::default();
    };
    faults.iter().for_each(|fault| errln!("orthrus: {fault}"));
    settings.unwrap_or_default()
}

/// Returns the state directory that the usual file names, if this user can enter it: a server of
/// the user's own has another one.
fn usual_state_dir(file: &Path) -> Option<PathBuf> {
    config::state_dir_of(file).ok().flatten().filter(|folder| api::open_folder(folder).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_is_found_in_a_file_with_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("orthrus.toml");
        for rest in ["nonsense = 7\n", "[[export]]\npath = \"/no/such\"\n", "[[export]\npath = \n"] {
            std::fs::write(&file, format!("state_dir = \"state\"\n{rest}")).expect("it is written");
            let found = config::state_dir_of(&file).expect("it is readable");
            assert_eq!(found, Some(folder.path().join("state")), "{rest}");
        }
        assert_eq!(usual_state_dir(&file), None, "the directory is not there");
        std::fs::create_dir(folder.path().join("state")).expect("it is free");
        assert_eq!(usual_state_dir(&file), Some(folder.path().join("state")));
        assert_eq!(usual_state_dir(&folder.path().join("absent")), None);
    }

    #[test]
    fn the_usual_file_is_read_without_an_export_and_with_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("orthrus.toml");
        let realms = |rest: &str| {
            std::fs::write(&file, format!("state_dir = \"{}\"\n{rest}", folder.path().display()))
                .expect("it is written");
            usual_settings(&file).realms
        };
        assert_eq!(realms("realms = [\"EXAMPLE.ORG\"]\n"), ["EXAMPLE.ORG"]);
        assert_eq!(realms("realms = [\"EXAMPLE.ORG\"]\nnonsense = 7\n"), ["EXAMPLE.ORG"]);
        assert_eq!(usual_settings(&folder.path().join("absent")).realms, [""; 0]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused_with_the_option_that_needs_none() {
        let server = AskedServer { config: Some("/no/such.toml".into()), state_dir: None };
        let error = format!("{:#}", server.client().err().expect("there is no file"));
        assert!(error.contains("--state-dir") && error.contains("/no/such.toml"), "{error}");
        assert!(server.no_server("none").contains("has changed"));
    }
}
