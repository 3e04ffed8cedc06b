//! Folders and files that no other user of the machine can read or replace.
//!
//! Trials, benchmarks and tests often run as root, and keep keys, tickets and exports in private
//! folders. [`claim`] creates a folder or accepts an existing safe one, [`temporary`] creates one
//! that is removed on drop, and [`check`] checks an existing one.
//!
//! A folder is private if its user owns it, others have no permission for it, and no other user can
//! replace it or a folder above it: root or the user own all of these, and no other user may rename
//! their entries.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The mode of a private folder.
const FOLDER_MODE: u32 = 0o700;
/// The mode of a private file.
const FILE_MODE: u32 = 0o600;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;
/// Search permission of group and others.
const OTHERS_SEARCH: u32 = 0o011;
/// Only owners may rename and remove entries of a folder with this bit.
const STICKY: u32 = 0o1000;

/// The reason why a folder is not private.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// The path is a link, whose owner can change its target later.
    #[error("{} is a symbolic link: name the folder itself", .0.display())]
    Link(PathBuf),
    /// The path is not a folder.
    #[error("{} is no folder: give a new or an empty one", .0.display())]
    NotAFolder(PathBuf),
    /// The owner of the folder could read or replace its contents.
    #[error(
        "{} belongs to user {owner}, who could read or exchange what is in it: give a folder of your own, or work as that user",
        path.display()
    )]
    Owner {
        /// The folder, or one above it.
        path: PathBuf,
        /// The numeric id of the owner.
        owner: u32,
    },
    /// Other users could replace the folder.
    #[error("other users may write to {}: give another folder, or take that away (chmod go-w {})", .0.display(), .0.display())]
    Writable(PathBuf),
    /// Other users could read the folder.
    #[error("other users may read {}: take that away (chmod 700 {})", .0.display(), .0.display())]
    Readable(PathBuf),
    /// No folder can be made in the place of temporary ones.
    #[error("{}: {source}; make room there, or name another folder by TMPDIR", path.display())]
    Temporary {
        /// The place of temporary folders.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PrivateError {
    move |source| PrivateError::Io { path: path.to_owned(), source }
}

/// Creates a private folder and its parents, or accepts an existing folder of this user and removes
/// the permissions of group and others. Returns whether it was created.
///
/// # Errors
/// A link, a folder of another user or one that others may write to, each with its remedy.
pub fn claim(dir: &Path) -> Result<bool, PrivateError> {
    let made = !dir.exists() && !dir.is_symlink();
    if made {
        let dir = std::path::absolute(dir).map_err(io_error(dir))?;
        let base = dir.ancestors().find(|above| above.exists()).unwrap_or(&dir);
        let base = base.canonicalize().map_err(io_error(base))?;
        above(&base.join("new"), rustix::process::geteuid().as_raw())?;
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&dir).map_err(io_error(&dir))?;
    }
    // A created folder is checked as well, since another user may have acted meanwhile.
    match check(dir) {
        Err(PrivateError::Readable(_)) => {
            fs::set_permissions(dir, Permissions::from_mode(FOLDER_MODE)).map_err(io_error(dir))?;
            Ok(made)
        }
        found => found.map(|()| made),
    }
}

/// Checks that a folder is private.
///
/// # Errors
/// The violated condition and its remedy.
pub fn check(dir: &Path) -> Result<(), PrivateError> {
    let found = fs::symlink_metadata(dir).map_err(io_error(dir))?;
    if found.is_symlink() {
        return Err(PrivateError::Link(dir.to_owned()));
    }
    if !found.is_dir() {
        return Err(PrivateError::NotAFolder(dir.to_owned()));
    }
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me {
        return Err(PrivateError::Owner { path: dir.to_owned(), owner: found.uid() });
    }
    if found.mode() & 0o022 != 0 {
        return Err(PrivateError::Writable(dir.to_owned()));
    }
    above(&dir.canonicalize().map_err(io_error(dir))?, me)?;
    if found.mode() & OTHERS != 0 { Err(PrivateError::Readable(dir.to_owned())) } else { Ok(()) }
}

/// Creates a private temporary folder in the default place, which is removed on drop.
///
/// # Errors
/// The same as [`temporary_in`], with the remedy.
pub fn temporary(prefix: &str) -> Result<TempDir, PrivateError> {
    temporary_in(prefix, &std::env::temp_dir()).map_err(with_remedy)
}

fn with_remedy(error: PrivateError) -> PrivateError {
    match error {
        PrivateError::Io { path, source } => PrivateError::Temporary { path, source },
        other => other,
    }
}

/// Creates a private temporary folder in `parent`, which is removed on drop.
///
/// # Errors
/// An error if the folder cannot be created, or if another user could replace it.
pub fn temporary_in(prefix: &str, parent: &Path) -> Result<TempDir, PrivateError> {
    let mode = Permissions::from_mode(FOLDER_MODE);
    let made = tempfile::Builder::new().prefix(prefix).permissions(mode).tempdir_in(parent);
    let made = made.map_err(io_error(parent))?;
    check(made.path())?;
    Ok(made)
}

