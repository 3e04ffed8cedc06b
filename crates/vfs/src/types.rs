//! Values that pass between the server and a backend.

use crate::{VfsError, VfsResult};

/// The largest offset and size of a file in bytes: the offsets of the system (off_t) have a sign.
pub const OFFSET_MAX: u64 = i64::MAX as u64;

/// Longest handle that a backend may give, in bytes: with the server's own prefix and checksum it
/// must fit into NFS4_FHSIZE (128).
pub const OBJECT_HANDLE_MAX: usize = 96;

/// Names an object of one backend for as long as the object exists, restarts included.
#[derive(Clone, Copy)]
pub struct ObjectHandle {
    len: u8,
    bytes: [u8; OBJECT_HANDLE_MAX],
}

impl ObjectHandle {
    /// Makes a handle of at most [`OBJECT_HANDLE_MAX`] bytes, else `None`.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self { len: u8::try_from(bytes.len()).ok()?, bytes: [0; OBJECT_HANDLE_MAX] };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Returns the handle of no bytes, which names nothing.
    pub fn empty() -> Self {
        Self { len: 0, bytes: [0; OBJECT_HANDLE_MAX] }
    }

    /// Returns the bytes that the backend gave.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

// Handles are keys of hot maps and mostly short: only the bytes in use count.
impl PartialEq for ObjectHandle {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ObjectHandle {}

impl std::hash::Hash for ObjectHandle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl std::fmt::Debug for ObjectHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ObjectHandle(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}

/// The identity of a file on this machine: two handles of one device that agree behind the skipped
/// bytes name the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Number of the file system, the same for all backends of this process.
    pub device: u64,
    /// Bytes at the start of the handle that say by which way the backend reaches the file.
    pub skip: usize,
    /// Whether other servers serve the file as well.
    pub shared: bool,
}

/// The user on whose behalf an operation runs, after mapping and squashing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User that owns new objects.
    pub uid: u32,
    /// The primary group ID of the caller.
    pub gid: u32,
    /// Supplementary groups, any number.
    pub groups: std::sync::Arc<[u32]>,
}

impl Caller {
    /// The superuser without supplementary groups.
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: [].into() }
    }

    /// Returns whether a group is the primary one or one of the others.
    pub fn is_member(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// A point in time, as file systems store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds of the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The type of an object (nfs_ftype4, RFC 8881 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// NF4REG: a regular file.
    Regular,
    /// NF4DIR: a directory, whose entries have names.
    Directory,
    /// NF4LNK: a symbolic link.
    Symlink,
    /// NF4BLK: a block device.
    Block,
    /// NF4CHR: a character device.
    Character,
    /// NF4SOCK: a Unix domain socket.
    Socket,
    /// NF4FIFO: a named pipe.
    Fifo,
}

/// The attributes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The type of the object.
    pub file_type: FileType,
    /// Permission bits with set-id and sticky, 12 bits.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// User number of the owner.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Length of the contents in bytes.
    pub size: u64,
    /// Bytes allocated on the disk.
    pub space_used: u64,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// File system the object is in (major, minor).
    pub fsid: (u64, u64),
    /// Inode number, unique within its file system.
    pub fileid: u64,
    /// Grows with every change of data or metadata.
    pub change: u64,
    /// Time of the last access.
    pub atime: Timestamp,
    /// Last change of data.
    pub mtime: Timestamp,
    /// Last change of metadata.
    pub ctime: Timestamp,
    /// Creation, where the file system keeps it.
    pub btime: Option<Timestamp>,
}

/// A new value for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's current time.
    Now,
    /// A time that the client chose.
    At(Timestamp),
}

/// Attributes to change; `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The new length in bytes; the file is truncated or extended.
    pub size: Option<u64>,
    /// Permission bits, 12 bits.
    pub mode: Option<u32>,
    /// Bits that the creator clears from `mode`, 9 bits, unless the directory has a default list.
    pub umask: Option<u32>,
    /// Both lists; `None` removes a list. They are set before `mode`, which then changes them.
    pub acls: Option<crate::Acls>,
    /// User number of the new owner.
    pub uid: Option<u32>,
    /// Number of the new group.
    pub gid: Option<u32>,
    /// New time of the last access.
    pub atime: Option<SetTime>,
    /// Last change of data.
    pub mtime: Option<SetTime>,
}

impl SetAttributes {
    /// Returns whether a new object gets attributes after its name: the system makes it with a mode
    /// alone, and a directory without set-id bits.
    pub fn follow_the_name(&self) -> bool {
        let has_set_id = self.mode.is_some_and(|mode| mode & 0o6000 != 0);
        let has_owner = self.uid.is_some() || self.gid.is_some();
        let has_times = self.atime.is_some() || self.mtime.is_some();
        has_set_id || has_owner || has_times || self.acls.is_some() || self.size.is_some_and(|size| size > 0)
    }
}

