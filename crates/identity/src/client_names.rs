//! Clients by name: which addresses belong to a host, match a pattern or are in a netgroup.
//!
//! Lookups run on threads of this crate. A name that is found for an address counts only if it
//! leads back to the address. Answers that have expired stand in while they are looked up again,
//! and while the directory fails, up to [`ClientTimes::stale_expiry`]. After that nothing is known
//! of an address, neither that it belongs to the clients nor that it does not.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::cache::Cache;
use crate::client_name::{self, ClientName};
use crate::hosts::HostSource;
use crate::lookups::{Asked, CLIENT_THREADS_MAX, Lookups, Origin, Wait};
use crate::{Rules, SourceError};

/// Addresses known to be of the clients of one name, and others, each.
const CLIENTS_MAX: usize = 16_384;
/// Addresses whose names are cached.
const CLIENT_NAMES_MAX: usize = 16_384;
/// Parts of the cache of a name, each with a lock of its own.
const STRIPES: usize = 16;
/// Time after which a lookup that failed is repeated, if no earlier answer stands in.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// The ages of answers about clients.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimes {
    /// Time for which an answer is not looked up again.
    pub expiry: Duration,
    /// The same for the answer that an address is not of the clients.
    pub absence_expiry: Duration,
    /// Age up to which an answer stands in while the directory fails or is late.
    pub stale_expiry: Duration,
}

impl From<&Rules> for ClientTimes {
    fn from(rules: &Rules) -> Self {
        let Rules { expiry, absence_expiry, stale_expiry, .. } = *rules;
        Self { expiry, absence_expiry, stale_expiry }
    }
}

/// A question of one lookup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ClientQuery {
    /// The addresses of a host.
    Host(String),
    /// Whether an address is of the clients.
    Member(ClientName, IpAddr),
}

/// The answer of a lookup.
#[derive(Clone, Debug)]
enum ClientAnswer {
    Addresses(Arc<[IpAddr]>),
    IsMember(bool),
}

type ClientResult = Result<ClientAnswer, SourceError>;

/// The name of an address.
#[derive(Clone, Debug)]
enum HostName {
    /// The directory has none.
    None,
    /// The name does not lead back to the address.
    Unconfirmed(String),
    /// The name leads back to the address.
    Confirmed(String),
}

impl HostName {
    fn confirmed(&self) -> Option<&str> {
        match self {
            Self::Confirmed(name) => Some(name),
            Self::None | Self::Unconfirmed(_) => None,
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("it has no name"),
            Self::Unconfirmed(name) => write!(f, "its name {name} does not lead back to it"),
            Self::Confirmed(name) => write!(f, "its name is {name}"),
        }
    }
}

/// Looks up clients by name. Threads share it, and no lock is held during a lookup.
pub struct ClientDirectory {
    shared: Arc<SharedNames>,
    lookups: Lookups<ClientQuery, ClientResult>,
}

struct SharedNames {
    source: Box<dyn HostSource>,
    times: ArcSwap<ClientTimes>,
    /// The clients of each name in use.
    groups: Mutex<HashMap<ClientName, Weak<GroupState>>>,
    names: Cache<IpAddr, HostName>,
}

impl ClientDirectory {
    /// Creates the lookups of a source, which count as late after `wait_max`.
    pub fn new(source: impl HostSource + 'static, times: ClientTimes, wait_max: Duration) -> Arc<Self> {
        let shared = Arc::new(SharedNames {
            source: Box::new(source),
            times: ArcSwap::from_pointee(times),
            groups: Mutex::default(),
            names: Cache::new(CLIENT_NAMES_MAX),
        });
        let (directory, sink) = (shared.clone(), shared.clone());
        let lookups = Lookups::new(
            CLIENT_THREADS_MAX,
            wait_max,
            origin,
            move |key: &ClientQuery, now| directory.look_up(key, now),
            move |key: &ClientQuery, answer: &ClientResult, now| sink.learn(key, answer, now),
        );
        Arc::new(Self { shared, lookups })
    }

