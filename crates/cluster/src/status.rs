//! The state of a running lab, seen from outside.

use crate::network::{LabMachine, node_address, node_name};
use crate::processes::{self, Process};
use crate::{LabFolder, LabRecord};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;

/// The port of NFS, as /proc/net/tcp writes it.
const NFS_PORT: &str = "0801";
/// A connection that is established, as /proc/net/tcp writes it.
const ESTABLISHED: &str = "01";

/// A machine or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Its address in its own network.
    pub address: Ipv4Addr,
    /// The process that makes it, outside; `None` when it has ended. The head node has none: its
    /// rules are the kernel's.
    pub pid: Option<u32>,
    /// Resident memory of that process in KiB.
    pub resident_kib: u64,
    /// The flavors that a node has mounted the server with.
    pub mounted: Vec<String>,
}

/// The state of a lab and its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabStatus {
    /// KDC, server, name service.
    pub machines: Vec<Part>,
    /// The compute nodes in order.
    pub nodes: Vec<Part>,
    /// Connections that the server has, by the address that it sees.
    pub peers: BTreeMap<Ipv4Addr, usize>,
    /// Clients that the server knows (RFC 8881 section 2.4), if it tells.
    pub clients: Option<u64>,
    /// Processes of the lab in all.
    pub processes: usize,
}

/// Looks at a lab that is up.
pub fn status(folder: &LabFolder, record: &LabRecord) -> LabStatus {
    let all = record.supervisor.map(processes::all).unwrap_or_default();
    let server = pid_of(&all, LabMachine::Server.name());
    let machines = [LabMachine::Kdc, LabMachine::Server, LabMachine::Names]
        .map(|machine| part(&all, machine.name().to_owned(), machine.address()));
    let nodes = (1..=record.options.nodes).map(|number| {
        let mut node = part(&all, node_name(number), node_address(number));
        node.mounted = mounted(folder, &node.name);
        node
    });
    LabStatus {
        machines: machines.into(),
        nodes: nodes.collect(),
        peers: server.map(peers).unwrap_or_default(),
        clients: server.and_then(|pid| clients(folder, pid)),
        processes: all.len(),
    }
}

/// Returns the process of a machine or node: the first of its kind.
pub(crate) fn pid_of(all: &[Process], name: &str) -> Option<u32> {
    let umid = format!("umid={name}");
    let is = |process: &&Process| {
        let command = &process.command;
        let program = command.first().map(String::as_str).unwrap_or_default();
        match name {
            "kdc" => program.ends_with("krb5kdc"),
            "names" => program.ends_with("dnsmasq"),
            "server" => command.get(1).is_some_and(|word| word == "serve"),
            _ => command.contains(&umid),
        }
    };
    all.iter().filter(is).map(|process| process.pid).min()
}

fn part(all: &[Process], name: String, address: Ipv4Addr) -> Part {
    let pid = pid_of(all, &name);
    let resident_kib = pid.and_then(bench::resident_kib).unwrap_or(0);
    Part { name, address, pid, resident_kib, mounted: Vec::new() }
}

fn mounted(folder: &LabFolder, node: &str) -> Vec<String> {
    let log = fs::read(folder.share().join("nodes").join(node).join("log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    log.lines().filter_map(|line| line.strip_prefix("mounted ")).map(str::to_owned).collect()
}

fn peers(server: u32) -> BTreeMap<Ipv4Addr, usize> {
    let mut peers = BTreeMap::new();
    for (address, _) in
        connections(&fs::read_to_string(format!("/proc/{server}/net/tcp")).unwrap_or_default())
    {
        *peers.entry(address).or_default() += 1;
    }
    peers
}

/// Returns the far ends of the connections to the server, from the text of /proc/net/tcp.
fn connections(tcp: &str) -> BTreeSet<(Ipv4Addr, u16)> {
    let far_end = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, port) = local.split_once(':')?;
        let (address, remote_port) = remote.split_once(':')?;
        // The address is a number of this machine's byte order.
        let address = Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?.to_ne_bytes());
        let remote_port = u16::from_str_radix(remote_port, 16).ok()?;
        (port == NFS_PORT && state == ESTABLISHED).then_some((address, remote_port))
    };
    tcp.lines().filter_map(far_end).collect()
}

/// Asks the server for its counters, which it logs, and takes the number of clients from them.
fn clients(folder: &LabFolder, server: u32) -> Option<u64> {
    let counters = bench::counters::of_server(server, &folder.log(LabMachine::Server.name())).ok()?;
    counters.get("clients").copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn established_connections_to_the_server_are_found() {
        // 10.77.1.3:2049, its listening socket, one connection from 10.77.1.1:700 and one of
        // another port.
        let tcp = "  sl  local_address rem_address   st tx_queue
   0: 03014D0A:0801 00000000:0000 0A 0
   1: 03014D0A:0801 01014D0A:02BC 01 0
   2: 03014D0A:0058 01014D0A:02BD 01 0
   3: 03014D0A:0801 01014D0A:02BE 06 0\n";
        let found: Vec<_> = connections(tcp).into_iter().collect();
        if cfg!(target_endian = "little") {
            assert_eq!(found, [(Ipv4Addr::new(10, 77, 1, 1), 700)]);
        }
    }

    #[test]
    fn processes_are_known_by_their_commands() {
        let process =
            |pid, command: &str| Process { pid, command: command.split(' ').map(str::to_owned).collect() };
        let all = [
            process(5, "/bin/orthrus serve --config /l/server.toml"),
            process(7, "/usr/sbin/krb5kdc -r R"),
            process(9, "linux.uml umid=node1"),
            process(8, "linux.uml umid=node1"),
            process(10, "linux.uml umid=node11"),
        ];
        assert_eq!(pid_of(&all, "server"), Some(5));
        assert_eq!(pid_of(&all, "kdc"), Some(7));
        assert_eq!(pid_of(&all, "node1"), Some(8));
        assert_eq!(pid_of(&all, "names"), None);
    }
}
