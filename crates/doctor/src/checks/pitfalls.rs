//! Settings of krb5.conf that work today and fail after a change of DNS, or cost time.

use std::process::Command;
use std::time::Duration;

use super::{kdc, no_kerberos, outcome};
use crate::clock::{Transport, ask};
use crate::facts::Facts;
use crate::tool::{ToolResult, run as run_tool};
use crate::{CheckOutcome, HealthFinding};

/// The limit above which MIT's library prefers TCP, by default.
const UDP_LIMIT: u32 = 1465;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let mut findings = Vec::new();
    let host = facts.target.host.clone();
    let canonical = facts.conf.flag("dns_canonicalize_hostname", true);
    let rdns = canonical && facts.conf.flag("rdns", true);
    let other = facts.reverse.clone().filter(|name| *name != host && host.contains('.'));
    if let Some(name) = other.filter(|_| rdns && host.parse::<std::net::IpAddr>().is_err()) {
        let cause = format!(
            "rdns is on in krb5.conf, and the address of {host} belongs to {name}: Kerberos then uses the key of nfs/{name}."
        );
        findings.push(HealthFinding::warning(cause, "rdns = false    # in [libdefaults] of krb5.conf"));
    } else if let Some(name) = canonical.then(|| alias(facts, &host)).flatten() {
        let cause = format!(
            "{host} is an alias of {name}, and dns_canonicalize_hostname is on: Kerberos uses the key of nfs/{name}."
        );
        findings.push(HealthFinding::warning(
            cause,
            "dns_canonicalize_hostname = false    # in [libdefaults] of krb5.conf",
        ));
    }
    findings.extend(udp(facts));
    if facts.conf.flag("allow_weak_crypto", false) {
        let cause =
            "allow_weak_crypto is on in krb5.conf, which permits encryption types that can be broken.";
        findings
            .push(HealthFinding::warning(cause, "remove allow_weak_crypto from [libdefaults] of krb5.conf"));
    }
    outcome(findings, "names are used as they are")
}

/// Returns the canonical name of an alias.
fn alias(facts: &Facts, host: &str) -> Option<String> {
    if host.parse::<std::net::IpAddr>().is_ok() || !host.contains('.') {
        return None;
    }
    let ToolResult::Done(text) = run_tool(Command::new("getent").args(["ahosts", host]), facts.machine.limit)
    else {
        return None;
    };
    let name = text.lines().next()?.split_whitespace().nth(2)?;
    (!name.eq_ignore_ascii_case(host)).then(|| name.to_owned())
}

/// Finds a KDC that answers over TCP only, although requests go to UDP first.
fn udp(facts: &Facts) -> Option<HealthFinding> {
    let limit = facts.conf.value(&["libdefaults", "udp_preference_limit"]);
    if limit.map_or(UDP_LIMIT, |limit| limit.parse().unwrap_or(UDP_LIMIT)) <= 1 {
        return None;
    }
    let realm = facts.conf.default_realm()?;
    let wait = Duration::from_secs(1);
    for name in facts.conf.kdcs(realm) {
        let addresses = kdc::addresses(name, wait).unwrap_or_default();
        let found = addresses.into_iter().find(|address| {
            let answers = |over| ask(*address, realm, over, wait).is_ok();
            answers(Transport::Tcp) && !answers(Transport::Udp)
        });
        if let Some(address) = found {
            let cause = format!(
                "The KDC {address} answers over TCP and not over UDP, which is tried first and costs a second for each ticket."
            );
            return Some(HealthFinding::warning(
                cause,
                "udp_preference_limit = 1    # in [libdefaults] of krb5.conf",
            ));
        }
    }
    None
}
