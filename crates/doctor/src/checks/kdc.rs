//! Every address of every KDC of the realm.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::outcome;
use crate::clock::{KdcAnswer, ask, serves};
use crate::facts::Facts;
use crate::machine::within;
use crate::{CheckOutcome, HealthFinding};

/// Addresses that are asked.
const ADDRESSES_MAX: usize = 16;

/// The reason why a KDC without an address is of no use.
const UNRESOLVED: &str = "the name cannot be resolved";

/// The answer of an address, or the reason why there is none.
type Asked = (String, Result<KdcAnswer, String>);

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(realm) = facts.conf.default_realm().map(str::to_owned) else {
        return CheckOutcome::Skipped("there is no realm".to_owned());
    };
    let names: Vec<String> = facts.conf.kdcs(&realm).into_iter().map(str::to_owned).collect();
    if names.is_empty() {
        return CheckOutcome::Passed(format!("the KDCs of {realm} come from DNS; kinit tries them"));
    }
    let limit = facts.machine.limit.min(Duration::from_secs(3));
    let asking: Vec<_> = names
        .into_iter()
        .take(ADDRESSES_MAX)
        .map(|name| {
            let realm = realm.clone();
            std::thread::spawn(move || ask_name(&name, &realm, limit))
        })
        .collect();
    let asked: Vec<Asked> = asking.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect();
    let ahead = asked.iter().filter_map(|(_, answer)| answer.as_ref().ok()).map(|answer| answer.ahead);
    facts.kdc_ahead = ahead.max_by_key(|ahead| ahead.abs()).unwrap_or(0);
    judge(&realm, &asked)
}

/// Asks each address of a KDC such as `kdc.example.org:88`.
fn ask_name(name: &str, realm: &str, limit: Duration) -> Vec<Asked> {
    let plain = name.trim_start_matches("tcp/").trim_start_matches("udp/");
    if plain.starts_with("https://") {
        return Vec::new();
    }
    let addresses = match addresses(plain, limit) {
        Ok(addresses) => addresses,
        Err(why) => return vec![(name.to_owned(), Err(why))],
    };
    let asked = addresses.into_iter().take(ADDRESSES_MAX).map(|address| {
        let answer =
            ask(address, realm, true, limit).and_then(|answer| match serves(address, realm, limit) {
                Ok(false) => Err(format!("it does not serve the realm {realm}")),
                _ => Ok(answer),
            });
        (address.to_string(), answer)
    });
    let mut asked: Vec<Asked> = asked.collect();
    // A name such as localhost has addresses on which nothing listens.
    if asked.iter().any(|(_, answer)| answer.is_ok()) {
        asked.retain(|(_, answer)| !answer.as_ref().is_err_and(|why| why == "connection refused"));
    }
    asked
}

/// Returns the addresses of a KDC; its port is 88 unless the name has one.
pub(super) fn addresses(name: &str, limit: Duration) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = name.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host.to_owned(), port.parse().unwrap_or(88)),
        _ => (name.to_owned(), 88),
    };
    match within(limit, move || (host.as_str(), port).to_socket_addrs()) {
        None => Err("the resolver does not answer".to_owned()),
        Some(Err(_)) => Err(UNRESOLVED.to_owned()),
        Some(Ok(addresses)) => Ok(addresses.collect()),
    }
}

fn judge(realm: &str, asked: &[Asked]) -> CheckOutcome {
    let count = asked.iter().filter(|(_, answer)| answer.is_ok()).count();
    let failure = |(name, answer): &Asked| {
        let why = answer.as_ref().err()?;
        Some((format!("The KDC {name} of {realm} is of no use: {why}"), why == UNRESOLVED))
    };
    let findings = asked.iter().filter_map(failure).map(|(cause, is_unresolved)| {
        if count == 0 && is_unresolved {
            HealthFinding::error(format!("{cause}."), "correct kdc = in krb5.conf, or add the name to DNS")
        } else if count == 0 {
            HealthFinding::error(
                format!("{cause}."),
                "systemctl start krb5-kdc    # on the KDC; or correct kdc = in krb5.conf",
            )
        } else {
            HealthFinding::warning(
                format!("{cause}, and requests wait for it before they try another one."),
                "remove it from [realms] in krb5.conf, or start it",
            )
        }
    });
    outcome(findings.collect(), format!("{count} address(es) of {realm} answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kdc_without_an_address_is_not_started() {
        let remedy = |why: &str| match judge("A.TEST", &[("kdc".to_owned(), Err(why.to_owned()))]) {
            CheckOutcome::Found(findings) => findings[0].remedy.clone(),
            other => panic!("{other:?}"),
        };
        assert!(
            remedy(UNRESOLVED).contains("DNS") && remedy("connection refused").contains("systemctl start")
        );
    }
}
