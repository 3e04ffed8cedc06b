//! Maps principals and owners, with caches.

use std::cell::Cell;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::cache::Cache;
use crate::chain::{AccountSource, Chain, Explanation, LookupStep};
use crate::directories::{Directories, is_machine};
use crate::lookup_times::{LookupHistogram, LookupKind};
use crate::lookups::{
    Account, Asked, LOOKUP_THREADS_MAX, LookupAnswer, LookupKey, Lookups, Origin, PRINCIPAL_THREADS_MAX, Wait,
};
use crate::name_caches::{Counters, NameCaches, plain};
use crate::owner::Owner;
use crate::{Identity, IdentitySource, NoAccount, OwnerError, Rules, SourceError, Unknown};

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

/// Maps principals and owners by the site's rules, which can be replaced. Threads share it, and no
/// lock is held during a lookup.
pub struct Mapper {
    site: ArcSwap<SiteMapping>,
    counters: Arc<Counters>,
    /// The number of reloads, from 1.
    generation: AtomicU64,
}

/// Lookups of accounts and their names.
type AccountLookups = Lookups<LookupKey, LookupAnswer>;

/// The rules and the sources, with the caches of their answers.
struct SiteMapping {
    directory: Arc<Directories>,
    names: Arc<NameCaches>,
    owner_lookups: AccountLookups,
    principal_lookups: AccountLookups,
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
        let counters = Arc::<Counters>::default();
        let names = NameCaches::new(&rules, counters.clone());
        let site = ArcSwap::from_pointee(SiteMapping::new(rules, sources, Arc::new(names)));
        Self { site, counters, generation: AtomicU64::new(1) }
    }

    /// Replaces the rules and the sources for all threads at once, for a reload. All answers are
    /// looked up again. Previous answers still stand in for a source that fails if `same` says that
    /// the sources and the rules give the same answers as before; otherwise they are dropped.
    ///
    /// Must not run on a thread that serves connections: it waits for lookups to let go of the
    /// former sources, up to a tenth of a second.
    pub fn replace(&self, rules: Rules, sources: Vec<AccountSource>, same: bool) {
        let names = match same {
            true => self.site.load().names.clone(),
            false => Arc::new(NameCaches::new(&rules, self.counters.clone())),
        };
        let former = self.site.swap(Arc::new(SiteMapping::new(rules, sources, names)));
        former.forget();
        self.generation.fetch_add(1, Relaxed);
        // A shard that is the last to use the former caches would have to free them.
        let busy = |_: &u32| Arc::strong_count(&former) > 1;
        (0..100).take_while(busy).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
    }

    /// Returns the longest time for which one call waits for all of its lookups.
    pub fn lookup_wait_max(&self) -> Duration {
        self.site.load().rules().lookup_wait_max
    }

    /// Returns the time for which the absence of an account is cached.
    pub fn absence_expiry(&self) -> Duration {
        self.site.load().rules().absence_expiry
    }

    /// Returns the counters of lookups.
    pub fn counts(&self) -> LookupCounts {
        let Counters { failed, late, stale, .. } = &*self.counters;
        LookupCounts { failed: failed.load(Relaxed), late: late.load(Relaxed), stale: stale.load(Relaxed) }
    }

    /// Returns the times of the lookups of a kind.
    pub fn lookup_times(&self, kind: LookupKind) -> LookupHistogram {
        self.counters.times.of_kind(kind).snapshot()
    }

    /// Lets all cached answers expire. They still stand in for a source that fails.
    pub fn forget(&self) {
        self.site.load().forget();
        self.generation.fetch_add(1, Relaxed);
    }

    /// Looks up a principal now, past the caches and without a time limit, and records each step.
    pub fn explain(&self, text: &str) -> Explanation {
        self.site.load().directory.explain(text)
    }

    /// Explains the account that a context of a principal would have at `now`: from the caches, or
    /// by a lookup that fills them. Waits at most [`Rules::lookup_wait_max`].
    pub fn explain_cached(&self, text: &str, now: Duration) -> Explanation {
        self.site.load().explain_cached(text, now)
    }

    /// Returns the number of reloads, for callers that keep answers; never 0.
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
        let left = Cell::new(self.lookup_wait_max());
        self.principal_within(text, now, Wait::Within(&left)).unwrap_or_else(|| Err(late(text).into()))
    }

    /// Maps a principal as [`Mapper::principal`] does; `None` if `wait` forbids the necessary wait.
    pub fn principal_within(
        &self,
        text: &str,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Mapped, PrincipalError>> {
        let site = self.site.load();
        let machine = is_machine(text);
        let identity = match site.account_within(text, now, wait)? {
            Ok(identity) => identity,
            Err(error) => return Some(Err(error.into())),
        };
        Some(match identity {
            Err(why) if site.rules().unknown == Unknown::Refused && !site.directory.may_mount(text) => {
                Err(PrincipalError::Refused(text.to_owned(), why))
            }
            identity => Ok(Mapped { identity, machine }),
        })
    }

    /// Returns the account of a uid as [`Mapper::account_of_uid_within`] does if it is cached, and
    /// starts no lookup.
    pub fn cached_account_of_uid(&self, uid: u32, now: Duration) -> Option<Option<Identity>> {
        self.site.load().cached_account_of_uid(uid, now)
    }

    /// Returns the account of a uid with all of its groups, and `None` inside if there is none.
    /// Returns `None` if `wait` forbids the necessary wait.
    pub fn account_of_uid_within(
        &self,
        uid: u32,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Option<Identity>, SourceError>> {
        self.site.load().account_of_uid_within(uid, now, wait)
    }

    /// Returns a user as `owner`: `alice@domain`, or the number if it has no name (RFC 8881 section
    /// 5.9) or the lookup is late. Returns `None` if `wait` forbids the necessary wait.
    pub fn owner_of_uid_within(&self, uid: u32, now: Duration, wait: Wait<'_>) -> Option<String> {
        let site = self.site.load();
        site.name(uid, &site.names.users, LookupKey::User(uid), now, wait)
    }

    /// Returns a group as `owner_group`; see [`Mapper::owner_of_uid_within`].
    pub fn owner_of_gid_within(&self, gid: u32, now: Duration, wait: Wait<'_>) -> Option<String> {
        let site = self.site.load();
        site.name(gid, &site.names.groups, LookupKey::Group(gid), now, wait)
    }

    /// Returns the user that an `owner` names, and `None` if `wait` forbids the necessary wait.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER for names that are malformed, foreign or unknown; NFS4ERR_DELAY suits
    /// `Source`.
    pub fn uid_of_owner_within(
        &self,
        owner: &[u8],
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        let site = self.site.load();
        site.id(owner, &site.names.uids, LookupKey::Uid, now, wait)
    }

    /// Returns the group that an `owner_group` names; see [`Mapper::uid_of_owner_within`].
    ///
    /// # Errors
    /// The same as [`Mapper::uid_of_owner_within`].
    pub fn gid_of_owner_within(
        &self,
        owner: &[u8],
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<u32, OwnerError>> {
        let site = self.site.load();
        site.id(owner, &site.names.gids, LookupKey::Gid, now, wait)
    }
}

impl SiteMapping {
    fn new(rules: Rules, sources: Vec<AccountSource>, names: Arc<NameCaches>) -> Self {
        let wait_max = rules.lookup_wait_max;
        let directory = Arc::new(Directories { rules, source: Chain(sources) });
        let times = names.counters.times.clone();
        let lookups = |threads_max| {
            let (asked, learning) = (directory.clone(), names.clone());
            let times = times.clone();
            let look_up = move |key: &LookupKey, _: Duration| times.of(key).measure(|| asked.look_up(key));
            let learn = move |key: &LookupKey, answer: &LookupAnswer, now| learning.learn(key, answer, now);
            Lookups::new(threads_max, wait_max, origin, look_up, learn)
        };
        let owner_lookups = lookups(LOOKUP_THREADS_MAX);
        let principal_lookups = lookups(PRINCIPAL_THREADS_MAX);
        Self { directory, names, owner_lookups, principal_lookups }
    }

    fn rules(&self) -> &Rules {
        &self.directory.rules
    }

    /// Lets all cached answers expire. Lookups that began before no longer fill the caches.
    fn forget(&self) {
        self.owner_lookups.forget();
        self.principal_lookups.forget();
        self.names.expire();
    }

    /// Explains an account as [`Mapper::explain_cached`] does.
    fn explain_cached(&self, text: &str, now: Duration) -> Explanation {
        let left = Cell::new(self.rules().lookup_wait_max);
        let account = self.account_within(text, now, Wait::Within(&left));
        let account = account.unwrap_or_else(|| Err(late(text)));
        let known = self.names.principals.get_aged(text, now).filter(|_| account.is_ok());
        let machine = is_machine(text);
        let Some((known, age)) = known else {
            let (mut steps, _) = self.directory.by_rules(text);
            if let Err(error) = &account {
                steps.push(LookupStep { kind: "answer", text: format!("unavailable: {error}") });
            }
            return Explanation { steps, machine, account, cached: None };
        };
        let seconds = |time: Duration| time.as_secs();
        let text = match age.stale {
            true => format!("{} s old, stale: its source fails or is late", seconds(age.age)),
            false => format!("{} s old, fresh for {} s", seconds(age.age), seconds(age.fresh_for)),
        };
        let mut steps = known.steps.to_vec();
        steps.push(LookupStep { kind: "cache", text });
        Explanation { steps, machine, account: Ok(known.found), cached: Some(age) }
    }

    /// Returns the account of a principal, or the reason why it has none.
    fn account_within(
        &self,
        text: &str,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Result<Identity, NoAccount>, SourceError>> {
        if let Some(account) = self.names.principals.get(text, now) {
            return Some(Ok(account.found));
        }
        // Most strangers are recognised without a lookup.
        if let Err(why) = self.directory.local_user(text) {
            return Some(Ok(Err(why)));
        }
        self.look_up(LookupKey::Principal(text.to_owned()), &self.names.principals, text, now, wait)
    }

    /// Returns the account of a uid as [`Mapper::cached_account_of_uid`] does.
    fn cached_account_of_uid(&self, uid: u32, now: Duration) -> Option<Option<Identity>> {
        self.names.accounts.get(&uid, now).map(|account| account.found.ok())
    }

    /// Returns the account of a uid as [`Mapper::account_of_uid_within`] does.
    fn account_of_uid_within(
        &self,
        uid: u32,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Option<Identity>, SourceError>> {
        if let Some(account) = self.cached_account_of_uid(uid, now) {
            return Some(Ok(account));
        }
        let account = self.look_up(LookupKey::Account(uid), &self.names.accounts, &uid, now, wait)?;
        Some(account.map(Result::ok))
    }

    /// Looks up an account that is not cached. If that fails or is late, the previous account
    /// stands in.
    fn look_up<K, Q>(
        &self,
        lookup: LookupKey,
        cache: &Cache<K, Account>,
        key: &Q,
        now: Duration,
        wait: Wait<'_>,
    ) -> Option<Result<Result<Identity, NoAccount>, SourceError>>
    where
        K: Eq + Hash + Clone + std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + Hash + ToString,
    {
        let failure = match self.ask(&self.principal_lookups, lookup, now, wait) {
            Asked::Answered(LookupAnswer::Account(Ok(account))) => return Some(Ok(account.found)),
            Asked::Answered(LookupAnswer::Account(Err(error))) => error,
            Asked::MustWait => return None,
            _ => late(&key.to_string()),
        };
        // An unavailable source says nothing about the account, so this is never `nobody`.
        let previous = self.names.stale(cache, key, now);
        Some(previous.map(|account| account.found).filter(Result::is_ok).ok_or(failure))
    }

    /// Looks up a key that is not cached.
    fn ask(
        &self,
        lookups: &AccountLookups,
        key: LookupKey,
        now: Duration,
        wait: Wait<'_>,
    ) -> Asked<LookupAnswer> {
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

/// Groups the lookups for AUTH_SYS callers, who choose their numbers: those of principals go on
/// beside any number of them.
fn origin(key: &LookupKey) -> Option<Origin> {
    matches!(key, LookupKey::Account(_)).then_some(0)
}

/// Returns the error of a lookup that takes too long.
fn late(what: &str) -> SourceError {
    SourceError { what: what.to_owned(), why: "it takes too long".to_owned() }
}
