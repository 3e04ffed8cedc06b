//! The caches of accounts and names.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::cache::Cache;
use crate::lookup_times::LookupTimes;
use crate::lookups::{Account, LookupAnswer, LookupKey};
use crate::{Rules, SourceError};

/// Counters of a mapper, over all its reloads.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) failed: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) times: Arc<LookupTimes>,
}

/// The caches of accounts and names.
pub(crate) struct NameCaches {
    pub(crate) principals: Cache<String, Account>,
    pub(crate) accounts: Cache<u32, Account>,
    pub(crate) uids: Cache<String, Option<u32>>,
    pub(crate) gids: Cache<String, Option<u32>>,
    pub(crate) users: Cache<u32, Option<String>>,
    pub(crate) groups: Cache<u32, Option<String>>,
    expiry: Duration,
    absence_expiry: Duration,
    stale_expiry: Duration,
    pub(crate) counters: Arc<Counters>,
}

impl NameCaches {
    pub(crate) fn new(rules: &Rules, counters: Arc<Counters>) -> Self {
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
            counters,
        }
    }

    /// Caches an answer that arrived at `now`. After a failure, the previous answer counts as fresh
    /// for a short time, so that not every caller repeats the lookup.
    pub(crate) fn learn(&self, key: &LookupKey, answer: &LookupAnswer, now: Duration) {
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
                self.put(&self.principals, text.clone(), account.clone(), account.found.is_ok(), now);
                (false, false)
            }
            (LookupKey::Account(uid), LookupAnswer::Account(Ok(account))) => {
                self.put(&self.accounts, *uid, account.clone(), account.found.is_ok(), now);
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
        cache.put(key, value, now, fresh, kept);
    }

    /// Returns a cached answer that has not expired at `now`.
    pub(crate) fn known(&self, key: &LookupKey, now: Duration) -> Option<LookupAnswer> {
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
    pub(crate) fn stale<K, Q, V>(&self, cache: &Cache<K, V>, key: &Q, now: Duration) -> Option<V>
    where
        K: Eq + Hash + Clone + std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + Hash,
        V: Clone,
    {
        let value = cache.get_stale(key, now);
        self.counters.stale.fetch_add(value.is_some().into(), Relaxed);
        value
    }

    pub(crate) fn expire(&self) {
        self.principals.expire();
        self.accounts.expire();
        self.uids.expire();
        self.gids.expire();
        self.users.expire();
        self.groups.expire();
    }
}

/// Returns a name that may precede `@domain`, and none if the source failed.
pub(crate) fn plain(name: &Result<Option<String>, SourceError>) -> Option<String> {
    name.as_ref().ok().cloned().flatten().filter(|name| !name.contains('@'))
}
