//! The versions of NFS that the server offers.

use client::{Error, RpcError, TransportError};
use rpc::AcceptStat;

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding, nfs};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let Some(address) = facts.address else {
        return CheckOutcome::Skipped("there is no connection".to_owned());
    };
    let limit = facts.machine.limit;
    if let Err(error) = nfs::null(address, 4, limit) {
        let third = !matches!(error, Error::Timeout) && nfs::null(address, 3, limit).is_ok();
        return outcome(vec![no_version(&error, third, facts)], "");
    }
    for minor in 0..=2 {
        match nfs::has_minor(address, minor, limit) {
            Ok(true) => facts.minors.push(minor),
            Ok(false) => {}
            Err(_) => {
                return CheckOutcome::Passed(
                    "NFSv4; a client without a context learns no minor version".to_owned(),
                );
            }
        }
    }
    let host = &facts.target.host;
    let names: Vec<_> = facts.minors.iter().map(|minor| format!("4.{minor}")).collect();
    let newer = facts.minors.iter().any(|minor| *minor > 0);
    let findings = (!newer).then(|| {
        let cause = format!("{host} offers NFSv4.0 only; without sessions a lost reply can repeat a change.");
        HealthFinding::warning(
            cause,
            format!("turn NFSv4.1 and 4.2 on at {host}; until then mount with vers=4.0"),
        )
    });
    outcome(findings.into_iter().collect(), format!("NFSv{}", names.join(", ")))
}

fn no_version(error: &Error, third: bool, facts: &Facts) -> HealthFinding {
    let (host, port) = (&facts.target.host, facts.target.port);
    match error {
        _ if third => HealthFinding::error(
            format!("{host} offers NFSv3 only, and NFSv3 is not what this program checks."),
            format!(
                "turn NFSv4.1 on at {host} (NFS-Ganesha: Protocols = 4; knfsd: vers4=y in /etc/nfs.conf)"
            ),
        ),
        Error::Timeout => HealthFinding::error(
            format!("Port {port} of {host} accepts connections, but does not answer calls."),
            format!("journalctl -u orthrus    # on {host}: the server hangs, or is no NFS server"),
        ),
        Error::Transport(TransportError::Closed) => HealthFinding::error(
            format!(
                "{host} closes the connection without an answer: it does not serve this client, or is no NFS server."
            ),
            format!("orthrus doctor --server    # on {host}; check `clients` and --same-user there"),
        ),
        Error::Rpc(RpcError::NotExecuted(AcceptStat::PROG_MISMATCH)) => HealthFinding::error(
            format!("{host} does not offer NFSv4."),
            format!("turn NFSv4.1 on at {host}"),
        ),
        other => HealthFinding::error(
            format!("Port {port} of {host} is no NFS server ({other})."),
            format!("ss -tlnp 'sport = :{port}'    # on {host}"),
        ),
    }
}
