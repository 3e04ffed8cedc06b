//! Clients, sessions, slots, opens, locks and leases as a pure state machine that takes the time as an argument.
//!
//! [`State`] is all that an NFSv4.1/4.2 server knows about its clients (RFC 8881 sections 2.4, 2.10, 8 and 9). It
//! never reads a clock, does I/O or draws randomness: the caller passes `now` (any monotonic time, say since the
//! start), random numbers and what the RPC layer proved about the sender, and gets [`Effects`] to see to after a call.
//!
//! A COMPOUND goes through it like this: [`State::sequence`] begins a slot and returns a [`Begun`] with a
//! [`ClientKey`] for the operations and a [`SlotToken`] that [`State::finish`] takes with the encoded reply.
//!
//! # Threads
//!
//! All methods take `&self`. The locks are in here and not around it, since only here is it known what an operation
//! touches; the crate stays pure, because what a lock protects are its own tables and no call waits for anything
//! but other calls. They are taken in this order, and each but the first two only one at a time:
//!
//! 1. the registry (one): clients by their names, sessions of a client, the end of leases and of the grace period. For
//!    EXCHANGE_ID, CREATE_SESSION, DESTROY_*, BIND_CONN_TO_SESSION, RECLAIM_COMPLETE, reclaims and housekeeping.
//! 2. the books of a client (one a client): its owners, opens and lock stateids. For OPEN, CLOSE, LOCK and their kin.
//! 3. the files, in stripes by name: shares and locked ranges. For the same, LOCKT, and I/O with special stateids.
//! 4. leaves: stripes of the tables of clients, sessions, opens, lock stateids, delegations, copies and owners; recalls; notices; slots; connections, and under
//!    those of a session how to call it back.
//!
//! SEQUENCE and the end of a COMPOUND look up a stripe of sessions, change what is the session's own (see `sessions`)
//! and lock their slot; READ and WRITE look up a stripe of opens. So requests of different sessions share nothing that
//! either writes but the locks of stripes that happen to be the same, and those are only held for a look.
//!
//! An open is in one place, the table of opens: what READ may do changes at one moment. Where an operation gives up
//! access, the open changes before the file's shares do, so that nobody gets what another can still use.

mod backchannel;
mod callbacks;
mod caller;
mod clients;
mod closes;
mod connections;
mod copies;
mod courtesy;
mod create_session;
mod creator;
mod delegations;
mod delegreturn;
mod destroy;
mod effects;
mod exchange_id;
mod files;
mod grace;
mod hash;
mod leases;
mod limits;
mod lock_ranges;
mod lock_requests;
mod lock_waits;
mod locks;
mod locks_elsewhere;
mod looks;
mod mach_cred;
mod memory;
mod open_requests;
mod opens;
mod recalls;
mod registry;
mod scramble;
mod sequence;
mod sessions;
mod shares;
mod slab;
mod slots;
mod stateids;
mod table;
mod tenants;
#[cfg(test)]
mod tests;
mod users;
pub mod v40;

pub use backchannel::{BackChannel, CallbackSecurity};
pub use callbacks::{BackCall, CallbackEnd, NoBackChannel};
pub use caller::{Caller, OpSet, Principal, Protection};
pub use clients::ClientKey;
pub use connections::{Bound, ChannelDirection};
pub use copies::{CopyKey, CopyStatus, NewCopy, Offload};
pub use create_session::{ChannelAttrs, CreateSession, CreateSessionOk};
pub use creator::PrincipalHash;
pub use delegations::{Delegated, DelegationKey, Referring, Wish};
pub use effects::{CallbackTask, Effect, Effects};
pub use exchange_id::{ExchangeId, ExchangeIdOk, StateProtect};
pub use limits::Limits;
pub use lock_ranges::{LockRange, LockedFor, RangeError};
pub use lock_requests::{Lock, LockDenied, LockError, Locker};
pub use lock_waits::{LockNotice, NoticeKey};
pub use looks::{HeldAttributes, LookKey, Looked};
pub use open_requests::{OpenClaim, OpenOutcome, OpenRequest};
pub use recalls::Recall;
pub use sequence::{Begun, Sequence, SequenceOk, Sequenced};
pub use slots::SlotToken;
pub use state::{Boot, Counts, PriorClient, State};
pub use stateids::StateidKind;

mod state;

use nfs4::{Clientid4, Nfsstat4, Sessionid4, Stateid4};

/// What an operation on state returns: a value, or the status of RFC 8881 section 15.1 for the client.
pub type Result<T> = core::result::Result<T, Nfsstat4>;
