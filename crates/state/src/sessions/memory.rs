//! Memory of sessions and their cached replies. Used memory is counted, and under shortage the
//! largest holders give back first (RFC 8881 section 2.10.6.1).

use crate::Sessions;
use crate::clients::registry::{ClientEnd, Registry, RegistryGuard};
use crate::clients::tenants::{Tenant, TenantPool, is_of};
use crate::sessions::Session;
use crate::sessions::create_session::ChannelAttrs;
use crate::sessions::slots::{SlotState, Slots};
use crate::slab::SlabKey;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use crate::{CallbackSecurity, Caller, ClientKey, Effects, Nfsstat4, Result};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Cached replies are counted in steps of so many bytes, so that sessions with changing replies
/// share no counter.
const STEP: usize = 4096;

/// Of the clients or sessions of a tenant that has too many, one in so many goes at once: the
/// search is paid once for them.
pub(crate) const EVICTED_PART: usize = 64;

/// The part of their slots that clients are to use where memory is tight: one in so many.
pub(crate) const TIGHT_PART: u32 = 4;

/// How often slots are looked at that a client has stopped to use.
const RETIRE_INTERVAL: Duration = Duration::from_secs(10);

/// The value of a session with an ended count.
const ENDED: usize = usize::MAX;

/// The counted memory of one session.
#[derive(Debug)]
pub(crate) struct CountedMemory {
    /// Bytes of the session and its slots.
    base: usize,
    /// Bytes for cached replies that are never taken back: room for one.
    floor: usize,
    /// Bytes counted for cached replies, or [`ENDED`].
    replies: AtomicUsize,
}

/// The highest slots that a client has said it waits for (sa_highest_slotid), by spans of time,
/// each plus one; 0 for a span without requests.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    now: AtomicU32,
    before: AtomicU32,
}

impl Outstanding {
    /// Returns the spans for an image: this one, and the one before.
    pub(super) fn image(&self) -> [u32; 2] {
        let Self { now, before } = self;
        [now.load(Relaxed), before.load(Relaxed)]
    }

    pub(super) fn restore([now, before]: [u32; 2]) -> Self {
        Self { now: AtomicU32::new(now), before: AtomicU32::new(before) }
    }

    pub(crate) fn note(&self, highest_slotid: u32) {
        let highest = highest_slotid.saturating_add(1);
        if self.now.load(Relaxed) < highest {
            self.now.fetch_max(highest, Relaxed);
        }
    }

    /// Begins another span. Returns how many slots the client has used in the last two, if it was
    /// heard of in both.
    fn turn(&self) -> Option<u32> {
        let now = self.now.swap(0, Relaxed);
        let before = self.before.swap(now, Relaxed);
        (now > 0 && before > 0).then_some(now.max(before))
    }
}

impl CountedMemory {
    /// Returns the memory of a session with these limits before it caches a reply.
    pub(crate) fn new(fore: &ChannelAttrs, security: &[CallbackSecurity]) -> Self {
        let slots = fore.requests as usize * Slots::size();
        let security: usize = security.iter().map(CallbackSecurity::size).sum();
        let floor = fore.response_cached as usize;
        Self { base: size_of::<Session>() + slots + security, floor, replies: AtomicUsize::new(floor) }
    }

    /// Counts the cached replies of a restored session; returns all of its bytes.
    pub(super) fn restore(&self, held: usize) -> usize {
        self.raise(held);
        self.bytes()
    }

    pub(crate) fn bytes(&self) -> usize {
        match self.replies.load(Relaxed) {
            ENDED => 0,
            replies => self.base + replies,
        }
    }

    /// Raises the count to the held memory; returns the difference.
    fn raise(&self, held: usize) -> usize {
        if held <= self.replies.load(Relaxed) {
            return 0;
        }
        let wanted = held.next_multiple_of(STEP);
        let raise = |counted| (counted < wanted).then_some(wanted);
        self.replies.fetch_update(Relaxed, Relaxed, raise).map_or(0, |before| wanted - before)
    }

    /// Lowers the count to the held memory; returns the difference.
    fn lower(&self, held: usize) -> usize {
        let wanted = held.next_multiple_of(STEP).max(self.floor);
        let lower = |counted| (counted != ENDED && counted > wanted).then_some(wanted);
        self.replies.fetch_update(Relaxed, Relaxed, lower).map_or(0, |before| before - wanted)
    }

    /// Ends the count; returns its last value.
    fn end(&self) -> usize {
        match self.replies.swap(ENDED, Relaxed) {
            ENDED => 0,
            replies => self.base + replies,
        }
    }
}

/// The state of a tenant's share of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// There is enough memory left.
    None,
    /// Clients are to use fewer slots.
    Tight,
    /// The share is used up: nothing more is cached, except the replies of first slots.
    Short,
}

