//! Clients, sessions, slots, opens, locks and leases as a pure state machine that takes the time as
//! an argument.
//!
//! [`State`] holds an NFS server's knowledge of its clients (RFC 8881 sections 2.4, 2.10, 8 and 9).
//! It never reads a clock, does I/O or draws random numbers: the caller passes `now` (any monotonic
//! time), random numbers and the identity that the RPC layer proved. Each call returns [`Effects`]
//! for the caller to perform.
//!
//! Operations are grouped by the tables that they own: [`State::clients`], [`State::leases`],
//! [`State::sessions`], [`State::callbacks`], [`State::opens`], [`State::locks`],
//! [`State::delegations`], [`State::copies`] and [`State::v40`]. Each group is one folder, and only
//! that folder sees the fields of its tables.
//!
//! A COMPOUND begins with [`Sessions::sequence`], which takes a slot and returns a [`Begun`] with a
//! [`ClientKey`] for the operations. It ends with [`Sessions::finish`], which stores the encoded
//! reply.
//!
//! # Threads
//!
//! All methods take `&self`. The locks are inside, since only this crate knows which tables an
//! operation touches. The crate stays pure: a lock protects its own tables, and a call waits only
//! for other calls. The module `order` declares the lock order. A call that takes locks in another
//! order does not compile.
//!
//! SEQUENCE and the end of a COMPOUND look up a stripe of sessions, change fields of that session
//! alone (see `sessions`) and lock their slot; READ and WRITE look up a stripe of opens. Requests
//! of different sessions therefore share only stripe locks, which they hold for a lookup.
//!
//! An open is stored once, in the table of opens: the permissions of READ change at one moment.
//! Where an operation gives up access, the open changes before the file's shares do, so that no
//! other client gets access that is still in use.

mod caller;
mod clients;
mod copies;
mod delegations;
mod effects;
mod files;
mod groups;
mod handles;
mod hash;
mod limits;
mod listing;
mod locks;
mod opens;
#[doc(hidden)]
pub mod order;
mod quotas;
mod revocation;
mod scramble;
mod sessions;
mod slab;
mod stateids;
mod sync;
mod table;
#[cfg(test)]
mod tests;
pub mod v40;

pub use caller::{Caller, OpSet, Principal, Protection};
pub use clients::ClientKey;
pub use clients::creator::PrincipalHash;
pub use clients::exchange_id::{ExchangeId, ExchangeIdOk, StateProtect};
pub use clients::mach_cred::MUST_ENFORCE_SUPPORTED;
pub use clients::records::RecordTickets;
pub use clients::tenants::TenantName;
pub use copies::{CopyKey, CopyStatus, NewCopy, Offload};
pub use delegations::cb_getattr::{GetattrWait, HeldAttributes, HolderReply};
pub use delegations::recalls::Recall;
pub use delegations::{Delegated, DelegationKey, DelegationMode, DelegationRequest, ReferringCall};
pub use effects::image::CallbackTaskImage;
pub use effects::{CallbackTask, Effect, Effects, OwnerRival};
pub use handles::{Callbacks, Clients, Copies, Delegations, Leases, Locks, Opens, Sessions, V40};
pub use limits::Limits;
pub use listing::{
    Listed, ListedBackchannel, ListedClient, ListedDelegation, ListedHolder, ListedLock, ListedOpen,
    ListedSession,
};
pub use locks::ranges::{LockMode, LockRange, RangeError};
pub use locks::requests::{Lock, LockDenied, LockError, Locker};
pub use locks::waits::{LockNotice, NoticeKey};
pub use opens::requests::{OpenClaim, OpenOutcome, OpenRequest, Opener};
pub use quotas::{Quotas, StateQuota};
pub use revocation::{RevokeError, Revoked, RevokedCounts, RevokedKind};
pub use sessions::backchannel::{BackChannel, CallbackSecurity};
pub use sessions::callbacks::image::BackCallImage;
pub use sessions::callbacks::{BackCall, CallbackEnd, NoBackChannel};
pub use sessions::connections::{Bound, ChannelDirection};
pub use sessions::create_session::{ChannelAttrs, CreateSession, CreateSessionOk};
pub use sessions::sequence::{Begun, Sequence, SequenceOk, Sequenced};
pub use sessions::slots::SlotToken;
pub use state::image::{RestoreParameters, StateImage};
pub use state::{Boot, Counts, PriorClient, State};
pub use stateids::StateidKind;
pub use table::image::KeyImage;

mod state;

use nfs4::{Clientid4, Nfsstat4, Sessionid4, Stateid4};

/// The result of an operation on state: a value, or the status for the client (RFC 8881 section
/// 15.1).
pub type Result<T> = core::result::Result<T, Nfsstat4>;
