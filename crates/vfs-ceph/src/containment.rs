//! Location of directories: inside or outside of the export.

use crate::errno::vfs_error;
use ceph::fs::{CephInode, Credentials};
use vfs::{VfsError, VfsResult};

/// Directories between an object and the root of its export. Deeper ones count as outside.
const DEPTH_MAX: usize = 4096;
/// The inode number of the root of every file system (`CEPH_INO_ROOT`).
const ROOT_INO: u64 = 1;

/// Returns whether a directory is the root of an export, or below it, now.
///
/// # Errors
/// The library's.
pub(crate) fn is_below(root: &CephInode, directory: &CephInode, server: &Credentials) -> VfsResult<bool> {
    let ino = |inode: &CephInode| inode.stat(server).map(|stat| stat.ino).map_err(vfs_error);
    let root = ino(root)?;
    if root == ROOT_INO {
        return Ok(true);
    }
    let mut at = ino(directory)?;
    let mut above: Option<CephInode> = None;
    for _ in 0..DEPTH_MAX {
        if at == root {
            return Ok(true);
        }
        let (parent, stat) = match above.as_ref().unwrap_or(directory).lookup(c"..", server) {
            Ok(found) => found,
            Err(error) if matches!(vfs_error(error), VfsError::Stale | VfsError::Noent) => return Ok(false),
            Err(error) => return Err(vfs_error(error)),
        };
        // The root of the file system, or a directory that has been removed, is its own parent.
        if stat.ino == at {
            return Ok(false);
        }
        (at, above) = (stat.ino, Some(parent));
    }
    Ok(false)
}
