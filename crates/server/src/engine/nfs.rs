//! The server: everything that outlives one call.

use super::{ClientRecords, FileKey, NfsConfig, Start};
use identity::Mapper;
use rpc::ConnectionId;
use siphasher::sip::SipHasher13;
use state::{Counts, Effect, State};
use std::{
    fmt,
    hash::Hasher,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use vfs::{Exports, OpenFile};

/// Bytes of a call that tell it from another on the same slot; its length counts too. A retry repeats all of
/// them, and a WRITE differs from the next within them.
const FINGERPRINT_MAX: usize = 256;

/// What an open holds: a backend's open file for each kind of access that its owner has got, so that a later
/// OPEN for more needs no permission for what is open already.
#[derive(Clone, Default)]
pub struct OpenPayload {
    /// For READ.
    pub read: Option<Arc<dyn OpenFile>>,
    /// For WRITE; the same file as `read` when it was opened for both at once.
    pub write: Option<Arc<dyn OpenFile>>,
}

impl OpenPayload {
    /// Returns any of the open files.
    pub fn any(&self) -> Option<&Arc<dyn OpenFile>> {
        self.write.as_ref().or(self.read.as_ref())
    }
}

impl fmt::Debug for OpenPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenPayload(read: {}, write: {})", self.read.is_some(), self.write.is_some())
    }
}

/// Clients, sessions, opens and locks of this server.
pub type NfsState = State<FileKey, OpenPayload>;

/// The NFSv4.1/4.2 server behind the RPC layer. Shared by all shards; every method may be called from
/// several threads at once.
pub struct Nfs {
    pub(crate) config: NfsConfig,
    pub(crate) exports: Arc<Exports>,
    pub(crate) identity: Arc<Mapper>,
    pub(crate) start: Start,
    pub(crate) filehandle_key: nfs4::FilehandleKey,
    state: Mutex<NfsState>,
    /// Held while clients are put on and off stable storage.
    recording: Mutex<()>,
    records: Box<dyn ClientRecords>,
    random: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Nfs {
    /// Starts a server; the grace period begins at `now` if `start` names clients of the last run. `random`
    /// returns numbers that nobody can guess.
    pub fn new(
        config: NfsConfig,
        start: Start,
        exports: Arc<Exports>,
        identity: Arc<Mapper>,
        records: Box<dyn ClientRecords>,
        random: Box<dyn Fn() -> u64 + Send + Sync>,
        now: Duration,
    ) -> Self {
        let state = Mutex::new(State::new(config.limits.clone(), start.boot.clone(), now));
        let filehandle_key = nfs4::FilehandleKey::new(start.filehandle_key);
        Self {
            config,
            exports,
            identity,
            start,
            filehandle_key,
            state,
            recording: Mutex::default(),
            records,
            random,
        }
    }

    /// Forgets what was bound to a connection (RFC 8881 section 2.10.3.1).
    pub fn connection_closed(&self, connection: ConnectionId) {
        self.with_state(|state| state.connection_closed(connection.0));
    }

    /// Expires leases and ends the grace period; to be called about once a second.
    pub fn housekeeping(&self, now: Duration) {
        let expired = self.with_state(|state| state.expire(now));
        if expired > 0 {
            tracing::info!(clients = expired, "leases ran out");
        }
    }

    /// Counts clients, sessions, opens and locks, for metrics.
    pub fn counts(&self) -> Counts {
        self.with_state(|state| state.counts())
    }

    /// Runs something short on the state of all clients; what it causes is done after the lock is released.
    /// Never calls a backend under the lock.
    pub(crate) fn with_state<R>(&self, run: impl FnOnce(&mut NfsState) -> R) -> R {
        let (result, effects, in_order) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let result = run(&mut state);
            let effects = state.take_effects();
            // Taken before the state is released: what two threads record of one client stays in its order.
            let records =
                |effect: &Effect<_, _>| !matches!(effect, Effect::Close { .. } | Effect::GraceEnded);
            let in_order = effects.iter().any(records).then(|| self.recording.lock());
            (result, effects, in_order)
        };
        effects.into_iter().for_each(|effect| self.apply(effect));
        drop(in_order);
        result
    }

    fn apply(&self, effect: Effect<FileKey, OpenPayload>) {
        match effect {
            // Dropping it here closes the file without the lock.
            Effect::Close { .. } => {}
            Effect::RecordClient { owner } => self.records.record(&owner),
            Effect::ForgetClient { owner } => self.records.forget(&owner),
            Effect::GraceEnded => tracing::info!("the grace period has ended"),
        }
    }

    /// Draws a number that nobody can guess.
    pub(crate) fn random(&self) -> u64 {
        (self.random)()
    }

    /// Hashes what tells a retry from another request on its slot (RFC 8881 section 2.10.6.1.3.1).
    pub(crate) fn fingerprint(&self, args: &[u8], sender: &state::Principal) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.start.boot.hash_key);
        hasher.write(args.get(..FINGERPRINT_MAX).unwrap_or(args));
        hasher.write_usize(args.len());
        hasher.write(&sender.0);
        hasher.finish()
    }
}
