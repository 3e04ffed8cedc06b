//! An object of a mounted file system.

use super::{Credentials, DirectoryStream, FileSystemSize, Mount, OpenFile, SetStat, Stat, raw};
use crate::CephErrno;
use crate::errno::{count, done};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Fields that calls return.
const WANTED: u32 = raw::statx::ALL_STATS;
/// Bytes of a time in text.
const RCTIME_MAX: usize = 64;
/// Longest target of a symbolic link in bytes: the limit of Linux.
const TARGET_MAX: usize = 4096;

/// An object that the library keeps in memory for its owner.
#[derive(Debug)]
pub struct Inode {
    pub(super) mount: Arc<Mount>,
    inode: NonNull<raw::Inode>,
}

// SAFETY: the library takes its own locks in every call that gets this pointer.
unsafe impl Send for Inode {}
// SAFETY: as above.
unsafe impl Sync for Inode {}

/// The kind of an object to create that is no regular file.
#[derive(Clone, Copy, Debug)]
pub enum NewObject<'n> {
    /// A directory.
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

impl Inode {
    /// Takes over a reference that the library has given.
    pub(super) fn new(mount: &Arc<Mount>, inode: *mut raw::Inode) -> Result<Self, CephErrno> {
        let inode = NonNull::new(inode).ok_or(CephErrno::new(libc::ESTALE))?;
        Ok(Self { mount: Arc::clone(mount), inode })
    }

