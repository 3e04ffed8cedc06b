//! Mounts of the server that are there already: settings that cost throughput.

use mounts::Mount;
use terminal::shell_word;

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

/// Read-ahead below this, in KiB, keeps too few requests in flight (docs/performance.md).
const READ_AHEAD: u64 = 1024;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let table = facts.machine.read("/proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<Mount> = table.lines().filter_map(|line| Mount::parse(line.as_bytes())).collect();
    let host = facts.target.host.as_str();
    let addresses: Vec<_> = facts.addresses.iter().map(ToString::to_string).collect();
    let ours = |mount: &&Mount| {
        let server = mount.host().unwrap_or_default();
        let address = mount.value("addr").unwrap_or_default();
        mount.is_nfs() && (server == host || addresses.iter().any(|own| own == server || own == address))
    };
    let ours: Vec<&Mount> = mounts.iter().filter(ours).collect();
    let mut findings = Vec::new();
    for mount in &ours {
        let (major, minor) = mount.device;
        let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let read_ahead = facts.machine.read(&path).and_then(|text| text.trim().parse().ok());
        findings.extend(judge(mount, read_ahead, &path));
    }
    outcome(findings, format!("{} mount(s) of {host}", ours.len()))
}

/// Returns the options of a mount without which it would be another one, or less safe.
fn protection(mount: &Mount) -> String {
    const VALUES: [&str; 3] = ["sec", "vers", "port"];
    const FLAGS: [&str; 4] = ["ro", "nosuid", "nodev", "noexec"];
    let values = VALUES.iter().filter_map(|name| Some(format!("{name}={}", mount.value(name)?)));
    let flags = FLAGS.iter().filter(|name| mount.has(name)).map(|name| (*name).to_owned());
    values.chain(flags).collect::<Vec<_>>().join(",")
}

fn judge(mount: &Mount, read_ahead: Option<u64>, path: &str) -> Vec<HealthFinding> {
    let point = mount.point.display();
    let mut findings = Vec::new();
    let connections: u32 = mount.value("nconnect").and_then(|value| value.parse().ok()).unwrap_or(1);
    if connections < 2 {
        let word = shell_word(&point.to_string());
        let cause =
            format!("{point} has one connection (nconnect=1), which limits its throughput to one core.");
        findings.push(HealthFinding::warning(
            cause,
            format!(
                "umount {word} && mount -o {},nconnect=8 {} {word}    # the first mount of the server decides",
                protection(mount),
                shell_word(&mount.source)
            ),
        ));
    }
    if let Some(kib) = read_ahead.filter(|kib| *kib < READ_AHEAD) {
        let cause =
            format!("The read-ahead of {point} is {kib} KiB, so that a reader has one request in flight.");
        findings.push(HealthFinding::warning(
            cause,
            format!("echo 4096 > {path}    # as root; nfsrahead in /etc/nfs.conf keeps it"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_mount_keeps_the_protection_of_the_old_one() {
        let line = "36 22 0:31 / /data ro,nosuid,relatime - nfs4 server:/data ro,vers=4.2,port=2050,sec=krb5p,addr=192.0.2.1";
        let mount = Mount::parse(line.as_bytes()).unwrap();
        let findings = judge(&mount, None, "");
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        let mounts = "mount -o sec=krb5p,vers=4.2,port=2050,ro,nosuid,nconnect=8 server:/data /data";
        assert!(finding.remedy.contains(mounts), "{}", finding.remedy);
    }
}
