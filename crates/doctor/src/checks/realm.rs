//! The realm that the server belongs to, as this machine sees it.

use super::{no_kerberos, outcome};
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let default = facts.conf.default_realm().unwrap_or_default().to_owned();
    let file = facts.machine.krb5_conf.first().map(|path| path.display().to_string()).unwrap_or_default();
    if facts.server.is_some() {
        let realm = facts.realm_of_keytab().unwrap_or(&default);
        // A server takes tickets for each of its keys, whatever the default realm is.
        let unknown =
            realm != default && facts.conf.kdcs(realm).is_empty() && !facts.conf.flag("dns_lookup_kdc", true);
        let finding = unknown.then(|| {
            let cause = format!(
                "The keytab has keys of the realm {realm}, of which {file} names no KDC, but default_realm is {default}."
            );
            HealthFinding::error(cause, format!("{realm} = {{ kdc = HOST }}    # in [realms] of {file}"))
        });
        return outcome(finding.into_iter().collect(), realm.to_owned());
    }
    let host = facts.service_host().to_owned();
    let Some(realm) = facts.conf.realm_of(&host) else {
        return CheckOutcome::Passed(format!(
            "{host} belongs to no realm of {file}; the KDC of {default} decides"
        ));
    };
    let unknown = facts.conf.kdcs(realm).is_empty() && !facts.conf.flag("dns_lookup_kdc", true);
    let finding = unknown.then(|| {
        let cause = format!("{file} maps {host} to the realm {realm}, and names no KDC of it.");
        HealthFinding::error(cause, format!("{host} = {default}    # in [domain_realm] of {file}"))
    });
    outcome(finding.into_iter().collect(), format!("{host} belongs to {realm}"))
}
