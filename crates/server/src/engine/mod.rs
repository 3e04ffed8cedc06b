//! The state of the server and of one COMPOUND, and the building blocks of operations.
//!
//! [`Nfs`] is the server. [`Compound`] is a COMPOUND while a thread runs it, and [`CompoundState`]
//! is the part of it that outlives a deferral. [`crate::ops`] has the operations;
//! [`crate::compound`] runs them.
//!
//! | to understand | read |
//! |---|---|
//! | the server | `nfs`, `config`, `choices` |
//! | a call, and its COMPOUND | `call`, `compound`, `v40`, `status`, `error`, `finish`, `space` |
//! | a COMPOUND that waits | `suspend`, `pending_sync`, `recording`, `journal`, `replies` |
//! | filehandles and names | `fh`, `attach`, `namespace`, `names`, `change`, `names_held` |
//! | exports and refusals | `former_exports`, `wrongsec`, `refusals` |
//! | opens and locks | `io`, `local_locks`, `program_waits`, `shortage` |
//! | delegations and callbacks | `delegations`, `breaks`, `callbacks` |
//! | callers and owners | `client_names`, `owners`, `numeric_owners`, `sys_groups` |
//! | copies after the reply | `offload` |
//! | administrators, and an upgrade | `listing`, `busy_files`, `observe`, `image`, `hex` |

mod attach;
mod breaks;
mod busy_files;
mod call;
mod callbacks;
mod change;
mod choices;
mod client_names;
mod compound;
mod config;
mod delegations;
mod error;
mod fh;
mod finish;
mod former_exports;
mod hex;
mod image;
pub mod io;
mod journal;
mod listing;
mod local_locks;
pub mod names;
mod names_held;
mod namespace;
mod nfs;
mod numeric_owners;
mod observe;
mod offload;
mod owners;
mod pending_sync;
mod program_waits;
mod recording;
mod refusals;
mod replies;
mod shortage;
mod space;
mod status;
mod suspend;
mod sys_groups;
mod v40;
mod wrongsec;

pub use busy_files::BusyFile;
pub use call::{Call, CompoundOutcome};
pub use change::Change;
pub use compound::{Compound, CompoundPhase, CompoundState, InSession, Position};
pub use config::{ClientRecords, NfsConfig, NoRecords, Start};
pub use delegations::Delegations;
pub use error::{Cause, DeferReason, ErrorBody, OpError, OpResult, OpStop, vfs_status};
pub(crate) use fh::PSEUDO_EXPORT;
pub use fh::{Fh, FileKey, Object};
pub(crate) use finish::{fail, write_failure};
pub use hex::{hex, unhex};
pub use image::{InboundObjects, NfsImage, ObjectsImage, ObjectsIn, ObjectsOut, OutboundObjects, Resumed};
pub use journal::{JournalOwners, journal_line, journal_line_gone, journal_owners};
pub use listing::ListedFile;
pub(crate) use local_locks::LOCAL_OWNER;
pub use local_locks::LockFailure;
pub use namespace::regular_file;
pub use nfs::{Nfs, NfsParts, NfsState, OpenPayload};
pub use numeric_owners::NumericOwners;
pub use observe::{Deed, ObservedOperation, ObservedRefusal, Observer, WantedOperations};
pub(crate) use observe::{Observation, principal_of};
pub use offload::{BackgroundCopy, CopyRunner, OffloadCounts};
pub(crate) use offload::{CopyRange, Offloads};
pub(crate) use owners::NAMES_LANE;
pub use recording::SyncedRecords;
pub(crate) use refusals::RefusedBy;
pub use shortage::Shortage;
pub(crate) use status::allowed as allowed_status;
pub use suspend::{CommitKey, WaitPolicy, WaitsFor};
pub use sys_groups::SysGroups;
pub use v40::Of40;
