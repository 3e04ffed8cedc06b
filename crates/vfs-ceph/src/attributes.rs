//! From the library's attributes to those of NFS.

use crate::handle::ObjectId;
use crate::object::file_type;
use ceph::fs::{Stat, Time};
use vfs::{Attributes, Timestamp};

/// Bytes of a block of `st_blocks`.
const BLOCK: u64 = 512;

/// Converts; the change attribute is Ceph's own count of changes.
pub(crate) fn attributes(stat: &Stat, device: u64) -> Attributes {
    let id = ObjectId { ino: stat.ino, snapshot: stat.snapshot };
    Attributes {
        file_type: file_type(stat.mode),
        mode: stat.mode & 0o7777,
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        size: stat.size,
        space_used: stat.blocks.saturating_mul(BLOCK),
        rdev: (libc::major(stat.rdev), libc::minor(stat.rdev)),
        fsid: (device, 0),
        fileid: id.fileid(),
        change: stat.version,
        atime: timestamp(stat.atime),
        mtime: timestamp(stat.mtime),
        ctime: timestamp(stat.ctime),
        btime: stat.btime.map(timestamp),
    }
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds }
}
