//! The program of the next process.

use anyhow::{Context, bail};
use nix::unistd::geteuid;
use std::env;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bits of a mode by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;
/// Bits of a mode by which anyone may execute.
const EXECUTE: u32 = 0o111;

/// The beginning of the names of programs that may follow.
const NAME: &[u8] = b"orthrus";

/// Returns the path of this program as it was started, so that a package that replaces it is
/// found.
pub(crate) fn started() -> PathBuf {
    let name = env::args_os().next().unwrap_or_default();
    let named = PathBuf::from(&name);
    let found = match named.components().count() {
        1 => in_search_path(&name),
        _ => env::current_dir().ok().map(|folder| folder.join(&named)),
    };
    found.or_else(|| env::current_exe().ok()).unwrap_or(named)
}

fn in_search_path(name: &OsString) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A program that was checked; it stays the same file however its name changes.
#[derive(Debug)]
pub(in crate::serve) struct Binary {
    file: File,
}

impl Binary {
    /// Opens a program. It gets the keys of all sessions: only its owner, root or the server's own
    /// user, may be able to change it.
    ///
    /// # Errors
    /// Names the file and the remedy.
    pub(in crate::serve) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let mut options = File::options();
        // By path only: permission to execute is enough.
        let options = options.read(true).custom_flags(nix::libc::O_PATH);
        let file = options.open(path).with_context(|| format!("the program {name} cannot be opened"))?;
        let metadata = file.metadata().with_context(|| format!("the program {name} cannot be read"))?;
        check(path, &metadata)?;
        Ok(Self { file })
    }

    /// Opens the program of a path if the server may start it: its own, or one beside it whose name
    /// begins as its own. The sandbox is to lead to no other.
    ///
    /// # Errors
    /// As [`Binary::open`].
    pub(super) fn beside(own: &Path, path: &Path) -> anyhow::Result<Self> {
        let name = |path: &Path| path.file_name().map(|name| name.as_encoded_bytes().to_owned());
        let begins = name(path).is_some_and(|name| name.starts_with(NAME));
        if path != own && !(path.parent() == own.parent() && begins) {
            bail!(
                "the server may only start {}, or a program beside it whose name begins with \"orthrus\": put {} there",
                own.display(),
                path.display()
            );
        }
        Self::open(path)
    }

    /// Returns whether it is the program that this process runs.
    pub(in crate::serve) fn is_running(&self) -> bool {
        let own = std::fs::metadata("/proc/self/exe");
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        own.map(id).ok().is_some_and(|own| self.file.metadata().map(id).ok() == Some(own))
    }

    /// Returns a path that leads to this very file.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

fn check(path: &Path, metadata: &Metadata) -> anyhow::Result<()> {
    let (name, own, owner) = (path.display(), geteuid().as_raw(), metadata.uid());
    if !metadata.is_file() || metadata.mode() & EXECUTE == 0 {
        bail!("{name} is no program; name the new one with --binary");
    }
    if owner != 0 && owner != own {
        bail!(
            "the program {name} belongs to the user with the id {owner}, and would get the keys of all clients; \
             install it as root, or as the server's user {own}"
        );
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        bail!(
            "the program {name} has the mode {:03o}, so that others can change it, and would get the keys of all \
             clients; use \"chmod go-w {name}\" if none of them has",
            metadata.mode() & 0o777
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_that_others_can_change_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "#!").unwrap();
        let refusal = |mode: u32| {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Binary::open(&path).err().map(|error| format!("{error:#}"))
        };
        assert_eq!(refusal(0o755), None);
        assert_eq!(refusal(0o711), None);
        assert!(refusal(0o775).unwrap().contains("chmod go-w"));
        assert!(refusal(0o757).unwrap().contains("chmod go-w"));
        assert!(refusal(0o644).unwrap().contains("--binary"));
        assert!(Binary::open(folder.path()).unwrap_err().to_string().contains("no program"));
        assert!(Binary::open(&folder.path().join("missing")).is_err());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(refusal(0o755).unwrap().contains("65534"));
        }
    }

    #[test]
    fn the_running_program_is_known_from_others() {
        let own = Binary::open(&env::current_exe().unwrap()).unwrap();
        assert!(own.is_running());
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy(env::current_exe().unwrap(), &copy).unwrap();
        assert!(!Binary::open(&copy).unwrap().is_running());
    }
}
