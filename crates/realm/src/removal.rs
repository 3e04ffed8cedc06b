//! Removal of files and folders that may be gone already.

use crate::RealmError;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Removes a file, if it is there.
pub(crate) fn remove_file(path: &Path) -> Result<(), RealmError> {
    checked(path, fs::remove_file(path))
}

/// Removes an empty folder, if it is there.
pub(crate) fn remove_folder(path: &Path) -> Result<(), RealmError> {
    checked(path, fs::remove_dir(path))
}

fn checked(path: &Path, removed: io::Result<()>) -> Result<(), RealmError> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(RealmError::io(path)(error)),
        _ => Ok(()),
    }
}
