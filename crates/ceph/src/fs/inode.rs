//! An object of a mounted file system.

use super::{CephMount, CephOpenFile, Credentials, DirectoryStream, FileSystemSize, SetStat, Stat, raw};
use crate::CephErrno;
use crate::errno::{count, done};
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Instant;

/// Fields that calls return.
const WANTED: u32 = raw::statx::ALL_STATS;
/// Bytes of a time in text.
const RCTIME_MAX: usize = 64;
/// Longest target of a symbolic link in bytes: the limit of Linux.
const TARGET_MAX: usize = 4096;

/// An object that the library keeps in memory for its owner.
#[derive(Debug)]
pub struct CephInode {
    pub(super) mount: Arc<CephMount>,
    inode: NonNull<raw::RawInode>,
}

// SAFETY: the library takes its own locks in every call that gets this pointer.
unsafe impl Send for CephInode {}
// SAFETY: as above.
unsafe impl Sync for CephInode {}

/// The kind of an object to create that is no regular file.
#[derive(Clone, Copy, Debug)]
pub enum NewInode<'n> {
    /// A directory without entries.
    Directory,
    /// A symbolic link with a target.
    Symlink(&'n CStr),
    /// A device, a socket or a named pipe: type bits as `st_mode` has them, and `st_rdev`.
    Special(u32, u64),
}

/// Whether an extended attribute may exist before it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrFlag {
    /// It may or may not.
    Either,
    /// It must not exist: `EEXIST`.
    Create,
    /// It must exist: `ENODATA`.
    Replace,
}

impl CephInode {
    /// Takes over a reference that the library has given.
    pub(super) fn new(mount: &Arc<CephMount>, inode: *mut raw::RawInode) -> Result<Self, CephErrno> {
        let inode = NonNull::new(inode).ok_or(CephErrno::new(libc::ESTALE))?;
        Ok(Self { mount: Arc::clone(mount), inode })
    }

    /// Returns the mount that the object belongs to.
    pub fn mount(&self) -> &Arc<CephMount> {
        &self.mount
    }

