//! From statx to the attributes of NFS.

use crate::change::{Changes, Moment};
use rustix::{
    fs::{AtFlags, FileType, Mode, Statx, StatxFlags, StatxTimestamp, statx},
    io::Errno,
};
use std::os::fd::AsFd;
use vfs::{Attributes, Timestamp};

/// The fields of statx(2) that every call needs.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// Returns the attributes of the object that a descriptor refers to.
pub(crate) fn stat_fd(fd: impl AsFd) -> Result<Statx, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, WANTED)
}

/// Returns the attributes of a name in a directory, not following a symbolic link.
pub(crate) fn stat_name(directory: impl AsFd, name: &std::ffi::CStr) -> Result<Statx, Errno> {
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, WANTED)
}

pub(crate) fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// Converts, with the fileid of the object. The change attribute is the time of the last change in
/// nanoseconds, with the size where the file system stores whole seconds, corrected by `changes`
/// where the kernel's clock is too coarse to tell two changes apart. `asked` is from before the
/// call that returned `stat`.
pub(crate) fn attributes(stat: &Statx, fileid: u64, changes: &Changes, asked: Moment) -> Attributes {
    let ctime = time(stat.stx_ctime);
    Attributes {
        file_type: kind(file_type(stat)),
        mode: Mode::from_raw_mode(stat.stx_mode.into()).as_raw_mode() & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        space_used: stat.stx_blocks.saturating_mul(512),
        rdev: (stat.stx_rdev_major, stat.stx_rdev_minor),
        fsid: (stat.stx_dev_major.into(), stat.stx_dev_minor.into()),
        fileid,
        change: changes.attribute(fileid, nanoseconds(ctime).wrapping_add(within_second(stat)), asked),
        atime: time(stat.stx_atime),
        mtime: time(stat.stx_mtime),
        ctime,
        btime: (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(stat.stx_btime)),
    }
}

fn kind(file_type: FileType) -> vfs::FileType {
    match file_type {
        FileType::Directory => vfs::FileType::Directory,
        FileType::Symlink => vfs::FileType::Symlink,
        FileType::BlockDevice => vfs::FileType::Block,
        FileType::CharacterDevice => vfs::FileType::Character,
        FileType::Socket => vfs::FileType::Socket,
        FileType::Fifo => vfs::FileType::Fifo,
        FileType::RegularFile | FileType::Unknown => vfs::FileType::Regular,
    }
}

fn time(time: StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}

/// Returns a number that stands for the size of an object, below a second in nanoseconds, where its
/// ctime has no fraction of a second: a change of the size within the second then moves the change
/// attribute. 0 where ctime is finer.
fn within_second(stat: &Statx) -> u64 {
    if stat.stx_ctime.tv_nsec != 0 {
        return 0;
    }
    // Fibonacci hashing, which spreads sizes that are near each other. 29 bits are below 10^9.
    stat.stx_size.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 35
}

fn nanoseconds(time: Timestamp) -> u64 {
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds.into())
}
