//! Names of owners. If client and server disagree about the domain, every name is `nobody`.

use std::process::Command;

use terminal::shell_word;

use super::outcome;
use crate::facts::Facts;
use crate::nfs_conf::NfsConf;
use crate::tool::{ToolResult, run as run_tool};
use crate::{CheckOutcome, HealthFinding, Surroundings};

/// The domain of libnfsidmap on a machine without one.
const NO_DOMAIN: &str = "localdomain";

/// S_IWUSR of the mode.
const OWNER_WRITES: u32 = 0o200;

pub(super) fn client(facts: &mut Facts) -> CheckOutcome {
    let Some(root) = &facts.root else { return CheckOutcome::Skipped("no request has worked".to_owned()) };
    let own = domain(&facts.machine);
    let Some((name, theirs)) = root.owner.rsplit_once('@') else {
        return CheckOutcome::Passed(format!("{} sends numbers: {}", facts.target.host, root.owner));
    };
    let mut findings = Vec::new();
    // libnfsidmap takes this domain on a machine that has none.
    let Some(own) = own.or_else(|| (theirs == NO_DOMAIN).then(|| NO_DOMAIN.to_owned())) else {
        return outcome(vec![no_domain(&facts.target.host, theirs)], "");
    };
    if !own.eq_ignore_ascii_case(theirs) {
        let cause = format!(
            "The domain of owners is {theirs} on {} and {own} here, so that each side takes all names of the other for nobody.",
            facts.target.host
        );
        findings.push(HealthFinding::error(
            cause,
            format!(
                "Domain = {}    # in [General] of /etc/idmapd.conf, then nfsidmap -c",
                shell_word(theirs)
            ),
        ));
        return outcome(findings, "");
    }
    if name == "nobody" {
        return CheckOutcome::Passed(format!("the export belongs to {}", root.owner));
    }
    let known = run_tool(Command::new("getent").args(["passwd", "--", name]), facts.machine.limit);
    if matches!(known, ToolResult::Failed(_)) {
        findings.push(unknown(name, &facts.target.export));
    }
    // The other direction: the account that the server takes the caller for.
    let caller =
        root.principal.as_deref().and_then(|principal| principal.split_once('@')).map(|(user, _)| user);
    if caller == Some(name) && root.mode & OWNER_WRITES != 0 && !root.may_modify {
        let cause = format!(
            "{} does not take {name} for the owner {}, although the names are the same; it takes the user for nobody.",
            facts.target.host, root.owner
        );
        findings.push(HealthFinding::warning(
            cause,
            format!(
                "orthrus id {}    # on the server",
                shell_word(root.principal.as_deref().unwrap_or_default())
            ),
        ));
    }
    outcome(findings, format!("{} and {} are names of this machine's domain", root.owner, root.group))
}

/// The finding for a machine without a domain.
fn no_domain(host: &str, theirs: &str) -> HealthFinding {
    let cause = format!(
        "This machine has no domain of owners, as its name has no domain and /etc/idmapd.conf has none, while {host} names owners NAME@{theirs}: all names are shown as nobody."
    );
    let remedy =
        format!("Domain = {}    # in [General] of /etc/idmapd.conf, then nfsidmap -c", shell_word(theirs));
    HealthFinding::warning(cause, remedy)
}

/// The finding for an owner that is no user here; the server chooses the name.
fn unknown(name: &str, export: &str) -> HealthFinding {
    let cause = format!(
        "The user {name}, to whom {export} belongs, does not exist on this machine and is shown as nobody."
    );
    let remedy = format!(
        "getent passwd -- {}    # the directory of users has to know the name on both sides",
        shell_word(name)
    );
    HealthFinding::warning(cause, remedy)
}

pub(super) fn server(facts: &mut Facts) -> CheckOutcome {
    let Some(server) = &facts.server else {
        return CheckOutcome::Skipped("there is no configuration".to_owned());
    };
    let Some(own) = domain(&facts.machine) else {
        return CheckOutcome::Passed(format!("owners are NAME@{}", server.domain));
    };
    let finding = (!own.eq_ignore_ascii_case(&server.domain)).then(|| {
        let cause = format!(
            "This server names owners NAME@{}, but /etc/idmapd.conf here says {own}, which clients probably use, too.",
            server.domain
        );
        HealthFinding::warning(cause, format!("domain = \"{own}\"    # in the server's configuration"))
    });
    outcome(finding.into_iter().collect(), format!("owners are NAME@{}", server.domain))
}

/// Returns the domain of this machine as libnfsidmap finds it: that of idmapd.conf, else of the
/// machine's full name; `None` if the machine has no full name.
fn domain(machine: &Surroundings) -> Option<String> {
    if let Some(domain) = NfsConf::read(machine, "idmapd.conf").value("general", "domain") {
        return Some(domain.to_owned());
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let full = run_tool(Command::new("getent").args(["ahosts", "--", &name]), machine.limit);
    full_domain(&match full {
        ToolResult::Done(text) => canonical(&text).unwrap_or(name),
        _ => name,
    })
}

/// Returns the canonical name in the answer of `getent ahosts`: the third word of the first line.
fn canonical(answer: &str) -> Option<String> {
    answer.lines().next()?.split_whitespace().nth(2).map(str::to_owned)
}

fn full_domain(name: &str) -> Option<String> {
    let (_, domain) = name.split_once('.')?;
    Some(domain.to_owned()).filter(|domain| !domain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_that_of_the_canonical_name() {
        let answer = "192.0.2.1       STREAM client.a.test\n192.0.2.1       DGRAM\n";
        assert_eq!(canonical(answer).as_deref(), Some("client.a.test"));
        assert_eq!(full_domain("client.a.test").as_deref(), Some("a.test"));
        assert_eq!((full_domain("client"), full_domain("client."), canonical("")), (None, None, None));
    }

    #[test]
    fn a_name_that_a_server_chooses_is_one_word_of_the_remedy() {
        let remedy = |name| unknown(name, "/data").remedy;
        assert!(remedy("alice").starts_with("getent passwd -- alice    #"));
        assert!(remedy("root X; touch pwn").starts_with("getent passwd -- 'root X; touch pwn'    #"));
        assert!(remedy("a'$(x)").starts_with(r"getent passwd -- 'a'\''$(x)'    #"));
    }
}
