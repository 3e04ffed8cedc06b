//! The errors of a cluster and their remedies.

use std::io;
use std::path::{Path, PathBuf};

/// A failure to start or change a cluster.
#[derive(Debug, thiserror::Error)]
pub enum MiniCephError {
    /// A program of Ceph is not installed.
    #[error("{program} is not installed: apt install {package}")]
    Missing {
        /// The name of the program.
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// Another user could read or replace the keys.
    #[error("no cluster here: {0}")]
    NotPrivate(#[from] private::PrivateError),
    /// A program of Ceph failed.
    #[error("{program} failed: {output}")]
    Program {
        /// The name of the program.
        program: &'static str,
        /// The end of its output.
        output: String,
    },
    /// A daemon ended, or did not become ready in time.
    #[error("{daemon} is not ready: {why}; its log ends with: {log}")]
    Daemon {
        /// The name of the daemon.
        daemon: String,
        /// The event that ended the wait.
        why: String,
        /// The last lines of its log.
        log: String,
    },
    /// The caller wanted the start to end.
    #[error("interrupted while the cluster started")]
    Interrupted,
    /// Ceph's library cannot be loaded.
    #[error(transparent)]
    Library(#[from] ceph::LibraryError),
    /// The file system cannot be mounted.
    #[error(transparent)]
    CephMount(#[from] ceph::fs::MountError),
    /// Reading or writing a file, or starting a process, failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or the program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl MiniCephError {
    /// Adds the path to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
