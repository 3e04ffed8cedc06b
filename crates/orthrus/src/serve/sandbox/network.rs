//! Landlock's limits of the sandbox: TCP ports, signals and abstract sockets.

use crate::config::{ExportSettings, Settings, Storage};
use landlock::{
    ABI, AccessNet, BitFlags, LandlockStatus, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use std::fmt;

/// Ports of name services: DNS, Kerberos, and LDAP with its global catalogues.
const NAME_SERVICES: [u16; 6] = [53, 88, 389, 636, 3268, 3269];

/// The limits that the kernel has taken.
#[derive(Debug)]
pub(super) struct NetworkLimits {
    /// The TCP connections that are allowed, in words.
    connections: &'static str,
    /// The parts of other processes that are out of reach, in words.
    scopes: &'static str,
}

/// Denies this thread to bind further TCP ports and to connect to other ports than those of
/// directories, and where the kernel can, signals and abstract sockets of other processes. Returns
/// `None` where the kernel cannot.
pub(super) fn restrict(settings: &Settings, abstract_sockets: bool) -> Option<NetworkLimits> {
    let status = apply(settings, abstract_sockets).ok()?;
    let LandlockStatus::Available { effective_abi, .. } = status.landlock else { return None };
    let in_force = status.ruleset != RulesetStatus::NotEnforced && effective_abi >= ABI::V4;
    let scopes = match abstract_sockets {
        _ if effective_abi < ABI::V6 => "",
        true => ", no signals to others",
        false => ", no signals to others, no abstract sockets of others",
    };
    let connections = match uses_ceph(settings) {
        true => "no further TCP ports",
        false => "TCP connections to directories alone",
    };
    in_force.then_some(NetworkLimits { connections, scopes })
}

fn apply(settings: &Settings, abstract_sockets: bool) -> Result<landlock::RestrictionStatus, RulesetError> {
    let mut scopes = BitFlags::from(Scope::Signal);
    scopes.set(Scope::AbstractUnixSocket, !abstract_sockets);
    // The daemons of a Ceph cluster listen at any ports, and at others tomorrow.
    if uses_ceph(settings) {
        return Ruleset::default()
            .handle_access(AccessNet::BindTcp)?
            .scope(scopes)?
            .create()?
            .restrict_self();
    }
    let handled =
        Ruleset::default().handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?.scope(scopes)?;
    let mut ruleset = handled.create()?;
    for port in reachable(settings) {
        ruleset = ruleset.add_rule(NetPort::new(port, BitFlags::from(AccessNet::ConnectTcp)))?;
    }
    ruleset.restrict_self()
}

/// Returns whether the process is a client of a Ceph cluster.
pub(super) fn uses_ceph(settings: &Settings) -> bool {
    let is_ceph = |export: &ExportSettings| matches!(export.storage, Storage::Ceph(_));
    settings.cluster.is_some() || settings.exports.iter().any(is_ceph)
}

/// Returns the TCP ports that the process may connect to.
pub(super) fn reachable(settings: &Settings) -> Vec<u16> {
    let mut ports = NAME_SERVICES.to_vec();
    ports.extend(settings.identity.sources.iter().flat_map(|source| source.ports()));
    ports.sort_unstable();
    ports.dedup();
    ports
}

impl fmt::Display for NetworkLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.connections, self.scopes)
    }
}
