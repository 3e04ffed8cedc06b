//! Attributes of objects and sizes of file systems.

use super::{NO_SNAPSHOT, raw};
use libc::timespec;

/// A point in time: seconds since 1970, negative before, and nanoseconds of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since the beginning of 1970.
    pub seconds: i64,
    /// Nanoseconds of the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl From<timespec> for Time {
    fn from(time: timespec) -> Self {
        Self { seconds: time.tv_sec, nanoseconds: u32::try_from(time.tv_nsec).unwrap_or(0) }
    }
}

impl From<Time> for timespec {
    fn from(time: Time) -> Self {
        Self { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() }
    }
}

/// The attributes of an object (`struct ceph_statx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Type and permission bits, as `st_mode` has them.
    pub mode: u32,
    /// Number of names (hard links).
    pub nlink: u32,
    /// User number of the owner.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Inode number, which no other object ever gets.
    pub ino: u64,
    /// Number of the snapshot that the object is in, or [`NO_SNAPSHOT`].
    pub snapshot: u64,
    /// Length in bytes; of a directory, the number of its entries.
    pub size: u64,
    /// Blocks of 512 bytes, which follow from the size.
    pub blocks: u64,
    /// Number of a device, as `st_rdev` has it.
    pub rdev: u64,
    /// Time of the last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of data or attributes.
    pub ctime: Time,
    /// Creation; `None` if the library does not know it.
    pub btime: Option<Time>,
    /// Number of changes of data or attributes (`stx_version`).
    pub version: u64,
}

impl Stat {
    pub(super) fn of(raw: &raw::Statx) -> Self {
        Self {
            mode: raw.mode.into(),
            nlink: raw.nlink,
            uid: raw.uid,
            gid: raw.gid,
            ino: raw.ino,
            snapshot: raw.dev,
            size: raw.size,
            blocks: raw.blocks,
            rdev: raw.rdev,
            atime: raw.atime.into(),
            mtime: raw.mtime.into(),
            ctime: raw.ctime.into(),
            btime: (raw.mask & raw::statx::BTIME != 0).then(|| raw.btime.into()),
            version: raw.version,
        }
    }

    /// Returns whether the object is part of the file system as it is now.
    pub fn is_current(&self) -> bool {
        self.snapshot == NO_SNAPSHOT
    }
}

/// A new value for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CephSetTime {
    /// The time of the call, which the caller gives. Write permission suffices.
    Now(Time),
    /// Any time, which needs ownership.
    At(Time),
}

/// Attributes to change; `None` leaves as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetStat {
    /// Permission and set-id bits.
    pub mode: Option<u32>,
    /// User number of the owner.
    pub uid: Option<u32>,
    /// Number of the owning group.
    pub gid: Option<u32>,
    /// Length of a file in bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<CephSetTime>,
    /// Last change of the data.
    pub mtime: Option<CephSetTime>,
}

impl SetStat {
    /// Returns the fields to set, and their mask.
    pub(super) fn to_raw(self) -> (raw::Statx, i32) {
        let (mut values, mut mask) = (raw::Statx::EMPTY, 0);
        if let Some(mode) = self.mode {
            // Permission bits fit.
            values.mode = (mode & 0o7777) as u16;
            mask |= raw::setattr::MODE;
        }
        if let Some(uid) = self.uid {
            values.uid = uid;
            mask |= raw::setattr::UID;
        }
        if let Some(gid) = self.gid {
            values.gid = gid;
            mask |= raw::setattr::GID;
        }
        if let Some(size) = self.size {
            values.size = size;
            mask |= raw::setattr::SIZE;
        }
        if let Some(atime) = self.atime {
            let (time, bits) = time(atime, raw::setattr::ATIME, raw::setattr::ATIME_NOW);
            values.atime = time;
            mask |= bits;
        }
        if let Some(mtime) = self.mtime {
            let (time, bits) = time(mtime, raw::setattr::MTIME, raw::setattr::MTIME_NOW);
            values.mtime = time;
            mask |= bits;
        }
        (values, mask)
    }
}

fn time(set: CephSetTime, at: i32, now: i32) -> (timespec, i32) {
    match set {
        CephSetTime::Now(time) => (time.into(), at | now),
        CephSetTime::At(time) => (time.into(), at),
    }
}

/// Sizes of a file system, or of the quota of the mounted directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSize {
    /// Bytes that the file system has.
    pub total: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Objects in the mounted directory.
    pub files: u64,
}

impl FileSystemSize {
    pub(super) fn of(raw: &libc::statvfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(raw.f_frsize);
        Self { total: bytes(raw.f_blocks), free: bytes(raw.f_bavail), files: raw.f_files }
    }
}