    /// Returns the mount that the object belongs to.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    fn functions(&self) -> &'static raw::Functions {
        self.mount.library.0
    }

    fn info(&self) -> *mut raw::MountInfo {
        self.mount.info.as_ptr()
    }

    fn as_ptr(&self) -> *mut raw::Inode {
        self.inode.as_ptr()
    }

    /// Runs a call that returns an object with its attributes.
    fn found(
        &self,
        call: impl FnOnce(*mut *mut raw::Inode, *mut raw::Statx) -> i32,
    ) -> Result<(Self, Stat), CephErrno> {
        let (mut inode, mut stat) = (ptr::null_mut(), raw::Statx::EMPTY);
        done(call(&mut inode, &mut stat))?;
        Ok((Self::new(&self.mount, inode)?, Stat::of(&stat)))
    }

    /// Finds a name in a directory; does not follow symbolic links.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`, `ENOTDIR`.
    pub fn lookup(&self, name: &CStr, user: &Credentials) -> Result<(Self, Stat), CephErrno> {
        self.found(|inode, stat| {
            // SAFETY: all pointers are valid; on success both results are set, the reference is
            // ours.
            unsafe {
                (self.functions().ceph_ll_lookup)(
                    self.info(),
                    self.as_ptr(),
                    name.as_ptr(),
                    inode,
                    stat,
                    WANTED,
                    0,
                    user.as_ptr(),
                )
            }
        })
    }

    /// Returns the attributes.
    ///
    /// # Errors
    /// The library's.
    pub fn stat(&self, user: &Credentials) -> Result<Stat, CephErrno> {
        self.statx(WANTED, user).map(|stat| Stat::of(&stat))
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// The library's.
    pub fn size(&self, user: &Credentials) -> Result<u64, CephErrno> {
        self.statx(raw::statx::SIZE, user).map(|stat| stat.size)
    }

    fn statx(&self, wanted: u32, user: &Credentials) -> Result<raw::Statx, CephErrno> {
        let mut stat = raw::Statx::EMPTY;
        // SAFETY: all pointers are valid.
        done(unsafe {
            (self.functions().ceph_ll_getattr)(
                self.info(),
                self.as_ptr(),
                &mut stat,
                wanted,
                0,
                user.as_ptr(),
            )
        })?;
        Ok(stat)
    }

    /// Has the library ask the metadata server for a directory's attributes even if it relies on the
    /// ones that it has.
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
        let (mut values, mask) = set.to_raw();
        // SAFETY: all pointers are valid.
        done(unsafe {
            (self.functions().ceph_ll_setattr)(self.info(), self.as_ptr(), &mut values, mask, user.as_ptr())
        })
    }

    /// Reads a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for other objects.
    pub fn read_link(&self, user: &Credentials) -> Result<Vec<u8>, CephErrno> {
        let mut target = vec![0_u8; TARGET_MAX];
        // SAFETY: the library writes at most this many bytes.
        let length = unsafe {
            let at = target.as_mut_ptr().cast::<c_char>();
            (self.functions().ceph_ll_readlink)(self.info(), self.as_ptr(), at, target.len(), user.as_ptr())
        };
        target.truncate(usize::try_from(count(length.into())?).unwrap_or(0));
        Ok(target)
    }

    /// Returns the value of an extended attribute of at most `longest` bytes.
    ///
    /// # Errors
    /// `ENODATA` if there is none, `ERANGE` for a longer one.
    pub fn xattr(&self, name: &CStr, longest: usize, user: &Credentials) -> Result<Vec<u8>, CephErrno> {
        let mut value = vec![0_u8; longest];
        // SAFETY: the library writes at most this many bytes.
        let length = unsafe {
            let at = value.as_mut_ptr().cast();
            (self.functions().ceph_ll_getxattr)(
                self.info(),
                self.as_ptr(),
                name.as_ptr(),
                at,
                value.len(),
                user.as_ptr(),
            )
        };
        value.truncate(usize::try_from(count(length.into())?).unwrap_or(0));
        Ok(value)
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
        // SAFETY: the library reads the value during the call.
        done(unsafe {
            (self.functions().ceph_ll_setxattr)(
                self.info(),
                self.as_ptr(),
                name.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                flags,
                user.as_ptr(),
            )
        })
    }

    /// Returns the names of the extended attributes, which may take `longest` bytes with a NUL
    /// behind each.
    ///
    /// # Errors
    /// `ERANGE` for more.
    pub fn xattrs(&self, longest: usize, user: &Credentials) -> Result<Vec<Vec<u8>>, CephErrno> {
        let mut names = vec![0_u8; longest];
        let mut length = 0;
        // SAFETY: the library writes at most this many bytes, and their number.
        done(unsafe {
            let at = names.as_mut_ptr().cast::<c_char>();
            (self.functions().ceph_ll_listxattr)(
                self.info(),
                self.as_ptr(),
                at,
                names.len(),
                &mut length,
                user.as_ptr(),
            )
        })?;
        names.truncate(length);
        Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EACCES`, and others of the library.
    pub fn remove_xattr(&self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(unsafe {
            (self.functions().ceph_ll_removexattr)(self.info(), self.as_ptr(), name.as_ptr(), user.as_ptr())
        })
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
    ) -> Result<(Self, Stat, OpenFile), CephErrno> {
        let mut file = ptr::null_mut();
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW;
        let (inode, stat) = self.found(|inode, stat| {
            // SAFETY: all pointers are valid; on success all three results are set and ours.
            unsafe {
                (self.functions().ceph_ll_create)(
                    self.info(),
                    self.as_ptr(),
                    name.as_ptr(),
                    mode,
                    flags,
                    inode,
                    &mut file,
                    stat,
                    WANTED,
                    0,
                    user.as_ptr(),
                )
            }
        })?;
        let file = OpenFile::new(&self.mount, file)?;
        Ok((inode, stat, file))
    }

    /// Creates an object that is no regular file.
    ///
    /// # Errors
    /// `EEXIST`, `EACCES`, `EPERM`, and others of the library.
    pub fn create(
        &self,
        name: &CStr,
        object: NewObject<'_>,
        mode: u32,
        user: &Credentials,
    ) -> Result<(Self, Stat), CephErrno> {
        let (library, info, parent) = (self.functions(), self.info(), self.as_ptr());
        let (name, user) = (name.as_ptr(), user.as_ptr());
        self.found(|inode, stat| {
            // SAFETY: all pointers are valid; on success both results are set, the reference is
            // ours.
            unsafe {
                match object {
                    NewObject::Directory => {
                        (library.ceph_ll_mkdir)(info, parent, name, mode, inode, stat, WANTED, 0, user)
                    }
                    NewObject::Symlink(target) => {
                        let target = target.as_ptr();
                        (library.ceph_ll_symlink)(info, parent, name, target, inode, stat, WANTED, 0, user)
                    }
                    NewObject::Special(kind, rdev) => {
                        let mode = mode | kind;
                        (library.ceph_ll_mknod)(info, parent, name, mode, rdev, inode, stat, WANTED, 0, user)
                    }
                }
            }
        })
    }

    /// Makes a further name for the object.
    ///
    /// # Errors
    /// `EEXIST`, `EPERM`, `EXDEV`, and others of the library.
    pub fn link(&self, directory: &Self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        self.with(directory)?;
        // SAFETY: all pointers are valid and of one mount.
        done(unsafe {
            (self.functions().ceph_ll_link)(
                self.info(),
                self.as_ptr(),
                directory.as_ptr(),
                name.as_ptr(),
                user.as_ptr(),
            )
        })
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
        self.with(to)?;
        // SAFETY: all pointers are valid and of one mount.
        done(unsafe {
            (self.functions().ceph_ll_rename)(
                self.info(),
                self.as_ptr(),
                name.as_ptr(),
                to.as_ptr(),
                new_name.as_ptr(),
                user.as_ptr(),
            )
        })
    }

    /// Refuses an object of another mount.
    fn with(&self, other: &Self) -> Result<(), CephErrno> {
        if Arc::ptr_eq(&self.mount, &other.mount) { Ok(()) } else { Err(CephErrno::new(libc::EXDEV)) }
    }

    /// Removes a name of something other than a directory.
    ///
    /// # Errors
    /// `EISDIR`, `ENOENT`, `EACCES`, and others of the library.
    pub fn unlink(&self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(unsafe {
            (self.functions().ceph_ll_unlink)(self.info(), self.as_ptr(), name.as_ptr(), user.as_ptr())
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENOTEMPTY`, `EACCES`, and others of the library.
    pub fn remove_directory(&self, name: &CStr, user: &Credentials) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(unsafe {
            (self.functions().ceph_ll_rmdir)(self.info(), self.as_ptr(), name.as_ptr(), user.as_ptr())
        })
    }

    /// Returns the sizes of the file system, or of the quota of the mounted directory.
    ///
    /// # Errors
    /// The library's.
    pub fn file_system_size(&self) -> Result<FileSystemSize, CephErrno> {
        let mut size = MaybeUninit::<libc::statvfs>::zeroed();
        // SAFETY: all pointers are valid; a value of zeros is valid, too.
        let size = unsafe {
            done((self.functions().ceph_ll_statfs)(self.info(), self.as_ptr(), size.as_mut_ptr()))?;
            size.assume_init()
        };
        Ok(FileSystemSize::of(&size))
    }

    /// Waits until the object's data and attributes are on stable storage, and in a directory the
    /// changes of names that this client has made.
    ///
    /// # Errors
    /// The error of a write that failed.
    pub fn sync(&self) -> Result<(), CephErrno> {
        // SAFETY: all pointers are valid.
        done(unsafe { (self.functions().ceph_ll_sync_inode)(self.info(), self.as_ptr(), 0) })
    }

    /// Opens a directory for listing.
    ///
    /// # Errors
    /// `ENOTDIR`, `EACCES`.
    pub fn list(&self, user: &Credentials) -> Result<DirectoryStream, CephErrno> {
        let mut stream = ptr::null_mut();
        // SAFETY: on success the pointer is set and ours.
        done(unsafe {
            (self.functions().ceph_ll_opendir)(self.info(), self.as_ptr(), &mut stream, user.as_ptr())
        })?;
        DirectoryStream::new(&self.mount, stream)
    }

    /// Opens a regular file: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    ///
    /// # Errors
    /// `EACCES`, `EROFS` in a snapshot, and others of the library.
    pub fn open(&self, access: i32, user: &Credentials) -> Result<OpenFile, CephErrno> {
        let mut file = ptr::null_mut();
        let flags = access & libc::O_ACCMODE;
        // SAFETY: on success the pointer is set and ours.
        done(unsafe {
            (self.functions().ceph_ll_open)(self.info(), self.as_ptr(), flags, &mut file, user.as_ptr())
        })?;
        OpenFile::new(&self.mount, file)
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        unsafe { (self.functions().ceph_ll_put)(self.info(), self.as_ptr()) };
    }
}
