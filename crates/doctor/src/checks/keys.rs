//! The keys of the keytab against those of the KDC: principal, version and encryption types.

use super::kdc::addresses;
use super::keytab::{entries_of, path, principal};
use super::outcome;
use crate::facts::Facts;
use crate::kinit::{self, NoTicket};
use crate::machine::within;
use crate::{CheckOutcome, HealthFinding};
use std::net::SocketAddr;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(principal) = principal(facts) else {
        return CheckOutcome::Skipped("there is no key".to_owned());
    };
    let keytab = path(facts);
    let held = entries_of(facts, &principal).map(|entry| entry.kvno).max().unwrap_or(0);
    let mut got = kinit::with_keytab(facts, &keytab, &principal);
    let is_domain = matches!(got, Err(NoTicket::Unknown)) && is_active_directory(facts);
    if is_domain {
        // The name of a service gets no tickets in Active Directory, only its account does.
        let accounts = accounts(facts);
        let tickets = accounts.iter().find_map(|account| kinit::with_keytab(facts, &keytab, account).ok());
        got = tickets.ok_or(NoTicket::Unknown);
    }
    if let Ok(tickets) = &got {
        facts.host = Some(tickets.clone());
    }
    // The version at the KDC: as a service, for any client with a ticket.
    let at_kdc = facts.tickets().and_then(|tickets| kinit::service(facts, tickets, &[&principal]).ok());
    let at_kdc = at_kdc.map(|ticket| ticket.kvno).filter(|kvno| *kvno > 0);
    match (got, at_kdc) {
        (Err(NoTicket::Unknown), None) if is_domain => CheckOutcome::Skipped(format!(
            "Active Directory gives no tickets to {principal}; with a user's ticket (kinit) its key is compared"
        )),
        (got, _) => {
            let failed = got.err().filter(|_| !is_domain);
            judge(&principal, &keytab.display().to_string(), held, at_kdc, failed, is_domain)
        }
    }
}

/// Returns whether a KDC of the realm is a domain controller.
fn is_active_directory(facts: &Facts) -> bool {
    let of_server = facts.server.as_ref().and(facts.realm_of_keytab());
    let Some(realm) = of_server.or(facts.conf.default_realm()) else { return false };
    let named = facts.conf.kdcs(realm).into_iter().map(str::to_owned).next();
    // Without a KDC in krb5.conf: the name of a domain is that of its controllers.
    let host = named.unwrap_or_else(|| realm.to_lowercase());
    let limit = facts.machine.limit;
    let url = match addresses(host.trim_start_matches("tcp/").trim_start_matches("udp/"), limit) {
        Ok(found) => found.first().map(|address| format!("ldap://{}", SocketAddr::new(address.ip(), 389))),
        Err(_) => None,
    };
    url.and_then(|url| within(limit * 2, move || ldap::is_active_directory(&url, limit))).unwrap_or(false)
}

/// Returns the accounts of a domain that the keytab has keys of.
fn accounts(facts: &Facts) -> Vec<String> {
    let single = facts.entries.iter().filter(|entry| entry.components.len() == 1);
    let mut names: Vec<_> =
        single.map(|entry| format!("{}@{}", entry.components.concat(), entry.realm)).collect();
    names.dedup();
    names
}

fn judge(
    principal: &str,
    keytab: &str,
    held: u32,
    at_kdc: Option<u32>,
    failed: Option<NoTicket>,
    is_domain: bool,
) -> CheckOutcome {
    let export = if is_domain {
        let name = principal.split('@').next().unwrap_or(principal);
        format!("samba-tool domain exportkeytab {keytab} --principal={name}    # on the domain controller")
    } else {
        format!("kadmin -q \"ktadd -k {keytab} {principal}\"")
    };
    let finding = match failed {
        None => match at_kdc {
            Some(kvno) if kvno > held => HealthFinding::error(
                format!(
                    "The keytab {keytab} has version {held} of the key of {principal}, but the KDC has version {kvno}."
                ),
                export,
            ),
            _ => return CheckOutcome::Passed(format!("{principal}, key version {held}")),
        },
        Some(NoTicket::NoTools) => HealthFinding::warning(
            "kinit and kvno are missing, so that the keys cannot be compared with the KDC's.",
            "apt install krb5-user",
        ),
        Some(NoTicket::Unknown) => HealthFinding::error(
            format!("The KDC has no principal {principal}, of which {keytab} has a key."),
            format!("kadmin -q \"addprinc -randkey {principal}\" && {export}"),
        ),
        Some(NoTicket::WrongKey | NoTicket::Enctype) if at_kdc.is_some_and(|kvno| kvno != held) => {
            HealthFinding::error(
                format!(
                    "The keytab {keytab} has version {held} of the key of {principal}, but the KDC has version {}.",
                    at_kdc.unwrap_or(0)
                ),
                export,
            )
        }
        Some(NoTicket::WrongKey) => HealthFinding::error(
            format!("The key of {principal} in {keytab} is not the one that the KDC has (version {held})."),
            export,
        ),
        Some(NoTicket::Enctype) => HealthFinding::error(
            format!(
                "The keytab {keytab} has no key of {principal} with an encryption type that the KDC uses."
            ),
            export,
        ),
        Some(NoTicket::Skew) => HealthFinding::error(
            "The clocks of this machine and of the KDC differ too much.",
            "chronyc makestep    # on the machine whose clock is wrong",
        ),
        Some(NoTicket::Late) => HealthFinding::error(
            "No KDC of the realm answers in time.",
            "orthrus doctor    # see `kdc`; remove silent KDCs from krb5.conf",
        ),
        Some(NoTicket::NoKdc(why) | NoTicket::Other(why)) => HealthFinding::error(
            format!("The machine gets no ticket as {principal}: {why}."),
            format!("KRB5_TRACE=/dev/stderr kinit -k -t {keytab} {principal}"),
        ),
    };
    outcome(vec![finding], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_key_has_the_remedy_of_its_kind_of_kdc() {
        let remedy = |is_domain| match judge("nfs/a@R", "/k", 1, Some(2), None, is_domain) {
            CheckOutcome::Found(findings) => findings[0].remedy.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(remedy(false), "kadmin -q \"ktadd -k /k nfs/a@R\"");
        assert!(remedy(true).starts_with("samba-tool domain exportkeytab /k --principal=nfs/a "));
    }
}
