//! Room on a full disk: a file of the state folder gives its blocks to a start, which must write
//! down its number, so that a server that ends on a full disk starts again.

use super::state_dir::write_whole;
use rustix::fs::{FallocateFlags, fallocate};
use std::io::{Error, ErrorKind, Write};
use std::path::Path;

const NAME: &str = "reserve";
/// Bytes of the reserve: enough for the records of a thousand clients. On a disk that is nearly
/// full, it is the first of these for which there is room.
const SIZES: [u64; 3] = [256 << 10, 32 << 10, 4 << 10];

/// Writes files of the folder. If the disk is full, gives up the reserve and tries again.
pub(super) fn write<T>(
    directory: &Path,
    mut write: impl FnMut() -> std::io::Result<T>,
) -> std::io::Result<T> {
    match write() {
        Err(error) if is_full(&error) && std::fs::remove_file(directory.join(NAME)).is_ok() => write(),
        written => written,
    }
}

/// Makes the reserve, as large as there is room for.
pub(super) fn keep(directory: &Path) {
    let path = directory.join(NAME);
    let [whole, ..] = SIZES;
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() >= whole) {
        return;
    }
    let _ = std::fs::remove_file(&path);
    for size in SIZES {
        let kept = write_whole(&path, |file| match fallocate(&*file, FallocateFlags::empty(), 0, size) {
            Err(rustix::io::Errno::OPNOTSUPP) => file.write_all(&vec![0; usize::try_from(size).unwrap_or(0)]),
            kept => Ok(kept?),
        });
        if kept.is_ok() {
            return;
        }
    }
}

/// Checks that a start can write down its number.
///
/// # Errors
/// The disk is full, and there is no reserve.
pub(super) fn examine(directory: &Path) -> std::io::Result<()> {
    if directory.join(NAME).symlink_metadata().is_ok() {
        return Ok(());
    }
    let path = directory.join("check.new");
    let [.., least] = SIZES;
    let written = write_whole(&path, |file| file.write_all(&vec![0; usize::try_from(least).unwrap_or(0)]));
    let _ = std::fs::remove_file(&path);
    written
}

fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_given_up_once_for_what_must_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = folder.path().join(NAME);
        keep(folder.path());
        assert_eq!(reserve.metadata().unwrap().len(), SIZES[0]);
        let mut tries = 0;
        let mut full_until = |tries_max| {
            write(folder.path(), || {
                tries += 1;
                if tries < tries_max { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
            })
        };
        full_until(2).unwrap();
        assert!(!reserve.exists());
        full_until(9).unwrap_err();
        assert_eq!(tries, 3, "without a reserve there is one try");
    }
}
