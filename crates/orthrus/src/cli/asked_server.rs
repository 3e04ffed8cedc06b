//! The running server that a command asks.

use crate::api::{ApiClient, ApiError};
use crate::config::{self, Settings};
use crate::serve;
use anyhow::bail;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Asks the server for a report.
    ///
    /// # Errors
    /// The fault in the configuration; no server runs, this user may not ask it, or it refuses.
    pub(super) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> anyhow::Result<T> {
        with_remedy(self.client()?.get(path, query))
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
        with_remedy(self.client()?.post(path, body))
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

    /// Follows a report line by line, until the server ends.
    ///
    /// # Errors
    /// As [`AskedServer::get`].
    pub(super) fn follow<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<&str>)],
        each: impl FnMut(T),
    ) -> anyhow::Result<()> {
        with_remedy(self.client()?.follow(path, query, each))
    }

    fn client(&self) -> anyhow::Result<ApiClient> {
        let mut settings = match &self.config {
            Some(file) => config::read(file)?,
            None => Settings::default(),
        };
        settings.state_dir = self.state_dir.clone().or(settings.state_dir);
        Ok(ApiClient::new(&serve::state_dir(&settings)?))
    }
}

fn with_remedy<T>(answer: Result<T, ApiError>) -> anyhow::Result<T> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(ApiError::NoServer(why)) => {
            bail!("{why}; name its state directory with --state-dir or --config")
        }
        Err(error) => Err(error.into()),
    }
}