    /// Returns the clients of a name. Begins to look up the addresses of a host.
    pub fn clients(self: &Arc<Self>, name: &ClientName, now: Duration) -> NamedGroup {
        let mut groups = self.shared.groups();
        groups.retain(|_, group| group.strong_count() > 0);
        let state = groups.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let state = Arc::new(GroupState::new(name.clone()));
            groups.insert(name.clone(), Arc::downgrade(&state));
            state
        });
        drop(groups);
        let group = NamedGroup { names: self.clone(), state };
        if let ClientName::Host(host) = name {
            group.ask(ClientQuery::Host(host.clone()), now, Wait::Never, |_| None);
        }
        group
    }

    /// Looks up a name, without a time limit, and returns the reason why it is of no use now.
    ///
    /// # Errors
    /// The host has no address, the netgroup does not exist, or the directory fails.
    pub fn examine(&self, name: &ClientName) -> Result<(), String> {
        let said = |error: SourceError| error.to_string();
        match name {
            ClientName::Wildcard(_) => Ok(()),
            ClientName::Host(host) => match self.shared.source.addresses(host).map_err(said)?.as_slice() {
                [] => Err(format!("the host {host} has no address")),
                _ => Ok(()),
            },
            ClientName::Netgroup(netgroup) => {
                self.shared.source.in_netgroup(netgroup, "localhost").map_err(said).map(drop)
            }
        }
    }

    /// Replaces the ages of answers, and looks everything up again at its next use.
    pub fn refresh(&self, times: ClientTimes) {
        self.shared.times.store(Arc::new(times));
        self.shared.names.expire();
        self.lookups.forget();
        for group in self.shared.groups().values().filter_map(Weak::upgrade) {
            match &group.members {
                GroupMembers::Addresses(host) => host.fresh.store(0, Relaxed),
                GroupMembers::Each(cache) => cache.expire(),
            }
        }
    }
}

impl SharedNames {
    fn groups(&self) -> MutexGuard<'_, HashMap<ClientName, Weak<GroupState>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up a key, without a time limit.
    fn look_up(&self, key: &ClientQuery, now: Duration) -> ClientResult {
        match key {
            ClientQuery::Host(host) => Ok(ClientAnswer::Addresses(self.source.addresses(host)?.into())),
            ClientQuery::Member(name, address) => {
                let member = match name {
                    ClientName::Host(host) => self.leads_to(host, *address)?,
                    ClientName::Wildcard(pattern) => {
                        let host = self.host_name(*address, now)?;
                        host.confirmed().is_some_and(|host| client_name::matches(pattern, host))
                    }
                    ClientName::Netgroup(netgroup) => self.in_netgroup(netgroup, *address, now)?,
                };
                Ok(ClientAnswer::IsMember(member))
            }
        }
    }

    /// Returns whether a netgroup has the address, as it is or by a name.
    fn in_netgroup(&self, netgroup: &str, address: IpAddr, now: Duration) -> Result<bool, SourceError> {
        if self.source.in_netgroup(netgroup, &address.to_string())? {
            return Ok(true);
        }
        let name = self.host_name(address, now)?;
        let Some(host) = name.confirmed() else { return Ok(false) };
        if self.source.in_netgroup(netgroup, host)? {
            return Ok(true);
        }
        // A netgroup may have hosts without a domain. A host of another domain with the same first
        // name is not meant.
        let short = host.split_once('.').map(|(short, _)| short).filter(|short| !short.is_empty());
        match short {
            Some(short) if self.source.in_netgroup(netgroup, short)? => self.leads_to(short, address),
            _ => Ok(false),
        }
    }

    fn leads_to(&self, host: &str, address: IpAddr) -> Result<bool, SourceError> {
        Ok(self.source.addresses(host)?.contains(&address))
    }

    /// Returns the name of an address, and checks that it leads back to the address.
    fn host_name(&self, address: IpAddr, now: Duration) -> Result<HostName, SourceError> {
        if let Some(known) = self.names.get(&address, now) {
            return Ok(known);
        }
        let found = match self.source.name(address)? {
            None => HostName::None,
            Some(name) if self.leads_to(&name, address)? => HostName::Confirmed(name),
            Some(name) => HostName::Unconfirmed(name),
        };
        let fresh = now.saturating_add(self.times.load().absence_expiry);
        self.names.put(address, found.clone(), now, fresh, fresh);
        Ok(found)
    }

    /// Caches an answer that arrived at `now`.
    fn learn(&self, key: &ClientQuery, answer: &ClientResult, now: Duration) {
        let times = **self.times.load();
        let group = |name: &ClientName| self.groups().get(name).and_then(Weak::upgrade);
        match key {
            ClientQuery::Host(host) => {
                let Some(group) = group(&ClientName::Host(host.clone())) else { return };
                if let GroupMembers::Addresses(host) = &group.members {
                    host.learn(answer, now, times);
                }
            }
            ClientQuery::Member(name, address) => {
                let Some(group) = group(name) else { return };
                if let GroupMembers::Each(cache) = &group.members {
                    cache.learn(*address, answer, now, times);
                }
            }
        }
    }
}

