//! Requests of administrators to a running server: a line of JSON each way, over a socket in its
//! state folder.

mod ask;
mod id_report;
mod listings;
mod status;

pub(crate) use ask::ask;
pub(crate) use id_report::IdReport;
pub(crate) use listings::{
    ClientRow, ContextRow, DelegationRow, ExportRow, ListingKind, ListingReport, ListingRows, LockRow,
    OpenRow,
};

pub(crate) use status::{FlavorStatus, StatusReport};

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the socket in the state folder.
pub(crate) const SOCKET: &str = "admin.sock";

/// A request to the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum AdminRequest {
    /// Explains the local user of a principal.
    Id {
        /// The principal, such as alice@EXAMPLE.ORG.
        principal: String,
    },
    /// Lists what the server holds.
    List {
        /// The kind of rows.
        kind: ListingKind,
    },
    /// Reports the state and the counters of the server.
    Status,
    /// Removes a client with all of its state.
    Evict {
        /// The clientid4, in hexadecimal.
        client: String,
    },
    /// Applies the configuration file, like SIGHUP.
    Reload,
    /// Refuses new clients and ends with the last one, or admits new ones again.
    Drain {
        /// Whether to admit new clients again.
        cancel: bool,
    },
}

/// The reply to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AdminReply {
    /// The answer to [`AdminRequest::Id`].
    Id(IdReport),
    /// The answer to [`AdminRequest::List`].
    List(ListingReport),
    /// The answer to [`AdminRequest::Status`].
    Status(Box<StatusReport>),
    /// The answer to requests for a change: lines for the administrator.
    Done(Vec<String>),
    /// The reason why the request has no answer.
    Error(String),
}

/// Opens the state folder to reach the socket in it.
pub(crate) fn open_folder(state_dir: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(nix::libc::O_DIRECTORY).open(state_dir)
}

/// Returns a path to the socket that is short enough for an address, whatever the folder's path is.
pub(crate) fn socket_in(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into()
}
