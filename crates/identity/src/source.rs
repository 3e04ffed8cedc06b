//! The sources of accounts.

use std::collections::HashMap;

use crate::Identity;

/// A failure of a source, unlike "no such account": a retry may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lookup of {what} failed: {why}")]
pub struct SourceError {
    /// The name or number of the lookup.
    pub what: String,
    /// The reason that the service reports.
    pub why: String,
}

/// The answer of a source about the user of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountAnswer {
    /// The account with all of its groups.
    Account(Identity),
    /// The source does not have the user.
    Absent,
    /// The source has an entry of the user that is no account of this system, for this reason.
    Unusable(String),
    /// The source has disabled the user, for this reason: no other source gives the account.
    Disabled(String),
}

impl AccountAnswer {
    /// Returns the account if there is one.
    pub fn account(self) -> Option<Identity> {
        match self {
            Self::Account(identity) => Some(identity),
            Self::Absent | Self::Unusable(_) | Self::Disabled(_) => None,
        }
    }
}

impl From<Option<Identity>> for AccountAnswer {
    fn from(found: Option<Identity>) -> Self {
        found.map_or(Self::Absent, Self::Account)
    }
}

/// A directory of local accounts. Lookups may block; names are never longer than
/// [`Rules::name_max`](crate::Rules::name_max).
pub trait IdentitySource: Send + Sync {
    /// Returns whether lookups may do more than read memory.
    fn may_block(&self) -> bool {
        true
    }
    /// Returns the account of a user with all of its groups, `None` if there is none.
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError>;
    /// Returns the account of a user as [`IdentitySource::identity`] does, or the reason why its
    /// entry is none.
    fn of_user(&self, user: &str) -> Result<AccountAnswer, SourceError> {
        self.identity(user).map(AccountAnswer::from)
    }
    /// Returns the account of a principal with all of its groups. `user` is its name by the rules.
    fn of_principal(&self, _principal: &str, user: &str) -> Result<AccountAnswer, SourceError> {
        self.of_user(user)
    }
    /// Describes the lookup of a principal, for administrators.
    fn query(&self, _principal: &str, user: &str) -> String {
        format!("user {user}")
    }
    /// Returns the account of a uid with all of its groups, `None` if there is none.
    fn account(&self, uid: u32) -> Result<Option<Identity>, SourceError> {
        let Some(user) = self.user(uid)? else { return Ok(None) };
        Ok(self.identity(&user)?.map(|identity| Identity { uid, ..identity }))
    }
    /// Returns the number of a user.
    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError>;
    /// Returns the number of a group.
    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError>;
    /// Returns the name of a user.
    fn user(&self, uid: u32) -> Result<Option<String>, SourceError>;
    /// Returns the name of a group.
    fn group(&self, gid: u32) -> Result<Option<String>, SourceError>;
}

/// A table of accounts, for tests and for servers without a name service.
#[derive(Clone, Debug, Default)]
pub struct StaticSource {
    users: HashMap<String, Identity>,
    groups: HashMap<String, u32>,
}

impl StaticSource {
    /// Adds a user with its primary and supplementary group numbers.
    pub fn with_user(mut self, name: &str, uid: u32, gid: u32, groups: &[u32]) -> Self {
        self.users.insert(name.to_owned(), Identity { uid, gid, groups: groups.into() });
        self
    }

    /// Adds a group with its number.
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