/// Writes a new file that only this user may read.
///
/// # Errors
/// `AlreadyExists` if the name exists, even as a link, and any other I/O error.
pub fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(contents)
}

/// Checks the parent folders from the root down. Permissions do not matter below a folder that
/// others cannot enter.
fn above(whole: &Path, me: u32) -> Result<(), PrivateError> {
    let parents: Vec<&Path> = whole.ancestors().skip(1).collect();
    for parent in parents.into_iter().rev() {
        let found = fs::metadata(parent).map_err(io_error(parent))?;
        if ![0, me].contains(&found.uid()) {
            return Err(PrivateError::Owner { path: parent.to_owned(), owner: found.uid() });
        }
        if may_rename(&found) {
            return Err(PrivateError::Writable(parent.to_owned()));
        }
        if found.mode() & OTHERS_SEARCH == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns whether others may replace entries that they do not own. The user's own group counts as
/// the user: many systems create a group per user, with a umask that permits its writes.
fn may_rename(folder: &Metadata) -> bool {
    let group = folder.mode() & 0o020 != 0 && folder.gid() != rustix::process::getegid().as_raw();
    let others = folder.mode() & 0o002 != 0;
    (group || others) && folder.mode() & STICKY == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_folder_and_those_above_it_are_private() {
        let above = temporary("private-").unwrap();
        assert_eq!(mode(above.path()), 0o700);
        let dir = above.path().join("a/b");
        assert!(claim(&dir).unwrap());
        assert_eq!((mode(&dir), mode(&above.path().join("a"))), (0o700, 0o700));
        assert!(!claim(&dir).unwrap());
        check(&dir).unwrap();
    }

    #[test]
    fn a_place_without_temporary_folders_is_named_with_the_remedy() {
        let absent = || temporary_in("private-", Path::new("/no/such/place"));
        let error = with_remedy(absent().unwrap_err()).to_string();
        assert!(error.starts_with("/no/such/place: ") && error.ends_with("by TMPDIR"), "{error}");
        assert!(!absent().unwrap_err().to_string().contains("TMPDIR"));
    }

    #[test]
    fn a_folder_that_others_may_read_becomes_private_when_it_is_claimed() {
        let above = temporary("private-").unwrap();
        let dir = above.path().join("dir");
        fs::create_dir(&dir).unwrap();
        set_mode(&dir, 0o755);
        assert!(matches!(check(&dir), Err(PrivateError::Readable(_))));
        assert!(!claim(&dir).unwrap());
        assert_eq!(mode(&dir), 0o700);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_with_the_remedy() {
        let above = temporary("private-").unwrap();
        let dir = above.path().join("dir");
        fs::create_dir(&dir).unwrap();
        for bits in [0o770, 0o720, 0o707, 0o702, 0o1777] {
            set_mode(&dir, bits);
            let error = claim(&dir).unwrap_err();
            assert!(matches!(error, PrivateError::Writable(_)), "{bits:o}: {error}");
            assert!(error.to_string().contains("chmod go-w"), "{error}");
            assert_eq!(mode(&dir), bits, "it is left as it was");
        }
    }

    #[test]
    fn links_and_files_are_refused() {
        let above = temporary("private-").unwrap();
        let (dir, link, file) =
            (above.path().join("dir"), above.path().join("link"), above.path().join("file"));
        claim(&dir).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert!(matches!(claim(&link), Err(PrivateError::Link(_))));
        assert!(matches!(claim(&file), Err(PrivateError::NotAFolder(_))));
        assert!(write_new(&link, b"x").is_err() && write_new(&file, b"x").is_err());
        let new = above.path().join("new");
        write_new(&new, b"x").unwrap();
        assert_eq!(mode(&new), 0o600);
    }

    #[test]
    fn a_place_where_others_may_rename_is_refused_unless_they_cannot_get_there() {
        let top = tempfile::tempdir().unwrap();
        let (closed, open) = (top.path().join("closed"), top.path().join("closed/open"));
        fs::create_dir(&closed).unwrap();
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        set_mode(&closed, 0o700);
        claim(&open.join("a")).unwrap();
        // From here on others can reach the folder.
        set_mode(top.path(), 0o755);
        set_mode(&closed, 0o755);
        assert!(matches!(claim(&open.join("b")), Err(PrivateError::Writable(_))));
        assert!(!open.join("b").exists(), "what was made is removed");
        assert!(temporary_in("c", &open).is_err());
        set_mode(&open, 0o1777);
        claim(&open.join("b")).unwrap();
    }

    #[test]
    fn a_folder_of_another_user_is_refused_and_so_is_one_below_it() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root can give folders away");
        }
        let top = tempfile::tempdir().unwrap();
        set_mode(top.path(), 0o755);
        let dir = top.path().join("dir");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).unwrap();
        for place in [dir.clone(), dir.join("below"), dir.join("far/below")] {
            let error = claim(&place).unwrap_err();
            assert!(matches!(error, PrivateError::Owner { owner: 65534, .. }), "{error}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is left in it");
    }
}
