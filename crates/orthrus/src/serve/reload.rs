//! Reloads: SIGHUP and `orthrus reload` apply the configuration as far as a running server can, all
//! of it or nothing.

use super::changes::ReloadChanges;
use super::exports::Backends;
use super::http::Author;
use super::kerberos::Keys;
use super::observe::AuditLog;
use super::{
    ReadSettings, admission, identities, membership, own_files, sandbox, shared, spoken, warn_of_descriptors,
    warn_of_leases,
};
use crate::api::ReloadStatus;
use crate::config::Settings;
use crate::logging;
use crate::service_manager::ServiceManager;
use anyhow::{Context, bail};
use identity::Mapper;
use net::Shards;
use runtime::{Gate, NfsService};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use vfs::Exports;

/// How long a reload or an upgrade of an administrator waits for another one, so that the answer
/// arrives. A reload that opens a file system may hang with it.
const TURN_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a reload of SIGHUP waits for another one, or for an upgrade, which takes at most 45
/// seconds.
const SIGNAL_TURN_TIME_MAX: Duration = Duration::from_secs(60);
/// How often it looks for the end.
const TURN_INTERVAL: Duration = Duration::from_millis(10);

/// The parts of a running server whose settings a reload replaces.
pub(super) struct Served {
    pub(super) exports: Arc<Exports>,
    pub(super) service: Arc<NfsService>,
    pub(super) identity: Arc<Mapper>,
    pub(super) shards: Shards,
    /// Descriptors that the process may have.
    pub(super) descriptors: usize,
}

/// The origin of a reload.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    /// The program that sent SIGHUP.
    Signal,
    /// A request at the administrator's socket.
    Administrator(Author),
}

impl Asker {
    fn turn_time_max(self) -> Duration {
        match self {
            Self::Signal => SIGNAL_TURN_TIME_MAX,
            Self::Administrator(_) => TURN_TIME_MAX,
        }
    }

    /// Returns the author for the audit log.
    fn author(self) -> String {
        match self {
            Self::Signal => "SIGHUP".to_owned(),
            Self::Administrator(author) => author.to_string(),
        }
    }
}

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal => f.write_str("SIGHUP"),
            Self::Administrator(author) => write!(f, "reload by {author}"),
        }
    }
}

/// The settings of a running server.
pub(super) struct Reload {
    read: Option<Box<ReadSettings>>,
    /// The settings of the start, as asked for.
    start: Settings,
    /// The settings in force.
    settings: Settings,
    backends: Backends,
    keys: Option<Arc<Keys>>,
    /// The realms in force when `settings` has none.
    realms: Vec<String>,
    /// Keys of the file that apply at the next start only.
    at_restart: Vec<&'static str>,
    served: Served,
    /// Makes the next process reload, once that one serves.
    next: Option<Box<dyn Fn() + Send>>,
}

impl Reload {
    /// Makes the reload of a server that was started with `settings`; `read` is `None` without a
    /// configuration file.
    pub(super) fn new(
        read: Option<Box<ReadSettings>>,
        settings: Settings,
        backends: Backends,
        keys: Option<Arc<Keys>>,
        served: Served,
    ) -> Self {
        let realms = keys.as_ref().map(|keys| keys.realms()).unwrap_or_default();
        let (start, at_restart) = (settings.clone(), Vec::new());
        Self { read, start, settings, backends, keys, realms, at_restart, served, next: None }
    }

    /// Leaves reloads to the next process, which `next` asks for one.
    pub(super) fn leave_to(&mut self, next: impl Fn() + Send + 'static) {
        self.next = Some(Box::new(next));
    }

    /// Applies the settings of the file, and looks all accounts up again, also those of live
    /// contexts. Returns a line for each kind of change.
    ///
    /// # Errors
    /// The fault in the file; all settings stay as they were.
    fn run(&mut self) -> anyhow::Result<Vec<String>> {
        let outcome = match self.read.as_ref().map(|read| read()) {
            None => Ok(vec!["there is no configuration file to read; the settings stay".to_owned()]),
            Some(settings) => settings
                .and_then(|settings| self.apply(settings))
                .map(|changes| {
                    let first = "the settings of the file are in force".to_owned();
                    std::iter::once(first).chain(changes.lines()).collect()
                })
                .context("the settings stay as they were"),
        };
        self.served.identity.forget();
        self.backends.clients().refresh(&self.settings);
        if let Some(rpcsec) = self.served.service.server().rpcsec() {
            rpcsec.contexts().refresh_all();
        }
        outcome
    }

