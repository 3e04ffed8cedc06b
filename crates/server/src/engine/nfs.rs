//! The server: all state that outlives one call.

use super::breaks::Breaks;
use super::busy_files::BusyFiles;
use super::choices::Choices;
use super::former_exports::FormerExports;
use super::local_locks::LocalLocks;
use super::names_held::NamesHeld;
use super::program_waits::ProgramWaits;
use super::recording::Recording;
use super::refusals::Refusals;
use super::replies::Replies;
use super::{
    Cause, ClientRecords, Delegations, Fh, FileKey, NfsConfig, NumericOwners, Observation, Offloads, Start,
    SysGroups,
};
use crate::callback::CallbackQueue;
use crate::metrics::{Outcomes, errno};
use crate::security::Security;
use crate::tenants::LimitedTenants;
use identity::Mapper;
use nfs4::{NfsOpnum4, Verifier4};
use rpc::ConnectionId;
use siphasher::sip::SipHasher13;
use state::{Counts, Effects, RecordTickets, State};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use vfs::{Backend, Exports, Lease, OpenFile, VfsError, VfsResult};

/// Bytes of a call that enter its fingerprint, along with its length, to tell a retry from another
/// request on the slot. A retry repeats all of them, and consecutive WRITEs differ within them.
const FINGERPRINT_MAX: usize = 256;

/// How long after the start a reclaim may meet a lock that is about to be released: of a former
/// instance of this server, or of another server that has just begun to refuse new locks.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(10);

/// The files of an open: one of the backend for each kind of access granted to its owner, so that a
/// later OPEN for more access needs no permission for the access that it already has.
#[derive(Clone, Default)]
pub struct OpenPayload {
    /// The file opened for READ.
    pub read: Option<Arc<dyn OpenFile>>,
    /// The file opened for WRITE; the same as `read` when it was opened for both at once.
    pub write: Option<Arc<dyn OpenFile>>,
    /// The user of the owner's OPENs, as the export sees it; `None` if there were several. With
    /// some flavors stateids, session IDs and owners travel in clear, so other users may learn
    /// them; these get the access of the file's mode.
    pub user: Option<u32>,
    /// With a delegation: the kernel's lease, which reports accesses by local processes. It ends
    /// with the delegation.
    pub lease: Option<Arc<dyn Lease>>,
}

