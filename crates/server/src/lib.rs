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
//! engine              the server, the state of one COMPOUND, the life of callbacks
//! callback            callbacks in flight, their encoding and protection
//! call                a call during a tick
//! rpcsec              contexts, and the protection of replies
//! tenants             the principals and clients that share the server, and their limits
//! metrics, security   counters and times; the sender of a call
//! ```
//!
//! `cargo xtask tidy` checks it.

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
pub mod tenants;

pub use log_limit::LogLimit;
