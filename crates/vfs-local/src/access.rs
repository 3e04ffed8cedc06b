//! ACCESS, and the right to execute on mounts that execute nothing.
//!
//! The kernel refuses X_OK for files of a mount with `noexec`. The flag protects the programs of
//! this machine, the server first: the unit of systemd sets it for all exports. Clients execute on
//! machines of their own, so mode and access list decide for them, as in the kernel's server.

use crate::{LocalBackend, attributes::stat_fd, cached_object::CachedObject, sys};
use rustix::{
    fs::{FileType, StatVfsMountFlags, Statx, fstatvfs},
    process::{getegid, geteuid, getgroups},
};
use std::os::fd::AsFd;
use vfs::{ACL_EXECUTE, Caller, Permissions, PosixAcl};

/// The permission bits for execution, without which no caller may execute a file.
const EXECUTE: u16 = 0o111;

impl LocalBackend {
    /// Returns the rights of the caller, whose identity the thread has.
    pub(crate) fn rights(&self, caller: &Caller, object: &CachedObject) -> Permissions {
        let may = |rights| sys::access(object.as_fd(), rights).is_ok();
        let executable = object.file_type != FileType::RegularFile || has_execute_bit(object);
        if executable && may(libc::R_OK | libc::W_OK | libc::X_OK) {
            return Permissions { read: true, write: true, execute: true };
        }
        let execute = || executable && self.may_execute(caller, object);
        // Most callers own the file, which is no program. A refusal of both rights tells, with one
        // of the two, about the other.
        if may(libc::R_OK | libc::W_OK) {
            return Permissions { read: true, write: true, execute: execute() };
        }
        let read = may(libc::R_OK);
        Permissions { read, write: !read && may(libc::W_OK), execute: execute() }
    }

    /// Returns whether the caller, whose identity the thread has, may execute a file or search a
    /// directory.
    pub(crate) fn may_execute(&self, caller: &Caller, object: &CachedObject) -> bool {
        sys::access(object.as_fd(), libc::X_OK).is_ok()
            || object.file_type == FileType::RegularFile
                && is_without_execution(object)
                && stat_fd(object).is_ok_and(|stat| self.has_right_to_execute(caller, object, &stat))
    }

    /// Decides by mode and access list alone.
    fn has_right_to_execute(&self, caller: &Caller, object: &CachedObject, stat: &Statx) -> bool {
        let own;
        let caller = if self.identities {
            caller
        } else {
            own = process();
            &own
        };
        if caller.uid == 0 {
            return stat.stx_mode & EXECUTE != 0;
        }
        let list = self.read_acls(object).ok().and_then(|acls| acls.access);
        let list = list.unwrap_or_else(|| PosixAcl::of_mode(stat.stx_mode.into()));
        list.rights_of(caller, stat.stx_uid, stat.stx_gid) & ACL_EXECUTE != 0
    }
}

/// Returns whether the mode lets anybody execute a file; yes if it is not known.
fn has_execute_bit(object: &CachedObject) -> bool {
    stat_fd(object).map_or(true, |stat| stat.stx_mode & EXECUTE != 0)
}

/// Returns whether the kernel executes nothing on the mount of an object.
fn is_without_execution(object: &CachedObject) -> bool {
    fstatvfs(object).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Returns the user that the process runs as.
fn process() -> Caller {
    let groups = getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw());
    Caller { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups: groups.collect() }
}
