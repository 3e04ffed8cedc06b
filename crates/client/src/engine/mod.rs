//! Many calls at once on several connections, from one thread.
//!
//! A call goes: [`submit`](crate::Client::submit) gives it a slot and a connection; a flush seals
//! all calls that wait as one batch and writes once a connection; receiving reads once a
//! connection, opens all replies as one batch and completes their calls. A cut connection gets its
//! calls back when it is made again.

mod call;
mod flush;
mod link;
mod pace;
mod receive;
mod repair;

pub(crate) use call::{Call, Calls};
pub(crate) use link::{Link, LinkState};
