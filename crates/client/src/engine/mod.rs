//! Many calls in flight on several connections, from one thread.
//!
//! [`submit`](crate::Client::submit) assigns a slot and a connection to a call. A flush seals all
//! waiting calls as one batch and writes once per connection. Receiving reads once per connection,
//! opens all replies as one batch and completes their calls. After a reconnect, the connection's
//! calls are sent again.

mod call;
mod flush;
mod link;
mod pace;
mod receive;
mod repair;

pub(crate) use call::{Calls, EngineCall};
pub(crate) use link::{Link, LinkState};