/// Groups lookups by the network of their address, so that one network cannot take all threads.
fn origin(key: &ClientQuery) -> Option<Origin> {
    let ClientQuery::Member(_, address) = key else { return None };
    Some(match address {
        IpAddr::V4(address) => u64::from(u32::from(*address) >> 8),
        IpAddr::V6(address) => u64::try_from(u128::from(*address) >> 80).unwrap_or_default() | 1 << 63,
    })
}

/// The clients of one name.
struct GroupState {
    name: ClientName,
    members: GroupMembers,
}

enum GroupMembers {
    /// The addresses of a host, looked up at once.
    Addresses(HostAddresses),
    /// Addresses, each looked up when a client has it.
    Each(Box<MemberCache>),
}

impl GroupState {
    fn new(name: ClientName) -> Self {
        let members = match &name {
            ClientName::Host(_) => GroupMembers::Addresses(HostAddresses::default()),
            ClientName::Wildcard(_) | ClientName::Netgroup(_) => GroupMembers::Each(Box::default()),
        };
        Self { name, members }
    }
}

/// The addresses of a host. Times are in microseconds since the server's start.
#[derive(Default)]
struct HostAddresses {
    addresses: ArcSwapOption<(Arc<[IpAddr]>, Duration)>,
    /// The end of the time in which no lookup is needed.
    fresh: AtomicU64,
    /// The end of the time in which a lookup that failed is not repeated.
    failed: AtomicU64,
}

impl HostAddresses {
    fn learn(&self, answer: &ClientResult, now: Duration, times: ClientTimes) {
        let fresh_for = match answer {
            Ok(ClientAnswer::Addresses(addresses)) => {
                let kept = now.saturating_add(times.stale_expiry.max(times.expiry));
                self.addresses.store(Some(Arc::new((addresses.clone(), kept))));
                if addresses.is_empty() { times.absence_expiry } else { times.expiry }
            }
            Ok(ClientAnswer::IsMember(_)) => return,
            Err(_) => {
                self.failed.store(microseconds(now.saturating_add(RETRY_TIME)), Relaxed);
                RETRY_TIME
            }
        };
        self.fresh.store(microseconds(now.saturating_add(fresh_for)), Relaxed);
    }

