//! Clients, sessions, slots, opens, locks and leases as a pure state machine that takes the time as an argument.
//!
//! [`State`] is all that an NFSv4.1/4.2 server knows about its clients (RFC 8881 sections 2.4, 2.10, 8 and 9). It
//! never reads a clock, does I/O or draws randomness: the caller passes `now` (any monotonic time, say since the
//! start), random numbers and what the RPC layer proved about the sender, and drains [`Effect`]s after each call.
//!
//! A COMPOUND goes through it like this: [`State::sequence`] begins a slot and returns a [`Begun`] with a
//! [`ClientKey`] for the operations and a [`SlotToken`] that [`State::finish`] takes with the encoded reply.

mod backchannel;
mod caller;
mod clients;
mod closes;
mod connections;
mod create_session;
mod destroy;
mod effects;
mod exchange_id;
mod files;
mod grace;
mod hash;
mod leases;
mod limits;
mod lock_ranges;
mod locks;
mod mach_cred;
mod opens;
mod sequence;
mod sessions;
mod shares;
mod slab;
mod slots;
mod stateids;
#[cfg(test)]
mod tests;

pub use backchannel::{BackChannel, CallbackSecurity};
pub use caller::{Caller, OpSet, Principal, Protection};
pub use clients::ClientKey;
pub use connections::{Bound, ChannelDirection};
pub use create_session::{ChannelAttrs, CreateSession, CreateSessionOk};
pub use effects::Effect;
pub use exchange_id::{ExchangeId, ExchangeIdOk, StateProtect};
pub use limits::Limits;
pub use lock_ranges::{LockRange, RangeError};
pub use locks::{Lock, LockDenied, LockError, Locker};
pub use opens::{OpenClaim, OpenOutcome, OpenRequest};
pub use sequence::{Begun, Sequence, SequenceOk, Sequenced};
pub use slots::SlotToken;
pub use state::{Boot, Counts, State};
pub use stateids::StateidKind;

mod state;

use nfs4::{Clientid4, Nfsstat4, Sessionid4, Stateid4};

/// What an operation on state returns: a value, or the status of RFC 8881 section 15.1 for the client.
pub type Result<T> = core::result::Result<T, Nfsstat4>;
