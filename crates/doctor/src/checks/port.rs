//! The TCP port of the server.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

/// Addresses that are tried.
const ADDRESSES_MAX: usize = 8;

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    let limit = facts.machine.limit;
    let port = facts.target.port;
    let mut failures: Vec<(IpAddr, ErrorKind, String)> = Vec::new();
    let own: Vec<IpAddr> = facts.machine.listens.into_iter().collect();
    let addresses = if own.is_empty() { &facts.addresses } else { &own };
    for ip in addresses.iter().take(ADDRESSES_MAX) {
        let address = SocketAddr::new(*ip, port);
        match TcpStream::connect_timeout(&address, limit) {
            Ok(_) => {
                facts.address = Some(address);
                break;
            }
            Err(error) => failures.push((*ip, error.kind(), error.to_string())),
        }
    }
    judge(facts, &failures)
}

fn judge(facts: &Facts, failures: &[(IpAddr, ErrorKind, String)]) -> CheckOutcome {
    let (host, port) = (&facts.target.host, facts.target.port);
    let silent = |kind: &ErrorKind| matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock);
    if let Some(address) = facts.address {
        let slow = failures.iter().filter(|(_, kind, _)| silent(kind)).map(|(ip, ..)| {
            let cause = format!("The address {ip} of {host} does not answer, and mounts may wait for it.");
            HealthFinding::warning(
                cause,
                format!("remove {ip} from the name {host}, or open port {port} there"),
            )
        });
        return outcome(slow.collect(), format!("{address} accepts connections"));
    }
    let finding = match failures.last() {
        Some((ip, kind, _)) if silent(kind) => HealthFinding::error(
            format!(
                "Port {port} of {host} ({ip}) does not answer; a firewall drops the packets, or the machine is down."
            ),
            format!("nft list ruleset    # on {host}: accept tcp dport {port}"),
        ),
        Some((ip, ErrorKind::ConnectionRefused, _)) => HealthFinding::error(
            format!("Nothing listens on port {port} of {host} ({ip})."),
            match facts.server {
                Some(_) => "systemctl start orthrus".to_owned(),
                None => format!("systemctl start orthrus    # on {host}; or mount with port="),
            },
        ),
        Some((ip, _, why)) => HealthFinding::error(
            format!("Port {port} of {host} ({ip}) cannot be reached: {why}."),
            format!("ip route get {ip}"),
        ),
        None => HealthFinding::error(
            format!("{host} has no address to connect to."),
            format!("getent ahosts {host}"),
        ),
    };
    outcome(vec![finding], "")
}
