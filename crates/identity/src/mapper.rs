//! The mapping itself, with its caches.

use std::time::Duration;

use crate::cache::Cache;
use crate::owner::Owner;
use crate::{Identity, IdentitySource, OwnerError, Principal, Rules, SourceError, Unknown};

/// Whom a principal acts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The account; `None` for a principal without one, who acts as the export's anonymous user.
    pub identity: Option<Identity>,
    /// Whether the principal is a machine's, as in SP4_MACH_CRED (RFC 8881 section 2.10.8.3).
    pub machine: bool,
}

impl Mapped {
    /// Returns the account, or `nobody`.
    pub fn identity_or_anonymous(self) -> Identity {
        self.identity.unwrap_or_else(Identity::anonymous)
    }
}

/// Why a principal gets no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// It has no account and the rules refuse such principals.
    #[error("the principal {0} has no account here, and unknown = \"refused\"")]
    Refused(String),
    /// The name service failed; the client may try again.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Maps principals and owners by the site's rules. Shared by threads; no lock is held during a lookup.
pub struct Mapper {
    rules: Rules,
    source: Box<dyn IdentitySource>,
    principals: Cache<String, Mapped>,
    uids: Cache<String, Option<u32>>,
    gids: Cache<String, Option<u32>>,
    users: Cache<u32, Option<String>>,
    groups: Cache<u32, Option<String>>,
}

impl Mapper {
    /// Makes a mapper with empty caches.
    pub fn new(rules: Rules, source: impl IdentitySource + 'static) -> Self {
        let max = rules.cache_max;
        Self {
            rules,
            source: Box::new(source),
            principals: Cache::new(max),
            uids: Cache::new(max),
            gids: Cache::new(max),
            users: Cache::new(max),
            groups: Cache::new(max),
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Forgets everything cached, as after a reload.
    pub fn forget(&self) {
        self.principals.clear();
        self.uids.clear();
        self.gids.clear();
        self.users.clear();
        self.groups.clear();
    }

    /// Maps an authenticated principal, `alice@REALM`.
    ///
    /// A machine's principal and `root@REALM` are nobody unless [`Rules::principals`] names them, and without
    /// that no principal becomes uid 0, whatever the name service says.
    ///
    /// # Errors
    /// `Refused` by the rules; `Source` when the name service fails, which is not remembered.
    pub fn principal(&self, text: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        let mapped = match self.principals.get(text, now) {
            Some(mapped) => mapped,
            None => {
                let mapped = self.look_up(text)?;
                let life =
                    if mapped.identity.is_some() { self.rules.expiry } else { self.rules.absence_expiry };
                // Longer texts than any account's are mapped, to nobody, and not kept.
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

    /// Returns a user as `owner`: `alice@domain`, or the number when it has no name (RFC 8881 section 5.9).
    pub fn owner_of_uid(&self, uid: u32, now: Duration) -> String {
        self.name(uid, &self.users, |uid| self.source.user(uid), now)
    }

    /// Returns a group as `owner_group`.
    pub fn owner_of_gid(&self, gid: u32, now: Duration) -> String {
        self.name(gid, &self.groups, |gid| self.source.group(gid), now)
    }

    /// Returns the user that an `owner` names.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER for names that are malformed, foreign or unknown; NFS4ERR_DELAY suits `Source`.
    pub fn uid_of_owner(&self, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
        self.id(owner, &self.uids, |name| self.source.uid(name), now)
    }

    /// Returns the group that an `owner_group` names.
    ///
    /// # Errors
    /// As [`Mapper::uid_of_owner`].
    pub fn gid_of_owner(&self, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
        self.id(owner, &self.gids, |name| self.source.gid(name), now)
    }

    fn name(
        &self,
        id: u32,
        cache: &Cache<u32, Option<String>>,
        look_up: impl Fn(u32) -> Result<Option<String>, SourceError>,
        now: Duration,
    ) -> String {
        let name = cache.get(&id, now).unwrap_or_else(|| {
            // A failing name service gives numbers, for as long as an absence is believed: a directory
            // listing must not ask it once for each entry.
            let name = look_up(id).unwrap_or(None).filter(|name| !name.contains('@'));
            cache.put(id, name.clone(), now.saturating_add(self.life(name.is_some())));
            name
        });
        name.map_or_else(|| id.to_string(), |name| format!("{name}@{}", self.rules.domain))
    }

    fn id(
        &self,
        owner: &[u8],
        cache: &Cache<String, Option<u32>>,
        look_up: impl Fn(&str) -> Result<Option<u32>, SourceError>,
        now: Duration,
    ) -> Result<u32, OwnerError> {
        let name = match Owner::parse(owner, &self.rules.domain, self.rules.name_max)? {
            Owner::Number(id) => return Ok(id),
            Owner::Name(name) => name,
        };
        let id = match cache.get(name, now) {
            Some(id) => id,
            None => {
                let id = look_up(name)?;
                cache.put(name.to_owned(), id, now.saturating_add(self.life(id.is_some())));
                id
            }
        };
        id.ok_or(OwnerError::Unknown)
    }

    fn life(&self, found: bool) -> Duration {
        if found { self.rules.expiry } else { self.rules.absence_expiry }
    }
}
