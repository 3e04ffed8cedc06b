//! Quotas, which CephFS has for directories: all that is below counts.

use crate::object::CephObject;
use crate::{CephBackend, errno::vfs_error};
use ceph::fs::CephInode;
use std::ffi::CStr;
use std::sync::Arc;
use vfs::{FileType, ObjectHandle, Quota, VfsResult};

/// Directories above an object whose quotas are looked at.
const DEPTH_MAX: usize = 256;
/// Bytes of a number in text.
const NUMBER_MAX: usize = 32;

impl CephBackend {
    /// Returns the rest of the nearest quota: of the directory itself, or of one above it in the
    /// export.
    pub(crate) fn quota_of(&self, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        let object = self.resolve(object)?;
        let directory = self.directory_of(&object)?;
        let mut above: Option<CephInode> = None;
        for _ in 0..DEPTH_MAX {
            let at = above.as_ref().unwrap_or(&directory.inode);
            if let Some(limit) = self.number(at, c"ceph.quota.max_bytes").filter(|limit| *limit > 0) {
                let used = self.number(at, c"ceph.dir.rbytes").unwrap_or(0);
                let left = limit.saturating_sub(used);
                return Ok(Some(Quota { avail_hard: left, avail_soft: left, used }));
            }
            let ino = at.stat(&self.server).map_err(vfs_error)?.ino;
            let (parent, stat) = at.lookup(c"..", &self.server).map_err(vfs_error)?;
            if ino == self.root.id.ino || stat.ino == ino {
                break;
            }
            above = Some(parent);
        }
        Ok(None)
    }

    /// Returns the directory whose quotas count: the object itself, the one in which it was found,
    /// or else the export's root.
    fn directory_of(&self, object: &Arc<CephObject>) -> VfsResult<Arc<CephObject>> {
        if object.file_type == FileType::Directory {
            return Ok(Arc::clone(object));
        }
        let found = object.found_at().and_then(|parent| self.resolve(&parent.handle()).ok());
        Ok(found.unwrap_or_else(|| Arc::clone(&self.root)))
    }

    /// Reads an attribute of the library that is a number.
    fn number(&self, inode: &CephInode, name: &CStr) -> Option<u64> {
        let text = inode.xattr(name, NUMBER_MAX, &self.server).ok()?;
        std::str::from_utf8(&text).ok()?.trim_end_matches('\0').parse().ok()
    }
}
