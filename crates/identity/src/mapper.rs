//! Maps principals and owners, with caches.

use std::cell::Cell;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::cache::Cache;
use crate::chain::{AccountSource, Chain, Explanation, LookupStep};
use crate::lookups::{
    Asked, LOOKUP_THREADS_MAX, LookupAnswer, LookupKey, Lookups, PRINCIPAL_THREADS_MAX, Wait,
};
use crate::owner::Owner;
use crate::{
    Identity, IdentitySource, LocalRule, NoAccount, OwnerError, Principal, Rules, SourceError, Unknown,
};

/// The account of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The account; a principal without one acts as the export's anonymous user.
    pub identity: Result<Identity, NoAccount>,
    /// Whether the principal belongs to a machine, as in SP4_MACH_CRED (RFC 8881 section 2.10.8.3).
    pub machine: bool,
}

/// The reason why a principal gets no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// The principal has no account and the rules refuse such principals.
    #[error("the principal {0} has no account: {1} ([identity] unknown = \"refused\")")]
    Refused(String, NoAccount),
    /// The name service failed; the client may try again.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Counters of lookups since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Lookups that a source failed.
    pub failed: u64,
    /// Lookups that were late for a caller.
    pub late: u64,
    /// Answers from entries that have expired, because the source failed or was late.
    pub stale: u64,
}

#[derive(Default)]
struct Counters {
    failed: AtomicU64,
    late: AtomicU64,
    stale: AtomicU64,
}

/// Maps principals and owners by the site's rules. Threads share it, and no lock is held during a
/// lookup.
pub struct Mapper {
    directory: Arc<Directories>,
    names: Arc<NameCaches>,
    owner_lookups: Lookups,
    principal_lookups: Lookups,
    /// The number of reloads.
    generation: AtomicU64,
}

/// The rules and the sources behind them.
struct Directories {
    rules: Rules,
    source: Chain,
}

/// The local user of a principal by the rules alone.
struct LocalUser {
    name: String,
    /// The realm whose sources have the account; `None` for a name from `[principals]`, which all
    /// sources may have, and which may be uid 0.
    realm: Option<String>,
    /// The rule that applies.
    rule: String,
}

impl Directories {
    /// Returns the local user of a principal by the rules alone.
    fn local_user(&self, text: &str) -> Result<LocalUser, NoAccount> {
        let principal = Principal::parse(text).ok_or(NoAccount::Malformed)?;
        if let Some(local) = self.rules.principals.get(text) {
            let rule = format!("[principals] {text:?} = {local:?}");
            return Ok(LocalUser { name: local.clone(), realm: None, rule });
        }
        let realm = principal.realm.clone().unwrap_or_default();
        let applies = |rule: &LocalRule| Some((rule.user(&principal)?, rule.to_string()));
        let accepted = self.rules.realms.contains(&realm);
        let found = self.rules.local.iter().filter(|_| accepted).find_map(applies);
        let Some((name, rule)) = found else {
            return Err(match (principal.is_machine(), accepted) {
                (true, _) => NoAccount::Machine,
                (false, true) => NoAccount::Rule,
                (false, false) => NoAccount::Realm(realm),
            });
        };
        let fits = !name.is_empty() && name.len() <= self.rules.name_max;
        if !fits || name.contains(['\0', '@', '/', ':', '\n']) {
            return Err(NoAccount::Name);
        }
        Ok(LocalUser { name, realm: Some(realm), rule })
    }

    /// Looks up the account of a principal, without a time limit.
    fn account(&self, text: &str) -> Result<Result<Identity, NoAccount>, SourceError> {
        let local = match self.local_user(text) {
            Ok(local) => local,
            Err(why) => return Ok(Err(why)),
        };
        let found = match &local.realm {
            Some(realm) => self.source.of_principal(realm, text, &local.name)?,
            None => self.source.identity(&local.name)?,
        };
        Ok(local.checked(found))
    }

    /// Looks up the account of a principal as [`Directories::account`] does, and records each step.
    fn explain(&self, text: &str) -> Explanation {
        let principal = Principal::parse(text);
        let machine = principal.as_ref().is_some_and(Principal::is_machine);
        let mut steps = Vec::new();
        if let Some(realm) = principal.and_then(|principal| principal.realm) {
            let accepted = self.rules.realms.contains(&realm);
            let said = if accepted { "is in `realms`" } else { "is not in `realms`" };
            steps.push(LookupStep { kind: "realm", text: format!("{realm} {said}") });
        }
        let local = match self.local_user(text) {
            Ok(local) => local,
            Err(why) => {
                steps.push(LookupStep { kind: "rule", text: why.to_string() });
                return Explanation { steps, machine, account: Ok(Err(why)) };
            }
        };
        steps.push(LookupStep { kind: "rule", text: format!("{} gives user {:?}", local.rule, local.name) });
        let found = self.source.explain(local.realm.as_deref(), text, &local.name, &mut steps);
        Explanation { steps, machine, account: found.map(|found| local.checked(found)) }
    }

