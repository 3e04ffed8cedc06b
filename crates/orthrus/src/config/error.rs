//! Errors of a configuration, and their places.

use super::faults;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read", .file.display())]
    Unreadable {
        /// The file that cannot be read.
        file: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// A place in the file is wrong.
    #[error("{}:{line}: {}{message}", .file.display(), key_prefix(.key))]
    At {
        /// The file with the syntax error.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key on that line, empty when the line has none.
        key: String,
        /// The error and the allowed values.
        message: String,
    },
    /// The settings do not fit together.
    #[error("{}: {message}", .file.display())]
    Whole {
        /// The file with the invalid value.
        file: PathBuf,
        /// The error and the allowed values.
        message: String,
    },
}

fn key_prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("key `{key}`: ") }
}

impl ConfigError {
    /// Makes an error at a span of the text.
    pub(super) fn at(file: &Path, text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let key = text.lines().nth(line - 1).map(key_of).unwrap_or_default();
        Self::At { file: file.to_owned(), line, key, message: message.into() }
    }

    /// Makes an error at a key of the table at `offset`, or at the table if the key has no line.
    pub(super) fn at_key(file: &Path, text: &str, offset: usize, key: &str, message: String) -> Self {
        let mut start = offset;
        for line in text.get(offset..).unwrap_or_default().split_inclusive('\n') {
            if key_of(line) == key {
                return Self::at(file, text, start..start, message);
            }
            start += line.len();
        }
        Self::at(file, text, offset..offset, message)
    }

    /// Makes the error of a file that is no text.
    pub(super) fn not_utf8(file: &Path, error: &FromUtf8Error) -> Self {
        let (good, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = "a character is not in UTF-8; save the file in that encoding".to_owned();
        Self::At { file: file.to_owned(), line, key: String::new(), message }
    }

    /// Turns the parser's error into one of ours.
    pub(super) fn from_toml(file: &Path, text: &str, error: &toml::de::Error) -> Self {
        if let Some((span, message)) = faults::explain(text, error) {
            return Self::at(file, text, span, message);
        }
        let message = error.message().trim_end().replace('\n', "; ");
        match error.span() {
            Some(span) => Self::at(file, text, span, message),
            None => Self::Whole { file: file.to_owned(), message },
        }
    }
}

/// Returns the key that a line sets, or the name of the table that it opens.
pub(super) fn key_of(line: &str) -> String {
    let line = line.trim();
    if let Some(table) = line.strip_prefix('[') {
        let name = table.trim_start_matches('[').split(']').next();
        return name.unwrap_or_default().trim().to_owned();
    }
    line.split_once('=').map(|(key, _)| key.trim().to_owned()).unwrap_or_default()
}
