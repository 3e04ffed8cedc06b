//! Maps principals to uids and gids, and owners to names and back.
//!
//! A Kerberos principal maps to the [`Identity`] of its calls when a context is established
//! ([`Mapper::principal`]). The attributes `owner` and `owner_group` are strings on the wire and
//! numbers in the file system ([`Mapper::owner_of_uid_within`] and its siblings, RFC 8881 section
//! 5.9). An [`IdentitySource`] supplies the names: the system's name service ([`NssSource`]) or a
//! table ([`StaticSource`]).
//!
//! Expiry uses the caller's `now`; only waits read a clock. Sources may be slow, fail or hang. They
//! are used on threads of this crate, and callers wait a bounded time or not at all ([`Wait`]).
//!
//! A source that fails or is late never makes a principal `nobody`: the previous account stands in
//! up to [`Rules::stale_expiry`], and after that callers get an error to retry.

mod accounts;
mod auth_to_local;
mod cache;
mod chain;
mod client_name;
mod client_names;
mod directories;
mod hosts;
mod lookup_times;
mod lookups;
mod mapper;
mod name_caches;
mod netgroups;
mod no_account;
mod nss;
mod owner;
mod pattern;
mod principal;
mod rules;
mod source;

pub use auth_to_local::LocalRule;
pub use cache::CacheAge;
pub use chain::{AccountSource, Explanation, LookupStep};
pub use client_name::{ClientName, ClientNameError};
pub use client_names::{ClientDirectory, ClientTimes, NamedGroup};
pub use hosts::{HostSource, NssHosts};
pub use lookup_times::{LookupHistogram, LookupKind};
pub use lookups::Wait;
pub use mapper::{LookupCounts, Mapped, Mapper, PrincipalError};
pub use no_account::NoAccount;
pub use nss::NssSource;
pub use owner::OwnerError;
pub use pattern::fits_pattern;
pub use principal::Principal;
pub use rules::{Rules, Unknown};
pub use source::{AccountAnswer, IdentitySource, SourceError, StaticSource};

use std::sync::Arc;

/// The user and the group `nobody`, which callers without an account use.
pub const ANONYMOUS_ID: u32 = 65_534;

/// The account that a caller acts as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Numeric id of the user.
    pub uid: u32,
    /// Numeric id of the primary group.
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
