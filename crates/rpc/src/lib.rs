//! ONC RPC (RFC 5531) and RPCSEC_GSS (RFC 2203): record marking, headers, credentials, sequence
//! window.
//!
//! This crate converts between bytes and values, for servers and clients. It opens no socket, reads
//! no clock and draws no random numbers. [`memory`] reuses the buffers of large records.

#![warn(clippy::indexing_slicing)]

pub mod generated;
pub mod gss;
pub mod memory;

mod auth;
mod call;
mod connection;
mod record;
mod reply;
mod window;

pub use auth::{AUTH_SYS_GIDS_MAX, AuthSys, MACHINE_NAME_MAX, OPAQUE_AUTH_MAX, OpaqueAuth};
pub use call::{CallError, CallHeader, Message};
pub use connection::ConnectionId;
pub use generated::{AcceptStat, AuthFlavor, AuthStat, MAXSEQ, MsgType, RPC_VERS, RejectStat, ReplyStat};
pub use record::{RECORD_MARK_LEN, RecordError, RecordLimits, RecordMemory, RecordReader, record_mark};
pub use reply::{Accepted, Denied, ReplyError, ReplyHeader};
pub use window::{SequenceWindow, WindowImage, WindowOutcome};