impl OpenPayload {
    /// Returns any of the open files, preferably for WRITE.
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

/// The NFSv4.0/4.1/4.2 server behind the RPC layer. All shards share it, and every method may run
/// on several threads at once.
pub struct Nfs {
    pub(crate) config: NfsConfig,
    pub(crate) exports: Arc<Exports>,
    pub(super) former: FormerExports,
    pub(crate) identity: Arc<Mapper>,
    pub(crate) choices: Choices,
    pub(crate) start: Start,
    pub(crate) filehandle_key: nfs4::FilehandleKey,
    pub(crate) state: NfsState,
    /// The time of the start.
    pub(super) started: Duration,
    pub(super) recording: Recording,
    /// The number of failed syncs, which is part of the write verifier.
    pub(super) sync_failures: AtomicU64,
    pub(crate) callbacks: CallbackQueue,
    pub(crate) offloads: Offloads,
    pub(super) names: NamesHeld,
    pub(crate) breaks: Arc<Breaks>,
    pub(crate) local_locks: LocalLocks,
    pub(crate) program_waits: ProgramWaits,
    pub(super) replies: Replies,
    pub(crate) outcomes: Outcomes,
    pub(crate) busy_files: BusyFiles,
    pub(crate) observation: Observation,
    pub(super) refusals: Refusals,
    pub(super) records: Box<dyn ClientRecords>,
    pub(super) random: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// The parts of a server besides its state.
pub struct NfsParts {
    /// Names and limits of the server.
    pub config: NfsConfig,
    /// The values that differ between starts.
    pub start: Start,
    /// The exports, which a reload replaces.
    pub exports: Arc<Exports>,
    /// Accounts of principals and owners.
    pub identity: Arc<Mapper>,
    /// Stable storage for clients.
    pub records: Box<dyn ClientRecords>,
    /// Returns numbers that cannot be predicted.
    pub random: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Nfs {
    /// Starts a server. The grace period begins at `now` if `parts` name clients of the last run.
    pub fn start(parts: NfsParts, now: Duration) -> Self {
        let state = State::new(parts.config.limits.clone(), parts.start.boot.clone(), now);
        let quotas = parts.config.tenants.clone();
        Self::of_parts(
            parts,
            state.with_views(FileKey::view).with_shared(FileKey::is_shared).with_quotas(quotas),
            now,
        )
    }

    /// Makes a server with this state.
    pub(super) fn of_parts(parts: NfsParts, state: NfsState, started: Duration) -> Self {
        let NfsParts { config, start, exports, identity, records, random } = parts;
        let filehandle_key = nfs4::FilehandleKey::new(start.filehandle_key);
        Self {
            choices: Choices::new(&config),
            config,
            exports,
            former: FormerExports::default(),
            identity,
            start,
            filehandle_key,
            recording: Recording::new(state.leases().in_grace()),
            state,
            started,
            sync_failures: AtomicU64::new(0),
            callbacks: CallbackQueue::default(),
            offloads: Offloads::default(),
            names: NamesHeld::default(),
            breaks: Arc::default(),
            local_locks: LocalLocks::default(),
            program_waits: ProgramWaits::default(),
            replies: Replies::default(),
            outcomes: Outcomes::default(),
            busy_files: BusyFiles::default(),
            observation: Observation::default(),
            refusals: Refusals::default(),
            records,
            random,
        }
    }

    /// Removes all state bound to a connection (RFC 8881 section 2.10.3.1).
    pub fn connection_closed(&self, connection: ConnectionId) {
        self.state.sessions().connection_closed(connection.0);
        self.callback_connection_closed(connection);
    }

    /// Expires leases and ends the grace period; to be called about once a second.
    pub fn housekeeping(&self, now: Duration) {
        self.recall_broken(now);
        self.poll_program_waits(now);
        let expire = |state: &NfsState, effects: &mut _| state.leases().expire(now, effects);
        let expired = self.with_queue(now, expire, |_| self.keep_records());
        if expired > 0 {
            tracing::info!(clients = expired, "leases ran out");
        }
        self.unlock_late(now);
        self.revoke_late(now);
        self.callback_housekeeping(now);
    }

    /// Replaces the choices that a reload can change. Delegations that clients have stay theirs,
    /// and shards notice another source of groups with the next generation of the accounts.
    pub fn set_choices(
        &self,
        nfs40: bool,
        delegations: Delegations,
        numeric_owners: NumericOwners,
        groups: SysGroups,
    ) {
        self.choices.set(nfs40, delegations, numeric_owners, groups);
    }

    /// Replaces the most clients, and the most slots of a new session. Clients and sessions that
    /// exist stay as they are.
    pub fn set_client_limits(&self, clients_max: usize, slots_max: u32) {
        self.state.set_max(clients_max, slots_max);
    }

    /// Returns the principals and clients that share the server.
    pub fn tenants(&self) -> &Arc<LimitedTenants> {
        &self.config.tenants
    }

    /// Refuses new clients from now on, or admits them again.
    pub fn set_draining(&self, draining: bool) {
        self.state.clients().set_draining(draining);
    }

    /// Returns whether new clients are refused.
    pub fn is_draining(&self) -> bool {
        self.state.clients().is_draining()
    }

    /// Returns the number of clients for which a drain waits, see [`state::Clients::with_lease`].
    pub fn clients_with_lease(&self, now: Duration) -> usize {
        self.state.clients().with_lease(now)
    }

    /// Returns whether file systems hold the locks of clients, if they can.
    pub fn locks_locally(&self) -> bool {
        self.config.local_locks
    }

    /// Returns the lease that clients are told (RFC 8881 section 5.8.1.11).
    pub fn lease(&self) -> Duration {
        self.config.limits.lease
    }

    /// Returns whether the server is in its grace period (RFC 8881 section 8.4.2.1).
    pub fn in_grace(&self) -> bool {
        self.state.leases().in_grace()
    }

    /// Refuses new state for shared files, or grants it again (see
    /// [`state::Leases::enforce_grace`]).
    pub fn enforce_grace(&self, enforced: bool) {
        let leases = self.state.leases();
        if enforced { leases.enforce_grace() } else { leases.relax_grace() }
    }

    /// Returns whether new state is refused for shared files.
    pub fn is_grace_enforced(&self) -> bool {
        self.state.leases().is_enforced()
    }

    /// Ends the server's own grace period before its time. Housekeeping writes the records: see
    /// [`Nfs::has_recovered`].
    pub fn give_up_recovery(&self, now: Duration) {
        self.with_queue(now, |state, effects| state.leases().give_up_grace(effects), |_| ());
    }

    /// Returns whether locks of a former instance of this server may not have been released
    /// everywhere yet: a conflict with a reclaim may pass.
    pub(crate) fn awaits_release(&self, now: Duration) -> bool {
        self.is_grace_enforced() && now < self.started.saturating_add(RELEASE_TIME_MAX)
    }

    /// Applies or ends back-pressure: while overloaded, clients are asked to use fewer slots.
    pub fn set_overloaded(&self, overloaded: bool) {
        self.state.sessions().set_overloaded(overloaded);
    }

    /// Returns counts of operations by status, and of errors of file systems, for metrics.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Returns the number of callers that the rules of exports have refused, by the rule.
    pub fn refusals(&self) -> Vec<(&'static str, u64)> {
        self.refusals.counts()
    }

    /// Counts and logs the error that led to the failure of an operation on `fh`.
    pub(crate) fn note_cause(&self, now: Duration, opnum: NfsOpnum4, fh: Option<&Fh>, cause: Cause) {
        match cause {
            Cause::Decode(error) => self.outcomes.note_undecodable(opnum.name(), error),
            Cause::Backend(error) => {
                let Some(errno) = errno::of_failure(error) else { return };
                let export = match fh {
                    Some(Fh::Object(object)) => &*object.export.pseudo_path,
                    Some(Fh::Pseudo(_)) | None => "/",
                };
                self.outcomes.note_error(now, opnum, export, errno);
            }
            Cause::Protocol => {}
        }
    }

    /// Returns the numbers of clients, sessions, opens and locks, for metrics.
    pub fn counts(&self) -> Counts {
        self.state.counts()
    }

    /// Runs a state transition and carries out its effects: unlocks ranges in their file systems,
    /// closes files without any lock of the state, and puts client records on stable storage before
    /// it returns. Callbacks are in flight by then.
    pub(crate) fn with_effects<R>(
        &self,
        now: Duration,
        run: impl FnOnce(&NfsState, &mut Effects<OpenPayload>) -> R,
    ) -> R {
        self.with_queue(now, run, |queued| self.write_records(queued))
    }

    /// As [`Nfs::with_effects`], but leaves client records to `write`, which learns the tickets of
    /// those that the transition has queued.
    pub(crate) fn with_queue<R>(
        &self,
        now: Duration,
        run: impl FnOnce(&NfsState, &mut Effects<OpenPayload>) -> R,
        write: impl FnOnce(RecordTickets),
    ) -> R {
        let mut effects = Effects::default();
        let result = run(&self.state, &mut effects);
        write(effects.queued);
        if effects.unlocked {
            self.unlock_locally(now);
        }
        self.start_callbacks(std::mem::take(&mut effects.callbacks), now);
        result
    }

    /// Returns the write verifier for files of a backend (RFC 8881 section 18.3.3). It changes
    /// after each failed sync, since the kernel reports lost data once, and more than one client
    /// may have written it.
    pub(crate) fn write_verifier(&self, backend: &dyn Backend) -> Verifier4 {
        self.last_write_verifier().wrapping_add(backend.sync_failures()).to_be_bytes()
    }

    /// Returns the write verifier for files of backends without failures of their own.
    pub(super) fn last_write_verifier(&self) -> u64 {
        u64::from_be_bytes(self.start.write_verifier).wrapping_add(self.sync_failures.load(Relaxed))
    }

    /// Counts a failed sync, and returns the outcome unchanged. Other errors come from before the
    /// sync, such as that of a file that cannot be opened, or not while a local program has a lease
    /// on it. Nothing is lost then: otherwise a client with such a file could have all others write
    /// their data again.
    pub(crate) fn synced(&self, outcome: VfsResult<()>) -> VfsResult<()> {
        use VfsError::{Dquot, Io, Nospc, Os};
        if let Err(Io | Os(_) | Nospc | Dquot) = outcome {
            self.sync_failures.fetch_add(1, Relaxed);
        }
        outcome
    }

    /// Returns whether the client records are as they should be after a restart.
    pub fn records_are_complete(&self) -> bool {
        self.records.is_complete()
    }

    /// Returns whether writing client records can wait for a disk.
    pub(crate) fn records_may_wait(&self) -> bool {
        self.records.may_wait()
    }

    /// Returns an unpredictable number.
    pub(crate) fn random(&self) -> u64 {
        (self.random)()
    }

    /// Hashes the parts of a request that tell a retry from another request on its slot (RFC 8881
    /// section 2.10.6.1.3.1): its bytes, its principal, and its flavor with the service. A reply to
    /// krb5p does not answer krb5.
    pub(crate) fn fingerprint(&self, args: &[u8], security: &Security) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.start.boot.hash_key);
        hasher.write(args.get(..FINGERPRINT_MAX).unwrap_or(args));
        hasher.write_usize(args.len());
        security.flavor.hash(&mut hasher);
        hasher.write(&security.sender.0);
        hasher.finish()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use identity::{Rules, StaticSource};
    use vfs::{ExportTable, SecFlavor, Timestamp};

