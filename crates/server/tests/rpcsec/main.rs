//! RPCSEC_GSS and the dispatch, bytes in and bytes out, with fixed keys.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod backchannel;
mod client;
mod contexts;
mod damaged;
mod dispatch;
mod hostile;
mod identities;
mod server;
mod session;
mod sys_groups;
mod times;
mod traps;
mod waiting;
