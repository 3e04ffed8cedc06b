//! The file system interface of the NFS server: the [`Backend`] trait, exports, the pseudo file
//! system and a memory backend.

mod absent;
mod acl;
mod acl_xattr;
mod active_exports;
mod backend;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod export;
mod export_table;
mod exports_error;
mod forward;
mod heir;
mod locations;
mod memory;
mod name;
mod network;
mod open_file;
mod pseudo;
mod pseudo_path;
mod rules;
mod types;

pub use absent::AbsentBackend;
pub use acl::{ACL_ENTRIES_MAX, ACL_EXECUTE, ACL_READ, ACL_WRITE, Acls, PosixAcl};
pub use active_exports::Exports;
pub use backend::{Backend, FoundObject, HeldObject, RenamedObjects};
pub use error::{VfsError, VfsResult};
pub use export::{Export, export_id, normalise};
pub use export_table::ExportTable;
pub use exports_error::ExportsError;
pub use heir::{Heir, InboundFds, OutboundFds, SharedFd};
pub use locations::{
    LOCATIONS_BYTES_MAX, Location, LocationError, LocationGroup, ServerAddress, group_locations, path_names,
};
pub use memory::{KeptObject, MemoryBackend, MemoryLimits, WallClock};
pub use name::EntryName;
pub use network::{Network, NetworkError};
pub use open_file::{
    Broken, Lease, LeaseKind, LocalLock, LockKind, LockOutcome, OpenFile, RangeLocks, copy_by_pieces,
};
pub use pipes::FileData;
pub use pseudo::{PSEUDO_FSID, Place, PseudoEntry, PseudoFs};
pub use pseudo_path::{PSEUDO_DEPTH_MAX, PSEUDO_NAME_MAX};
pub use rules::{
    ANON_ID, ClientPeer, ExportRule, NamedClients, RULES_MAX, RuleClient, RuleError, RuleIndex, SecFlavor,
    Squash, Unresolved,
};
pub use types::*;
