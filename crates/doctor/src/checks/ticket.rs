//! The user's ticket and its times.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;

use super::{no_kerberos, outcome};
use crate::ccache::{CacheContent, file_of};
use crate::clock::now;
use crate::facts::{Facts, Tickets};
use crate::tool::{ToolResult, reason, run as run_tool};
use crate::{CheckOutcome, HealthFinding};

/// A ticket that ends so soon, in seconds, is worth a warning.
const SOON: i64 = 600;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    if let Some(skipped) = no_kerberos(facts) {
        return skipped;
    }
    match examined(facts) {
        // Such a ticket only helps to ask the KDC: the mount does without it.
        CheckOutcome::Found(findings) if facts.acts_as_machine() => {
            let causes: Vec<_> = findings.into_iter().map(|finding| finding.cause).collect();
            CheckOutcome::Skipped(format!(
                "root acts as the machine; its own ticket does not count: {}",
                causes.join(" ")
            ))
        }
        outcome => outcome,
    }
}

fn examined(facts: &mut Facts) -> CheckOutcome {
    let name = cache_name(facts);
    let Some(path) = file_of(&name) else { return other_kind(facts, &name) };
    match CacheContent::read(&path) {
        Ok(content) => {
            let judged = judge(&content, &name, now());
            let valid = content.granting().is_some_and(|ticket| ticket.ends > now());
            if valid && let Some(copy) = copied(facts, &path) {
                facts.user = Some(Tickets { cache: copy, principal: content.principal.clone() });
            }
            facts.cache = Some((name, content));
            judged
        }
        Err(error) => outcome(vec![unreadable(&name, &path, &error)], ""),
    }
}

fn unreadable(name: &str, path: &Path, error: &std::io::Error) -> HealthFinding {
    match error.kind() {
        ErrorKind::NotFound => {
            HealthFinding::error(format!("The user has no ticket: {name} does not exist."), "kinit")
        }
        ErrorKind::PermissionDenied => {
            let owner = std::fs::symlink_metadata(path).map(|file| file.uid().to_string());
            let owner = owner.unwrap_or_else(|_| "another user".to_owned());
            HealthFinding::error(
                format!(
                    "The credential cache {name} belongs to the user with the ID {owner} and cannot be read."
                ),
                format!("chown $(id -u) {}    # as root; or KRB5CCNAME= kinit", path.display()),
            )
        }
        _ => HealthFinding::error(
            format!("The credential cache {name} cannot be read: {error}."),
            "kdestroy; kinit",
        ),
    }
}

/// Returns the name of the user's cache: the environment's, the configured one, or MIT's default.
fn cache_name(facts: &Facts) -> String {
    let uid = facts.machine.uid;
    if let Some(name) = &facts.machine.ccache {
        return name.clone();
    }
    match facts.conf.value(&["libdefaults", "default_ccache_name"]) {
        Some(name) => expanded(name, uid),
        None => format!("FILE:{}", facts.machine.path(&format!("tmp/krb5cc_{uid}")).display()),
    }
}

/// Returns a cache's name with its parameters expanded (krb5.conf(5), "Parameter expansion").
pub(super) fn expanded(name: &str, uid: u32) -> String {
    let number = uid.to_string();
    let mut name = name.to_owned();
    for parameter in ["%{uid}", "%{euid}", "%{USERID}"] {
        name = name.replace(parameter, &number);
    }
    let folder = std::env::var("TMPDIR").ok().filter(|folder| !folder.is_empty());
    name.replace("%{TEMP}", folder.as_deref().unwrap_or("/tmp")).replace("%{null}", "")
}

/// Copies a cache, so that no check adds tickets to the user's.
fn copied(facts: &Facts, path: &Path) -> Option<String> {
    let copy = facts.folder.path().join("user.ccache");
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.write(true).create_new(true).mode(0o600).open(&copy).ok()?;
    std::io::copy(&mut std::fs::File::open(path).ok()?, &mut file).ok()?;
    Some(format!("FILE:{}", copy.display()))
}

/// Copies the ticket-granting ticket of a cache that is no file. The program reads that cache only,
/// and asks no KDC.
fn copied_by_kvno(facts: &Facts, name: &str, principal: &str) -> Result<String, String> {
    let copy = format!("FILE:{}", facts.folder.path().join("user.ccache").display());
    let realm = principal.rsplit_once('@').map_or("", |(_, realm)| realm);
    let mut command = Command::new("kvno");
    command.args(["-q", "-c", name, "--cached-only", "--out-cache", &copy]);
    match run_tool(command.arg(format!("krbtgt/{realm}@{realm}")), facts.machine.limit) {
        ToolResult::Done(_) => Ok(copy),
        ToolResult::Missing => Err("kvno is missing".to_owned()),
        ToolResult::Late => Err("kvno does not end".to_owned()),
        ToolResult::Failed(text) => Err(reason(&text)),
    }
}

