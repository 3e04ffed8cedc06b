//! The sources of accounts, asked as the server.

use crate::config::{Settings, SourceSettings, StaticTable};
use anyhow::Context;
use identity::{
    AccountAnswer, AccountSource, Identity, IdentitySource, NssSource, SourceError, StaticSource,
};
use ldap::LdapSource;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines about a source that goes on to fail.
const FAILING_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest time between two lines about failures of a source that answers in between.
const FLAPPING_INTERVAL: Duration = Duration::from_secs(10);

/// Queries a source with the server's own rights, and logs its failures. A thread of the lookups
/// has the rights of the thread that started it, perhaps those of a caller, which may not suffice
/// for a module of the name service or for the secret of a directory.
struct AsServer<S> {
    source: S,
    /// The name in the log.
    name: String,
    failure: Mutex<FailureLines>,
}

/// The lines about failures of a source. Former answers hide a failure from users, for as long as
/// `stale` allows, so the log has to name it before that.
#[derive(Default)]
struct FailureLines {
    /// The time of the last line about a failure.
    logged: Option<Instant>,
    /// Whether the source has not answered since that line.
    fails: bool,
}

impl<S> AsServer<S> {
    fn new(name: String, source: S) -> Self {
        Self { source, name, failure: Mutex::default() }
    }

    fn ask<T>(&self, ask: impl FnOnce(&S) -> Result<T, SourceError>) -> Result<T, SourceError> {
        vfs_local::become_server();
        let answer = ask(&self.source);
        self.note(answer.as_ref().err(), Instant::now());
        answer
    }

    /// Logs a failure, unless the last line is too young, and the first answer behind such a line.
    fn note(&self, failure: Option<&SourceError>, now: Instant) {
        let mut lines = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &self.name;
        match failure {
            Some(error) => {
                let age = lines.logged.map(|at| now.saturating_duration_since(at));
                let interval = if lines.fails { FAILING_INTERVAL } else { FLAPPING_INTERVAL };
                if age.is_none_or(|age| age >= interval) {
                    *lines = FailureLines { logged: Some(now), fails: true };
                    tracing::warn!(
                        "accounts of {name}: {error}; earlier answers stand in for the time `stale`: orthrus doctor --server"
                    );
                }
            }
            None if lines.fails => {
                lines.fails = false;
                tracing::info!("accounts of {name}: lookups are answered again");
            }
            None => {}
        }
    }
}

impl<S: IdentitySource> IdentitySource for AsServer<S> {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        self.ask(|source| source.identity(user))
    }

    fn of_user(&self, user: &str) -> Result<AccountAnswer, SourceError> {
        self.ask(|source| source.of_user(user))
    }

    fn of_principal(&self, principal: &str, user: &str) -> Result<AccountAnswer, SourceError> {
        self.ask(|source| source.of_principal(principal, user))
    }

    fn query(&self, principal: &str, user: &str) -> String {
        self.source.query(principal, user)
    }

    fn account(&self, uid: u32) -> Result<Option<Identity>, SourceError> {
        self.ask(|source| source.account(uid))
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.ask(|source| source.uid(user))
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.ask(|source| source.gid(group))
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.ask(|source| source.user(uid))
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.ask(|source| source.group(gid))
    }
}

/// Opens the configured sources in order; the system's name service if there is none.
///
/// # Errors
/// The setting of a source that is wrong.
pub(crate) fn sources(settings: &Settings) -> anyhow::Result<Vec<AccountSource>> {
    let nss = |name: &str| Box::new(AsServer::new(name.to_owned(), NssSource)) as Box<dyn IdentitySource>;
    let configured = &settings.identity.sources;
    if configured.is_empty() {
        let (name, accounts) = ("nss".to_owned(), nss("nss"));
        return Ok(vec![AccountSource { name, realms: Vec::new(), accounts }]);
    }
    let open = |(index, source): (usize, &SourceSettings)| {
        let number = index + 1;
        let (name, accounts): (_, Box<dyn IdentitySource>) = match source {
            SourceSettings::Nss(_) => {
                let name = format!("{number} nss");
                let accounts = nss(&name);
                (name, accounts)
            }
            SourceSettings::Static(table) => (format!("{number} static"), Box::new(static_source(table))),
            SourceSettings::Ldap(table) => {
                let opened = table.settings().and_then(|settings| Ok(LdapSource::open(settings)?));
                let opened = opened.with_context(|| format!("[[identity.source]] number {number}"))?;
                let name = format!("{number} ldap");
                (name.clone(), Box::new(AsServer::new(name, opened)))
            }
        };
        Ok(AccountSource { name, realms: source.realms().to_vec(), accounts })
    };
    configured.iter().enumerate().map(open).collect()
}

fn static_source(table: &StaticTable) -> StaticSource {
    let users = table.users.iter().fold(StaticSource::default(), |source, (name, user)| {
        source.with_user(name, user.uid, user.gid, &user.groups)
    });
    table.groups.iter().fold(users, |source, (name, gid)| source.with_group(name, *gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::written_log::WrittenLog;

    #[test]
    fn a_source_that_fails_has_a_line_with_the_cause_although_earlier_answers_stand_in() {
        let log = WrittenLog::default();
        let source = AsServer::new("1 ldap".to_owned(), StaticSource::default());
        let error = SourceError { what: "alice".to_owned(), why: "certificate expired".to_owned() };
        let began = Instant::now();
        tracing::subscriber::with_default(log.subscriber(), || {
            for second in [0, 1, 59] {
                source.note(Some(&error), began + Duration::from_secs(second));
            }
            source.note(None, began + Duration::from_secs(59));
            source.note(None, began + Duration::from_secs(60));
            source.note(Some(&error), began + Duration::from_secs(61));
        });
        let log = log.text();
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(
            lines[0].contains("accounts of 1 ldap: the lookup of alice failed: certificate expired"),
            "{log}"
        );
        assert!(lines[1].contains("answered again") && lines[2].contains("certificate expired"), "{log}");
    }
}
