//! The sources of accounts, asked as the server.

use crate::config::{Settings, SourceSettings, StaticTable};
use anyhow::Context;
use identity::{
    AccountAnswer, AccountSource, Identity, IdentitySource, NssSource, SourceError, StaticSource,
};
use ldap::LdapSource;

/// Queries a source with the server's own rights. A thread of the lookups has the rights of the
/// thread that started it, perhaps those of a caller, which may not suffice for a module of the
/// name service or for the secret of a directory.
struct AsServer<S>(S);

impl<S: IdentitySource> AsServer<S> {
    fn source(&self) -> &S {
        vfs_local::become_server();
        &self.0
    }
}

impl<S: IdentitySource> IdentitySource for AsServer<S> {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        self.source().identity(user)
    }

    fn of_user(&self, user: &str) -> Result<AccountAnswer, SourceError> {
        self.source().of_user(user)
    }

    fn of_principal(&self, principal: &str, user: &str) -> Result<AccountAnswer, SourceError> {
        self.source().of_principal(principal, user)
    }

    fn query(&self, principal: &str, user: &str) -> String {
        self.0.query(principal, user)
    }

    fn account(&self, uid: u32) -> Result<Option<Identity>, SourceError> {
        self.source().account(uid)
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.source().uid(user)
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.source().gid(group)
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.source().user(uid)
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.source().group(gid)
    }
}

/// Opens the configured sources in order; the system's name service if there is none.
///
/// # Errors
/// The setting of a source that is wrong.
pub(crate) fn sources(settings: &Settings) -> anyhow::Result<Vec<AccountSource>> {
    let nss = || ("nss", Box::new(AsServer(NssSource)) as Box<dyn IdentitySource>);
    let configured = &settings.identity.sources;
    if configured.is_empty() {
        let (name, accounts) = nss();
        return Ok(vec![AccountSource { name: name.to_owned(), realms: Vec::new(), accounts }]);
    }
    let open = |(index, source): (usize, &SourceSettings)| {
        let number = index + 1;
        let (kind, accounts) = match source {
            SourceSettings::Nss(_) => nss(),
            SourceSettings::Static(table) => ("static", Box::new(static_source(table)) as _),
            SourceSettings::Ldap(table) => {
                let opened = table.settings().and_then(|settings| Ok(LdapSource::open(settings)?));
                let opened = opened.with_context(|| format!("[[identity.source]] number {number}"))?;
                ("ldap", Box::new(AsServer(opened)) as _)
            }
        };
        Ok(AccountSource { name: format!("{number} {kind}"), realms: source.realms().to_vec(), accounts })
    };
    configured.iter().enumerate().map(open).collect()
}

fn static_source(table: &StaticTable) -> StaticSource {
    let users = table.users.iter().fold(StaticSource::default(), |source, (name, user)| {
        source.with_user(name, user.uid, user.gid, &user.groups)
    });
    table.groups.iter().fold(users, |source, (name, gid)| source.with_group(name, *gid))
}