    /// Returns whether the host has the address, and whether the caller should begin a lookup.
    fn contains(&self, client: IpAddr, now: Duration) -> (Option<bool>, bool) {
        let (known, time) = (self.addresses.load(), microseconds(now));
        let Some(known) = known.as_ref().filter(|known| now < known.1) else {
            return (None, self.failed.load(Relaxed) <= time);
        };
        let fresh = self.fresh.load(Relaxed);
        let retry = microseconds(now.saturating_add(RETRY_TIME));
        let due = fresh <= time && self.fresh.compare_exchange(fresh, retry, Relaxed, Relaxed).is_ok();
        (Some(known.0.contains(&client)), due)
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Addresses that were looked up one by one.
struct MemberCache {
    hasher: RandomState,
    stripes: [MemberStripe; STRIPES],
}

/// A part of the addresses. Strangers cannot displace members: they are in another cache.
struct MemberStripe {
    members: Cache<IpAddr, bool>,
    others: Cache<IpAddr, bool>,
    failed: Cache<IpAddr, ()>,
}

impl Default for MemberCache {
    fn default() -> Self {
        let max = CLIENTS_MAX / STRIPES;
        Self {
            hasher: RandomState::new(),
            stripes: std::array::from_fn(|_| MemberStripe {
                members: Cache::new(max),
                others: Cache::new(max),
                failed: Cache::new(max),
            }),
        }
    }
}

impl MemberCache {
    fn stripe(&self, client: IpAddr) -> &MemberStripe {
        // The remainder is below STRIPES.
        &self.stripes[self.hasher.hash_one(client) as usize % STRIPES]
    }

    fn learn(&self, client: IpAddr, answer: &ClientResult, now: Duration, times: ClientTimes) {
        let stripe = self.stripe(client);
        let member = match answer {
            Ok(ClientAnswer::IsMember(member)) => *member,
            Ok(ClientAnswer::Addresses(_)) => return,
            Err(_) => {
                let retry = now.saturating_add(RETRY_TIME);
                let cache = stripe.cache_of(client, now);
                if !cache.postpone(&client, now, retry) {
                    stripe.failed.put(client, (), now, retry, retry);
                }
                return;
            }
        };
        let expiry = if member { times.expiry } else { times.absence_expiry };
        let (fresh, kept) = (now.saturating_add(expiry), now.saturating_add(times.stale_expiry));
        // An address that was a member once keeps its place.
        let cache = if member { &stripe.members } else { stripe.cache_of(client, now) };
        cache.put(client, member, now, fresh, kept);
    }

    /// Returns whether the address is a member, and whether the caller should begin a lookup: of
    /// several callers one is enough.
    fn contains(&self, client: IpAddr, now: Duration) -> (Option<bool>, bool) {
        let stripe = self.stripe(client);
        for cache in [&stripe.members, &stripe.others] {
            if let Some((member, age)) = cache.get_aged(&client, now) {
                let due = age.fresh_for.is_zero();
                if due {
                    cache.postpone(&client, now, now.saturating_add(RETRY_TIME));
                }
                return (Some(member), due);
            }
        }
        (None, stripe.failed.get(&client, now).is_none())
    }

    fn expire(&self) {
        for stripe in &self.stripes {
            stripe.members.expire();
            stripe.others.expire();
            stripe.failed.expire();
        }
    }
}

impl MemberStripe {
    /// Returns the cache that has or gets an address that is not known to be a member.
    fn cache_of(&self, client: IpAddr, now: Duration) -> &Cache<IpAddr, bool> {
        if self.members.get_stale(&client, now).is_some() { &self.members } else { &self.others }
    }
}

/// The clients of a name.
#[derive(Clone)]
pub struct NamedGroup {
    names: Arc<ClientDirectory>,
    state: Arc<GroupState>,
}

impl NamedGroup {
    /// Returns whether the address is one of the clients at the time `now`; `None` while that is
    /// unknown. Never blocks. Begins a lookup if the answer has expired.
    pub fn contains(&self, client: IpAddr, now: Duration) -> Option<bool> {
        let client = client.to_canonical();
        let (known, due) = self.look(client, now);
        if known.is_some() && due {
            self.ask(self.key(client), now, Wait::Never, |_| None);
        }
        known
    }

    /// Waits until it is known whether the address is one of the clients. Returns whether it is
    /// known.
    pub fn resolve(&self, client: IpAddr, now: Duration, wait: Wait<'_>) -> bool {
        let client = client.to_canonical();
        let (known, due) = self.look(client, now);
        if known.is_some() || !due {
            return known.is_some();
        }
        // An answer may have arrived since.
        let cached =
            |_: &ClientQuery| self.look(client, now).0.map(|member| Ok(ClientAnswer::IsMember(member)));
        self.ask(self.key(client), now, wait, cached)
    }

    /// Returns the name of these clients.
    pub fn name(&self) -> &ClientName {
        &self.state.name
    }

    /// Describes the name of an address, if it was looked up.
    pub fn known_as(&self, client: IpAddr, now: Duration) -> Option<String> {
        self.names.shared.names.get_stale(&client.to_canonical(), now).map(|name| name.to_string())
    }

    fn look(&self, client: IpAddr, now: Duration) -> (Option<bool>, bool) {
        match &self.state.members {
            GroupMembers::Addresses(host) => host.contains(client, now),
            GroupMembers::Each(cache) => cache.contains(client, now),
        }
    }

    fn key(&self, client: IpAddr) -> ClientQuery {
        match &self.state.name {
            ClientName::Host(host) => ClientQuery::Host(host.clone()),
            name => ClientQuery::Member(name.clone(), client),
        }
    }

    /// Asks for an answer, and returns whether it has arrived.
    fn ask(
        &self,
        key: ClientQuery,
        now: Duration,
        wait: Wait<'_>,
        cached: impl FnOnce(&ClientQuery) -> Option<ClientResult>,
    ) -> bool {
        matches!(self.names.lookups.ask(key, now, wait, cached), Asked::Answered(Ok(_)))
    }
}

impl fmt::Display for NamedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.name.fmt(f)
    }
}

impl fmt::Debug for NamedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedGroup({})", self.state.name)
    }
}