    /// Makes a server without exports.
    pub(in crate::engine) fn nfs() -> Nfs {
        let table = ExportTable::new(Vec::new(), Timestamp { seconds: 0, nanoseconds: 0 }).unwrap();
        let boot =
            state::Boot { epoch: 1, hash_key: [0; 16], principal_key: [0; 16], prior_clients: Vec::new() };
        let start = Start { boot, write_verifier: [0xff; 8], filehandle_key: [0; 16] };
        let parts = NfsParts {
            config: NfsConfig::default(),
            start,
            exports: Arc::new(Exports::new(table)),
            identity: Arc::new(Mapper::new(Rules::default(), StaticSource::default())),
            records: Box::new(super::super::NoRecords),
            random: Box::new(|| 0),
        };
        Nfs::start(parts, Duration::ZERO)
    }

    #[test]
    fn the_write_verifier_changes_when_data_may_have_been_lost() // RFC 8881 section 18.3.3
    {
        let nfs = nfs();
        let backend = vfs::MemoryBackend::new(vfs::MemoryLimits::default(), [0; 16]).unwrap();
        let before = nfs.write_verifier(&backend);
        assert_eq!(nfs.synced(Ok(())), Ok(()));
        assert_eq!(nfs.write_verifier(&backend), before);
        assert_eq!(nfs.synced(Err(VfsError::Io)), Err(VfsError::Io));
        assert_ne!(nfs.write_verifier(&backend), before);
    }

