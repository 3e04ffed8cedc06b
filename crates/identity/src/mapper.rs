//! Maps principals and owners, with caches.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::Cache;
use crate::lookups::{Asked, LOOKUP_WAIT_MAX, LookupAnswer, LookupKey, Lookups, Wait};
use crate::owner::Owner;
use crate::{Identity, IdentitySource, OwnerError, Principal, Rules, SourceError, Unknown};

/// The account of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The account; `None` for a principal without one, which acts as the export's anonymous user.
    pub identity: Option<Identity>,
    /// Whether the principal belongs to a machine, as in SP4_MACH_CRED (RFC 8881 section 2.10.8.3).
    pub machine: bool,
}

/// The reason why a principal gets no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// The principal has no account and the rules refuse such principals.
    #[error("the principal {0} has no account here, and unknown = \"refused\"")]
    Refused(String),
    /// The name service failed; the client may try again.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Maps principals and owners by the site's rules. Threads share it, and no lock is held during a
/// lookup.
pub struct Mapper {
    rules: Rules,
    source: Arc<dyn IdentitySource>,
    principals: Cache<String, Mapped>,
    owners: Arc<Owners>,
    lookups: Lookups,
}

/// The caches of owners and groups.
struct Owners {
    uids: Cache<String, Option<u32>>,
    gids: Cache<String, Option<u32>>,
    users: Cache<u32, Option<String>>,
    groups: Cache<u32, Option<String>>,
    expiry: Duration,
    absence_expiry: Duration,
}

impl Owners {
    fn new(rules: &Rules) -> Self {
        let max = rules.cache_max;
        Self {
            uids: Cache::new(max),
            gids: Cache::new(max),
            users: Cache::new(max),
            groups: Cache::new(max),
            expiry: rules.expiry,
            absence_expiry: rules.absence_expiry,
        }
    }

    /// Caches an answer that arrived at `now`.
    fn learn(&self, key: &LookupKey, answer: &LookupAnswer, now: Duration) {
        let until = |found: bool| now.saturating_add(if found { self.expiry } else { self.absence_expiry });
        match (key, answer) {
            (LookupKey::User(id), LookupAnswer::Name(name)) => {
                let name = plain(name);
                self.users.put(*id, name.clone(), until(name.is_some()));
            }
            (LookupKey::Group(id), LookupAnswer::Name(name)) => {
                let name = plain(name);
                self.groups.put(*id, name.clone(), until(name.is_some()));
            }
            // A failure of the name service is not cached: a retry may succeed.
            (LookupKey::Uid(name), LookupAnswer::Id(Ok(id))) => {
                self.uids.put(name.clone(), *id, until(id.is_some()))
            }
            (LookupKey::Gid(name), LookupAnswer::Id(Ok(id))) => {
                self.gids.put(name.clone(), *id, until(id.is_some()))
            }
            _ => {}
        }
    }

    /// Returns a cached answer that has not expired at `now`.
    fn known(&self, key: &LookupKey, now: Duration) -> Option<LookupAnswer> {
        match key {
            LookupKey::User(id) => self.users.get(id, now).map(|name| LookupAnswer::Name(Ok(name))),
            LookupKey::Group(id) => self.groups.get(id, now).map(|name| LookupAnswer::Name(Ok(name))),
            LookupKey::Uid(name) => self.uids.get(name, now).map(|id| LookupAnswer::Id(Ok(id))),
            LookupKey::Gid(name) => self.gids.get(name, now).map(|id| LookupAnswer::Id(Ok(id))),
        }
    }

    fn forget(&self) {
        self.uids.clear();
        self.gids.clear();
        self.users.clear();
        self.groups.clear();
    }
}

/// Returns a name that may precede `@domain`. If the name service fails, returns none, and the
/// failure is cached like an absent name: a directory listing must not repeat it for each entry.
fn plain(name: &Result<Option<String>, SourceError>) -> Option<String> {
    name.as_ref().ok().cloned().flatten().filter(|name| !name.contains('@'))
}

impl Mapper {
    /// Creates a mapper with empty caches.
    pub fn new(rules: Rules, source: impl IdentitySource + 'static) -> Self {
        let source: Arc<dyn IdentitySource> = Arc::new(source);
        let owners = Arc::new(Owners::new(&rules));
        let learning = owners.clone();
        let learn = move |key: &LookupKey, answer: &LookupAnswer, now| learning.learn(key, answer, now);
        let lookups = Lookups::new(source.clone(), learn);
        let principals = Cache::new(rules.cache_max);
        Self { rules, source, principals, owners, lookups }
    }

    /// Returns the rules of the site.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Drops all cached answers, for a reload.
    pub fn forget(&self) {
        self.principals.clear();
        self.lookups.forget();
        self.owners.forget();
    }

    /// Maps an authenticated principal, `alice@REALM`.
    ///
    /// A machine's principal and `root@REALM` have no account unless [`Rules::principals`] names
    /// them. Without that no principal becomes uid 0, regardless of the name service.
    ///
    /// # Errors
    /// `Refused` by the rules; `Source` if the name service fails, which is not cached.
    pub fn principal(&self, text: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        let mapped = match self.principals.get(text, now) {
            Some(mapped) => mapped,
            None => {
                let mapped = self.look_up(text)?;
                let life =
                    if mapped.identity.is_some() { self.rules.expiry } else { self.rules.absence_expiry };
                // Texts longer than any account name have no account, and are not cached.
                if text.len() <= 2 * self.rules.name_max {
                    self.principals.put(text.to_owned(), mapped.clone(), now.saturating_add(life));
                }
                mapped
            }
        };
        if mapped.identity.is_none() && !mapped.machine && self.rules.unknown == Unknown::Refused {
            return Err(PrincipalError::Refused(text.to_owned()));
        }
        Ok(mapped)
    }

