//! The configuration of `orthrus serve`: a TOML file, or folders on the command line.
//!
//! An error names file, line, key and the allowed values. Nothing is guessed, and no key is
//! ignored.

mod check;
mod clients;
mod error;
mod faults;
mod folders;
mod keys;
mod limits;
mod locations;
mod recover;
mod rules;
mod settings;
mod sources;
mod values;

pub(crate) use check::{check_ceph_cluster, distinct_pseudo, hidden_remedy, parse_listen, parse_metrics};
pub(crate) use clients::ClientPattern;
pub(crate) use error::ConfigError;
pub(crate) use keys::{
    ConfigKey, FoundKey, all as all_keys, example, find as find_key, nearest as nearest_key,
};
pub(crate) use rules::ExportTerms;
pub(crate) use settings::{
    AuditTarget, CephStorage, ClusterSettings, ExportSettings, IdentitySettings, Limits, NFS_PORT, Nested,
    Sandbox, Settings, Storage, WebTls,
};
pub(crate) use sources::{SourceSettings, StaticTable};
pub(crate) use values::{MEMORY, check_principal};

use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// Reads a configuration file.
///
/// # Errors
/// The first thing that is wrong, with its place in the file.
pub(crate) fn read(path: &Path) -> Result<Settings, ConfigError> {
    parse(path, &text_of(path)?)
}

/// Reads a configuration file, and returns the settings that are of use with the errors of the
/// others. There are no settings if the syntax is wrong.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn examine(path: &Path) -> Result<(Option<Settings>, Vec<ConfigError>), ConfigError> {
    Ok(parse_all(path, &text_of(path)?))
}

/// Reads the state directory of a configuration file, whatever else is wrong in it.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn state_dir_of(path: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let text = text_of(path)?;
    let (table, _) = DeTable::parse_recoverable(&text);
    let named = table.get_ref().get("state_dir").and_then(|value| value.get_ref().as_str());
    Ok(named.map(|named| path.parent().unwrap_or(Path::new("")).join(named)))
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    let bytes =
        std::fs::read(path).map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| ConfigError::not_utf8(path, &error))
}

/// Parses a configuration; `path` is for messages and for relative paths in it.
fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let settings = toml::from_str(text).map_err(|error| ConfigError::from_toml(path, text, &error))?;
    let (settings, errors) = check::complete(path, text, settings);
    errors.into_iter().next().map_or(Ok(settings), Err)
}

fn parse_all(path: &Path, text: &str) -> (Option<Settings>, Vec<ConfigError>) {
    let (settings, mut errors) = recover::read(path, text);
    let Some(settings) = settings else { return (None, errors) };
    let (settings, others) = check::complete(path, text, settings);
    // Exports that are wrong were left out.
    let follows = |error: &ConfigError| matches!(error, ConfigError::Whole { .. }) && !errors.is_empty();
    let others: Vec<_> = others.into_iter().filter(|error| !follows(error)).collect();
    errors.extend(others);
    (Some(settings), errors)
}

#[cfg(test)]
mod tests;