    #[test]
    fn a_file_that_cannot_be_opened_changes_no_write_verifier() // RFC 8881 section 18.3.3
    {
        use VfsError::{Access, Delay, Exhausted, Noent, Perm, Rofs, Stale};
        let nfs = nfs();
        let backend = vfs::MemoryBackend::new(vfs::MemoryLimits::default(), [0; 16]).unwrap();
        let before = nfs.write_verifier(&backend);
        for error in [Access, Delay, Exhausted, Noent, Perm, Rofs, Stale] {
            assert_eq!(nfs.synced(Err(error)), Err(error));
            assert_eq!(nfs.write_verifier(&backend), before);
        }
    }

    /// Images of other processes have fingerprints: another value means a new major version of the
    /// handover.
    #[test]
    fn fingerprints_are_those_of_all_versions_with_this_major_number() // docs/upgrade.md
    {
        let nfs = nfs();
        let fingerprint = |flavor| {
            let caller = vfs::Caller { uid: 5, gid: 6, groups: Arc::new([]) };
            let security = match flavor {
                SecFlavor::Sys => Security::sys(caller),
                flavor => Security::gss(flavor, "alice@TEST".into(), false, Some(caller), 7),
            };
            nfs.fingerprint(b"the arguments of a COMPOUND", &security)
        };
        let known = [
            2_754_527_466_335_957_223,
            8_908_562_348_892_206_344,
            8_093_712_473_398_033_171,
            15_786_193_649_431_180_647,
        ];
        assert_eq!(SecFlavor::ALL.map(fingerprint), known);
    }
}
