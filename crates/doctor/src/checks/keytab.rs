//! The keytab of the machine or of the server: readable, private, with the right names and types.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gss::KeytabEntry;

use super::{no_kerberos, outcome};
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

/// Encryption types that NFS can use here (RFC 3962, RFC 8009).
const ETYPES: std::ops::RangeInclusive<u16> = 17..=20;

/// The services that rpc.gssd takes for the machine, in its order.
const MACHINE: [&str; 3] = ["root", "nfs", "host"];

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let path = path(facts);
    match gss::keytab_entries(&path) {
        Ok(entries) => {
            facts.entries = entries;
            judge(facts, &path)
        }
        Err(error) => unreadable(facts, &path, &error),
    }
}

/// Returns the keytab that rpc.gssd or the server reads.
pub(super) fn path(facts: &Facts) -> PathBuf {
    match &facts.gssd.keytab {
        Some(path) if facts.server.is_none() => path.clone(),
        _ => facts.machine.keytab.clone(),
    }
}

fn unreadable(facts: &Facts, path: &Path, error: &std::io::Error) -> CheckOutcome {
    let shown = path.display();
    let name = wanted(facts);
    let add = format!("kadmin -q \"ktadd -k {shown} {name}\"");
    let finding = match error.kind() {
        // That another user may not read the key is no fault, and it must not become that user's.
        ErrorKind::PermissionDenied if facts.machine.uid != 0 => {
            let owner = if facts.server.is_some() { "root, or the user of the server," } else { "root" };
            return CheckOutcome::Skipped(format!("only {owner} can read {shown}; run this as root, too"));
        }
        ErrorKind::PermissionDenied => HealthFinding::error(
            format!("The keytab {shown} cannot be read by root."),
            format!("ls -l {shown}"),
        ),
        ErrorKind::NotFound => HealthFinding::error(format!("There is no keytab {shown}."), add),
        _ => HealthFinding::error(
            format!("The keytab {shown} is damaged: {error}."),
            format!("rm {shown} && {add}"),
        ),
    };
    outcome(vec![finding], "")
}

/// Returns the principal that the keytab should have.
fn wanted(facts: &Facts) -> String {
    match facts.server {
        Some(_) => format!("nfs/{}", facts.service_host()),
        None => format!("nfs/{}", own_name()),
    }
}

/// Returns this machine's name in lower case.
fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}

/// Returns the principal that the machine acts as.
pub(super) fn principal(facts: &Facts) -> Option<String> {
    let service_of = |entry: &KeytabEntry| match entry.components.as_slice() {
        [service, host] => Some((service.clone(), host.clone())),
        [account] if account.ends_with('$') => Some(("nfs".to_owned(), account.clone())),
        _ => None,
    };
    let own = own_name();
    let short = own.split('.').next().unwrap_or(&own).to_owned();
    let rank = |entry: &KeytabEntry| {
        let (service, host) = service_of(entry)?;
        let at = match &facts.server {
            Some(server) => server.services.iter().position(|known| *known == service || known == "*")?,
            None => MACHINE.iter().position(|known| *known == service)?,
        };
        let name = if facts.server.is_some() { facts.service_host().to_owned() } else { own.clone() };
        let foreign = host != name && host.split('.').next() != Some(&short);
        Some((foreign, at))
    };
    let best =
        facts.entries.iter().filter_map(|entry| Some((rank(entry)?, entry))).min_by_key(|(rank, _)| *rank);
    best.map(|(_, entry)| format!("{}@{}", entry.components.join("/"), entry.realm))
}

/// Returns the entries of a principal.
pub(super) fn entries_of<'a>(facts: &'a Facts, principal: &'a str) -> impl Iterator<Item = &'a KeytabEntry> {
    facts
        .entries
        .iter()
        .filter(move |entry| format!("{}@{}", entry.components.join("/"), entry.realm) == principal)
}

fn judge(facts: &Facts, path: &Path) -> CheckOutcome {
    let shown = path.display();
    let add = format!("kadmin -q \"ktadd -k {shown} {}\"", wanted(facts));
    let Some(principal) = principal(facts) else {
        let mut names: Vec<_> = facts.entries.iter().map(|entry| entry.components.join("/")).collect();
        names.dedup();
        let names = if names.is_empty() { "no key".to_owned() } else { names.join(", ") };
        let cause = match &facts.server {
            Some(server) => format!(
                "The keytab {shown} has no key of the service {}/, only {names}.",
                server.services.join("/, ")
            ),
            None => format!(
                "The keytab {shown} has no key root/, nfs/ or host/ that rpc.gssd could use, only {names}."
            ),
        };
        return outcome(vec![HealthFinding::error(cause, add)], "");
    };
    let mut findings = Vec::new();
    if entries_of(facts, &principal).all(|entry| !ETYPES.contains(&entry.etype)) {
        let types: Vec<_> = entries_of(facts, &principal).map(|entry| entry.etype.to_string()).collect();
        let cause = format!(
            "The keytab {shown} has no AES key of {principal}, only encryption types {}.",
            types.join(", ")
        );
        findings.push(HealthFinding::error(
            cause,
            format!("kadmin -q \"ktadd -k {shown} -e aes256-cts-hmac-sha1-96:normal {principal}\""),
        ));
    }
    if std::fs::metadata(path).is_ok_and(|file| file.mode() & 0o077 != 0) {
        let cause =
            format!("Other users of this machine can read the keytab {shown}, and act as {principal}.");
        findings.push(HealthFinding::warning(cause, format!("chmod 600 {shown}")));
    }
    outcome(findings, format!("{shown}: {principal}"))
}
