//! rpc.gssd: it runs, has the pipes of the kernel, and options that let it use Kerberos.

use super::{no_kerberos, outcome};
use crate::facts::{Facts, GssdOptions};
use crate::nfs_conf::NfsConf;
use crate::{CheckOutcome, HealthFinding, Surroundings};

/// Processes that are looked at.
const PROCESSES_MAX: usize = 65_536;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    let mounts = facts.machine.read("/proc/self/mounts").unwrap_or_default();
    judge(facts, mounts.lines().any(|line| line.contains(" rpc_pipefs ")))
}

/// Reads the options from the command line of the process and from nfs.conf.
pub(crate) fn options(machine: &Surroundings) -> GssdOptions {
    let mut options =
        GssdOptions { caches: vec!["/tmp".into(), "/run/user/%U".into()], ..GssdOptions::default() };
    let conf = NfsConf::read(machine, "nfs.conf");
    conf.section("gssd").for_each(|(key, value)| set(&mut options, key, value));
    if let Some(arguments) = process(machine) {
        options.running = true;
        command_line(&mut options, &arguments);
    }
    options
}

fn set(options: &mut GssdOptions, key: &str, value: &str) {
    let on = matches!(value.to_lowercase().as_str(), "1" | "y" | "yes" | "true" | "t" | "on");
    match key {
        "keytab-file" if !value.is_empty() => options.keytab = Some(value.into()),
        "cred-cache-directory" if !value.is_empty() => {
            options.caches = value.split(':').map(str::to_owned).collect();
        }
        "use-machine-creds" => options.root_needs_ticket = !on,
        "limit-to-legacy-enctypes" => options.legacy = on,
        "allowed-enctypes" if !value.is_empty() => options.allowed = Some(value.to_owned()),
        "avoid-dns" => options.reverse_dns = !on,
        _ => {}
    }
}

fn command_line(options: &mut GssdOptions, arguments: &[String]) {
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let Some(letters) = argument.strip_prefix('-') else { continue };
        for (at, letter) in letters.char_indices() {
            let after = letters.get(at + 1..).unwrap_or_default();
            let valued = matches!(letter, 'k' | 'd' | 'p' | 't' | 'T' | 'R' | 'U');
            let value =
                if valued && after.is_empty() { rest.next().cloned() } else { Some(after.to_owned()) };
            match (letter, value) {
                ('k', Some(path)) => options.keytab = Some(path.into()),
                ('d', Some(folders)) => options.caches = folders.split(':').map(str::to_owned).collect(),
                ('n', _) => options.root_needs_ticket = true,
                ('l', _) => options.legacy = true,
                ('D', _) => options.reverse_dns = true,
                _ => {}
            }
            if valued {
                break;
            }
        }
    }
}

/// Returns the arguments of the running rpc.gssd.
fn process(machine: &Surroundings) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(machine.path("/proc")).ok()?;
    for entry in entries.flatten().take(PROCESSES_MAX) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let file = |leaf: &str| machine.read(&format!("/proc/{name}/{leaf}"));
        if file("comm").is_some_and(|comm| comm.trim() == "rpc.gssd") {
            let line = file("cmdline").unwrap_or_default();
            return Some(line.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect());
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_are_read() {
        let mut options = GssdOptions::default();
        let words = ["rpc.gssd", "-fnl", "-k/a", "-d", "/b:/c", "-vvv"].map(str::to_owned);
        command_line(&mut options, &words);
        assert!(options.root_needs_ticket && options.legacy && !options.reverse_dns);
        assert_eq!(
            (options.keytab, options.caches),
            (Some("/a".into()), vec!["/b".to_owned(), "/c".to_owned()])
        );
    }
}
