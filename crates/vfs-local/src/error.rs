//! The reasons why a directory cannot be exported.

use crate::sys;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Says why a directory cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The directory cannot be opened.
    #[error("cannot open the directory {path}: {reason}")]
    Open {
        /// The folder to export.
        path: PathBuf,
        /// The kernel's error when the folder was opened.
        reason: std::io::Error,
    },
    /// The path leads through a link that clients may have made.
    #[error(
        "cannot open the directory {path}: {link} is a symbolic link in another export, whose clients may have made \
         it; remove the link, or name the directory that it should lead to"
    )]
    LinkOfClients {
        /// The folder to export.
        path: PathBuf,
        /// The symbolic link on the way to it.
        link: PathBuf,
    },
    /// The file system has no file handles.
    #[error(
        "{path} cannot be exported: its file system gives no file handles, so clients could not keep files open across a restart. \
         Export a directory on ext4, xfs, btrfs or tmpfs; an overlay has handles when it is mounted with index=on,nfs_export=on"
    )]
    NoHandles {
        /// The folder to export.
        path: PathBuf,
    },
    /// The handles of the file system do not fit into those of NFSv4.
    #[error(
        "{path} cannot be exported: its file system gives no file handle of at most {} bytes, the longest that fit \
         into those of NFSv4",
        sys::FS_HANDLE_MAX
    )]
    LongHandles {
        /// The folder to export.
        path: PathBuf,
    },
    /// /proc is not there.
    #[error(
        "/proc is not mounted: mount it (mount -t proc proc /proc), the server reaches open objects through it ({0})"
    )]
    NoProc(std::io::Error),
}

impl LocalError {
    /// Returns the error for a folder of which the kernel gives no handle.
    pub(crate) fn no_handle(path: &Path, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::OVERFLOW => Self::LongHandles { path },
            _ => Self::NoHandles { path },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_that_are_too_long_are_told_from_those_that_are_missing() // name_to_handle_at(2)
    {
        let text = |errno| LocalError::no_handle(Path::new("/x"), errno).to_string();
        assert!(text(Errno::OVERFLOW).contains("at most 85 bytes"), "{}", text(Errno::OVERFLOW));
        assert!(text(Errno::OPNOTSUPP).contains("gives no file handles"), "{}", text(Errno::OPNOTSUPP));
    }
}
