//! The flavors of the export, asked with SECINFO_NO_NAME.

use client::{Error, Flavor, Security};
use gss::Credential;
use nfs4::Nfsstat4;

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding, nfs};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if facts.minor() == 0 {
        return CheckOutcome::Skipped("SECINFO_NO_NAME needs NFSv4.1".to_owned());
    }
    // A server that offers only Kerberos may answer nothing before there is a context.
    match ask(facts, Security::sys()) {
        Err(Error::Rpc(_)) => match ask(facts, Security::None) {
            Err(Error::Rpc(_)) => {
                CheckOutcome::Passed("the server names them to authenticated clients only".to_owned())
            }
            other => judge(facts, other.err().as_ref()),
        },
        other => judge(facts, other.err().as_ref()),
    }
}

/// Asks again within a context, if the server has named no flavors before.
pub(super) fn run_with_context(facts: &mut Facts) -> Option<CheckOutcome> {
    if !facts.flavors.is_empty() || facts.minor() == 0 {
        return None;
    }
    let cache = facts.working.last()?.cache.clone();
    // The root of a server can demand any of them.
    for flavor in [Flavor::Krb5p, Flavor::Krb5i, Flavor::Krb5] {
        let security = Security::of(flavor, facts.service_host(), Credential::Ccache(cache.clone()));
        let failed = ask(facts, security).err();
        if let Some(error) = &failed
            && error.is(Nfsstat4::NFS4ERR_WRONGSEC)
        {
            continue;
        }
        return match judge(facts, failed.as_ref()) {
            CheckOutcome::Found(findings) => Some(CheckOutcome::Found(findings)),
            _ => None,
        };
    }
    None
}

fn ask(facts: &mut Facts, security: Security) -> Result<(), Error> {
    let Some(address) = facts.address else { return Err(Error::Timeout) };
    let export = facts.target.export.clone();
    facts.flavors = nfs::secinfo(address, &export, security, facts.minor(), facts.machine.limit)?;
    Ok(())
}

/// The finding for a server that has no export for the address of this machine.
pub(super) fn not_admitted(facts: &Facts) -> HealthFinding {
    let host = &facts.target.host;
    HealthFinding::error(
        format!("{host} admits this machine to no export (NFS4ERR_CLID_INUSE), or drains for a stop."),
        format!("clients = [\"ADDRESS\"]    # this machine, in the export's table on {host}"),
    )
}

fn judge(facts: &Facts, failed: Option<&Error>) -> CheckOutcome {
    let (host, export) = (&facts.target.host, &facts.target.export);
    match failed {
        Some(error) if error.is(Nfsstat4::NFS4ERR_NOENT) => {
            let cause = format!("{host} has no export {export}, or does not show it to this client.");
            return outcome(vec![HealthFinding::error(cause, facts.target.listing())], "");
        }
        Some(error) if error.is(Nfsstat4::NFS4ERR_CLID_INUSE) => {
            return outcome(vec![not_admitted(facts)], "");
        }
        Some(error) if error.is(Nfsstat4::NFS4ERR_MOVED) => {
            return CheckOutcome::Passed(format!("{host} refers clients of {export} to another server"));
        }
        Some(error) if error.is(Nfsstat4::NFS4ERR_WRONGSEC) || error.is(Nfsstat4::NFS4ERR_ACCESS) => {
            return CheckOutcome::Passed(format!("{host} names its flavors to authenticated clients only"));
        }
        Some(error) => {
            let cause = format!("{host} does not answer SECINFO_NO_NAME for {export}: {error}.");
            return outcome(
                vec![HealthFinding::error(cause, format!("orthrus doctor --server    # on {host}"))],
                "",
            );
        }
        None => {}
    }
    let names: Vec<_> = facts.flavors.iter().map(|flavor| flavor.name()).collect();
    let names = names.join(", ");
    let finding = match facts.target.flavor {
        _ if facts.flavors.is_empty() => Some(HealthFinding::error(
            format!("{host} offers no flavor of this client for {export}."),
            format!("sec = [\"krb5p\", \"krb5i\", \"krb5\"]    # in the export's table on {host}"),
        )),
        Some(wanted) if !facts.flavors.contains(&wanted) => Some(HealthFinding::error(
            format!("{host} does not offer sec={wanted} for {export}, only {names}."),
            format!("mount with sec={}, or add {wanted} to `sec` of the export on {host}", facts.flavors[0]),
        )),
        _ => None,
    };
    outcome(finding.into_iter().collect(), format!("{export}: {names}"))
}