    /// Looks up a key, without a time limit.
    fn look_up(&self, key: &LookupKey) -> LookupAnswer {
        match key {
            LookupKey::User(uid) => LookupAnswer::Name(self.source.user(*uid)),
            LookupKey::Group(gid) => LookupAnswer::Name(self.source.group(*gid)),
            LookupKey::Uid(name) => LookupAnswer::Id(self.source.uid(name)),
            LookupKey::Gid(name) => LookupAnswer::Id(self.source.gid(name)),
            LookupKey::Principal(text) => LookupAnswer::Account(self.account(text)),
            LookupKey::Account(uid) => {
                let account = self.source.account(*uid);
                LookupAnswer::Account(account.map(|account| account.ok_or(NoAccount::UnknownUid(*uid))))
            }
        }
    }
}

impl LocalUser {
    /// Refuses an account of uid 0 that `[principals]` does not name.
    fn checked(&self, found: Option<Identity>) -> Result<Identity, NoAccount> {
        match found {
            None => Err(NoAccount::Unknown(self.name.clone())),
            Some(identity) if identity.uid == 0 && self.realm.is_some() => Err(NoAccount::Superuser),
            Some(identity) => Ok(identity),
        }
    }
}

/// The caches of accounts and names.
struct NameCaches {
    principals: Cache<String, Result<Identity, NoAccount>>,
    accounts: Cache<u32, Result<Identity, NoAccount>>,
    uids: Cache<String, Option<u32>>,
    gids: Cache<String, Option<u32>>,
    users: Cache<u32, Option<String>>,
    groups: Cache<u32, Option<String>>,
    expiry: Duration,
    absence_expiry: Duration,
    stale_expiry: Duration,
    counters: Counters,
}

impl NameCaches {
    fn new(rules: &Rules) -> Self {
        let max = rules.cache_max;
        Self {
            principals: Cache::new(max),
            accounts: Cache::new(max),
            uids: Cache::new(max),
            gids: Cache::new(max),
            users: Cache::new(max),
            groups: Cache::new(max),
            expiry: rules.expiry,
            absence_expiry: rules.absence_expiry,
            stale_expiry: rules.stale_expiry,
            counters: Counters::default(),
        }
    }

    /// Caches an answer that arrived at `now`. After a failure, the previous answer counts as fresh
    /// for a short time, so that not every caller repeats the lookup.
    fn learn(&self, key: &LookupKey, answer: &LookupAnswer, now: Duration) {
        let retry = now.saturating_add(self.absence_expiry);
        let (failed, postponed) = match (key, answer) {
            (LookupKey::User(id), LookupAnswer::Name(name)) => self.learn_name(&self.users, *id, name, now),
            (LookupKey::Group(id), LookupAnswer::Name(name)) => self.learn_name(&self.groups, *id, name, now),
            (LookupKey::Uid(name), LookupAnswer::Id(Ok(id))) => {
                self.put(&self.uids, name.clone(), *id, id.is_some(), now);
                (false, false)
            }
            (LookupKey::Gid(name), LookupAnswer::Id(Ok(id))) => {
                self.put(&self.gids, name.clone(), *id, id.is_some(), now);
                (false, false)
            }
            (LookupKey::Principal(text), LookupAnswer::Account(Ok(account))) => {
                self.put(&self.principals, text.clone(), account.clone(), account.is_ok(), now);
                (false, false)
            }
            (LookupKey::Account(uid), LookupAnswer::Account(Ok(account))) => {
                self.put(&self.accounts, *uid, account.clone(), account.is_ok(), now);
                (false, false)
            }
            (LookupKey::Account(uid), _) => (true, self.accounts.postpone(uid, now, retry)),
            (LookupKey::Uid(name), _) => (true, self.uids.postpone(name, now, retry)),
            (LookupKey::Gid(name), _) => (true, self.gids.postpone(name, now, retry)),
            (LookupKey::Principal(text), _) => (true, self.principals.postpone(text, now, retry)),
            _ => (true, false),
        };
        self.counters.failed.fetch_add(failed.into(), Relaxed);
        self.counters.stale.fetch_add(postponed.into(), Relaxed);
    }

