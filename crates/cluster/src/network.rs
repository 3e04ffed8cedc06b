//! The machines of the lab, their names and addresses.

use std::net::Ipv4Addr;

/// The domain of all names.
pub(crate) const DOMAIN: &str = "orthrus.test";
/// The realm of all principals.
pub(crate) const REALM: &str = "ORTHRUS.TEST";
/// The length of both networks' prefixes.
pub(crate) const PREFIX: u8 = 24;
/// The head node, as the enterprise sees it: the address of all that the nodes send.
pub(crate) const HEAD_OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
/// The head node, as the cluster sees it: the nodes' way out.
pub(crate) const HEAD_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
/// Address of the cluster's network.
pub(crate) const CLUSTER: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 0);
/// The last byte of a node's address is its number more than this.
const NODE_BASE: u8 = 10;

/// A machine that is a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabMachine {
    /// The KDC of the realm.
    Kdc,
    /// The NFS server of the enterprise.
    Server,
    /// The name service of the enterprise.
    Names,
    /// The head node of the cluster, with a foot in both networks.
    Head,
}

impl LabMachine {
    /// All machines except the nodes.
    pub const ALL: [Self; 4] = [Self::Kdc, Self::Server, Self::Names, Self::Head];

    /// Returns the machine's name, without the domain.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kdc => "kdc",
            Self::Server => "server",
            Self::Names => "names",
            Self::Head => "head",
        }
    }

    /// Returns its address in the enterprise.
    pub fn address(self) -> Ipv4Addr {
        match self {
            Self::Kdc => Ipv4Addr::new(10, 77, 1, 2),
            Self::Server => Ipv4Addr::new(10, 77, 1, 3),
            Self::Names => Ipv4Addr::new(10, 77, 1, 4),
            Self::Head => HEAD_OUTSIDE,
        }
    }

    /// Finds a machine by its name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.name() == name)
    }
}

/// Returns the name of a node, counted from 1, without the domain.
pub fn node_name(number: u8) -> String {
    format!("node{number}")
}

/// Returns the address of a node, which is hidden outside the cluster.
pub fn node_address(number: u8) -> Ipv4Addr {
    let [a, b, c, _] = CLUSTER.octets();
    Ipv4Addr::new(a, b, c, NODE_BASE.saturating_add(number))
}

/// Returns a name with the domain.
pub(crate) fn full(name: &str) -> String {
    format!("{name}.{DOMAIN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_and_node_has_an_address_of_its_own() {
        let mut all: Vec<Ipv4Addr> = LabMachine::ALL.iter().map(|machine| machine.address()).collect();
        all.push(HEAD_INSIDE);
        all.extend((1..=32).map(node_address));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn machines_are_found_by_name() {
        assert_eq!(LabMachine::of_name("kdc"), Some(LabMachine::Kdc));
        assert_eq!(LabMachine::of_name("node1"), None);
    }
}
