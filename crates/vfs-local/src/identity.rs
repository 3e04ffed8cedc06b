//! The identity with which the calling thread accesses file systems.
//!
//! A switch costs a few system calls, so a thread keeps the identity of the last caller until it
//! needs another one. Code outside the backend that opens files on such a thread calls
//! [`become_server`] first.

use crate::sys;
use rustix::{io::Errno, thread::CapabilitySet};
use std::{cell::RefCell, sync::Arc};
use vfs::{Caller, VfsError, VfsResult};

/// Needed to act as other users and to open handles.
pub(crate) const IDENTITY_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// The thread's identity; `None` until it is first set, because a thread inherits from its creator.
struct Current {
    uid: Option<u32>,
    gid: Option<u32>,
    groups: Option<Arc<[u32]>>,
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { uid: None, gid: None, groups: None }) };
}

/// Gives the thread the caller's user, group and supplementary groups.
///
/// # Errors
/// `Access` when the kernel does not take them (more groups than it knows): then nothing may be
/// done.
pub(crate) fn become_caller(caller: &Caller) -> VfsResult<()> {
    CURRENT.with_borrow_mut(|current| {
        if !same_groups(current.groups.as_ref(), &caller.groups) {
            current.groups = None;
            sys::set_groups(&caller.groups).map_err(|_| VfsError::Access)?;
            current.groups = Some(Arc::clone(&caller.groups));
        }
        set_gid(current, caller.gid)?;
        set_uid(current, caller.uid)
    })
}

/// Gives the thread the server's own rights for the next system call on a handle.
pub(crate) fn become_superuser() -> VfsResult<()> {
    CURRENT.with_borrow_mut(|current| set_uid(current, 0))
}

/// Runs a closure with the server's own rights, and gives the thread its user back.
///
/// # Errors
/// `Access` when the kernel refuses the user: then nothing may be done.
pub(crate) fn as_superuser<R>(run: impl FnOnce() -> R) -> VfsResult<R> {
    let before = CURRENT.with_borrow(|current| current.uid);
    become_superuser()?;
    let done = run();
    let Some(uid) = before else { return Ok(done) };
    CURRENT.with_borrow_mut(|current| set_uid(current, uid)).map(|()| done)
}

/// Gives the calling thread the process's own identity back, without supplementary groups when it
/// is root.
///
/// Operations of a backend leave a thread with the identity of their caller; code that opens files
/// of the server's own on such a thread, or starts a process from it, calls this first. Cheap when
/// nothing changed.
pub fn become_server() {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid != 0 {
        return;
    }
    // The kernel cannot refuse a process its own identity.
    let _ = become_caller(&Caller { uid, gid, groups: [].into() });
}

/// Runs a closure as the caller for all checks of the kernel, not for file systems alone. The
/// thread has none of the server's rights meanwhile.
///
/// # Errors
/// `Access` when the kernel refuses the identity.
pub(crate) fn wholly_as<R>(caller: &Caller, run: impl FnOnce() -> R) -> VfsResult<R> {
    become_caller(caller)?;
    let _back =
        Restored { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    if !sys::set_effective_gid(caller.gid) || !sys::set_effective_uid(caller.uid) {
        return Err(VfsError::Access);
    }
    Ok(run())
}

/// Gives the thread its effective identity back, however that ends.
struct Restored {
    uid: u32,
    gid: u32,
}

impl Drop for Restored {
    fn drop(&mut self) {
        // The saved identity is the server's, so the kernel cannot refuse. With it the thread has
        // the server's rights and file system identity again.
        sys::set_effective_uid(self.uid);
        sys::set_effective_gid(self.gid);
        CURRENT.with_borrow_mut(|current| (current.uid, current.gid) = (None, None));
    }
}

fn same_groups(current: Option<&Arc<[u32]>>, wanted: &Arc<[u32]>) -> bool {
    current.is_some_and(|current| Arc::ptr_eq(current, wanted) || current == wanted)
}

fn set_gid(current: &mut Current, gid: u32) -> VfsResult<()> {
    if current.gid == Some(gid) {
        return Ok(());
    }
    current.gid = sys::set_fs_gid(gid).then_some(gid);
    current.gid.map(|_| ()).ok_or(VfsError::Access)
}

fn set_uid(current: &mut Current, uid: u32) -> VfsResult<()> {
    if current.uid == Some(uid) {
        return Ok(());
    }
    current.uid = sys::set_fs_uid(uid).then_some(uid);
    current.uid.map(|_| ()).ok_or(VfsError::Access)
}

/// Returns whether this process can take other users' identities.
pub(crate) fn can_switch() -> bool {
    let capabilities = rustix::thread::capabilities(None).map(|sets| sets.permitted);
    let has = |held: CapabilitySet| held.contains(IDENTITY_CAPABILITIES);
    rustix::process::geteuid().is_root() && capabilities.map_err(|_: Errno| ()).is_ok_and(has)
}
