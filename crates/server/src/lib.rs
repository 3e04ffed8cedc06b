//! The NFSv4.1/4.2 server: RPC dispatch, RPCSEC_GSS contexts, the COMPOUND engine and its operations.

pub mod attr;
mod call;
pub mod callback;
pub mod dispatch;
pub mod engine;
mod log_limit;
pub mod metrics;
pub mod ops;
pub mod rpcsec;
pub mod security;

pub use log_limit::LogLimit;
