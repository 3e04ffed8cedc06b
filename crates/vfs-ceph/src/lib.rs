//! A directory of CephFS as a backend.
//!
//! [`CephBackend::open`] mounts the directory by libcephfs. Each call carries the caller's user and
//! groups: the library checks permissions by them, and the metadata servers check the rights of the
//! gateway's own key, which may be limited to users and paths. Objects are found by their inode and
//! snapshot numbers, so handles are good on every gateway and after restarts.

mod access;
mod acls;
mod attributes;
mod backend;
mod containment;
mod create;
mod dirty;
mod errno;
mod file;
mod handle;
mod handle_key;
mod leases;
mod locks;
mod mounts;
mod names;
mod object;
mod operations;
mod quota;
mod readdir;
mod sessions;
mod setattr;
mod xattrs;

pub use backend::{CephBackend, CephError, CephOptions};
pub use ceph::fs::{CephSession, unmount_all, wait_for_unmounts};
pub use ceph::{on_blocklisted, was_blocklisted};
pub use sessions::{end_session, identities};
