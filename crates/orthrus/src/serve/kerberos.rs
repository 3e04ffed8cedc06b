//! The service's keys: which realms they belong to, and contexts accepted with them.

use crate::config::Settings;
use anyhow::{Context, bail};
use server::rpcsec::{AcceptError, Accepted, ContextAcceptor};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where a machine keeps its keys.
const SYSTEM_KEYTAB: &str = "/etc/krb5.keytab";

/// Encryption types that contexts may have (RFC 3962, RFC 8009).
const ETYPES: std::ops::RangeInclusive<u16> = 17..=20;

/// The contents of the keytab.
pub(super) struct Keys {
    acceptor: gss::Acceptor,
    /// Realms of the service principals.
    pub realms: Vec<String>,
}

impl Keys {
    /// Opens the configured keytab, or the machine's if it can be read; `None` where there is
    /// neither.
    ///
    /// # Errors
    /// When a keytab was named that is of no use.
    pub(super) fn open(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let path = match &settings.keytab {
            Some(path) => path.clone(),
            None if std::fs::File::open(SYSTEM_KEYTAB).is_ok() => PathBuf::from(SYSTEM_KEYTAB),
            None => return Ok(None),
        };
        Self::from_keytab(&path).map(Some)
    }

    fn from_keytab(path: &Path) -> anyhow::Result<Self> {
        let named = || format!("keytab {}", path.display());
        let entries = gss::keytab_entries(path).with_context(named)?;
        let services: Vec<_> = entries
            .iter()
            .filter(|entry| entry.components.len() == 2 && ETYPES.contains(&entry.etype))
            .collect();
        if services.is_empty() {
            bail!(
                "{} has no service key (such as nfs/HOST) of an AES type; add one with kadmin: ktadd -k {} nfs/HOST",
                named(),
                path.display()
            );
        }
        let realms: BTreeSet<String> = services.iter().map(|entry| entry.realm.clone()).collect();
        for entry in &services {
            tracing::debug!("key of {}@{}, etype {}", entry.components.join("/"), entry.realm, entry.etype);
        }
        let acceptor = gss::Acceptor::from_keytab(path).with_context(named)?;
        Ok(Self { acceptor, realms: realms.into_iter().collect() })
    }
}

impl ContextAcceptor for Keys {
    fn accept(&self, token: &[u8]) -> Result<Accepted, AcceptError> {
        // The thread may still have the identity of the last caller, which must not read the
        // keytab.
        vfs_local::become_server();
        let established = self.acceptor.accept(token).map_err(|error| {
            let status = error.status();
            AcceptError { major: status.major, minor: status.minor, message: error.to_string() }
        })?;
        Ok(Accepted {
            token: established.token,
            principal: established.principal,
            keys: established.keys,
            lifetime: established.lifetime,
            send_sequence: established.send_sequence,
        })
    }
}

/// Accepts nothing: a server without keys.
pub(super) struct NoKeys;

impl ContextAcceptor for NoKeys {
    fn accept(&self, _: &[u8]) -> Result<Accepted, AcceptError> {
        const GSS_S_NO_CRED: u32 = 7 << 16;
        let message = "this server has no keytab: give it one with --keytab".to_owned();
        Err(AcceptError { major: GSS_S_NO_CRED, minor: 0, message })
    }
}