    /// Applies settings, and returns the difference. An error leaves everything as it was.
    fn apply(&mut self, settings: Settings) -> anyhow::Result<ReloadChanges> {
        let (rules, sources) = identities(&settings, self.keys.as_deref())?;
        let realms = self.keys.as_ref().map(|keys| keys.realms()).unwrap_or_default();
        sandbox::check_ceph(&self.start, &settings)?;
        membership::check_exports(&self.start, &settings)?;
        admission::check(&settings.exports, self.keys.is_some())?;
        // The file systems of the others may hang.
        let new = settings.exports.iter().filter(|export| self.backends.served(export).is_none());
        own_files::check(new, &self.start)?;
        let prepared = self.backends.prepare(&settings.exports, &settings.addresses)?;
        let table = self.backends.adopt(prepared)?;
        let same = same_identities(&self.settings, &settings) && realms == self.realms;
        logging::set_filter(&settings.log);
        self.served.apply(&settings);
        self.served.identity.replace(rules, sources, same);
        let mut changes = ReloadChanges::between(&self.start, &self.settings, &settings);
        changes.ports = sandbox::out_of_reach(&self.start, &settings);
        let server = self.served.service.server();
        changes.revoked = server.engine().replace_exports(table, server.now());
        (self.settings, self.realms) = (settings, realms);
        self.at_restart.clone_from(&changes.at_restart);
        Ok(changes)
    }

    /// Logs the exports in force, and warns where the process cannot do all that they promise.
    fn log_exports(&self) {
        let flavors = spoken(self.keys.is_some());
        warn_of_leases(&self.settings);
        warn_of_descriptors(&self.settings, self.served.descriptors);
        let exports = self.served.exports.snapshot();
        admission::log(&exports, &flavors, !self.settings.same_user);
        self.backends.overlaps(&self.settings.exports).iter().for_each(|overlap| tracing::warn!("{overlap}"));
        let keys = self.keys.iter();
        keys.flat_map(|keys| keys.misspelt(&self.settings.realms))
            .for_each(|realm| tracing::warn!("{realm}"));
        if nix::unistd::geteuid().is_root() && !vfs_local::can_change_owners() {
            admission::warn_of_owners(&exports);
        }
    }
}

impl Served {
    /// Applies the settings that are single values.
    fn apply(&self, settings: &Settings) {
        let limits = shared(settings, self.descriptors);
        self.shards.set_connections_max(limits.connections_max);
        let server = self.service.server();
        if let Some(rpcsec) = server.rpcsec() {
            rpcsec.set_identity_refresh(settings.identity.refresh);
            rpcsec.contexts().set_max(limits.contexts_max);
        }
        server.tenants().apply(settings.limit_rules());
        let engine = server.engine();
        engine.set_client_limits(limits.clients_max, limits.slots_max);
        engine.set_choices(
            settings.nfs40,
            settings.delegations,
            settings.numeric_owners,
            settings.identity.groups,
        );
    }
}

/// Runs reloads one at a time, and keeps the service manager informed.
pub(super) struct Reloads {
    reload: Mutex<Reload>,
    manager: Arc<ServiceManager>,
    /// Closed while the next process takes over.
    gate: Arc<Gate>,
    audit: Option<AuditLog>,
    /// The outcome of the last reload. It can be seen while another one hangs.
    last: Mutex<Option<ReloadStatus>>,
    /// Describes the running server in a line.
    status: Box<dyn Fn() -> String + Send + Sync>,
}

impl Reloads {
    pub(super) fn new(
        reload: Reload,
        manager: Arc<ServiceManager>,
        gate: Arc<Gate>,
        audit: Option<AuditLog>,
        status: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        let (reload, status) = (Mutex::new(reload), Box::new(status));
        Self { reload, manager, gate, audit, last: Mutex::default(), status }
    }

