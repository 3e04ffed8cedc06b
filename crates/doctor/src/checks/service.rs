//! The principal of the server: a ticket for it, under the name that Kerberos makes of the host.

use super::{no_kerberos, outcome};
use crate::facts::Facts;
use crate::kinit::{self, NoTicket};
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let Some(tickets) = facts.tickets().cloned() else {
        return CheckOutcome::Skipped("neither user nor machine has a ticket to ask with".to_owned());
    };
    let host = facts.service_host().to_owned();
    let asked = kinit::service(facts, &tickets, &["-S", "nfs", &host]);
    // The same without the library's changes of the name.
    let realm = facts.realm().unwrap_or_default();
    let literal = format!("nfs/{host}@{realm}");
    let plain = asked.is_err().then(|| kinit::service(facts, &tickets, &[&literal]));
    let works = plain.as_ref().is_some_and(Result::is_ok);
    // A host without a realm is looked for by referrals, which hide the reason.
    let asked = match (asked, plain) {
        (Err(NoTicket::Unknown), Some(Err(reason))) => Err(reason),
        (asked, _) => asked,
    };
    match asked {
        Ok(ticket) => {
            let note = format!(
                "{}, key version {}, encryption type {}",
                ticket.server, ticket.kvno, ticket.ticket_etype
            );
            // A referral leaves the realm of the name empty.
            facts.service_etype = Some(ticket.ticket_etype).filter(|etype| *etype != 0);
            let named = !ticket.server.ends_with('@');
            facts.service = Some(if named { ticket.server } else { literal });
            CheckOutcome::Passed(note)
        }
        Err(failed) => outcome(vec![judge(facts, &host, &literal, &failed, works)], ""),
    }
}

fn judge(facts: &Facts, host: &str, literal: &str, failed: &NoTicket, literal_works: bool) -> HealthFinding {
    let rdns = facts.conf.flag("dns_canonicalize_hostname", true) && facts.conf.flag("rdns", true);
    let other = facts.reverse.as_deref().filter(|name| *name != host);
    match failed {
        NoTicket::Unknown if literal_works => {
            let why = match other {
                Some(name) if rdns => format!("rdns is on in krb5.conf, and the address belongs to {name}"),
                _ => "dns_canonicalize_hostname is on in krb5.conf".to_owned(),
            };
            HealthFinding::error(
                format!("Kerberos asks for another name than nfs/{host}: {why}."),
                "dns_canonicalize_hostname = false    # in [libdefaults] of krb5.conf, and rdns = false",
            )
        }
        NoTicket::Unknown => HealthFinding::error(
            format!("The KDC has no principal {literal}, the service of the server."),
            format!(
                "kadmin -q \"addprinc -randkey nfs/{host}\"; kadmin -q \"ktadd nfs/{host}\"    # on the server; or mount by the name that has a key"
            ),
        ),
        NoTicket::NoTools => HealthFinding::warning(
            "kvno is missing, so that the server's principal cannot be checked.",
            "apt install krb5-user",
        ),
        NoTicket::Enctype => HealthFinding::error(
            format!("The KDC and this machine share no encryption type for {literal}."),
            format!(
                "kadmin -q \"cpw -randkey -e aes256-cts-hmac-sha1-96:normal nfs/{host}\"; check permitted_enctypes in krb5.conf"
            ),
        ),
        NoTicket::NoKdc(why) => HealthFinding::error(
            format!("No KDC of the realm of {literal} is found: {why}."),
            format!("{host} = REALM    # in [domain_realm] of krb5.conf"),
        ),
        NoTicket::Late => HealthFinding::error(
            "No KDC of the server's realm answers in time.",
            "orthrus doctor    # see `kdc`; remove silent KDCs from krb5.conf",
        ),
        NoTicket::Skew => HealthFinding::error(
            "The clocks of this machine and of the KDC differ too much.",
            "chronyc makestep    # on the machine whose clock is wrong",
        ),
        NoTicket::WrongKey => HealthFinding::error(
            "The ticket-granting ticket does not fit the KDC's key; the realm was created anew.",
            "kdestroy; kinit",
        ),
        NoTicket::Other(why) => HealthFinding::error(
            format!("There is no ticket for {literal}: {why}."),
            format!("KRB5_TRACE=/dev/stderr kvno -S nfs {host}"),
        ),
    }
}
