//! The state directory: private to the server's user, or refused.
//!
//! A reader of the secret can forge filehandles, and a writer of the records decides which clients
//! may reclaim. The server repairs nothing silently: a fresh start would drop the clients' state,
//! and that is the operator's decision.

use anyhow::{Context, bail};
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bits of a mode that give others anything.
const OTHERS: u32 = 0o077;

/// Makes the folder where it does not exist.
///
/// # Errors
/// Names the folder and the remedy: it cannot be made, is a symbolic link, is another user's, or is
/// open to others.
pub(super) fn open_folder(directory: &Path) -> anyhow::Result<()> {
    let name = directory.display();
    let is_link = |metadata: Metadata| metadata.file_type().is_symlink();
    if std::fs::symlink_metadata(directory).is_ok_and(is_link) {
        bail!(
            "the state folder {name} is a symbolic link, which others may point elsewhere; name its target with \
             --state-dir"
        );
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(|| {
        format!("the state folder {name} cannot be made; choose another with --state-dir")
    })?;
    let metadata = std::fs::symlink_metadata(directory)
        .with_context(|| format!("the state folder {name} cannot be read"))?;
    check(directory, &metadata, "700")
}

/// Returns whether a folder has the state of a server, or nothing yet. To make another one private
/// could break the programs that use it.
fn is_for_a_server(directory: &Path) -> bool {
    let has_state = ["secret", "starts"].iter().any(|name| directory.join(name).symlink_metadata().is_ok());
    has_state || std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Reads a file of the folder that has at most `size_max` bytes; `None` if it does not exist. Bytes
/// that are no text become U+FFFD, which no file has: its reader knows the remedy.
///
/// # Errors
/// Names the file and the remedy: it is no file, is another user's, is open to others, or is too
/// long.
pub(super) fn read(path: &Path, size_max: u64) -> anyhow::Result<Option<String>> {
    let name = path.display();
    let file =
        OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{name} cannot be read")),
    };
    let metadata = file.metadata().with_context(|| format!("{name} cannot be read"))?;
    if !metadata.is_file() {
        bail!("{name} is no regular file; move it away");
    }
    check(path, &metadata, "600")?;
    let mut content = Vec::new();
    if metadata.len() <= size_max {
        file.take(size_max + 1)
            .read_to_end(&mut content)
            .with_context(|| format!("{name} cannot be read"))?;
    }
    if metadata.len().max(content.len() as u64) > size_max {
        bail!("{name} has more than {size_max} bytes, which no server writes: {}", REMEDY);
    }
    let text = String::from_utf8(content);
    Ok(Some(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())))
}

/// The remedy for damaged files.
pub(super) const REMEDY: &str =
    "restore it from a backup, or remove it: clients then lose what they have open and locked";

/// Opens a file of the directory for reading and writing, with mode 0600; creates it if it is
/// missing.
pub(super) fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(path)
}

/// Replaces a file of the directory by one with this content, on stable storage.
pub(super) fn replace(directory: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    write_whole(&new, |file| {
        file.set_len(0)?;
        file.write_all(content)?;
        file.sync_all()
    })?;
    std::fs::rename(&new, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// Writes a new file, or leaves none: a part of it would keep the last space of a full disk.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let written = write(&mut private(path)?);
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

fn check(path: &Path, metadata: &Metadata, mode: &str) -> anyhow::Result<()> {
    let name = path.display();
    let (user, owner) = (nix::unistd::geteuid().as_raw(), metadata.uid());
    if owner != user {
        bail!(
            "{name} belongs to the user with the id {owner}, and the server runs as {user}: whoever owns it decides \
             which clients may reclaim; change its owner, or choose another folder with --state-dir"
        );
    }
    let mode_now = metadata.mode() & 0o777;
    if metadata.mode() & OTHERS != 0 && metadata.is_dir() && !is_for_a_server(path) {
        bail!(
            "{name} has the mode {mode_now:03o} and the files of other programs; choose an empty folder with \
             --state-dir"
        );
    }
    if metadata.mode() & OTHERS != 0 {
        bail!(
            "{name} has the mode {mode_now:03o}, so that other users can read or change what the server keeps; if none of \
             them has, use \"chmod {mode} {name}\", or else remove the folder: clients then have to mount again"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn refusal<T>(result: anyhow::Result<T>) -> String {
        format!("{:#}", result.err().expect("it is refused"))
    }

    #[test]
    fn a_folder_that_others_can_use_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        open_folder(&path).unwrap();
        for mode in [0o701, 0o710, 0o750, 0o755, 0o770, 0o777, 0o1777] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let said = refusal(open_folder(&path));
            assert!(said.contains("chmod 700"), "{mode:o}: {said}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        open_folder(&path).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refusal(open_folder(&link)).contains("symbolic link"));
        std::fs::remove_dir(&path).unwrap();
        assert!(refusal(open_folder(&link)).contains("symbolic link"), "of one that leads nowhere, too");
    }

    #[test]
    fn the_folder_of_other_programs_is_refused_and_not_to_be_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        let said = refusal(open_folder(folder.path()));
        assert!(said.contains("choose an empty folder") && !said.contains("chmod"), "{said}");
        std::fs::write(folder.path().join("starts"), "1\n").unwrap();
        assert!(refusal(open_folder(folder.path())).contains("chmod 700"));
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("skipped: only root can give a folder away");
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
        assert!(refusal(open_folder(folder.path())).contains("65534"));
    }

    #[test]
    fn a_file_that_others_can_use_or_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert_eq!(read(&path, 10).unwrap(), None);
        std::fs::write(&path, "0123456789").unwrap();
        for mode in [0o604, 0o640, 0o644, 0o666] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refusal(read(&path, 10)).contains("chmod 600"), "{mode:o}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path, 10).unwrap().as_deref(), Some("0123456789"));
        assert!(refusal(read(&path, 9)).contains("more than 9 bytes"));
        std::fs::write(&path, b"1\xff\n").unwrap();
        assert_eq!(read(&path, 10).unwrap().as_deref(), Some("1\u{fffd}\n"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refusal(read(&link, 10)).contains("link"));
        assert!(private(&link).is_err());
        nix::unistd::mkfifo(&folder.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refusal(read(&folder.path().join("fifo"), 10)).contains("no regular file"));
        assert!(refusal(read(folder.path(), 10)).contains("no regular file"));
    }

    #[test]
    fn a_file_that_has_no_room_keeps_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.new");
        let full = |file: &mut File| -> std::io::Result<()> {
            file.write_all(b"a part")?;
            Err(std::io::ErrorKind::StorageFull.into())
        };
        write_whole(&path, full).unwrap_err();
        assert!(!path.exists());
    }
}
