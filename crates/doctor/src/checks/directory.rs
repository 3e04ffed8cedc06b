//! TLS to the directory of users.

use std::path::PathBuf;
use std::time::Duration;

use identity::IdentitySource as _;
use ldap::{Bind, LdapSettings, LdapSource, Schema};

use super::outcome;
use crate::facts::Facts;
use crate::machine::within;
use crate::{CheckOutcome, HealthFinding, Surroundings};

/// Servers that are asked.
const SERVERS_MAX: usize = 8;

/// The files of a client that name its directory: of nslcd, of the LDAP library and of SSSD.
const FILES: [&str; 3] = ["/etc/nslcd.conf", "/etc/ldap/ldap.conf", "/etc/sssd/sssd.conf"];

pub(super) fn client(facts: &mut Facts) -> CheckOutcome {
    let directories: Vec<_> = FILES.iter().filter_map(|file| settings(&facts.machine, file)).collect();
    examine(&directories, facts.machine.limit)
}

pub(super) fn server(facts: &mut Facts) -> CheckOutcome {
    let directories = facts.server.as_ref().map(|server| server.directories.clone()).unwrap_or_default();
    examine(&directories, facts.machine.limit)
}

/// Reads the servers and the authorities of a file; `None` if it names no server with TLS.
fn settings(machine: &Surroundings, file: &str) -> Option<LdapSettings> {
    let text = machine.read(file)?;
    let value = |keys: &[&str]| {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        lines.find_map(|line| {
            let at = line.find(|c: char| c.is_whitespace() || c == '=')?;
            let (key, value) = line.split_at(at);
            let found = keys.iter().any(|known| key.eq_ignore_ascii_case(known));
            found.then(|| value.trim_start_matches(|c: char| c.is_whitespace() || c == '=').to_owned())
        })
    };
    let starttls = value(&["ssl"]).is_some_and(|value| value == "start_tls")
        || value(&["ldap_id_use_start_tls"]).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let servers = value(&["uri", "ldap_uri"])?;
    let servers = servers
        .split([' ', ',', '\t'])
        .filter(|url| url.starts_with("ldaps://") || (starttls && url.starts_with("ldap://")));
    let servers: Vec<String> = servers.map(str::to_owned).collect();
    let base = value(&["base", "ldap_search_base"]).unwrap_or_default();
    (!servers.is_empty()).then(|| LdapSettings {
        servers,
        starttls,
        insecure: false,
        ca: value(&["tls_cacertfile", "tls_cacert", "ldap_tls_cacert"]).map(PathBuf::from),
        certificate: None,
        key: None,
        bind: Bind::Anonymous,
        user_base: base.clone(),
        group_base: base,
        schema: Schema::rfc2307(),
        timeout: Duration::from_secs(3),
    })
}

fn examine(directories: &[LdapSettings], limit: Duration) -> CheckOutcome {
    let mut findings = Vec::new();
    let mut asked = Vec::new();
    for directory in directories {
        for url in directory.servers.iter().take(SERVERS_MAX) {
            let one = LdapSettings {
                servers: vec![url.clone()],
                timeout: limit.min(directory.timeout),
                ..directory.clone()
            };
            let answer = within(limit * 2, move || {
                let source = LdapSource::open(one).map_err(|error| error.to_string())?;
                source.uid("orthrus-doctor").map(drop).map_err(|error| error.why)
            });
            let answer = answer.unwrap_or_else(|| Err("no answer in time".to_owned()));
            asked.push(url.clone());
            findings.extend(answer.err().and_then(|why| judge(url, directory, &why)));
        }
    }
    if asked.is_empty() {
        return CheckOutcome::Skipped("no directory with TLS is configured".to_owned());
    }
    outcome(findings, asked.join(", "))
}

fn judge(url: &str, directory: &LdapSettings, why: &str) -> Option<HealthFinding> {
    let host = url.split("://").nth(1).unwrap_or(url).trim_end_matches('/');
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:636") };
    let show = format!(
        "openssl s_client -connect {address} </dev/null | openssl x509 -noout -dates -issuer -ext subjectAltName"
    );
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    let ca = directory
        .ca
        .as_ref()
        .map_or("the system's authorities".to_owned(), |path| path.display().to_string());
    let cause = if has(&["Expired", "expired"]) {
        format!("The certificate of the directory {url} has expired.")
    } else if has(&["NotValidYet"]) {
        format!("The certificate of the directory {url} is not yet valid; compare the clocks.")
    } else if has(&["UnknownIssuer", "BadSignature", "CaUsedAsEndEntity"]) {
        format!("The certificate of the directory {url} is from an authority that is not among {ca}.")
    } else if has(&["NotValidForName", "not valid for name"]) {
        format!("The certificate of the directory {url} is for another name.")
    } else if has(&["refused", "no answer", "timed out", "timeout", "Timeout", "resolve", "lookup address"]) {
        format!("The directory {url} does not answer ({why}).")
    } else if has(&["certificate", "tls", "TLS", "handshake"]) {
        format!("TLS to the directory {url} fails: {why}.")
    } else if matches!(directory.bind, Bind::Anonymous) {
        // A server that refuses anonymous searches has completed TLS.
        return None;
    } else {
        format!("The directory {url} refuses the query of this server: {why}.")
    };
    Some(HealthFinding::error(cause, show))
}
