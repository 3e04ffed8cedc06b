//! The tables of checks. Each check is a file: it gathers facts, then judges them.

mod account;
mod caches;
mod clock;
mod configuration;
mod context;
mod directory;
mod exports;
mod flavors;
mod gssd;
mod kdc;
mod kernel;
mod keys;
mod keytab;
mod krb5_conf;
mod mounts;
mod names;
mod owners;
mod pitfalls;
mod port;
mod realm;
mod requests;
mod room;
mod service;
mod ticket;
mod versions;

use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

/// A check of a table.
pub struct Check {
    /// The name in reports and in `needs`.
    pub name: &'static str,
    /// A heading of a few words.
    pub title: &'static str,
    /// The checks without which this one makes no sense.
    pub(crate) needs: &'static [&'static str],
    /// Gathers facts and judges them.
    pub(crate) run: fn(&mut Facts) -> CheckOutcome,
}

const fn row(
    name: &'static str,
    title: &'static str,
    needs: &'static [&'static str],
    run: fn(&mut Facts) -> CheckOutcome,
) -> Check {
    Check { name, title, needs, run }
}

/// The checks of a client, in the order in which a mount needs them.
pub static CLIENT: &[Check] = &[
    row("names", "the server's name, both ways", &[], names::run),
    row("port", "the server's port", &["names"], port::run),
    row("versions", "versions of NFS", &["port"], versions::run),
    row("flavors", "flavors of the export", &["versions"], flavors::run),
    row("krb5-conf", "krb5.conf", &[], krb5_conf::run),
    row("kdc", "every address of the KDC", &["krb5-conf"], kdc::run),
    row("clock", "the clocks of KDC and client", &["kdc"], clock::run),
    row("realm", "the server's realm", &["krb5-conf"], realm::run),
    row("room", "room for tickets", &[], room::run),
    row("ticket", "the user's ticket", &["krb5-conf"], ticket::run),
    row("caches", "the ticket where rpc.gssd looks", &["ticket"], caches::run),
    row("keytab", "the machine's keytab", &["krb5-conf"], keytab::run),
    row("keys", "the keytab against the KDC", &["keytab", "clock", "room"], keys::run),
    row("service", "the server's principal", &["names", "clock", "realm", "room"], service::run),
    row("machine", "a context of the machine", &["versions", "keys", "service"], context::machine),
    row("user", "a context of the user", &["versions", "ticket", "service"], context::user),
    row("requests", "a request with each flavor", &["flavors"], requests::run),
    row("owners", "names of owners, both ways", &["requests"], owners::client),
    row("gssd", "rpc.gssd and its options", &[], gssd::run),
    row("kernel", "modules and encryption types", &[], kernel::run),
    row("mounts", "nconnect and read-ahead", &[], mounts::run),
    row("directory", "TLS to the directory", &[], directory::client),
    row("pitfalls", "pitfalls of krb5.conf", &["krb5-conf"], pitfalls::run),
];

/// The checks of a server.
pub static SERVER: &[Check] = &[
    row("configuration", "the configuration of the server", &[], configuration::run),
    row("names", "this machine's name, both ways", &[], names::run),
    row("krb5-conf", "krb5.conf", &[], krb5_conf::run),
    row("keytab", "the server's keytab", &["krb5-conf"], keytab::run),
    row("kdc", "every address of the KDC", &["krb5-conf"], kdc::run),
    row("clock", "the clocks of KDC and server", &["kdc"], clock::run),
    row("realm", "the realm of the keytab", &["keytab"], realm::run),
    row("keys", "the keytab against the KDC", &["realm", "clock"], keys::run),
    row("port", "the server's port", &["configuration"], port::run),
    row("versions", "versions of NFS", &["port"], versions::run),
    row("machine", "a context with the server's own key", &["versions", "keys"], context::machine),
    row("exports", "folders and flavors of the exports", &["versions"], exports::run),
    row("directory", "TLS to the directory", &["configuration"], directory::server),
    row("account", "the account of a principal", &["configuration"], account::run),
    row("owners", "the domain of owner names", &["configuration"], owners::server),
    row("pitfalls", "pitfalls of krb5.conf", &["krb5-conf"], pitfalls::run),
];

/// Returns the outcome for findings; `note` says what was found if nothing is wrong.
fn outcome(findings: Vec<HealthFinding>, note: impl Into<String>) -> CheckOutcome {
    if findings.is_empty() { CheckOutcome::Passed(note.into()) } else { CheckOutcome::Found(findings) }
}

/// Returns the outcome of a check of Kerberos where the mount needs none.
fn no_kerberos(facts: &Facts) -> Option<CheckOutcome> {
    (!facts.kerberos()).then(|| CheckOutcome::Skipped("the mount uses no Kerberos".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_needs_only_checks_before_it() {
        for table in [CLIENT, SERVER] {
            for (at, check) in table.iter().enumerate() {
                for need in check.needs {
                    assert!(
                        table[..at].iter().any(|earlier| earlier.name == *need),
                        "{}: {need}",
                        check.name
                    );
                }
                assert!(table.iter().filter(|other| other.name == check.name).count() == 1);
            }
        }
    }
}
