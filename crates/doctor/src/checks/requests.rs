//! A real request with each flavor that the export offers.

use client::{Error, Flavor, Security};
use gss::Credential;
use nfs4::Nfsstat4;

use super::outcome;
use crate::facts::{Facts, Tickets};
use crate::{CheckOutcome, HealthFinding, nfs};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(address) = facts.address else {
        return CheckOutcome::Skipped("there is no connection".to_owned());
    };
    if let Some(found) = super::flavors::run_with_context(facts) {
        return found;
    }
    if facts.minor() == 0 {
        return CheckOutcome::Skipped("requests need NFSv4.1".to_owned());
    }
    let minor = facts.minor();
    let host = facts.service_host().to_owned();
    // The user's tickets come last, if both work.
    let tickets = facts.working.last().cloned();
    let mut wanted = match facts.target.flavor {
        Some(flavor) => vec![flavor],
        None if facts.flavors.is_empty() => vec![Flavor::Krb5],
        None => facts.flavors.clone(),
    };
    wanted.dedup();
    let (mut findings, mut notes) = (Vec::new(), Vec::new());
    for flavor in wanted {
        let Some(security) = security(flavor, &host, tickets.as_ref()) else {
            notes.push(format!("{flavor} not tried, for want of a context"));
            continue;
        };
        match nfs::attributes(address, &facts.target.export, security, minor, facts.machine.limit) {
            Ok(mut root) => {
                notes.push(format!("{flavor} works"));
                if flavor != Flavor::Sys {
                    root.principal = tickets.as_ref().map(|tickets| tickets.principal.clone());
                }
                // The owner's name is sent as a name with Kerberos, and often as a number without.
                if facts.root.is_none() || flavor != Flavor::Sys {
                    facts.root = Some(root);
                }
            }
            Err(error) if flavor == Flavor::Sys && facts.machine.uid != 0 && weak(&error) => {
                notes.push("sys needs a port below 1024, and so root".to_owned());
            }
            Err(error) if error.is(Nfsstat4::NFS4ERR_MOVED) => {
                notes.push(format!("{flavor}: clients are referred to another server"));
            }
            Err(error) => findings.push(judge(facts, flavor, &error)),
        }
    }
    outcome(findings, notes.join(", "))
}

fn weak(error: &Error) -> bool {
    matches!(error, Error::Rpc(_)) || error.is(Nfsstat4::NFS4ERR_WRONGSEC) || error.is(Nfsstat4::NFS4ERR_PERM)
}

fn security(flavor: Flavor, host: &str, tickets: Option<&Tickets>) -> Option<Security> {
    if flavor == Flavor::Sys {
        return Some(Security::sys());
    }
    let cache = tickets?.cache.clone();
    Some(Security::of(flavor, host, Credential::Ccache(cache)))
}

fn judge(facts: &Facts, flavor: Flavor, error: &Error) -> HealthFinding {
    let (host, export) = (&facts.target.host, &facts.target.export);
    let local = format!("orthrus doctor --server    # on {host}");
    if error.is(Nfsstat4::NFS4ERR_NOENT) {
        return HealthFinding::error(format!("{host} has no export {export}."), facts.target.listing());
    }
    if error.is(Nfsstat4::NFS4ERR_CLID_INUSE) {
        return super::flavors::not_admitted(facts);
    }
    if error.is(Nfsstat4::NFS4ERR_WRONGSEC) {
        let cause = format!("{host} offers sec={flavor} for {export}, but refuses requests with it.");
        return HealthFinding::error(cause, local);
    }
    if error.is(Nfsstat4::NFS4ERR_ACCESS) || error.is(Nfsstat4::NFS4ERR_PERM) {
        let cause = format!("A user with sec={flavor} may not look at {export} on {host} ({error}).");
        return HealthFinding::error(cause, format!("ls -ld FOLDER; orthrus id PRINCIPAL    # on {host}"));
    }
    if error.is_temporary() {
        let cause = format!(
            "{host} asks to try again later ({error}): it is in its grace period, or waits for its directory of users."
        );
        return HealthFinding::error(cause, local);
    }
    HealthFinding::error(format!("A request with sec={flavor} to {export} on {host} fails: {error}."), local)
}
