//! Reloads: SIGHUP and `orthrus reload` apply the configuration as far as a running server can, all
//! of it or nothing.

use super::changes::ReloadChanges;
use super::exports::Backends;
use super::kerberos::Keys;
use super::observe::AuditLog;
use super::{
    ReadSettings, admission, identities, sandbox, shared, spoken, warn_of_descriptors, warn_of_leases,
};
use crate::config::Settings;
use crate::logging;
use crate::service_manager::ServiceManager;
use anyhow::{Context, bail};
use identity::Mapper;
use net::Shards;
use runtime::{Gate, NfsService};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};
use vfs::Exports;

/// How long a reload waits for another one, or for an upgrade, which takes at most 45 seconds. A
/// reload that opens a file system may hang with it.
const TURN_TIME_MAX: Duration = Duration::from_secs(60);
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
    served: Served,
    /// Has the next process reload, once that one serves.
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
        Self { read, start: settings.clone(), settings, backends, keys, realms, served, next: None }
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
        let prepared = self.backends.prepare(&settings.exports, &settings.addresses)?;
        let table = self.backends.adopt(prepared);
        let same = same_identities(&self.settings, &settings) && realms == self.realms;
        logging::set_filter(&settings.log);
        self.served.apply(&settings);
        self.served.identity.replace(rules, sources, same);
        self.served.exports.replace(table);
        let mut changes = ReloadChanges::between(&self.start, &self.settings.exports, &settings);
        changes.ports = sandbox::out_of_reach(&self.start, &settings);
        let server = self.served.service.server();
        changes.revoked = server.engine().revoke_unserved(server.now());
        (self.settings, self.realms) = (settings, realms);
        Ok(changes)
    }

    /// Logs the exports in force, and warns where the process cannot do all that they promise.
    fn log_exports(&self) {
        let flavors = spoken(self.keys.is_some());
        warn_of_leases(&self.settings);
        warn_of_descriptors(&self.settings, self.served.descriptors);
        let exports = self.served.exports.snapshot();
        admission::log(&exports, &flavors, !self.settings.same_user);
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
        admission::check(&settings.exports, self.keys.is_some())?;
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
        Self { reload: Mutex::new(reload), manager, gate, audit, status: Box::new(status) }
    }

    /// Keeps reloads from running while the result lives.
    ///
    /// # Errors
    /// One runs and does not end within [`TURN_TIME_MAX`].
    pub(super) fn hold(&self) -> anyhow::Result<MutexGuard<'_, Reload>> {
        hold(&self.reload, TURN_TIME_MAX)
    }

    /// Tells the service manager that the server is ready.
    pub(super) fn ready(&self) {
        self.manager.ready(&(self.status)());
    }

    /// Logs the exports in force.
    pub(super) fn log_exports(&self) {
        self.hold().iter().for_each(|reload| reload.log_exports());
    }

    /// Reloads as `asker` asks for it, and logs the outcome. Returns a line for each kind of
    /// change. One that an upgrade has kept waiting is for the next process, which may have read
    /// an older file.
    ///
    /// # Errors
    /// The fault in the configuration file.
    pub(super) fn run(&self, asker: &str) -> anyhow::Result<Vec<String>> {
        let mut reload = self.hold()?;
        if let Some(next) = &reload.next {
            next();
            return Ok(vec![self.log_left(asker)]);
        }
        let _inside = self.gate.enter();
        self.manager.reloading();
        let outcome = reload.run();
        if let Some(audit) = &self.audit {
            audit.reopen();
            let result = outcome.as_ref().map_or_else(|error| format!("{error:#}"), |lines| lines.join("; "));
            audit.admin(asker, "reload", &result);
        }
        let kept = match &outcome {
            Ok(lines) => {
                lines.iter().for_each(|line| tracing::info!("{asker}: {line}"));
                reload.log_exports();
                ""
            }
            Err(error) => {
                tracing::error!("{asker}: {error:#}");
                "; the last reload failed, as the log says"
            }
        };
        self.manager.ready(&format!("{}{kept}", (self.status)()));
        outcome
    }

    /// Logs a reload that the next process makes.
    fn log_left(&self, asker: &str) -> String {
        let line = "another process has taken over, and applies the settings of the file";
        if let Some(audit) = &self.audit {
            audit.reopen();
            audit.admin(asker, "reload", line);
        }
        tracing::info!("{asker}: {line}");
        line.to_owned()
    }
}

/// Locks a mutex within `time`.
fn hold<T>(mutex: &Mutex<T>, time: Duration) -> anyhow::Result<MutexGuard<'_, T>> {
    let until = Instant::now() + time;
    loop {
        match mutex.try_lock() {
            Ok(held) => return Ok(held),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(TURN_INTERVAL),
            Err(TryLockError::WouldBlock) => bail!(
                "a reload has not ended for {} seconds, as when a file system does not answer; see to the mounts of the \
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
        let held = hold(&mutex, Duration::ZERO).unwrap();
        let error = hold(&mutex, Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains("file system does not answer"), "{error}");
        drop(held);
        let panic = || -> () {
            let _held = hold(&mutex, Duration::ZERO).unwrap();
            panic!("on purpose");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panic)).is_err());
        assert!(hold(&mutex, Duration::ZERO).is_ok());
    }
}
