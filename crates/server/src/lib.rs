//! The NFSv4.1/4.2 server: RPC dispatch, RPCSEC_GSS contexts, the COMPOUND engine and its operations.

pub mod attr;
pub mod callback;
pub mod dispatch;
pub mod engine;
pub mod ops;
pub mod rpcsec;
pub mod security;