/// Judges the ticket of a cache that is no file by a copy. Without a copy no later check may use
/// the ticket, as it would add others to the user's cache.
fn judge_copy(facts: &mut Facts, name: &str, principal: String) -> CheckOutcome {
    let copy = match copied_by_kvno(facts, name, &principal) {
        Ok(copy) => copy,
        Err(why) => {
            return CheckOutcome::Passed(format!(
                "{principal} in {name}, which cannot be copied for further checks: {why}"
            ));
        }
    };
    let content = file_of(&copy).and_then(|path| CacheContent::read(&path).ok());
    facts.user = Some(Tickets { cache: copy, principal: principal.clone() });
    match content {
        Some(content) => judge(&content, name, now()),
        None => CheckOutcome::Passed(format!("{principal} in {name}")),
    }
}

/// Checks a cache that is not a file with `klist`.
fn other_kind(facts: &mut Facts, name: &str) -> CheckOutcome {
    let listed = run_tool(Command::new("klist").args(["-c", name]), facts.machine.limit);
    let valid = run_tool(Command::new("klist").args(["-s", "-c", name]), facts.machine.limit);
    let finding = match (listed, valid) {
        (ToolResult::Missing, _) => HealthFinding::warning(
            format!("klist is missing, so that the cache {name} cannot be examined."),
            "apt install krb5-user",
        ),
        (ToolResult::Done(text), ToolResult::Done(_)) => {
            let line = text.lines().find_map(|line| line.trim().strip_prefix("Default principal: "));
            let principal = line.unwrap_or("?").to_owned();
            return judge_copy(facts, name, principal);
        }
        (ToolResult::Done(_), _) => {
            HealthFinding::error(format!("The ticket in {name} has expired."), "kinit")
        }
        (ToolResult::Failed(text), _) => {
            HealthFinding::error(format!("The user has no ticket in {name} ({}).", reason(&text)), "kinit")
        }
        (ToolResult::Late, _) => HealthFinding::error(
            format!("The credential cache {name} does not answer."),
            "systemctl restart sssd-kcm",
        ),
    };
    outcome(vec![finding], "")
}

fn judge(content: &CacheContent, name: &str, now: i64) -> CheckOutcome {
    let principal = &content.principal;
    let kinit = format!("kinit {principal}");
    let Some(ticket) = content.granting() else {
        let cause = format!("{name} has no ticket-granting ticket of {principal}.");
        return outcome(vec![HealthFinding::error(cause, kinit)], "");
    };
    let left = ticket.ends - now;
    let finding = if left <= 0 {
        Some(HealthFinding::error(format!("The ticket of {principal} expired {} s ago.", -left), kinit))
    } else if ticket.starts > now + 1 {
        let wait = ticket.starts - now;
        Some(HealthFinding::error(
            format!(
                "The ticket of {principal} is not valid before {wait} s from now; it is postdated, or a clock is wrong."
            ),
            format!("date -u; {kinit}"),
        ))
    } else if left < SOON {
        Some(HealthFinding::warning(
            format!("The ticket of {principal} expires in {left} s."),
            format!("kinit -R || {kinit}"),
        ))
    } else {
        None
    };
    outcome(finding.into_iter().collect(), format!("{principal}, {} minutes left", left / 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ccache::TicketTimes;

    #[test]
    fn times_of_the_ticket_are_judged() {
        let of = |starts, ends| {
            let server = "krbtgt/A.TEST@A.TEST".to_owned();
            let ticket = TicketTimes { server, etype: 18, starts, ends, kvno: 1, ticket_etype: 18 };
            judge(&CacheContent { principal: "alice@A.TEST".into(), tickets: vec![ticket] }, "FILE:x", 1000)
        };
        let cause = |outcome| match outcome {
            CheckOutcome::Found(found) => found[0].cause.clone(),
            other => format!("{other:?}"),
        };
        assert!(cause(of(0, 990)).contains("expired 10 s ago"));
        assert!(cause(of(2000, 9000)).contains("not valid before"));
        assert!(cause(of(0, 1100)).contains("expires in 100 s"));
        assert!(cause(of(0, 9000)).contains("Passed"));
    }

    #[test]
    fn parameters_of_a_configured_name_are_expanded() {
        assert_eq!(expanded("FILE:/run/user/%{uid}/krb5cc", 7), "FILE:/run/user/7/krb5cc");
        assert_eq!(expanded("KEYRING:persistent:%{USERID}%{null}", 7), "KEYRING:persistent:7");
        let temporary = std::env::temp_dir();
        assert_eq!(expanded("%{TEMP}/cc_%{euid}", 7), format!("{}/cc_7", temporary.display()));
    }
}