    fn look_up(&self, text: &str) -> Result<Mapped, SourceError> {
        let Some(principal) = Principal::parse(text) else {
            return Ok(Mapped { identity: None, machine: false });
        };
        let machine = principal.is_machine();
        if let Some(local) = self.rules.principals.get(text) {
            return Ok(Mapped { identity: self.source.identity(local)?, machine });
        }
        let identity = match (principal.user(), &principal.realm) {
            (Some(user), Some(realm)) if !machine && self.accepts(user, realm) => {
                self.source.identity(user)?.filter(|identity| identity.uid != 0)
            }
            _ => None,
        };
        Ok(Mapped { identity, machine })
    }

    fn accepts(&self, user: &str, realm: &str) -> bool {
        let plain = user.len() <= self.rules.name_max && !user.contains(['\0', '@', '/', ':', '\n']);
        plain && self.rules.realms.iter().any(|accepted| accepted == realm)
    }

    /// Returns a user as `owner`: `alice@domain`, or the number if it has no name (RFC 8881 section
    /// 5.9) or the lookup is late. Waits at most two seconds.
    pub fn owner_of_uid(&self, uid: u32, now: Duration) -> String {
        let left = Cell::new(LOOKUP_WAIT_MAX);
        self.owner_of_uid_within(uid, now, Wait::Within(&left)).unwrap_or_else(|| uid.to_string())
    }

    /// Returns a group as `owner_group`; see [`Mapper::owner_of_uid`].
    pub fn owner_of_gid(&self, gid: u32, now: Duration) -> String {
        let left = Cell::new(LOOKUP_WAIT_MAX);
        self.owner_of_gid_within(gid, now, Wait::Within(&left)).unwrap_or_else(|| gid.to_string())
    }

    /// Returns a user as [`Mapper::owner_of_uid`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn owner_of_uid_within(&self, uid: u32, now: Duration, wait: Wait<'_>) -> Option<String> {
        self.name(uid, &self.owners.users, LookupKey::User(uid), now, wait)
    }

    /// Returns a group as [`Mapper::owner_of_gid`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn owner_of_gid_within(&self, gid: u32, now: Duration, wait: Wait<'_>) -> Option<String> {
        self.name(gid, &self.owners.groups, LookupKey::Group(gid), now, wait)
    }

    /// Returns the user that an `owner` names. Waits at most two seconds.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER for names that are malformed, foreign or unknown; NFS4ERR_DELAY suits
    /// `Source`.
    pub fn uid_of_owner(&self, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
        let left = Cell::new(LOOKUP_WAIT_MAX);
        self.uid_of_owner_within(owner, now, Wait::Within(&left)).unwrap_or_else(|| Err(late(owner)))
    }

    /// Returns the group that an `owner_group` names. Waits at most two seconds.
    ///
    /// # Errors
    /// The same as [`Mapper::uid_of_owner`].
    pub fn gid_of_owner(&self, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
        let left = Cell::new(LOOKUP_WAIT_MAX);
        self.gid_of_owner_within(owner, now, Wait::Within(&left)).unwrap_or_else(|| Err(late(owner)))
    }

    /// Returns a user as [`Mapper::uid_of_owner`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn uid_of_owner_within(
        &self,
        owner: &[u8],
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        self.id(owner, &self.owners.uids, LookupKey::Uid, now, wait)
    }

    /// Returns a group as [`Mapper::gid_of_owner`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn gid_of_owner_within(
        &self,
        owner: &[u8],
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        self.id(owner, &self.owners.gids, LookupKey::Gid, now, wait)
    }

    /// Looks up a key that is not cached.
    fn ask(&self, key: LookupKey, now: Duration, wait: Wait<'_>) -> Asked {
        if self.source.may_block() {
            return self.lookups.ask(key, now, wait, |key| self.owners.known(key, now));
        }
        let answer = key.look_up(&*self.source);
        self.owners.learn(&key, &answer, now);
        Asked::Answered(answer)
    }

    fn name(
        &self,
        id: u32,
        cache: &Cache<u32, Option<String>>,
        key: LookupKey,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<String> {
        let name = match cache.get(&id, now) {
            Some(name) => name,
            None => match self.ask(key, now, wait) {
                Asked::Answered(LookupAnswer::Name(name)) => plain(&name),
                Asked::MustWait => return None,
                // The previous name is more likely than none.
                _ => cache.get_stale(&id).flatten(),
            },
        };
        Some(name.map_or_else(|| id.to_string(), |name| format!("{name}@{}", self.rules.domain)))
    }

    fn id(
        &self,
        owner: &[u8],
        cache: &Cache<String, Option<u32>>,
        key: impl Fn(String) -> LookupKey,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        let name = match Owner::parse(owner, &self.rules.domain, self.rules.name_max) {
            Ok(Owner::Number(id)) => return Some(Ok(id)),
            Ok(Owner::Name(name)) => name,
            Err(error) => return Some(Err(error)),
        };
        let id = match cache.get(name, now) {
            Some(id) => Ok(id),
            None => match self.ask(key(name.to_owned()), now, wait) {
                Asked::Answered(LookupAnswer::Id(id)) => id.map_err(OwnerError::from),
                Asked::MustWait => return None,
                _ => Err(late(owner)),
            },
        };
        Some(id.and_then(|id| id.ok_or(OwnerError::Unknown)))
    }
}

/// Returns the error of a lookup that takes too long.
fn late(owner: &[u8]) -> OwnerError {
    let what = String::from_utf8_lossy(owner).into_owned();
    OwnerError::Source(SourceError { what, why: "it takes too long".to_owned() })
}
