//! An NFSv4.1/4.2 client library with sessions, several connections and every security flavor.
//!
//! [`Client`] is one session. [`Client::submit`] and [`Client::poll`] keep many requests in flight
//! from one thread; [`Client::call`] makes one request and waits. [`Compound`] builds requests and
//! [`Reply`] reads results, operation by operation; [`Filesystem`] reads and writes whole files by
//! path. [`RawConnection`], [`Head`] and [`GssCall`] send malformed or unusual calls, for tests of
//! servers.
//!
//! The library starts no thread. It blocks while it connects and while it establishes a security
//! context, because Kerberos may contact the KDC.

mod callback;
mod client;
mod compound;
mod engine;
mod error;
mod filesystem;
mod low_port;
mod message;
mod ops;
mod options;
mod raw;
mod reply;
mod security;
mod session;
mod slots;

pub use callback::CallbackAnswer;
pub use client::Client;
pub use compound::Compound;
pub use engine::{CallOptions, Completion, Statistics, Ticket};
pub use error::{Error, ProtectionError, ResultsError, RpcError, TransportError};
pub use filesystem::Filesystem;
pub use low_port::may_use_low_port;
pub use ops::{
    Attributes, Create, Denial, Entry, FilePosition, Handle, Lock, OpenFile, OpenHow, flavor_of, read_result,
    write_result,
};
pub use options::{Flavor, GssCredential, NFS_PORT, Options, Security, StateProtection, SysCredential};
pub use raw::{RawConnection, resolve};
pub use reply::{Body, Reply, Results};
pub use security::{Damage, GssCall, GssContext, Head, Protection};
pub use session::{Control, Owner, Session};
pub use slots::{SequenceUse, Slot, SlotTable};
