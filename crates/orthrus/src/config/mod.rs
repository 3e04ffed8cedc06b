//! The configuration of `orthrus serve`: a TOML file, or folders on the command line.
//!
//! An error names file, line, key and the allowed values. Nothing is guessed, and no key is
//! ignored.

mod check;
mod error;
mod settings;
mod sources;
mod values;

pub(crate) use check::{distinct_pseudo, parse_listen, parse_metrics};
pub(crate) use error::ConfigError;
pub(crate) use settings::{ExportSettings, IdentitySettings, NFS_PORT, Nested, Settings, Storage};
pub(crate) use sources::{SourceSettings, StaticTable};

use std::path::Path;

/// Reads a configuration file.
///
/// # Errors
/// The first thing that is wrong, with its place in the file.
pub(crate) fn read(path: &Path) -> Result<Settings, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
    parse(path, &text)
}

/// Parses a configuration; `path` is for messages and for relative paths in it.
///
/// # Errors
/// As for [`read`].
pub(crate) fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let settings = toml::from_str(text).map_err(|error| ConfigError::from_toml(path, text, &error))?;
    check::complete(path, text, settings)
}

#[cfg(test)]
mod tests;
