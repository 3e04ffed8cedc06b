//! SIGHUP: applies the exports and the identities of the configuration, all of them or nothing.

use super::changes::ReloadChanges;
use super::exports::Backends;
use super::kerberos::Keys;
use super::{ReadSettings, admission, identities};
use crate::config::Settings;
use identity::Mapper;
use runtime::NfsService;
use std::sync::Arc;
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
    /// contexts. Returns false if the file has an error.
    pub(super) fn run(&mut self) -> bool {
        let mut applied = true;
        match self.read.as_ref().map(|read| read()) {
            None => tracing::warn!("SIGHUP: there is no configuration file to read; the exports stay"),
            Some(settings) => match settings.and_then(|settings| self.apply(settings)) {
                Ok(changes) => {
                    tracing::info!("SIGHUP: the exports and identities of the file are in force");
                    changes.log();
                    admission::log(&self.exports.snapshot());
                }
                Err(error) => {
                    applied = false;
                    tracing::error!("SIGHUP: the exports and identities stay as they were: {error:#}");
                }
            },
        }
        self.identity.forget();
        if let Some(rpcsec) = self.service.server().rpcsec() {
            rpcsec.contexts().refresh_all();
        }
        applied
    }

    /// Applies settings, and returns the difference. An error leaves everything as it was.
    fn apply(&mut self, settings: Settings) -> anyhow::Result<ReloadChanges> {
        let (rules, sources) = identities(&settings, self.keys.as_deref())?;
        let realms = self.keys.as_ref().map(|keys| keys.realms()).unwrap_or_default();
        let table = self.backends.table(&settings.exports)?;
        admission::check(&table, self.keys.is_some())?;
        let same = same_identities(&self.settings, &settings) && realms == self.realms;
        self.service.server().engine().set_sys_groups(settings.identity.groups);
        if let Some(rpcsec) = self.service.server().rpcsec() {
            rpcsec.set_identity_refresh(settings.identity.refresh);
        }
        self.identity.replace(rules, sources, same);
        self.exports.replace(table);
        let changes = ReloadChanges::between(&self.start, &self.settings.exports, &settings);
        (self.settings, self.realms) = (settings, realms);
        Ok(changes)
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
