//! The options of a realm: name, address, encryption types and principals.

use std::net::SocketAddr;
use std::time::Duration;

use crate::{Enctypes, RealmError};

/// The options of `realm up`; the defaults suit this machine alone.
#[derive(Clone, Debug)]
pub struct RealmOptions {
    /// The name of the realm.
    pub realm: String,
    /// The TCP address of the KDC; `None` chooses a free port of 127.0.0.1.
    pub listen: Option<SocketAddr>,
    /// The encryption types of all keys.
    pub enctypes: Enctypes,
    /// Users in addition to `alice` and `bob`.
    pub users: Vec<String>,
    /// Hosts of the server in addition to `localhost`, `127.0.0.1` and this machine's name. Each
    /// gets a key `nfs/HOST`.
    pub hosts: Vec<String>,
    /// The names of the client machines. Each gets keys `host/NAME` and `nfs/NAME`. If empty, this
    /// machine's name.
    pub clients: Vec<String>,
    /// The lifetime of tickets.
    pub ticket_life: Duration,
    /// The accepted clock difference, also after a ticket's expiry.
    pub clock_skew: Duration,
    /// Whether the realm has a service `grants/HOST` that may get tickets for `nfs/HOST` in the
    /// name of users. Needs OpenLDAP.
    pub delegation: bool,
    /// The number of further KDCs, at most [`REPLICAS_MAX`], each with a replica of the principals.
    /// They need OpenLDAP.
    pub replicas: usize,
}

impl Default for RealmOptions {
    fn default() -> Self {
        Self {
            realm: "ORTHRUS.TEST".to_owned(),
            listen: None,
            enctypes: Enctypes::default(),
            users: Vec::new(),
            hosts: Vec::new(),
            clients: Vec::new(),
            ticket_life: Duration::from_secs(10 * 3600),
            clock_skew: Duration::from_secs(300),
            delegation: false,
            replicas: 0,
        }
    }
}

/// The users that every realm has.
pub(crate) const USERS: [&str; 2] = ["alice", "bob"];

/// Most KDCs of a realm besides the first.
pub const REPLICAS_MAX: usize = 8;

/// Longest name of a user, host or realm, in bytes.
const NAME_MAX: usize = 128;

impl RealmOptions {
    /// Returns all users without duplicates.
    pub(crate) fn all_users(&self) -> Vec<String> {
        unique(USERS.iter().map(|u| (*u).to_owned()).chain(self.users.iter().cloned()))
    }

    /// Returns all host names of the server without duplicates.
    pub(crate) fn all_hosts(&self) -> Vec<String> {
        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), machine_name()];
        unique(own.into_iter().chain(self.hosts.iter().cloned()))
    }

    /// Returns the names of the client machines.
    pub(crate) fn all_clients(&self) -> Vec<String> {
        if self.clients.is_empty() { vec![machine_name()] } else { unique(self.clients.iter().cloned()) }
    }

    /// Returns whether the principals are in a directory: MIT's other back end supports neither
    /// constrained delegation nor a replication that needs no program of ours.
    pub(crate) fn has_directory(&self) -> bool {
        self.delegation || self.replicas > 0
    }

    /// Rejects values that a configuration file or kadmin could misinterpret.
    pub(crate) fn check(&self) -> Result<(), RealmError> {
        check("realm", std::slice::from_ref(&self.realm))?;
        check("user", &self.users)?;
        check("host", &self.hosts)?;
        check("client", &self.clients)?;
        if let Some(listen) = self.listen.filter(|listen| listen.ip().is_unspecified()) {
            let rule = "krb5.conf of the clients gets this address: name one of this machine's";
            return Err(RealmError::Option { what: "listen", value: listen.to_string(), rule });
        }
        if self.replicas <= REPLICAS_MAX {
            return Ok(());
        }
        Err(RealmError::Option { what: "replicas", value: self.replicas.to_string(), rule: "8 at most" })
    }
}

fn check(what: &'static str, names: &[String]) -> Result<(), RealmError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    for name in names {
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts || name.len() > NAME_MAX || !name.chars().all(plain) {
            return Err(RealmError::Option {
                what,
                value: name.clone(),
                rule: "letters, digits, '.', '-' and '_', a letter or digit first, 128 at most",
            });
        }
    }
    Ok(())
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// Returns this machine's name in lower case, as Kerberos writes hosts; `localhost` if the name is
/// not a valid host name.
fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    if check("host", std::slice::from_ref(&name)).is_ok() { name } else { "localhost".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kdc_listens_on_an_address_that_clients_can_use() {
        let of = |listen: &str| RealmOptions { listen: listen.parse().ok(), ..RealmOptions::default() };
        assert!(of("0.0.0.0:88").check().is_err() && of("[::]:88").check().is_err());
        assert!(of("192.0.2.1:88").check().is_ok());
    }

    #[test]
    fn names_that_kadmin_could_misread_are_refused() {
        for name in ["", "-x", "a b", "a\nb", "a\"b", "a/b", "a@b", ".x"] {
            let options = RealmOptions { users: vec![name.to_owned()], ..RealmOptions::default() };
            assert!(options.check().is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_usual_names_are_there_once() {
        let options = RealmOptions { users: vec!["bob".into(), "carol".into()], ..RealmOptions::default() };
        assert_eq!(options.all_users(), ["alice", "bob", "carol"]);
        assert!(options.all_hosts().contains(&"localhost".to_owned()));
    }
}
