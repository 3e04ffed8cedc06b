//! Principals to uids and gids, and owners to names and back.
//!
//! A Kerberos principal becomes the [`Identity`] that its calls act with once a context ([`Mapper::principal`]);
//! the attributes `owner` and `owner_group` are strings on the wire and numbers in the file system
//! ([`Mapper::owner_of_uid`] and its siblings, RFC 8881 section 5.9). Where names come from is an
//! [`IdentitySource`]: the system's name service ([`NssSource`]) or a table ([`StaticSource`]).
//!
//! Nothing here reads a clock: expiry takes `now`. Name services may be slow, so callers map off the threads
//! that serve I/O.

mod cache;
mod mapper;
mod nss;
mod owner;
mod principal;
mod rules;
mod source;

pub use mapper::{Mapped, Mapper, PrincipalError};
pub use nss::NssSource;
pub use owner::OwnerError;
pub use principal::Principal;
pub use rules::{Rules, Unknown};
pub use source::{IdentitySource, SourceError, StaticSource};

use std::sync::Arc;

/// The user and the group `nobody`, whom callers without an account act as.
pub const ANONYMOUS_ID: u32 = 65_534;

/// Whom a caller acts as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, any number; the primary group may be among them.
    pub groups: Arc<[u32]>,
}

impl Identity {
    /// Returns `nobody` without supplementary groups.
    pub fn anonymous() -> Self {
        Self { uid: ANONYMOUS_ID, gid: ANONYMOUS_ID, groups: [].into() }
    }
}
