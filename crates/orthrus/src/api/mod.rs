//! The admin API as both ends see it: requests and answers, and the client of the command line.
//!
//! HTTP/1.1 and JSON on a Unix socket in the state directory; docs/api.md describes it.

mod changes;
mod client;
mod id_report;
mod listings;
mod problem;
mod status;
mod trace;
mod upgrade;
mod warnings;

pub(crate) use changes::{ChangeReport, DrainRequest, EvictRequest, RevokeRequest, WebLink};
pub(crate) use client::{ApiClient, ApiError};
#[cfg(test)]
pub(crate) use id_report::ReportStep;
pub(crate) use id_report::{IdReport, IdentityQuery, Numbers};
pub(crate) use listings::{
    Backchannel, ClientRow, ContextRow, DelegationRow, ExportRow, ListingQuery, ListingReport, LockRow,
    OpenRow, SessionRow,
};
pub(crate) use problem::Problem;
pub(crate) use status::{
    ClusterMember, ClusterReport, ExportStatus, FileStatus, FlavorStatus, ReloadStatus, StatusReport,
};
pub(crate) use trace::{TraceLine, TraceQuery, TracedOperation};
pub(crate) use upgrade::{UpgradeOutcome, UpgradeReport, UpgradeRequest};
pub(crate) use warnings::{Warning, warnings, watched};

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the socket in the state directory.
pub(crate) const SOCKET: &str = "admin.sock";

/// Opens the state directory to reach the socket in it.
pub(crate) fn open_folder(state_dir: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(nix::libc::O_DIRECTORY).open(state_dir)
}

/// Returns a path to the socket that is short enough for an address, whatever the directory's path
/// is.
pub(crate) fn socket_in(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into()
}