    /// Keeps reloads from running while the result lives.
    ///
    /// # Errors
    /// One runs and does not end within [`TURN_TIME_MAX`], or before `ends` holds.
    pub(super) fn hold(&self, ends: impl Fn() -> bool) -> anyhow::Result<MutexGuard<'_, Reload>> {
        hold(&self.reload, TURN_TIME_MAX, ends)
    }

    /// Tells the service manager that the server is ready.
    pub(super) fn ready(&self) {
        self.manager.ready(&(self.status)());
    }

    /// Logs the exports in force.
    pub(super) fn log_exports(&self) {
        self.hold(|| false).iter().for_each(|reload| reload.log_exports());
    }

    /// Returns the outcome of the last reload, if there was one.
    pub(super) fn last(&self) -> Option<ReloadStatus> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reloads as `asker` asks for it, and logs the outcome. Returns a line for each kind of
    /// change. One that an upgrade has kept waiting is for the next process, which may have read
    /// an older file.
    ///
    /// # Errors
    /// The fault in the configuration file, or another reload does not end.
    pub(super) fn run(&self, asker: Asker) -> anyhow::Result<Vec<String>> {
        let turn = hold(&self.reload, asker.turn_time_max(), || false);
        let mut reload = turn.inspect_err(|error| self.failed(asker, error))?;
        if let Some(next) = &reload.next {
            next();
            let lines =
                vec!["another process has taken over, and applies the settings of the file".to_owned()];
            self.log(asker, &lines);
            return Ok(lines);
        }
        let _inside = self.gate.enter();
        self.manager.reloading();
        let outcome = reload.run();
        let kept = match &outcome {
            Ok(lines) => {
                let at_restart = reload.at_restart.iter().map(ToString::to_string).collect();
                self.note(ReloadStatus { failed: None, at_restart });
                self.log(asker, lines);
                reload.log_exports();
                ""
            }
            Err(error) => {
                self.failed(asker, error);
                "; the last reload failed, as the log says"
            }
        };
        self.manager.ready(&format!("{}{kept}", (self.status)()));
        outcome
    }

    fn note(&self, status: ReloadStatus) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// Logs the changes of a reload.
    fn log(&self, asker: Asker, lines: &[String]) {
        self.audit(asker, &lines.join("; "));
        lines.iter().for_each(|line| tracing::info!("{asker}: {line}"));
    }

    /// Logs and notes a reload that has changed nothing.
    fn failed(&self, asker: Asker, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        self.audit(asker, &reason);
        tracing::error!("{asker}: {reason}");
        let at_restart = self.last().unwrap_or_default().at_restart;
        self.note(ReloadStatus { failed: Some(reason), at_restart });
    }

    fn audit(&self, asker: Asker, result: &str) {
        if let Some(audit) = &self.audit {
            audit.reopen();
            audit.admin(&asker.author(), "reload", result);
        }
    }
}

/// Locks a mutex within `time`, and before `ends` holds.
fn hold<T>(mutex: &Mutex<T>, time: Duration, ends: impl Fn() -> bool) -> anyhow::Result<MutexGuard<'_, T>> {
    let until = Instant::now() + time;
    loop {
        match mutex.try_lock() {
            Ok(held) => return Ok(held),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if ends() => bail!("the server is to end"),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(TURN_INTERVAL),
            Err(TryLockError::WouldBlock) => bail!(
                "another reload or upgrade has not ended for {} seconds, as when a file system does not answer; see to the mounts of the \
                 exports",
                time.as_secs()
            ),
        }
    }
}

/// Returns whether all identities come from the same sources by the same rules.
fn same_identities(one: &Settings, other: &Settings) -> bool {
    let key = |settings: &Settings| {
        let Settings { identity, realms, domain, principals, .. } = settings.clone();
        (identity, realms, domain, principals)
    };
    key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_does_not_come_is_given_up_and_a_panic_leaves_no_lock() {
        let mutex = Mutex::new(());
        let held = hold(&mutex, Duration::ZERO, || false).unwrap();
        let error = hold(&mutex, Duration::from_millis(20), || false).unwrap_err().to_string();
        assert!(error.contains("file system does not answer"), "{error}");
        let error = hold(&mutex, Duration::from_secs(3600), || true).unwrap_err().to_string();
        assert!(error.contains("to end"), "{error}");
        drop(held);
        let panic = || -> () {
            let _held = hold(&mutex, Duration::ZERO, || false).unwrap();
            panic!("on purpose");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panic)).is_err());
        assert!(hold(&mutex, Duration::ZERO, || false).is_ok());
    }
}
