//! What can go wrong with a realm, and what helps.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a realm could not be made, opened or removed.
#[derive(Debug, thiserror::Error)]
pub enum RealmError {
    /// A program of MIT Kerberos is not installed.
    #[error("{tool} is not installed: apt install {package}")]
    Missing {
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// Another user could read or exchange the realm's keys.
    #[error("no realm here: {0}")]
    NotPrivate(#[from] private::PrivateError),
    /// The folder has other things in it.
    #[error("{} exists and is no realm of ours: give a new or an empty folder", .0.display())]
    Foreign(PathBuf),
    /// The folder is a realm already.
    #[error("{} is a realm already: `orthrus realm down` removes it", .0.display())]
    Exists(PathBuf),
    /// The folder is no realm.
    #[error("{} is no realm: it has no file {}", .0.display(), crate::folder::MARKER)]
    NotARealm(PathBuf),
    /// An option's value would not do.
    #[error("{what} {value:?}: {rule}")]
    Option {
        /// Which option.
        what: &'static str,
        /// What it was given.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// The address asked for is taken, or no free port was found.
    #[error("no KDC can listen on {address}: {why}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system or the KDC said.
        why: String,
    },
    /// A program of MIT Kerberos failed.
    #[error("{tool} failed: {output}")]
    Tool {
        /// The program.
        tool: &'static str,
        /// The end of what it printed.
        output: String,
    },
    /// Reading or writing failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl RealmError {
    /// Names the file with an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
