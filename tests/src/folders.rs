//! Folders of one test, and the user that makes them.

use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// Returns whether this process is root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Makes a folder that no other user can enter, and removes it with the value: exports of root in
/// tests concern no other user.
pub fn empty_folder() -> TempDir {
    private::temporary("orthrus-e2e-").expect("a temporary folder")
}

/// Makes a folder to export in another one, beside the state folder there.
pub fn data_folder(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("data");
    fs::create_dir_all(&path).expect("the folder is ours");
    path
}

/// Returns a folder that everybody can enter, for programs that root runs as another user.
pub fn open_folder() -> TempDir {
    let folder = empty_folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    folder
}