/// The kind of a non-regular object to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewObject<'a> {
    /// A directory without entries.
    Directory,
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A block device (major, minor).
    Block(u32, u32),
    /// A character device (major, minor).
    Character(u32, u32),
    /// A Unix domain socket.
    Socket,
    /// A named pipe (FIFO).
    Fifo,
}

impl NewObject<'_> {
    /// Checks the target of a link and the numbers of a device.
    ///
    /// # Errors
    /// `Inval` for an empty target, and for numbers above the 12 and 20 bits that Linux keeps:
    /// their lower bits name another device (RFC 8881 section 18.4).
    pub fn check(&self) -> VfsResult<()> {
        match *self {
            Self::Symlink([]) => Err(VfsError::Inval),
            Self::Block(major, minor) | Self::Character(major, minor)
                if major > 0xfff || minor > 0xf_ffff =>
            {
                Err(VfsError::Inval)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a read or a listing reached the end (`eof` of READ4resok and dirlist4, RFC 8881).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eof {
    /// The returned entries or bytes are the last.
    Reached,
    /// More entries or bytes may follow.
    NotReached,
}

impl Eof {
    /// Returns [`Eof::Reached`] if the condition holds.
    pub fn reached_if(condition: bool) -> Self {
        if condition { Self::Reached } else { Self::NotReached }
    }

    /// Returns whether nothing follows.
    pub fn is_reached(self) -> bool {
        self == Self::Reached
    }
}

/// The contents of a part of a file (data_content4 of RFC 7862).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Bytes that may be anything.
    Data,
    /// Nothing was written here; it reads as zeros.
    Hole,
}

/// The expected access pattern of a range (IO_ADVISE_type4 of RFC 7862).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// In no particular way.
    Normal,
    /// From start to end.
    Sequential,
    /// Accesses come in random order.
    Random,
    /// The range will be needed soon.
    WillNeed,
    /// The range will not be needed soon.
    DontNeed,
    /// The range will be accessed once.
    NoReuse,
}

/// Longest name of an extended attribute in bytes: the limit of Linux less the prefix `user.`.
pub const XATTR_NAME_MAX: usize = 250;
/// Longest value of an extended attribute, and most bytes of all names of one object, in bytes: the
/// limit of Linux.
pub const XATTR_SIZE_MAX: usize = 64 << 10;

/// Whether an extended attribute may be there before it is set (setxattr_option4 of RFC 8276).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XattrHow {
    /// Set the value whether or not the attribute exists.
    Either,
    /// It must not be there: `Exist`.
    Create,
    /// It must be there: `Noxattr`.
    Replace,
}

/// Optional features of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Bytes of a block that files can share, to which CLONE is aligned; 0: they cannot.
    pub clone_block: u32,
    /// Whether objects have access control lists.
    pub acls: bool,
    /// Whether users have quotas.
    pub quotas: bool,
    /// Whether objects have extended attributes.
    pub xattrs: bool,
    /// Whether the change attribute never goes back.
    pub change_grows: bool,
    /// Whether programs of this machine use the files as well.
    pub local_programs: bool,
}

impl Features {
    /// A file system that can do all of it.
    pub const EVERY: Self = Self {
        clone_block: 4096,
        acls: true,
        quotas: true,
        xattrs: true,
        change_grows: true,
        local_programs: true,
    };
}

/// The access that an open file grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenAccess {
    /// The holder may READ.
    pub read: bool,
    /// The holder may WRITE.
    pub write: bool,
}

/// The ACCESS bits of RFC 8881 section 18.1 as a backend answers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// May read data or list a directory.
    pub read: bool,
    /// May write data or change a directory's entries.
    pub write: bool,
    /// May execute a file or search a directory.
    pub execute: bool,
}

/// One directory entry, without "." and "..".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Where READDIR goes on after this entry; never 0, 1 or 2.
    pub cookie: u64,
    /// The entry's name, one component.
    pub name: &'a [u8],
    /// Inode number of the entry's object.
    pub fileid: u64,
}

/// The rest of the quotas that count for an object (RFC 8881 sections 5.8.2.28 to 5.8.2.30), in
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Before allocation is refused.
    pub avail_hard: u64,
    /// Before it is time for a warning.
    pub avail_soft: u64,
    /// Bytes in use by the owner or group.
    pub used: u64,
}

/// Sizes and limits of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStat {
    /// Size of the file system in bytes.
    pub space_total: u64,
    /// Free space in bytes, including the superuser's reserve.
    pub space_free: u64,
    /// Bytes free to ordinary users.
    pub space_avail: u64,
    /// Number of inodes in all.
    pub files_total: u64,
    /// Number of free inodes.
    pub files_free: u64,
    /// Inodes free to ordinary users.
    pub files_avail: u64,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Most hard links of one object.
    pub link_max: u32,
    /// Largest file in bytes.
    pub file_size_max: u64,
}
