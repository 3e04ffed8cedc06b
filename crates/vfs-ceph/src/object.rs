//! An object that is in use, or was lately.

use crate::dirty::{DirtyMarks, WrittenFile};
use crate::handle::ObjectId;
use ceph::CephErrno;
use ceph::fs::{CephInode, Stat};
use object_cache::CacheableObject;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vfs::{FileType, ObjectHandle};

/// An object with the library's inode, which belongs to one of the mounts.
#[derive(Debug)]
pub(crate) struct CephObject {
    pub(crate) handle: ObjectHandle,
    pub(crate) id: ObjectId,
    pub(crate) file_type: FileType,
    pub(crate) inode: CephInode,
    /// Inode number of a directory in which it was found; 0 if none is known.
    parent: AtomicU64,
    marks: DirtyMarks,
}

impl CephObject {
    pub(crate) fn new(inode: CephInode, stat: &Stat) -> Self {
        let id = ObjectId { ino: stat.ino, snapshot: stat.snapshot };
        let file_type = file_type(stat.mode);
        Self {
            handle: id.handle(),
            id,
            file_type,
            inode,
            parent: AtomicU64::new(0),
            marks: DirtyMarks::default(),
        }
    }

    /// Notes the directory in which it was found.
    pub(crate) fn found_in(&self, parent: ObjectId) {
        self.parent.store(parent.ino, Relaxed);
    }

    /// Returns the directory in which it was found last.
    pub(crate) fn found_at(&self) -> Option<ObjectId> {
        let ino = self.parent.load(Relaxed);
        (ino != 0).then_some(ObjectId { ino, snapshot: self.id.snapshot })
    }
}

impl CacheableObject for CephObject {
    fn handle(&self) -> &ObjectHandle {
        &self.handle
    }

    /// While an object is in use, everybody must get this one: another could belong to another
    /// mount, which does not know of data that this one has not written back.
    fn is_pinned(entry: &Arc<Self>) -> bool {
        Arc::strong_count(entry) > 1
    }
}

impl WrittenFile for CephObject {
    fn marks(&self) -> &DirtyMarks {
        &self.marks
    }

    fn sync(&self) -> Result<(), CephErrno> {
        self.inode.sync()
    }
}

/// Returns the type of an object by its `st_mode`.
pub(crate) fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFBLK => FileType::Block,
        libc::S_IFCHR => FileType::Character,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFIFO => FileType::Fifo,
        _ => FileType::Regular,
    }
}
