//! rpc.gssd: it runs, has the pipes of the kernel, and options that let it use Kerberos.

use super::{no_kerberos, outcome};
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let mounts = facts.machine.read("/proc/self/mounts").unwrap_or_default();
    judge(facts, mounts.lines().any(|line| line.contains(" rpc_pipefs ")))
}

fn judge(facts: &Facts, pipes: bool) -> CheckOutcome {
    let gssd = &facts.gssd;
    if !gssd.running {
        let cause = "rpc.gssd does not run, without which the kernel gets no Kerberos context.";
        return outcome(vec![HealthFinding::error(cause, "systemctl enable --now rpc-gssd")], "");
    }
    let mut findings = Vec::new();
    if !pipes {
        let cause = "rpc_pipefs is not mounted, over which the kernel asks rpc.gssd.";
        findings.push(HealthFinding::error(
            cause,
            "systemctl start run-rpc_pipefs.mount; systemctl restart rpc-gssd",
        ));
    }
    if gssd.legacy {
        let cause = "rpc.gssd runs with -l (limit-to-legacy-enctypes), which allows single DES only.";
        findings.push(HealthFinding::error(cause, "limit-to-legacy-enctypes=0    # in [gssd] of /etc/nfs.conf; remove -l; systemctl restart rpc-gssd"));
    }
    if let Some(allowed) = gssd.allowed.as_ref().filter(|allowed| !allowed.contains("aes")) {
        let cause = format!("allowed-enctypes of rpc.gssd has no AES type: {allowed}.");
        findings.push(HealthFinding::error(
            cause,
            "remove allowed-enctypes from [gssd] of /etc/nfs.conf; systemctl restart rpc-gssd",
        ));
    }
    for folder in gssd.caches.iter().filter(|folder| !folder.contains("%U") && folder.as_str() != "/tmp") {
        if !facts.machine.path(folder).is_dir() {
            let cause = format!("rpc.gssd looks for tickets in {folder}, which is no folder.");
            findings.push(HealthFinding::warning(
                cause,
                "correct -d or cred-cache-directory in [gssd] of /etc/nfs.conf",
            ));
        }
    }
    outcome(findings, format!("it runs, and looks for tickets in {}", gssd.caches.join(" and ")))
}
