//! One established context (RFC 2203 section 5.2).

use super::Accepted;
use crate::security::Security;
use crate::tenants::LimitedTenant;
use arc_swap::{ArcSwap, Guard};
use identity::Mapped;
use krb5::ContextKeys;
use rpc::gss::RpcGssServiceT;
use rpc::{MAXSEQ, SequenceWindow, WindowOutcome};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use vfs::{Caller, SecFlavor};

/// Time since the last call after which a context is idle. The table keeps idle contexts only while
/// it has much room; the contexts of callbacks live as long as their sessions.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// Time that a new context waits for its first call, which clients send at once.
pub(crate) const UNUSED_MAX: Duration = Duration::from_secs(60);

/// The length of a context handle in bytes.
pub const HANDLE_LEN: usize = 16;

/// The server's handle of a context: random, so that it cannot be guessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle([u8; HANDLE_LEN]);

/// Hashes half of the bytes as they are: handles in tables are random, so peers cannot choose them
/// to collide.
impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (_, last) = self.0.split_at(HANDLE_LEN / 2);
        state.write_u64(last.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
    }
}

impl Handle {
    /// Makes a handle from random bytes.
    pub const fn new(random: [u8; HANDLE_LEN]) -> Self {
        Self(random)
    }

    /// Reads the handle of a credential; `None` for one of a length that this server does not use.
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes as they are on the wire.
    pub const fn as_bytes(&self) -> &[u8; HANDLE_LEN] {
        &self.0
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")
    }
}

/// An established context: its keys, window and principal. All connections and threads share it.
///
/// Takes about 5 KiB: 3 KiB of keys, 1 KiB of window (at the default size), the identity.
pub struct Context {
    pub(super) handle: Handle,
    pub(super) keys: ContextKeys,
    pub(super) window: Mutex<SequenceWindow>,
    pub(super) window_size: u32,
    pub(super) expires: Duration,
    /// The time of the last verified call in seconds of the clock, plus one; 0 before the first.
    pub(super) used: AtomicU64,
    pub(super) created: Duration,
    pub(super) send_sequence: AtomicU64,
    /// The sequence number of the next callback by this context. The two directions are counted
    /// separately (RFC 8881 section 18.36.3).
    pub(super) callback_sequence: AtomicU32,
    pub(super) principal: Arc<str>,
    /// Whether a service got the ticket in the principal's name.
    pub(super) delegated: bool,
    /// The number of the context, unique while the server runs.
    pub(super) id: u64,
    /// The identity of calls. A refresh replaces it; a call that runs keeps its own.
    pub(super) security: ArcSwap<ServiceSecurity>,
    /// The time of the next refresh of the identity, in seconds of the clock.
    pub(super) refresh_at: AtomicU64,
    /// The tenant of the principal, since the context is in the table.
    pub(super) tenant: OnceLock<Arc<LimitedTenant>>,
}

/// The identity of the calls of a context, by service.
#[derive(Debug)]
pub(crate) struct ServiceSecurity {
    pub(super) krb5: Security,
    krb5i: Security,
    krb5p: Security,
}

impl ServiceSecurity {
    pub(super) fn new(principal: &Arc<str>, account: Mapped, delegated: bool, id: u64) -> Self {
        let Mapped { identity, machine } = account;
        let caller = identity.ok().map(|account| Caller {
            uid: account.uid,
            gid: account.gid,
            groups: account.groups,
        });
        let krb5 = Security::gss(SecFlavor::Krb5, principal.clone(), machine, caller, id);
        let krb5 = Security { delegated, ..krb5 };
        let krb5i = Security { flavor: SecFlavor::Krb5i, ..krb5.clone() };
        let krb5p = Security { flavor: SecFlavor::Krb5p, ..krb5.clone() };
        Self { krb5, krb5i, krb5p }
    }

    /// Returns the identity of a call with this service, for the COMPOUND engine.
    pub(crate) fn of(&self, service: RpcGssServiceT) -> &Security {
        match service {
            RpcGssServiceT::rpc_gss_svc_none => &self.krb5,
            RpcGssServiceT::rpc_gss_svc_integrity => &self.krb5i,
            RpcGssServiceT::rpc_gss_svc_privacy => &self.krb5p,
        }
    }
}

impl Context {
    /// Makes the context of an accepted token. `id` must be unique while the server runs.
    pub(crate) fn new(
        handle: Handle,
        id: u64,
        accepted: Accepted,
        account: Mapped,
        window_size: u32,
        now: Duration,
    ) -> Self {
        let window = SequenceWindow::new(window_size);
        let Accepted { principal, delegated_through, keys, lifetime, send_sequence, .. } = accepted;
        let (principal, delegated) = (principal.into(), !delegated_through.is_empty());
        let security = ArcSwap::from_pointee(ServiceSecurity::new(&principal, account, delegated, id));
        Self {
            handle,
            keys,
            window_size: window.size(),
            window: Mutex::new(window),
            expires: now.saturating_add(lifetime),
            used: AtomicU64::new(0),
            created: now,
            send_sequence: AtomicU64::new(send_sequence),
            callback_sequence: AtomicU32::new(1),
            principal,
            delegated,
            id,
            security,
            refresh_at: AtomicU64::new(u64::MAX),
            tenant: OnceLock::new(),
        }
    }

