//! A grace period that several gateways share, as a pure state machine.
//!
//! Gateways over one file system must not grant new opens and locks while the clients of a
//! restarted gateway reclaim theirs. They agree on that through a small [`Database`] in shared
//! storage, whose layout and rules are those of ganesha-rados-cluster-design(8). [`GraceMember`] is
//! one gateway: it gets what a reading of the database shows, and the time, and returns the next
//! [`MemberAction`] for its caller to perform. So it can stop at any step, and a new instance
//! continues.
//!
//! The database is only changed if it is still as it was read. Each change therefore holds for the
//! whole cluster at once, and messages between gateways only save time.

mod change;
mod database;
mod member;
mod node;
mod record_table;
mod records;
mod sessions;
#[cfg(test)]
mod tests;
mod watched;

pub use change::DatabaseChange;
pub use database::{Database, DatabaseError, Epochs, NodeFlags};
pub use member::{GraceMember, LocalFacts, MemberAction, MemberWait, StopReason, Timing, View};
pub use node::{NODE_ID_MAX, NodeId, NodeIdError};
pub use record_table::{RecordChanges, RecordTable};
pub use records::{ClientRecord, ClientRecordError, ReleaseProtection, record_object};
pub use sessions::Sessions;
