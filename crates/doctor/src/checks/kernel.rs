//! The kernel's modules, and its encryption types.

use super::{no_kerberos, outcome};
use crate::ccache::TicketTimes;
use crate::facts::Facts;
use crate::kinit::{self, NoTicket};
use crate::{CheckOutcome, HealthFinding, Surroundings};

/// The first version of Linux with the encryption types 19 and 20 (RFC 8009).
const SHA2_SINCE: (u32, u32) = (6, 3);

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let machine = &facts.machine;
    let release = machine.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut wanted = vec!["nfsv4"];
    if facts.kerberos() {
        wanted.push("rpcsec_gss_krb5");
    }
    let missing: Vec<_> = wanted.into_iter().filter(|module| !available(machine, &release, module)).collect();
    let mut findings: Vec<_> = missing
        .iter()
        .map(|module| {
            let cause = format!("The kernel {release} has no module {module}.");
            HealthFinding::error(cause, format!("modprobe {module} || apt install linux-image-{release}"))
        })
        .collect();
    if no_kerberos(facts).is_none() && before(&release, SHA2_SINCE) {
        findings.extend(no_common_type(facts, &release));
    }
    outcome(findings, format!("Linux {release}"))
}

/// Returns whether a module is loaded, built in, or can be loaded.
fn available(machine: &Surroundings, release: &str, module: &str) -> bool {
    let starts = |path: &str| {
        let text = machine.read(path).unwrap_or_default();
        text.lines().any(|line| line.split_whitespace().next() == Some(module))
    };
    let named = |path: String| {
        let text = machine.read(&path).unwrap_or_default();
        let file = format!("/{module}.ko");
        text.lines().any(|line| line.split(':').next().unwrap_or_default().contains(&file))
    };
    starts("/proc/modules")
        || machine.path(&format!("/sys/module/{module}")).is_dir()
        || (module == "nfsv4" && machine.read("/proc/filesystems").is_some_and(|text| text.contains("nfs4")))
        || named(format!("/lib/modules/{release}/modules.builtin"))
        || named(format!("/lib/modules/{release}/modules.dep"))
}

fn before(release: &str, version: (u32, u32)) -> bool {
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => (major, minor) < version,
        _ => false,
    }
}

/// Finds a service that has only keys of types 19 and 20, which this kernel does not know.
fn no_common_type(facts: &Facts, release: &str) -> Option<HealthFinding> {
    let tickets = facts.tickets()?;
    let service = facts.service.as_deref()?;
    let host = facts.service_host();
    let old = kinit::service(facts, tickets, &["-e", "aes256-cts-hmac-sha1-96", service]);
    let older = kinit::service(facts, tickets, &["-e", "aes128-cts-hmac-sha1-96", service]);
    // kvno may answer from the cache, with another type than it was asked for.
    let none = |got: &Result<TicketTimes, NoTicket>| match got {
        Ok(ticket) => ticket.etype > 18,
        Err(failed) => *failed == NoTicket::Enctype,
    };
    (none(&old) && none(&older)).then(|| {
        let cause = format!("Linux {release} knows the encryption types 17 and 18 only, and the KDC gives nfs/{host} the types 19 and 20 only.");
        HealthFinding::error(cause, format!("kadmin -q \"ktadd -e aes256-cts-hmac-sha1-96:normal nfs/{host}\"    # on the server; or Linux 6.3"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert!(before("6.1.0-13-amd64", (6, 3)) && before("5.10.0", (6, 3)));
        assert!(!before("6.12.9", (6, 3)) && !before("6.3", (6, 3)) && !before("", (6, 3)));
    }
}
