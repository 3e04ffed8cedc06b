//! The shared storage of a cluster of gateways in a pool of RADOS.
//!
//! | object | content |
//! |---|---|
//! | `grace` (can be named otherwise) | the grace database, see [`grace::Database`] |
//! | `rec-EPOCH:NODE` | the clients of a member that may reclaim, see [`grace::ClientRecord`] |
//! | `orthrus-node:NODE` | the sessions of a member, and the epoch of its last records |
//! | `orthrus-beats` | signs of life of the members |
//! | `orthrus-secret` | the secret that all members share |
//!
//! The first two are those of ganesha-rados-cluster-design(8). The objects of a member have an
//! extended attribute with the number of the instance that may change them. A new instance raises
//! the number, and changes of former ones fail from then on.

mod error;
mod fence;
mod node;
mod notifier;
mod secret;
mod store;

pub use error::StoreError;
pub use fence::{FENCE_TIME, FenceError, blocklist, blocklisted};
pub use node::{NodeObjects, NodeSummary};
pub use store::{GraceStore, StoreOptions};

/// The name of the grace database unless another one is chosen.
pub const DEFAULT_OBJECT: &str = "grace";
