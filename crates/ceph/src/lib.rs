//! Ceph's client libraries, loaded at run time, so that one program serves sites with and without
//! Ceph.
//!
//! [`fs`] is libcephfs: mounts, inodes, open files. Each C object has one Rust owner that frees it,
//! and no pointer leaves the crate. All exported functions are safe to call. Another library of
//! Ceph gets a module beside `fs`: its functions are declared with the macro of `loading`.

mod errno;
pub mod fs;
mod loading;

pub use errno::CephErrno;
pub use loading::LibraryError;
