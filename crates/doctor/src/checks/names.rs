//! Name resolution in both directions.

use std::net::{IpAddr, ToSocketAddrs};
use std::process::Command;

use super::outcome;
use crate::facts::Facts;
use crate::machine::within;
use crate::tool::{ToolResult, run as run_tool};
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let host = facts.target.host.clone();
    let port = facts.target.port;
    let name = host.clone();
    let resolved = within(facts.machine.limit, move || (name.as_str(), port).to_socket_addrs());
    let addresses = match resolved {
        None => Err("the resolver does not answer".to_owned()),
        Some(Err(error)) => Err(error.to_string().replace("failed to lookup address information: ", "")),
        Some(Ok(addresses)) => Ok(addresses.map(|address| address.ip()).collect::<Vec<_>>()),
    };
    if let Ok(addresses) = &addresses {
        facts.addresses.clone_from(addresses);
        facts.addresses.dedup();
        facts.reverse = facts.addresses.iter().find_map(|address| reverse(facts, *address));
    }
    judge(&host, &addresses, facts)
}

/// Returns the name of an address, by the system's name service.
fn reverse(facts: &Facts, address: IpAddr) -> Option<String> {
    let mut command = Command::new("getent");
    match run_tool(command.args(["hosts", &address.to_string()]), facts.machine.limit) {
        ToolResult::Done(text) => text.split_whitespace().nth(1).map(str::to_owned),
        _ => None,
    }
}

fn judge(host: &str, addresses: &Result<Vec<IpAddr>, String>, facts: &Facts) -> CheckOutcome {
    let fix = format!("getent ahosts {host}    # then correct DNS, or add the name to /etc/hosts");
    let addresses = match addresses {
        Ok(addresses) if !addresses.is_empty() => addresses,
        Ok(_) => return outcome(vec![HealthFinding::error(format!("{host} has no address."), fix)], ""),
        Err(why) => {
            let cause = format!("The name {host} cannot be resolved ({why}).");
            let own = facts.server.is_some();
            let finding =
                if own { HealthFinding::warning(cause, fix) } else { HealthFinding::error(cause, fix) };
            return outcome(vec![finding], "");
        }
    };
    let mut findings = Vec::new();
    let first = addresses.first().map(ToString::to_string).unwrap_or_default();
    let by_address = host.parse::<IpAddr>().is_ok() || !host.contains('.');
    if facts.reverse.is_none() && by_address && facts.kerberos() {
        let cause =
            format!("The address {first} has no name, which rpc.gssd needs to find the principal of {host}.");
        findings
            .push(HealthFinding::error(cause, "mount by the full name of the server, or add a PTR record"));
    }
    let name = facts.reverse.as_deref().unwrap_or("no name");
    outcome(findings, format!("{host} is {first}, which is {name}"))
}
