//! Reloads: SIGHUP and `orthrus reload` apply the exports and the identities of the configuration,
//! all of them or nothing.

use super::changes::ReloadChanges;
use super::exports::Backends;
use super::kerberos::Keys;
use super::{ReadSettings, admission, identities, sandbox, spoken};
use crate::config::Settings;
use crate::service_manager::ServiceManager;
use anyhow::Context;
use identity::Mapper;
use runtime::NfsService;
use std::sync::{Arc, Mutex, PoisonError};
use vfs::Exports;

/// The parts of a running server that a reload replaces.
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
    exports: Arc<Exports>,
    service: Arc<NfsService>,
    identity: Arc<Mapper>,
}

impl Reload {
    /// Makes the reload of a server that was started with `settings`; `read` is `None` without a
    /// configuration file.
    pub(super) fn new(
        read: Option<Box<ReadSettings>>,
        settings: Settings,
        backends: Backends,
        keys: Option<Arc<Keys>>,
        exports: Arc<Exports>,
        service: Arc<NfsService>,
        identity: Arc<Mapper>,
    ) -> Self {
        let realms = keys.as_ref().map(|keys| keys.realms()).unwrap_or_default();
        Self { read, start: settings.clone(), settings, backends, keys, realms, exports, service, identity }
    }

    /// Applies the settings of the file, and looks all accounts up again, also those of live
    /// contexts. Returns a line for each kind of change.
    ///
    /// # Errors
    /// The fault in the file; exports and identities stay as they were.
    fn run(&mut self) -> anyhow::Result<Vec<String>> {
        let outcome = match self.read.as_ref().map(|read| read()) {
            None => Ok(vec!["there is no configuration file to read; the exports stay".to_owned()]),
            Some(settings) => settings
                .and_then(|settings| self.apply(settings))
                .map(|changes| {
                    let first = "the exports and identities of the file are in force".to_owned();
                    std::iter::once(first).chain(changes.lines()).collect()
                })
                .context("the exports and identities stay as they were"),
        };
        self.identity.forget();
        self.backends.clients().refresh(&self.settings);
        if let Some(rpcsec) = self.service.server().rpcsec() {
            rpcsec.contexts().refresh_all();
        }
        outcome
    }

    /// Applies settings, and returns the difference. An error leaves everything as it was.
    fn apply(&mut self, settings: Settings) -> anyhow::Result<ReloadChanges> {
        let (rules, sources) = identities(&settings, self.keys.as_deref())?;
        let realms = self.keys.as_ref().map(|keys| keys.realms()).unwrap_or_default();
        let table = self.backends.table(&settings.exports, &settings.addresses)?;
        admission::check(&table, self.keys.is_some())?;
        let same = same_identities(&self.settings, &settings) && realms == self.realms;
        self.service.server().engine().set_sys_groups(settings.identity.groups);
        if let Some(rpcsec) = self.service.server().rpcsec() {
            rpcsec.set_identity_refresh(settings.identity.refresh);
        }
        self.identity.replace(rules, sources, same);
        self.exports.replace(table);
        let mut changes = ReloadChanges::between(&self.start, &self.settings.exports, &settings);
        changes.ports = sandbox::out_of_reach(&self.start, &settings);
        (self.settings, self.realms) = (settings, realms);
        Ok(changes)
    }
}

impl Reload {
    /// Logs the exports in force.
    fn log_exports(&self) {
        let flavors = spoken(self.keys.is_some());
        admission::log(&self.exports.snapshot(), &flavors, !self.settings.same_user);
    }
}

/// Runs reloads one at a time, and keeps the service manager informed.
pub(super) struct Reloads {
    reload: Mutex<Reload>,
    manager: Arc<ServiceManager>,
    /// Describes the running server in a line.
    status: Box<dyn Fn() -> String + Send + Sync>,
}

impl Reloads {
    pub(super) fn new(
        reload: Reload,
        manager: Arc<ServiceManager>,
        status: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        Self { reload: Mutex::new(reload), manager, status: Box::new(status) }
    }

    /// Tells the service manager that the server is ready.
    pub(super) fn ready(&self) {
        self.manager.ready(&(self.status)());
    }

    /// Reloads as `asker` asks for it, and logs the outcome. Returns a line for each kind of
    /// change.
    ///
    /// # Errors
    /// The fault in the configuration file.
    pub(super) fn run(&self, asker: &str) -> anyhow::Result<Vec<String>> {
        let mut reload = self.reload.lock().unwrap_or_else(PoisonError::into_inner);
        self.manager.reloading();
        let outcome = reload.run();
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
}

/// Returns whether all identities come from the same sources by the same rules.
fn same_identities(one: &Settings, other: &Settings) -> bool {
    let key = |settings: &Settings| {
        let Settings { identity, realms, domain, principals, .. } = settings.clone();
        (identity, realms, domain, principals)
    };
    key(one) == key(other)
}
