//! Where accounts come from.

use std::collections::HashMap;

use crate::Identity;

/// The name service failed, which is not the same as "no such account": it may know tomorrow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name service failed while looking up {what}: {why}")]
pub struct SourceError {
    /// What was looked up.
    pub what: String,
    /// What it said.
    pub why: String,
}

/// A directory of local accounts. Lookups may block; they never see names longer than
/// [`Rules::name_max`](crate::Rules::name_max).
pub trait IdentitySource: Send + Sync {
    /// Says whether lookups may take longer than a look into memory.
    fn may_block(&self) -> bool {
        true
    }
    /// Returns the account of a user with all of its groups, `None` if there is none.
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError>;
    /// Returns a user's number.
    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError>;
    /// Returns a group's number.
    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError>;
    /// Returns a user's name.
    fn user(&self, uid: u32) -> Result<Option<String>, SourceError>;
    /// Returns a group's name.
    fn group(&self, gid: u32) -> Result<Option<String>, SourceError>;
}

/// Accounts from a table, for tests and for servers without a name service.
#[derive(Clone, Debug, Default)]
pub struct StaticSource {
    users: HashMap<String, Identity>,
    groups: HashMap<String, u32>,
}

impl StaticSource {
    /// Adds a user with its primary group's number and supplementary groups.
    pub fn with_user(mut self, name: &str, uid: u32, gid: u32, groups: &[u32]) -> Self {
        self.users.insert(name.to_owned(), Identity { uid, gid, groups: groups.into() });
        self
    }

    /// Adds a group.
    pub fn with_group(mut self, name: &str, gid: u32) -> Self {
        self.groups.insert(name.to_owned(), gid);
        self
    }
}

impl IdentitySource for StaticSource {
    fn may_block(&self) -> bool {
        false
    }

    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        Ok(self.users.get(user).cloned())
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        Ok(self.users.get(user).map(|identity| identity.uid))
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        Ok(self.groups.get(group).copied())
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        Ok(self.users.iter().filter(|(_, i)| i.uid == uid).map(|(name, _)| name).min().cloned())
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        Ok(self.groups.iter().filter(|(_, g)| **g == gid).map(|(name, _)| name).min().cloned())
    }
}
