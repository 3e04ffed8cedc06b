//! The sources of accounts in a configuration file.

use super::values::{parsed, seconds, some_path};
use ldap::{Bind, LdapSettings, Schema};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One source of accounts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SourceSettings {
    /// The system's name service.
    Nss(NssTable),
    /// A table of the file.
    Static(StaticTable),
    /// A directory with LDAP.
    Ldap(Box<LdapTable>),
}

impl SourceSettings {
    /// Returns the realms whose principals the source knows; empty for all.
    pub(crate) fn realms(&self) -> &[String] {
        match self {
            Self::Nss(table) => &table.realms,
            Self::Static(table) => &table.realms,
            Self::Ldap(table) => &table.realms,
        }
    }

    /// Returns the TCP ports of the servers that it names.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let Self::Ldap(table) = self else { return Vec::new() };
        let port = |url: &String| url.rsplit_once(':')?.1.trim_end_matches('/').parse().ok();
        table.servers.iter().filter_map(port).collect()
    }

    /// Makes paths relative to the folder of the file.
    pub(super) fn resolve(&mut self, folder: &Path) {
        let Self::Ldap(table) = self else { return };
        let LdapTable { secret, ca, certificate, key, .. } = &mut **table;
        for path in [secret, ca, certificate, key].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }
}

/// The system's name service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NssTable {
    #[serde(deserialize_with = "super::values::realms")]
    realms: Vec<String>,
}

/// Accounts of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StaticTable {
    #[serde(deserialize_with = "super::values::realms")]
    realms: Vec<String>,
    /// The users by their names.
    pub users: HashMap<String, StaticUser>,
    /// Numbers of groups by name.
    pub groups: HashMap<String, u32>,
}

/// One user of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StaticUser {
    /// Number of the user.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// Numbers of all other groups.
    #[serde(default)]
    pub groups: Vec<u32>,
}

/// An LDAP directory. Attributes that are not set are those of the schema.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LdapTable {
    #[serde(deserialize_with = "super::values::realms")]
    realms: Vec<String>,
    servers: Vec<String>,
    starttls: bool,
    insecure: bool,
    #[serde(deserialize_with = "some_path")]
    ca: Option<PathBuf>,
    #[serde(deserialize_with = "some_path")]
    certificate: Option<PathBuf>,
    #[serde(deserialize_with = "some_path")]
    key: Option<PathBuf>,
    bind_dn: Option<String>,
    #[serde(deserialize_with = "some_path")]
    secret: Option<PathBuf>,
    external: bool,
    base: String,
    user_base: Option<String>,
    group_base: Option<String>,
    #[serde(deserialize_with = "parsed")]
    schema: Schema,
    user_class: Option<String>,
    user_name: Option<String>,
    uid_number: Option<String>,
    gid_number: Option<String>,
    principal: Option<String>,
    group_class: Option<String>,
    group_name: Option<String>,
    group_number: Option<String>,
    member: Option<String>,
    #[serde(deserialize_with = "seconds::<_, 1, 60>")]
    timeout: Duration,
}

impl Default for LdapTable {
    fn default() -> Self {
        Self {
            realms: Vec::new(),
            servers: Vec::new(),
            starttls: false,
            insecure: false,
            ca: None,
            certificate: None,
            key: None,
            bind_dn: None,
            secret: None,
            external: false,
            base: String::new(),
            user_base: None,
            group_base: None,
            schema: Schema::rfc2307(),
            user_class: None,
            user_name: None,
            uid_number: None,
            gid_number: None,
            principal: None,
            group_class: None,
            group_name: None,
            group_number: None,
            member: None,
            timeout: Duration::from_secs(3),
        }
    }
}

impl LdapTable {
    /// Returns the settings of the directory.
    ///
    /// # Errors
    /// Keys that exclude or need each other.
    pub(crate) fn settings(&self) -> anyhow::Result<LdapSettings> {
        let Self { bind_dn, secret, external, base, .. } = self.clone();
        let bind = match (bind_dn, secret, external) {
            (None, None, false) => Bind::Anonymous,
            (None, None, true) => Bind::External,
            (Some(dn), Some(secret), false) => Bind::Simple { dn, secret },
            (_, _, true) => anyhow::bail!("an LDAP source has either external or bind_dn and secret"),
            _ => anyhow::bail!("bind_dn and secret, the file with the password, belong together"),
        };
        let mut schema = self.schema.clone();
        let group_number = self.group_number.as_ref().or(self.gid_number.as_ref());
        for (attribute, set) in [
            (&mut schema.user_class, &self.user_class),
            (&mut schema.user_name, &self.user_name),
            (&mut schema.uid_number, &self.uid_number),
            (&mut schema.gid_number, &self.gid_number),
            (&mut schema.group_class, &self.group_class),
            (&mut schema.group_name, &self.group_name),
            (&mut schema.group_number, &group_number.cloned()),
            (&mut schema.member, &self.member),
        ] {
            if let Some(set) = set {
                attribute.clone_from(set);
            }
        }
        schema.principal = self.principal.clone().or(schema.principal);
        Ok(LdapSettings {
            servers: self.servers.clone(),
            starttls: self.starttls,
            insecure: self.insecure,
            ca: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            bind,
            user_base: self.user_base.clone().unwrap_or_else(|| base.clone()),
            group_base: self.group_base.clone().unwrap_or(base),
            schema,
            timeout: self.timeout,
        })
    }
}