    /// Caches the name of an id. Without a previous name, a failure is cached as the absence of a
    /// name: a directory listing must not repeat the lookup for each entry. Returns whether the
    /// lookup failed, and whether a previous name stands in.
    fn learn_name(
        &self,
        cache: &Cache<u32, Option<String>>,
        id: u32,
        name: &Result<Option<String>, SourceError>,
        now: Duration,
    ) -> (bool, bool) {
        let failed = name.is_err();
        let retry = now.saturating_add(self.absence_expiry);
        if failed && cache.postpone(&id, now, retry) {
            return (true, true);
        }
        let name = plain(name);
        let found = name.is_some();
        self.put(cache, id, name, found, now);
        (failed, false)
    }

    /// Caches an answer. Only a positive one outlives its expiry.
    fn put<K: Eq + Hash + Clone, V: Clone>(
        &self,
        cache: &Cache<K, V>,
        key: K,
        value: V,
        found: bool,
        now: Duration,
    ) {
        let fresh = now.saturating_add(if found { self.expiry } else { self.absence_expiry });
        let kept = if found { now.saturating_add(self.stale_expiry) } else { fresh };
        cache.put(key, value, fresh, kept);
    }

    /// Returns a cached answer that has not expired at `now`.
    fn known(&self, key: &LookupKey, now: Duration) -> Option<LookupAnswer> {
        match key {
            LookupKey::User(id) => self.users.get(id, now).map(|name| LookupAnswer::Name(Ok(name))),
            LookupKey::Group(id) => self.groups.get(id, now).map(|name| LookupAnswer::Name(Ok(name))),
            LookupKey::Uid(name) => self.uids.get(name, now).map(|id| LookupAnswer::Id(Ok(id))),
            LookupKey::Gid(name) => self.gids.get(name, now).map(|id| LookupAnswer::Id(Ok(id))),
            LookupKey::Principal(text) => {
                self.principals.get(text, now).map(|account| LookupAnswer::Account(Ok(account)))
            }
            LookupKey::Account(uid) => {
                self.accounts.get(uid, now).map(|account| LookupAnswer::Account(Ok(account)))
            }
        }
    }

    /// Returns a value that stands in for a late or failed lookup.
    fn stale<K, Q, V>(&self, cache: &Cache<K, V>, key: &Q, now: Duration) -> Option<V>
    where
        K: Eq + Hash + Clone + std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + Hash,
        V: Clone,
    {
        let value = cache.get_stale(key, now);
        self.counters.stale.fetch_add(value.is_some().into(), Relaxed);
        value
    }

    fn expire(&self) {
        self.principals.expire();
        self.accounts.expire();
        self.uids.expire();
        self.gids.expire();
        self.users.expire();
        self.groups.expire();
    }
}

/// Returns a name that may precede `@domain`, and none if the source failed.
fn plain(name: &Result<Option<String>, SourceError>) -> Option<String> {
    name.as_ref().ok().cloned().flatten().filter(|name| !name.contains('@'))
}

impl Mapper {
    /// Creates a mapper with empty caches.
    pub fn new(rules: Rules, source: impl IdentitySource + 'static) -> Self {
        let accounts = Box::new(source);
        Self::with_sources(
            rules,
            vec![AccountSource { name: "accounts".to_owned(), realms: Vec::new(), accounts }],
        )
    }

    /// Creates a mapper with empty caches and these sources, in order.
    pub fn with_sources(rules: Rules, sources: Vec<AccountSource>) -> Self {
        let names = Arc::new(NameCaches::new(&rules));
        let wait_max = rules.lookup_wait_max;
        let directory = Arc::new(Directories { rules, source: Chain(sources) });
        let lookups = |threads_max| {
            let (asked, learning) = (directory.clone(), names.clone());
            let look_up = move |key: &LookupKey| asked.look_up(key);
            let learn = move |key: &LookupKey, answer: &LookupAnswer, now| learning.learn(key, answer, now);
            Lookups::new(threads_max, wait_max, look_up, learn)
        };
        let owner_lookups = lookups(LOOKUP_THREADS_MAX);
        let principal_lookups = lookups(PRINCIPAL_THREADS_MAX);
        Self { directory, names, owner_lookups, principal_lookups, generation: AtomicU64::new(0) }
    }

    /// Returns the rules of the site.
    pub fn rules(&self) -> &Rules {
        &self.directory.rules
    }

