//! A throw-away realm for one run of this program.

use crate::output::errln;
use gss::Credential;
use realm::{RealmError, RealmOptions, TemporaryRealm};
use std::ffi::OsString;
use std::path::PathBuf;

/// The cache with bob's ticket.
const OTHER: &str = "ccache-bob";
/// The local account of the realm's users, who have no rights by it.
const ACCOUNT: &str = "nobody";

/// A realm in a temporary folder and a ticket of alice's.
pub(super) struct OwnRealm {
    realm: TemporaryRealm,
    ccache: PathBuf,
}

impl OwnRealm {
    /// Makes the realm, gets the ticket, and makes this process use the realm; it must not have
    /// threads yet.
    ///
    /// # Errors
    /// Names the package when MIT's programs are missing.
    pub(super) fn start() -> anyhow::Result<Self> {
        let realm = TemporaryRealm::create(&RealmOptions::default())?;
        let ccache = realm.dir().join("ccache");
        realm.kinit("alice", &ccache)?;
        realm.kinit("bob", &realm.dir().join(OTHER))?;
        gss::use_configuration(&realm.krb5_conf())?;
        Ok(Self { realm, ccache })
    }

    /// As [`OwnRealm::start`], but `None`, with a word on standard error, where MIT's programs are
    /// not installed.
    ///
    /// # Errors
    /// When they are installed and fail.
    pub(super) fn start_if_installed() -> anyhow::Result<Option<Self>> {
        match Self::start() {
            Ok(realm) => Ok(Some(realm)),
            Err(error) if matches!(error.downcast_ref(), Some(RealmError::Missing { .. })) => {
                errln!("only sys is measured: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the temporary realm.
    pub(super) fn realm(&self) -> &TemporaryRealm {
        &self.realm
    }

    /// Returns the ticket of alice.
    pub(super) fn credential(&self) -> Credential {
        Credential::Ccache(format!("FILE:{}", self.ccache.display()))
    }

    /// Returns the ticket of bob.
    pub(super) fn other(&self) -> Credential {
        Credential::Ccache(format!("FILE:{}", self.realm.dir().join(OTHER).display()))
    }

    /// Returns the arguments that give a server this realm's keys. Its exports squash the realm's
    /// users; without an account of this machine, the server would warn of each.
    pub(super) fn server_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["--keytab".into(), self.realm.server_keytab().into_os_string()];
        for user in ["alice", "bob"] {
            let account = format!("{user}@{}={ACCOUNT}", self.realm.name());
            arguments.extend(["--map".into(), account.into()]);
        }
        arguments
    }

    /// Returns the variables that make a program see this realm.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.realm.env().into_iter().map(|(name, path)| (name, path.into_os_string())).collect()
    }
}
