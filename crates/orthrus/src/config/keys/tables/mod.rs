//! The tables of all keys.

mod cluster;
mod export;
mod identity;
mod limits;
mod server;

use super::{ConfigKey, ConfigTable, KeyDefault};

const TABLES: [&[ConfigTable]; 5] =
    [server::SERVER, identity::IDENTITY, limits::LIMITS, cluster::CLUSTER, export::EXPORT];

/// Returns all tables of the file, in the order of the example.
pub(super) fn all() -> impl Iterator<Item = &'static ConfigTable> {
    TABLES.into_iter().flatten()
}
