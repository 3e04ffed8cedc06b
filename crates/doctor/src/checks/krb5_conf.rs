//! The files of the Kerberos library: present, well-formed, with a realm and its KDCs.

use terminal::shell_word;

use super::{no_kerberos, outcome};
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let conf = &facts.conf;
    let file = facts.machine.krb5_conf.first().map(|path| path.display().to_string()).unwrap_or_default();
    if let Some((path, why)) = conf.unreadable.first() {
        let cause = format!("The Kerberos configuration {} cannot be read: {why}.", path.display());
        let fix = format!("ls -l {}    # create it, or correct KRB5_CONFIG", path.display());
        return outcome(vec![HealthFinding::error(cause, fix)], "");
    }
    if let Some((path, line)) = conf.malformed.first() {
        let cause = format!(
            "{} has a line that is no relation, so that the library refuses the file: {line}",
            path.display()
        );
        return outcome(
            vec![HealthFinding::error(cause, format!("grep -nF -- {} {}", shell_word(line), path.display()))],
            "",
        );
    }
    let Some(realm) = conf.default_realm() else {
        let cause = format!("{file} has no default_realm.");
        return outcome(
            vec![HealthFinding::error(cause, "default_realm = EXAMPLE.ORG    # in [libdefaults]")],
            "",
        );
    };
    let mut findings = Vec::new();
    if realm.to_uppercase() != realm {
        let cause =
            format!("default_realm {realm} is in lower case; realms are in upper case almost everywhere.");
        findings.push(HealthFinding::warning(
            cause,
            format!("default_realm = {}    # in {file}", realm.to_uppercase()),
        ));
    }
    if conf.kdcs(realm).is_empty() && !conf.flag("dns_lookup_kdc", true) {
        let cause = format!("{file} names no KDC of the realm {realm}, and dns_lookup_kdc is off.");
        findings.push(HealthFinding::error(
            cause,
            format!("kdc = kdc.example.org    # in [realms], {realm} = {{ … }}"),
        ));
    }
    for name in ["permitted_enctypes", "default_tgs_enctypes", "default_tkt_enctypes"] {
        let Some(value) = conf.value(&["libdefaults", name]) else { continue };
        if !value.contains("aes") && !value.contains("DEFAULT") {
            let cause = format!("{name} in {file} allows no AES encryption type, which NFS needs: {value}.");
            findings.push(HealthFinding::error(cause, format!("remove {name} from [libdefaults] of {file}")));
        }
    }
    outcome(findings, format!("{file}: realm {realm}"))
}
