//! Values that pass between the server and a backend.

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

/// Which file of this machine an object is: two handles of one device that agree behind what is to
/// be skipped are of the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Number of the file system, the same for all backends of this process.
    pub device: u64,
    /// Bytes at the start of the handle that say by which way the backend reaches the file.
    pub skip: usize,
}

/// The user on whose behalf an operation runs, after mapping and squashing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User that owns what is created.
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
}

/// A point in time, as file systems store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// What kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device.
    Block,
    /// Character device.
    Character,
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
}

/// What a backend knows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Kind of object.
    pub file_type: FileType,
    /// Permission bits with set-id and sticky, 12 bits.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Bytes allocated.
    pub space_used: u64,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
    /// File system the object is in (major, minor).
    pub fsid: (u64, u64),
    /// Inode number.
    pub fileid: u64,
    /// Grows with every change of data or metadata.
    pub change: u64,
    /// Last access.
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
    /// The server's time.
    Now,
    /// The client's time.
    At(Timestamp),
}

/// Attributes to change; `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Truncate or extend.
    pub size: Option<u64>,
    /// Permission bits, 12 bits.
    pub mode: Option<u32>,
    /// Bits that the creator takes from `mode`, 9 bits, unless the directory says what new objects
    /// get.
    pub umask: Option<u32>,
    /// Both lists, those that are `None` to be taken away; before `mode`, which then changes them.
    pub acls: Option<crate::Acls>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of data.
    pub mtime: Option<SetTime>,
}

/// What a non-regular object to create is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewObject<'a> {
    /// An empty directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A block device (major, minor).
    Block(u32, u32),
    /// A character device (major, minor).
    Character(u32, u32),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

/// Whether a read or a listing reached the end (`eof` of READ4resok and dirlist4, RFC 8881).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eof {
    /// Nothing follows what was returned.
    Reached,
    /// More may follow what was returned.
    NotReached,
}

impl Eof {
    /// Returns [`Eof::Reached`] if the condition holds.
    pub fn reached_if(condition: bool) -> Self {
        if condition { Self::Reached } else { Self::NotReached }
    }

    /// Says whether nothing follows.
    pub fn is_reached(self) -> bool {
        self == Self::Reached
    }
}

/// What a part of a file is (data_content4 of RFC 7862).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Bytes that may be anything.
    Data,
    /// Nothing was written here; it reads as zeros.
    Hole,
}

/// How a range of a file will be used (IO_ADVISE_type4 of RFC 7862).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// In no particular way.
    Normal,
    /// From start to end.
    Sequential,
    /// Here and there.
    Random,
    /// Soon.
    WillNeed,
    /// Not soon.
    DontNeed,
    /// Once.
    NoReuse,
}

/// Longest name of an extended attribute in bytes: what Linux takes, less the prefix `user.`.
pub const XATTR_NAME_MAX: usize = 250;
/// Longest value of an extended attribute in bytes, and most bytes of all names of one object: what
/// Linux takes.
pub const XATTR_SIZE_MAX: usize = 64 << 10;

/// Whether an extended attribute may be there before it is set (setxattr_option4 of RFC 8276).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XattrHow {
    /// Whatever there is.
    Either,
    /// It must not be there: `Exist`.
    Create,
    /// It must be there: `Noxattr`.
    Replace,
}

/// What a file system can do that not every one can.
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

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenAccess {
    /// READ is allowed.
    pub read: bool,
    /// WRITE is allowed.
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
    /// The entry's name.
    pub name: &'a [u8],
    /// Inode number.
    pub fileid: u64,
}

/// What the quotas that count for an object leave (RFC 8881 sections 5.8.2.28 to 5.8.2.30), in
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Before allocation is refused.
    pub avail_hard: u64,
    /// Before it is time for a warning.
    pub avail_soft: u64,
    /// In use.
    pub used: u64,
}

/// Sizes and limits of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStat {
    /// Bytes in all.
    pub space_total: u64,
    /// Bytes free.
    pub space_free: u64,
    /// Bytes free to ordinary users.
    pub space_avail: u64,
    /// Inodes in all.
    pub files_total: u64,
    /// Inodes free.
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