    /// Returns the counters of lookups.
    pub fn counts(&self) -> LookupCounts {
        let Counters { failed, late, stale } = &self.names.counters;
        LookupCounts { failed: failed.load(Relaxed), late: late.load(Relaxed), stale: stale.load(Relaxed) }
    }

    /// Lets all cached answers expire, for a reload. They still stand in for a source that fails.
    pub fn forget(&self) {
        // Lookups that began before the reload no longer fill the caches after this.
        self.owner_lookups.forget();
        self.principal_lookups.forget();
        self.names.expire();
        self.generation.fetch_add(1, Relaxed);
    }

    /// Looks up a principal now, past the caches and without a time limit, and records each step.
    pub fn explain(&self, text: &str) -> Explanation {
        self.directory.explain(text)
    }

    /// Returns the number of reloads, for callers that keep answers.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Maps an authenticated principal, `alice@REALM`. Waits at most [`Rules::lookup_wait_max`].
    ///
    /// A machine's principal and `root@REALM` have no account unless [`Rules::principals`] names
    /// them. Without that no principal becomes uid 0, regardless of the source.
    ///
    /// # Errors
    /// `Refused` by the rules; `Source` if the source fails or is late and no previous account
    /// stands in.
    pub fn principal(&self, text: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        let left = Cell::new(self.rules().lookup_wait_max);
        self.principal_within(text, now, Wait::Within(&left)).unwrap_or_else(|| Err(late(text).into()))
    }