    /// Returns the server's handle of the context.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the acceptor's keys of the context.
    pub fn keys(&self) -> &ContextKeys {
        &self.keys
    }

    /// Returns the client's principal, such as `alice@REALM`.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Returns the tenant of the principal; `None` before the context is in the table.
    pub(crate) fn tenant(&self) -> Option<&Arc<LimitedTenant>> {
        self.tenant.get()
    }

    /// Sets the tenant of the principal, once.
    pub(super) fn set_tenant(&self, tenant: Arc<LimitedTenant>) {
        let _ = self.tenant.set(tenant);
    }

    /// Returns whether a service got the client's ticket in its name.
    pub fn is_delegated(&self) -> bool {
        self.delegated
    }

    /// Returns the user ID that calls act with; `None` for nobody.
    pub fn uid(&self) -> Option<u32> {
        self.security.load().krb5.caller.as_ref().map(|caller| caller.uid)
    }

    /// Returns the time since the last verified call, in whole seconds; `None` before the first.
    pub fn silent(&self, now: Duration) -> Option<Duration> {
        let used = self.used.load(Relaxed).checked_sub(1)?;
        Some(Duration::from_secs(now.as_secs().saturating_sub(used)))
    }

    /// Returns the present identity of calls.
    pub(crate) fn security(&self) -> Guard<Arc<ServiceSecurity>> {
        self.security.load()
    }

    /// Replaces the identity of later calls. Returns whether it differs from the present one.
    pub(crate) fn set_account(&self, account: Mapped) -> bool {
        let refreshed = ServiceSecurity::new(&self.principal, account, self.delegated, self.id);
        let differs = refreshed.krb5.caller != self.security.load().krb5.caller;
        if differs {
            self.security.store(Arc::new(refreshed));
        }
        differs
    }

    /// Sets the time of the next refresh of the identity.
    pub(crate) fn set_refresh(&self, at: Duration) {
        self.refresh_at.store(at.as_secs(), Relaxed);
    }

    /// Returns whether the identity is to be refreshed at `now`.
    pub(crate) fn is_refresh_due(&self, now: Duration) -> bool {
        self.refresh_at.load(Relaxed) <= now.as_secs()
    }

    /// Returns the size of the window: the sequence numbers that may be outstanding.
    pub fn window_size(&self) -> u32 {
        self.window_size
    }

    /// Returns when the client's ticket expires.
    pub fn expires(&self) -> Duration {
        self.expires
    }

    /// Returns whether the client's ticket has expired.
    pub fn is_expired(&self, now: Duration) -> bool {
        now >= self.expires
    }

    /// Returns whether the first call is overdue: the client has probably dropped the context.
    pub(super) fn is_unused(&self, now: Duration) -> bool {
        self.used.load(Relaxed) == 0 && now >= self.created.saturating_add(UNUSED_MAX)
    }

    /// Returns whether the last call was [`IDLE_MAX`] ago.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        let last = self.used.load(Relaxed).checked_sub(1);
        last.is_some_and(|last| now >= Duration::from_secs(last).saturating_add(IDLE_MAX))
    }

    /// Marks the context as used.
    pub(crate) fn touch(&self, now: Duration) {
        let stamp = now.as_secs().saturating_add(1);
        // Most calls find the stamp unchanged: the cache line stays shared.
        if self.used.load(Relaxed) != stamp {
            self.used.store(stamp, Relaxed);
        }
    }

    /// Checks the sequence number of a call, after its header MIC is verified, against the window.
    /// Also returns its distance to the highest number seen.
    pub(crate) fn check_sequence(&self, sequence: u32, now: Duration) -> (WindowOutcome, u32) {
        self.touch(now);
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let lag = window.lag(sequence);
        (window.check(sequence), lag)
    }

    /// Returns the sequence number of the next token that the server sends (RFC 4121 section
    /// 4.2.6).
    pub(crate) fn next_token_sequence(&self) -> u64 {
        self.send_sequence.fetch_add(1, Relaxed)
    }

    /// Returns the sequence number of the next callback; none when they are used up (RFC 2203
    /// section 5.3.3.1).
    pub(crate) fn next_callback_sequence(&self) -> Option<u32> {
        let next = |number: u32| (number < MAXSEQ).then_some(number + 1);
        self.callback_sequence.fetch_update(Relaxed, Relaxed, next).ok()
    }

    /// Returns the key for eviction: unused contexts first, by age, then the others by last use.
    pub(crate) fn usefulness(&self) -> (u64, Duration) {
        (self.used.load(Relaxed), self.created)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("handle", &self.handle)
            .field("principal", &self.principal())
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// A context shared with the calls that use it.
pub(crate) type SharedContext = Arc<Context>;
