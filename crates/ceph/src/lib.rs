//! Ceph's client libraries, loaded at run time, so that one program serves sites with and without
//! Ceph.
//!
//! [`fs`] is libcephfs: mounts, inodes, open files. [`rados`] is librados: objects, watches and
//! commands. Each C object has one Rust owner that frees it, and no pointer leaves the crate. All
//! exported functions are safe to call. The functions of a library are declared with the macro of
//! `loading`.

mod address;
mod errno;
pub mod fs;
mod loading;
pub mod rados;

pub use errno::{CephErrno, on_blocklisted, was_blocklisted};
pub use loading::LibraryError;