    /// Maps a principal as [`Mapper::principal`] does; `None` if `wait` forbids the necessary wait.
    pub fn principal_within(
        &self,
        text: &str,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Mapped, PrincipalError>> {
        let machine = Principal::parse(text).is_some_and(|principal| principal.is_machine());
        let identity = match self.account_within(text, now, wait)? {
            Ok(identity) => identity,
            Err(error) => return Some(Err(error.into())),
        };
        Some(match identity {
            Err(why) if !machine && self.rules().unknown == Unknown::Refused => {
                Err(PrincipalError::Refused(text.to_owned(), why))
            }
            identity => Ok(Mapped { identity, machine }),
        })
    }

    /// Returns the account of a principal, or the reason why it has none.
    fn account_within(
        &self,
        text: &str,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Result<Identity, NoAccount>, SourceError>> {
        if let Some(account) = self.names.principals.get(text, now) {
            return Some(Ok(account));
        }
        // Most strangers are recognised without a lookup.
        if let Err(why) = self.directory.local_user(text) {
            return Some(Ok(Err(why)));
        }
        self.look_up(LookupKey::Principal(text.to_owned()), &self.names.principals, text, now, wait)
    }

    /// Returns the account of a uid with all of its groups, and `None` inside if there is none.
    /// Returns `None` if `wait` forbids the necessary wait.
    pub fn account_of_uid_within(
        &self,
        uid: u32,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Option<Identity>, SourceError>> {
        if let Some(account) = self.names.accounts.get(&uid, now) {
            return Some(Ok(account.ok()));
        }
        let account = self.look_up(LookupKey::Account(uid), &self.names.accounts, &uid, now, wait)?;
        Some(account.map(Result::ok))
    }

    /// Looks up an account that is not cached. If that fails or is late, the previous account
    /// stands in.
    fn look_up<K, Q>(
        &self,
        lookup: LookupKey,
        cache: &Cache<K, Result<Identity, NoAccount>>,
        key: &Q,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Result<Identity, NoAccount>, SourceError>>
    where
        K: Eq + Hash + Clone + std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToString,
    {
        let failure = match self.ask(&self.principal_lookups, lookup, now, wait) {
            Asked::Answered(LookupAnswer::Account(Ok(account))) => return Some(Ok(account)),
            Asked::Answered(LookupAnswer::Account(Err(error))) => error,
            Asked::MustWait => return None,
            _ => late(&key.to_string()),
        };
        // An unavailable source says nothing about the account, so this is never `nobody`.
        let previous = self.names.stale(cache, key, now);
        Some(previous.filter(Result::is_ok).ok_or(failure))
    }

    /// Returns a user as `owner`: `alice@domain`, or the number if it has no name (RFC 8881 section
    /// 5.9) or the lookup is late. Waits at most [`Rules::lookup_wait_max`].
    pub fn owner_of_uid(&self, uid: u32, now: Duration) -> String {
        let left = Cell::new(self.rules().lookup_wait_max);
        self.owner_of_uid_within(uid, now, Wait::Within(&left)).unwrap_or_else(|| uid.to_string())
    }

    /// Returns a group as `owner_group`; see [`Mapper::owner_of_uid`].
    pub fn owner_of_gid(&self, gid: u32, now: Duration) -> String {
        let left = Cell::new(self.rules().lookup_wait_max);
        self.owner_of_gid_within(gid, now, Wait::Within(&left)).unwrap_or_else(|| gid.to_string())
    }

    /// Returns a user as [`Mapper::owner_of_uid`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn owner_of_uid_within(&self, uid: u32, now: Duration, wait: Wait<'_>) -> Option<String> {
        self.name(uid, &self.names.users, LookupKey::User(uid), now, wait)
    }

    /// Returns a group as [`Mapper::owner_of_gid`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn owner_of_gid_within(&self, gid: u32, now: Duration, wait: Wait<'_>) -> Option<String> {
        self.name(gid, &self.names.groups, LookupKey::Group(gid), now, wait)
    }

    /// Returns the user that an `owner` names. Waits at most [`Rules::lookup_wait_max`].
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER for names that are malformed, foreign or unknown; NFS4ERR_DELAY suits
    /// `Source`.
    pub fn uid_of_owner(&self, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
        let left = Cell::new(self.rules().lookup_wait_max);
        self.uid_of_owner_within(owner, now, Wait::Within(&left))
            .unwrap_or_else(|| Err(OwnerError::Source(late(&String::from_utf8_lossy(owner)))))
    }

    /// Returns the group that an `owner_group` names. Waits at most [`Rules::lookup_wait_max`].
    ///
    /// # Errors
    /// The same as [`Mapper::uid_of_owner`].
    pub fn gid_of_owner(&self, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
        let left = Cell::new(self.rules().lookup_wait_max);
        self.gid_of_owner_within(owner, now, Wait::Within(&left))
            .unwrap_or_else(|| Err(OwnerError::Source(late(&String::from_utf8_lossy(owner)))))
    }

    /// Returns a user as [`Mapper::uid_of_owner`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn uid_of_owner_within(
        &self,
        owner: &[u8],
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        self.id(owner, &self.names.uids, LookupKey::Uid, now, wait)
    }

    /// Returns a group as [`Mapper::gid_of_owner`] does; `None` if `wait` forbids the necessary
    /// wait.
    pub fn gid_of_owner_within(
        &self,
        owner: &[u8],
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        self.id(owner, &self.names.gids, LookupKey::Gid, now, wait)
    }

    /// Looks up a key that is not cached.
    fn ask(&self, lookups: &Lookups, key: LookupKey, now: Duration, wait: Wait<'_>) -> Asked {
        if self.directory.source.may_block() {
            let asked = lookups.ask(key, now, wait, |key| self.names.known(key, now));
            self.names.counters.late.fetch_add(matches!(asked, Asked::Late).into(), Relaxed);
            return asked;
        }
        let answer = self.directory.look_up(&key);
        self.names.learn(&key, &answer, now);
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
            None => match self.ask(&self.owner_lookups, key, now, wait) {
                Asked::Answered(LookupAnswer::Name(name @ Ok(_))) => plain(&name),
                Asked::MustWait => return None,
                // The previous name is more likely than none.
                _ => self.names.stale(cache, &id, now).flatten(),
            },
        };
        Some(name.map_or_else(|| id.to_string(), |name| format!("{name}@{}", self.rules().domain)))
    }

    fn id(
        &self,
        owner: &[u8],
        cache: &Cache<String, Option<u32>>,
        key: impl Fn(String) -> LookupKey,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        let name = match Owner::parse(owner, &self.rules().domain, self.rules().name_max) {
            Ok(Owner::Number(id)) => return Some(Ok(id)),
            Ok(Owner::Name(name)) => name,
            Err(error) => return Some(Err(error)),
        };
        let id = match cache.get(name, now) {
            Some(id) => Ok(id),
            None => match self.ask(&self.owner_lookups, key(name.to_owned()), now, wait) {
                Asked::Answered(LookupAnswer::Id(Ok(id))) => Ok(id),
                Asked::Answered(LookupAnswer::Id(Err(error))) => Err(error),
                Asked::MustWait => return None,
                _ => Err(late(&String::from_utf8_lossy(owner))),
            },
        };
        let id = id.or_else(|error| self.names.stale(cache, name, now).ok_or(error));
        Some(id.map_err(OwnerError::from).and_then(|id| id.ok_or(OwnerError::Unknown)))
    }
}

/// Returns the error of a lookup that takes too long.
fn late(what: &str) -> SourceError {
    SourceError { what: what.to_owned(), why: "it takes too long".to_owned() }
}
