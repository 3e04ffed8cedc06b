//! Every address of every KDC of the realm.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::outcome;
use crate::clock::{KdcAnswer, Transport, ask, serves};
use crate::facts::Facts;
use crate::machine::within;
use crate::{CheckOutcome, HealthFinding};

/// Addresses that are asked.
const ADDRESSES_MAX: usize = 16;

/// The reason why a KDC without an address is of no use.
const UNRESOLVED: &str = "the name cannot be resolved";

/// An address that was asked.
struct AskedKdc {
    name: String,
    /// The answer, or the reason why there is none.
    answer: Result<KdcAnswer, String>,
    /// The reason why it does not answer over TCP, if it does over UDP.
    no_tcp: Option<String>,
    /// Whether the failure cost no time.
    at_once: bool,
}

/// A library that gets an error within this time asks the next address.
const AT_ONCE: Duration = Duration::from_millis(200);

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let of_server = facts.server.as_ref().and(facts.realm_of_keytab());
    let of_server = of_server.filter(|realm| !facts.conf.kdcs(realm).is_empty());
    let Some(realm) = of_server.or(facts.conf.default_realm()).map(str::to_owned) else {
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
    let asked: Vec<AskedKdc> = asking.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect();
    let ahead = asked.iter().filter_map(|kdc| kdc.answer.as_ref().ok()).map(|answer| answer.ahead);
    facts.kdc_ahead = ahead.max_by_key(|ahead| ahead.abs()).unwrap_or(0);
    judge(&realm, &asked)
}

/// Asks each address of a KDC such as `kdc.example.org:88`.
fn ask_name(name: &str, realm: &str, limit: Duration) -> Vec<AskedKdc> {
    let plain = name.trim_start_matches("tcp/").trim_start_matches("udp/");
    if plain.starts_with("https://") {
        return Vec::new();
    }
    let addresses = match addresses(plain, limit) {
        Ok(addresses) => addresses,
        Err(why) => {
            let name = name.to_owned();
            return vec![AskedKdc { name, answer: Err(why), no_tcp: None, at_once: false }];
        }
    };
    let asked = addresses.into_iter().take(ADDRESSES_MAX).map(|address| ask_address(address, realm, limit));
    let mut asked: Vec<AskedKdc> = asked.collect();
    // A name such as localhost has addresses on which nothing listens, and others have addresses
    // of IPv6 on a machine without it.
    if asked.iter().any(|kdc| kdc.answer.is_ok()) {
        asked.retain(|kdc| kdc.answer.is_ok() || !kdc.at_once);
    }
    asked
}

/// Asks over TCP, and over UDP if that fails.
fn ask_address(address: SocketAddr, realm: &str, limit: Duration) -> AskedKdc {
    let begin = Instant::now();
    let ask_over = |transport| {
        let answer = ask(address, realm, transport, limit)?;
        match serves(address, realm, transport, limit) {
            Ok(false) => Err(format!("it does not serve the realm {realm}")),
            _ => Ok(answer),
        }
    };
    let (answer, at_once) = (ask_over(Transport::Tcp), begin.elapsed() < AT_ONCE);
    let name = address.to_string();
    match answer {
        Ok(answer) => AskedKdc { name, answer: Ok(answer), no_tcp: None, at_once },
        Err(why) => match ask_over(Transport::Udp) {
            Ok(answer) => AskedKdc { name, answer: Ok(answer), no_tcp: Some(why), at_once },
            Err(_) => AskedKdc { name, answer: Err(why), no_tcp: None, at_once },
        },
    }
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

fn judge(realm: &str, asked: &[AskedKdc]) -> CheckOutcome {
    let count = asked.iter().filter(|kdc| kdc.answer.is_ok()).count();
    let finding = |AskedKdc { name, answer, no_tcp, .. }: &AskedKdc| match (answer, no_tcp) {
        (Ok(_), None) => None,
        (Ok(_), Some(why)) => Some(HealthFinding::warning(
            format!(
                "The KDC {name} of {realm} answers over UDP and not over TCP ({why}), which large tickets need."
            ),
            "open port 88/tcp of the KDC",
        )),
        (Err(why), _) if count == 0 && why == UNRESOLVED => Some(HealthFinding::error(
            format!("The KDC {name} of {realm} is of no use: {why}."),
            "correct kdc = in krb5.conf, or add the name to DNS",
        )),
        (Err(why), _) if count == 0 => Some(HealthFinding::error(
            format!("The KDC {name} of {realm} is of no use: {why}."),
            "systemctl start krb5-kdc    # on the KDC; or correct kdc = in krb5.conf",
        )),
        (Err(why), _) => Some(HealthFinding::warning(
            format!(
                "The KDC {name} of {realm} is of no use: {why}, and requests wait for it before they try another one."
            ),
            "remove it from [realms] in krb5.conf, or start it",
        )),
    };
    outcome(asked.iter().filter_map(finding).collect(), format!("{count} address(es) of {realm} answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kdc_without_an_address_is_not_started() {
        let remedy = |why: &str| {
            let (name, answer) = ("kdc".to_owned(), Err(why.to_owned()));
            match judge("A.TEST", &[AskedKdc { name, answer, no_tcp: None, at_once: true }]) {
                CheckOutcome::Found(findings) => findings[0].remedy.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert!(
            remedy(UNRESOLVED).contains("DNS") && remedy("connection refused").contains("systemctl start")
        );
    }
}
