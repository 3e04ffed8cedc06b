//! A Linux file system as a backend, the caller's identity enforced by the kernel.
//!
//! A program calls [`prepare_process`] before it starts threads, prints the result, and opens each
//! export by [`LocalBackend::open`]. On threads that ran a backend's operations, [`become_server`]
//! comes before the program opens files of its own.

mod access;
mod acls;
mod attributes;
mod backend;
mod cached_object;
mod change;
mod containment;
mod create;
mod descriptor;
mod errno;
mod error;
mod features;
mod file;
mod fileids;
mod folder;
mod handle;
mod heir;
mod identity;
mod kind;
mod leases;
mod limitations;
mod locks;
mod mounts;
mod names;
mod open_files;
mod operations;
mod path_search;
mod places;
mod prepare;
mod process;
mod quota;
mod ranges;
mod readdir;
mod seeker;
mod setattr;
mod submounts;
mod subvolumes;
mod sys;
mod sys_leases;
mod xattrs;

pub use backend::{LocalBackend, LocalOptions};
pub use error::LocalError;
pub use file::path_of;
pub use folder::{ClientsFolders, ExportedFolder, FolderId};
pub use heir::Orphans;
pub use identity::become_server;
pub use leases::{can_lease_for_others, leave_leases_alone, take_over_leases};
pub use limitations::Limitation;
pub use prepare::{Prepared, ServesAs, can_change_owners, drop_binding, prepare_process};
pub use process::{
    deny_writable_code, exit_at_once, keep_from_children, release_memory, release_to_successor,
};
pub use submounts::SubmountBackend;
