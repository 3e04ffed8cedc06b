//! The NFSv4.0, NFSv4.1 and NFSv4.2 server: RPC dispatch, RPCSEC_GSS, COMPOUNDs and their
//! operations.
//!
//! Each module uses only the modules below it:
//!
//! ```text
//! dispatch            records in, records out: the stages of a tick
//! compound            the table of operations, and the loop that runs them
//! ops                 the operations, one file each
//! attr                attributes and access control lists
//! engine ⇄ callback   the server, the state of one COMPOUND, callbacks to clients
//! call ⇄ rpcsec       a call during a tick, and its protection
//! metrics, security   counters and times; the sender of a call
//! ```
//!
//! Two pairs still form cycles: `Nfs` owns its callbacks, and `rpcsec` opens the bodies of whole
//! batches of calls. `cargo xtask tidy` checks the other arrows.

pub mod attr;
mod call;
pub mod callback;
pub mod compound;
pub mod dispatch;
pub mod engine;
mod log_limit;
pub mod metrics;
pub mod ops;
pub mod rpcsec;
pub mod security;

pub use log_limit::LogLimit;