    /// Runs a request to a metadata server with the library, the mount and this object.
    fn call<R>(
        &self,
        call: impl FnOnce(&'static raw::Functions, *mut raw::MountInfo, *mut raw::RawInode) -> R,
    ) -> Result<R, CephErrno> {
        let _request = self.mount.requests.begin(Instant::now());
        self.mount.call(|library, info| call(library, info, self.as_ptr()))
    }

    fn as_ptr(&self) -> *mut raw::RawInode {
        self.inode.as_ptr()
    }

    /// Runs a call that returns an object with its attributes.
    fn found(
        &self,
        call: impl FnOnce(
            &'static raw::Functions,
            *mut raw::MountInfo,
            *mut raw::RawInode,
            *mut *mut raw::RawInode,
            *mut raw::Statx,
        ) -> i32,
    ) -> Result<(Self, Stat), CephErrno> {
        let (mut inode, mut stat) = (ptr::null_mut(), raw::Statx::EMPTY);
        done(self.call(|library, info, own| call(library, info, own, &mut inode, &mut stat))?)?;
        Ok((Self::new(&self.mount, inode)?, Stat::of(&stat)))
    }

    /// Finds a name in a directory; does not follow symbolic links.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`, `ENOTDIR`.
    pub fn lookup(&self, name: &CStr, user: &Credentials) -> Result<(Self, Stat), CephErrno> {
        let (name, user) = (name.as_ptr(), user.as_ptr());
        // SAFETY: all pointers are valid; on success both results are set, the reference is ours.
        self.found(|library, info, own, inode, stat| unsafe {
            (library.ceph_ll_lookup)(info, own, name, inode, stat, WANTED, 0, user)
        })
    }

    /// Returns the attributes.
    ///
    /// # Errors
    /// The library's.
    pub fn stat(&self, user: &Credentials) -> Result<Stat, CephErrno> {
        self.statx(WANTED, 0, user).map(|stat| Stat::of(&stat))
    }

    /// Returns the attributes that the library last knew, without a request.
    ///
    /// # Errors
    /// The library's.
    pub fn known_stat(&self, user: &Credentials) -> Result<Stat, CephErrno> {
        self.statx(WANTED, raw::statx::DONT_SYNC, user).map(|stat| Stat::of(&stat))
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// The library's.
    pub fn size(&self, user: &Credentials) -> Result<u64, CephErrno> {
        self.statx(raw::statx::SIZE, 0, user).map(|stat| stat.size)
    }

    fn statx(&self, wanted: u32, flags: u32, user: &Credentials) -> Result<raw::Statx, CephErrno> {
        let (mut stat, user) = (raw::Statx::EMPTY, user.as_ptr());
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_getattr)(info, own, &mut stat, wanted, flags, user)
        })?)?;
        Ok(stat)
    }

    /// Makes the library ask the metadata server for a directory's attributes, even if its own are
    /// still valid.
    ///
    /// # Errors
    /// The library's.
    pub fn refresh(&self, user: &Credentials) -> Result<(), CephErrno> {
        // The library keeps no value of this attribute: each look is a request, whose reply has all
        // the others.
        self.xattr(c"ceph.dir.rctime", RCTIME_MAX, user).map(drop)
    }

    /// Changes attributes, as far as the user may.
    ///
    /// # Errors
    /// `EPERM`, `EACCES`, and others of the library.
    pub fn set_stat(&self, set: &SetStat, user: &Credentials) -> Result<(), CephErrno> {
        let ((mut values, mask), user) = (set.to_raw(), user.as_ptr());
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_setattr)(info, own, &mut values, mask, user)
        })?)
    }

    /// Reads a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for other objects.
    pub fn read_link(&self, user: &Credentials) -> Result<Vec<u8>, CephErrno> {
        // SAFETY: the library writes at most this many bytes.
        self.filled(TARGET_MAX, |library, info, own, at, length| unsafe {
            (library.ceph_ll_readlink)(info, own, at.cast(), length, user.as_ptr())
        })
    }

    /// Runs a call that fills a buffer of at most `longest` bytes and returns their number.
    fn filled(
        &self,
        longest: usize,
        call: impl FnOnce(
            &'static raw::Functions,
            *mut raw::MountInfo,
            *mut raw::RawInode,
            *mut c_void,
            usize,
        ) -> i32,
    ) -> Result<Vec<u8>, CephErrno> {
        let mut bytes = vec![0_u8; longest];
        let at = bytes.as_mut_ptr().cast();
        let length = self.call(|library, info, own| call(library, info, own, at, longest))?;
        bytes.truncate(usize::try_from(count(length.into())?).unwrap_or(0));
        Ok(bytes)
    }

    /// Returns the value of an extended attribute of at most `longest` bytes.
    ///
    /// # Errors
    /// `ENODATA` if there is none, `ERANGE` for a longer one.
    pub fn xattr(&self, name: &CStr, longest: usize, user: &Credentials) -> Result<Vec<u8>, CephErrno> {
        // SAFETY: the library writes at most this many bytes.
        self.filled(longest, |library, info, own, at, length| unsafe {
            (library.ceph_ll_getxattr)(info, own, name.as_ptr(), at, length, user.as_ptr())
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`, `EACCES`, and others of the library.
    pub fn set_xattr(
        &self,
        name: &CStr,
        value: &[u8],
        flag: XattrFlag,
        user: &Credentials,
    ) -> Result<(), CephErrno> {
        let flags = match flag {
            XattrFlag::Either => 0,
            XattrFlag::Create => libc::XATTR_CREATE,
            XattrFlag::Replace => libc::XATTR_REPLACE,
        };
        let (name, at, length) = (name.as_ptr(), value.as_ptr().cast(), value.len());
        // SAFETY: the library reads the value during the call.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_setxattr)(info, own, name, at, length, flags, user.as_ptr())
        })?)
    }

    /// Returns the names of the extended attributes, which may take `longest` bytes with a NUL
    /// behind each.
    ///
    /// # Errors
    /// `ERANGE` for more.
    pub fn xattrs(&self, longest: usize, user: &Credentials) -> Result<Vec<Vec<u8>>, CephErrno> {
        let (mut length, mut names) = (0, vec![0_u8; longest]);
        let at = names.as_mut_ptr().cast::<c_char>();
        // SAFETY: the library writes at most this many bytes, and their number.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_listxattr)(info, own, at, longest, &mut length, user.as_ptr())
        })?)?;
        names.truncate(length);
        Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EACCES`, and others of the library.
    pub fn remove_xattr(&self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_removexattr)(info, own, name.as_ptr(), user.as_ptr())
        })?)
    }

    /// Creates a regular file that does not exist, and opens it for reading and writing.
    ///
    /// # Errors
    /// `EEXIST`, `EACCES`, and others of the library.
    pub fn create_file(
        &self,
        name: &CStr,
        mode: u32,
        user: &Credentials,
    ) -> Result<(Self, Stat, CephOpenFile), CephErrno> {
        let (mut file, name, user) = (ptr::null_mut(), name.as_ptr(), user.as_ptr());
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW;
        // SAFETY: all pointers are valid; on success all three results are set and ours.
        let (inode, stat) = self.found(|library, info, own, inode, stat| unsafe {
            (library.ceph_ll_create)(info, own, name, mode, flags, inode, &mut file, stat, WANTED, 0, user)
        })?;
        let file = CephOpenFile::new(&self.mount, file)?;
        Ok((inode, stat, file))
    }

    /// Creates an object that is no regular file.
    ///
    /// # Errors
    /// `EEXIST`, `EACCES`, `EPERM`, and others of the library.
    pub fn create(
        &self,
        name: &CStr,
        object: NewInode<'_>,
        mode: u32,
        user: &Credentials,
    ) -> Result<(Self, Stat), CephErrno> {
        let (name, user) = (name.as_ptr(), user.as_ptr());
        // SAFETY: all pointers are valid; on success both results are set, the reference is ours.
        self.found(|library, info, own, inode, stat| unsafe {
            match object {
                NewInode::Directory => {
                    (library.ceph_ll_mkdir)(info, own, name, mode, inode, stat, WANTED, 0, user)
                }
                NewInode::Symlink(target) => {
                    let target = target.as_ptr();
                    (library.ceph_ll_symlink)(info, own, name, target, inode, stat, WANTED, 0, user)
                }
                NewInode::Special(kind, rdev) => {
                    let mode = mode | kind;
                    (library.ceph_ll_mknod)(info, own, name, mode, rdev, inode, stat, WANTED, 0, user)
                }
            }
        })
    }

    /// Makes a further name for the object.
    ///
    /// # Errors
    /// `EEXIST`, `EPERM`, `EXDEV`, and others of the library.
    pub fn link(&self, directory: &Self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        let directory = self.beside(directory)?;
        // SAFETY: all pointers are valid and of one mount.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_link)(info, own, directory, name.as_ptr(), user.as_ptr())
        })?)
    }

    /// Renames an entry of this directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTEMPTY`, `EXDEV`, and others of the library.
    pub fn rename(
        &self,
        name: &CStr,
        to: &Self,
        new_name: &CStr,
        user: &Credentials,
    ) -> Result<(), CephErrno> {
        let (to, name, new_name) = (self.beside(to)?, name.as_ptr(), new_name.as_ptr());
        // SAFETY: all pointers are valid and of one mount.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_rename)(info, own, name, to, new_name, user.as_ptr())
        })?)
    }

    /// Returns an object of the same mount.
    fn beside(&self, other: &Self) -> Result<*mut raw::RawInode, CephErrno> {
        let same = Arc::ptr_eq(&self.mount, &other.mount);
        if same { Ok(other.as_ptr()) } else { Err(CephErrno::new(libc::EXDEV)) }
    }

    /// Removes a name of something other than a directory.
    ///
    /// # Errors
    /// `EISDIR`, `ENOENT`, `EACCES`, and others of the library.
    pub fn unlink(&self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_unlink)(info, own, name.as_ptr(), user.as_ptr())
        })?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENOTEMPTY`, `EACCES`, and others of the library.
    pub fn remove_directory(&self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_rmdir)(info, own, name.as_ptr(), user.as_ptr())
        })?)
    }

    /// Returns the sizes of the file system, or of the quota of the mounted directory.
    ///
    /// # Errors
    /// The library's.
    pub fn file_system_size(&self) -> Result<FileSystemSize, CephErrno> {
        let mut size = MaybeUninit::<libc::statvfs>::zeroed();
        let at = size.as_mut_ptr();
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, own| unsafe { (library.ceph_ll_statfs)(info, own, at) })?)?;
        // SAFETY: the library has written it; a value of zeros is valid, too.
        Ok(FileSystemSize::of(&unsafe { size.assume_init() }))
    }

    /// Waits until the object's data and attributes are on stable storage, and in a directory the
    /// changes of names that this client has made.
    ///
    /// # Errors
    /// The error of a write that failed.
    pub fn sync(&self) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        let sync = |library: &raw::Functions, info| unsafe {
            // It asks for the journal by itself, and its data may take long.
            (library.ceph_ll_sync_inode)(info, self.as_ptr(), 0)
        };
        done(self.mount.call(sync)?)
    }

    /// Opens a directory for listing.
    ///
    /// # Errors
    /// `ENOTDIR`, `EACCES`.
    pub fn list(&self, user: &Credentials) -> Result<DirectoryStream, CephErrno> {
        let mut stream = ptr::null_mut();
        // SAFETY: on success the pointer is set and ours.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_opendir)(info, own, &mut stream, user.as_ptr())
        })?)?;
        DirectoryStream::new(&self.mount, stream)
    }

    /// Opens a regular file: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    ///
    /// # Errors
    /// `EACCES`, `EROFS` in a snapshot, and others of the library.
    pub fn open(&self, access: i32, user: &Credentials) -> Result<CephOpenFile, CephErrno> {
        let (mut file, flags) = (ptr::null_mut(), access & libc::O_ACCMODE);
        // SAFETY: on success the pointer is set and ours.
        done(self.call(|library, info, own| unsafe {
            (library.ceph_ll_open)(info, own, flags, &mut file, user.as_ptr())
        })?)?;
        CephOpenFile::new(&self.mount, file)
    }
}

impl Drop for CephInode {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        self.mount.release(|library, info| unsafe { (library.ceph_ll_put)(info, self.as_ptr()) });
    }
}