impl<F: Clone + Eq + Hash, O> Sessions<'_, F, O> {
    pub(crate) fn memory_pool(&self) -> TenantPool {
        let (max, all) = (self.state.limits.reply_cache_max, self.state.sessions.memory.load(Relaxed));
        TenantPool { max, all, holders: self.state.tenants.len() }
    }

    pub(crate) fn pressure(&self, tenant: &Tenant) -> Pressure {
        let (pool, own) = (self.memory_pool(), tenant.memory.load(Relaxed));
        match own {
            own if !pool.admits(own) => Pressure::Short,
            own if pool.is_tight(own) => Pressure::Tight,
            _ => Pressure::None,
        }
    }

    fn count_memory(&self, tenant: &Tenant, bytes: usize) {
        if bytes > 0 {
            self.state.sessions.memory.fetch_add(bytes, Relaxed);
            tenant.memory.fetch_add(bytes, Relaxed);
        }
    }

    fn discount_memory(&self, tenant: &Tenant, bytes: usize) {
        if bytes > 0 {
            self.state.sessions.memory.fetch_sub(bytes, Relaxed);
            tenant.memory.fetch_sub(bytes, Relaxed);
        }
    }

    /// Counts a session that is new.
    pub(crate) fn count_session(&self, session: &Session) {
        self.count_memory(&session.record.tenant, session.counted.bytes());
    }

    /// Counts a session's cached replies, if they exceed the present count.
    pub(crate) fn count_replies(&self, session: &Session) {
        self.count_memory(&session.record.tenant, session.counted.raise(session.activity.cached_len()));
    }

    /// Ends the count of a session that goes.
    pub(crate) fn discount_session(&self, session: &Session) {
        self.discount_memory(&session.record.tenant, session.counted.end());
    }

    /// Gives back memory that sessions no longer use. Where memory is tight, slots above the
    /// client's highest recent one are emptied: by sa_highest_slotid it has declared that it waits
    /// for no reply there (RFC 8881 section 18.46.3).
    pub(crate) fn trim_sessions(&self, registry: &mut Registry, now: Duration) {
        let retires = now >= registry.retired_at.saturating_add(RETIRE_INTERVAL);
        if retires {
            registry.retired_at = now;
        }
        for session in &self.state.sessions.all() {
            if retires
                && let Some(used) = session.activity.outstanding.turn()
                && self.pressure(&session.record.tenant) > Pressure::None
            {
                session.empty_slots(used);
            }
            let lowered = session.counted.lower(session.activity.cached_len());
            self.discount_memory(&session.record.tenant, lowered);
        }
        self.state.tenants.sweep();
    }

    /// Takes back memory for one more session of a tenant that has used up its share: removes
    /// unused sessions of the largest tenant, or of the tenant itself where it has its fair part.
    /// Returns whether any went.
    pub(crate) fn free_sessions(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        tenant: &Arc<Tenant>,
    ) -> bool {
        let fair = self.memory_pool().is_fair(tenant.memory.load(Relaxed));
        let largest = || self.state.tenants.largest(|tenant| &tenant.memory);
        let Some(victim) = (if fair { largest() } else { Some(Arc::clone(tenant)) }) else { return false };
        let of_victim = |session: &Arc<Session>| Arc::ptr_eq(&session.record.tenant, &victim);
        let mut unused: Vec<(bool, Duration, SlabKey)> = Vec::new();
        let (mut all, quiet) = (0, now.saturating_sub(self.state.limits.lease / 4));
        self.state.sessions.table.each(|key, session| {
            if of_victim(session) {
                all += 1;
                let (used, since) = session.used();
                if session.activity.running() == 0 && (!used || since <= quiet) {
                    unused.push((used, since, key));
                }
            }
        });
        unused.sort_unstable();
        let mut freed = false;
        for (.., key) in unused.into_iter().take((all / EVICTED_PART).max(1)) {
            if self.state.sessions.table.get(key).is_some_and(|session| session.activity.close(0)) {
                self.remove_session(registry, key);
                freed = true;
            }
        }
        freed
    }

    /// Removes the session of a client that was silent for longest and that the client has
    /// abandoned: for a lease, and without a connection. Returns whether there was one.
    pub(crate) fn remove_abandoned_session(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        client: ClientKey,
    ) -> bool {
        let (known, held) = registry.split();
        let Ok(client) = known.client(client) else { return false };
        let mut abandoned = self.state.clients().sessions_of(client);
        abandoned.retain(|session| {
            let (_, since) = session.used();
            now >= since.saturating_add(self.state.limits.lease) && session.connection_counts(held) == (0, 0)
        });
        abandoned.sort_unstable_by_key(|session| session.used().1);
        let Some(session) = abandoned.iter().find(|session| session.activity.close(0)) else { return false };
        self.remove_session(registry, session.key);
        true
    }

    /// Returns clients that may be removed for a new one of a tenant that has used up its share:
    /// those without state or waiting requests, first unconfirmed ones, then unused ones, each the
    /// oldest first. They belong to the largest tenant, or to the tenant itself where it has its
    /// fair part.
    pub(crate) fn unused_clients(
        &self,
        registry: &mut RegistryGuard<'_>,
        tenant: &Arc<Tenant>,
    ) -> Vec<ClientKey> {
        let fair = self.client_pool(registry).is_fair(tenant.clients.load(Relaxed));
        let largest = || self.state.tenants.largest(|tenant| &tenant.clients);
        let Some(victim) = (if fair { largest() } else { Some(Arc::clone(tenant)) }) else {
            return Vec::new();
        };
        let (registry, held) = registry.split();
        let members = registry.clients.iter();
        let members = members.filter(|(_, client)| Arc::ptr_eq(&client.record.tenant, &victim));
        let (mut all, mut unused) = (0, Vec::new());
        for (key, client) in members {
            all += 1;
            let sessions = self.state.clients().sessions_of(client);
            let is_idle = client.activities(&sessions).all(|activity| activity.running() == 0);
            let reclaims = registry.may_reclaim(&client.record);
            if is_idle && !reclaims && !client.record.holds_state(held) {
                let used = client.activities(&sessions).any(|activity| activity.renewed() > Duration::ZERO);
                unused.push((client.confirmed, used, self.state.clients().renewed(client), *key));
            }
        }
        unused.sort_unstable();
        unused.into_iter().take((all / EVICTED_PART).max(1)).map(|(.., key)| key).collect()
    }

    /// Makes room for one more client of the caller's tenant: removes clients with expired leases
    /// first, then unused ones.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while there is no room; NFS4ERR_CLID_INUSE while the server drains, after
    /// which clients do not try again.
    pub(crate) fn make_room_for_client(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        caller: &Caller<'_>,
        effects: &mut Effects<O>,
    ) -> Result<Arc<Tenant>> {
        if registry.draining {
            return Err(Nfsstat4::NFS4ERR_CLID_INUSE);
        }
        let tenant = self.state.tenants.of(caller);
        while !self.client_pool(registry).admits(tenant.clients.load(Relaxed)) {
            if tenant.searched_in_vain(now) {
                return Err(Nfsstat4::NFS4ERR_DELAY);
            }
            let others = self.client_pool(registry).is_fair(tenant.clients.load(Relaxed));
            let whose = if others { None } else { Some(&tenant) };
            let mut freed =
                self.state.leases().release_expired_clients(registry, now, is_of(whose), 1, effects);
            if freed == 0 {
                for key in self.unused_clients(registry, &tenant) {
                    freed += usize::from(self.remove_unused_client(registry, key, effects));
                }
            }
            if freed == 0 {
                tenant.note_vain_search(now);
            }
        }
        Ok(tenant)
    }

    /// Removes a client without state; returns false if it is in use by now.
    fn remove_unused_client(
        &self,
        registry: &mut RegistryGuard<'_>,
        key: ClientKey,
        effects: &mut Effects<O>,
    ) -> bool {
        let (known, held) = registry.split();
        let Ok(client) = known.client(key) else { return false };
        if !self.state.clients().close_gates(client) {
            return false;
        }
        // An OPEN may have come and gone before the gates were closed.
        if client.record.holds_state(held) {
            self.state.clients().reopen_gates(client);
            return false;
        }
        self.state.clients().remove_client(registry, key, ClientEnd::Lost, effects);
        true
    }

    pub(crate) fn client_pool(&self, registry: &Registry) -> TenantPool {
        let (max, all) = (self.state.clients_max.load(Relaxed), registry.clients.len());
        TenantPool { max, all, holders: self.state.tenants.len() }
    }
}

impl Session {
    /// Whether it was ever used, and when last; or when it was made.
    fn used(&self) -> (bool, Duration) {
        match self.activity.renewed() {
            Duration::ZERO => (false, self.created),
            renewed => (true, renewed),
        }
    }

    /// Drops the cached replies of all slots but the first so many.
    fn empty_slots(&self, used: u32) {
        for slot in used..self.fore.requests {
            let Some(mut slot) = self.slots.lock_used(slot) else { continue };
            if matches!(slot.state, SlotState::Cached(_)) {
                self.activity.cached(slot.cached_len(), 0);
                slot.state = SlotState::Uncached;
            }
        }
    }
}
