//! The rules of an export: which clients it admits, and on which terms.

use crate::{Caller, Network};
use std::{
    cell::Cell,
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

/// Most rules of an export.
pub const RULES_MAX: usize = 1000;

/// The reason why a text names no part of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not the name of a flavor.
    #[error("{0:?} is not a security flavor; allowed are sys, krb5, krb5i and krb5p")]
    Flavor(String),
    /// Not the name of a squash rule.
    #[error("{0:?} is not a squash rule; allowed are none, root and all")]
    Squash(String),
}

/// The first source port that any program may use. Lower ports need a privilege (RFC 6335 section
/// 6).
pub(crate) const UNPRIVILEGED_PORT: u16 = 1024;
/// The user and group `nobody` of Linux, the default for squashed callers.
pub const ANON_ID: u32 = 65534;

/// A security flavor as an administrator names it (`sys`, `krb5`, `krb5i`, `krb5p`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecFlavor {
    /// AUTH_SYS: the client's word.
    Sys,
    /// RPCSEC_GSS with Kerberos, headers protected (rpc_gss_svc_none).
    Krb5,
    /// As `Krb5`, with integrity of the data (rpc_gss_svc_integrity).
    Krb5i,
    /// As `Krb5i`, encrypted (rpc_gss_svc_privacy).
    Krb5p,
}

impl SecFlavor {
    /// All flavors, strongest first.
    pub const ALL: [Self; 4] = [Self::Krb5p, Self::Krb5i, Self::Krb5, Self::Sys];
    /// The flavors that authenticate the caller, strongest first: the default of an export.
    pub const KERBEROS: [Self; 3] = [Self::Krb5p, Self::Krb5i, Self::Krb5];

    /// Returns the name as in `sec=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }
}

impl fmt::Display for SecFlavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SecFlavor {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let found = Self::ALL.into_iter().find(|flavor| flavor.name() == text);
        found.ok_or_else(|| RuleError::Flavor(text.to_owned()))
    }
}

/// The callers whose identity the export replaces by its anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Squash {
    /// No caller is squashed.
    None,
    /// User 0 and group 0 only.
    #[default]
    Root,
    /// Every caller is squashed.
    All,
}

impl Squash {
    /// Every rule, for tables and parsers.
    pub const ALL: [Self; 3] = [Self::None, Self::Root, Self::All];

    /// Returns the rule's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Root => "root",
            Self::All => "all",
        }
    }
}

impl FromStr for Squash {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let found = Self::ALL.into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| RuleError::Squash(text.to_owned()))
    }
}

/// The client of a call, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct ClientPeer {
    /// Its address and port.
    pub address: SocketAddr,
    /// The time of the call since the server's start.
    pub now: Duration,
}

impl ClientPeer {
    /// Returns the address without the port.
    pub fn ip(self) -> IpAddr {
        self.address.ip()
    }

    /// Returns whether any program of the client may use the port.
    fn is_unprivileged(self) -> bool {
        self.address.port() >= UNPRIVILEGED_PORT
    }
}

/// Clients that have a name: a host, hosts with a common part of their names, or a netgroup.
pub trait NamedClients: fmt::Debug + fmt::Display + Send + Sync {
    /// Returns whether the address is one of these clients at the time `now`; `None` while that is
    /// unknown. Never blocks.
    fn contains(&self, client: IpAddr, now: Duration) -> Option<bool>;

    /// Waits until it is known whether the address is one of these clients, at most as long as
    /// `left`, and subtracts the time that has passed. Returns whether it is known.
    fn resolve(&self, client: IpAddr, now: Duration, left: &Cell<Duration>) -> bool;

    /// Returns whether any address can get a name that belongs to these clients.
    fn is_open_ended(&self) -> bool {
        false
    }

    /// Describes the names that the address has, for the log; `None` if they are of no use here.
    fn known_as(&self, _client: IpAddr, _now: Duration) -> Option<String> {
        None
    }
}

/// A decision needs to know whether a client has this name, which is not known yet.
#[derive(Clone, Debug)]
pub struct Unresolved(pub Arc<dyn NamedClients>);

/// One entry of a rule's list of clients.
#[derive(Clone, Debug)]
pub enum RuleClient {
    /// Every client, whatever its address.
    Any,
    /// The clients of a network.
    Network(Network),
    /// Clients that have a name.
    Named(Arc<dyn NamedClients>),
}

impl fmt::Display for RuleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Network(network) => network.fmt(f),
            Self::Named(clients) => clients.fmt(f),
        }
    }
}

/// The terms of an export for some of its clients.
#[derive(Clone, Debug)]
pub struct ExportRule {
    /// The clients to which it applies.
    pub clients: Vec<RuleClient>,
    /// Allowed flavors in order of preference, not empty.
    pub flavors: Vec<SecFlavor>,
    /// Whether `sys` requires a source port below [`UNPRIVILEGED_PORT`]. A host that reserves these
    /// ports for privileged programs then speaks for its users, and no user speaks for others.
    /// RPCSEC_GSS authenticates the caller, so that the port does not matter.
    pub secure: bool,
    /// Whether changes are refused with NFS4ERR_ROFS.
    pub read_only: bool,
    /// The callers whose identity is replaced.
    pub squash: Squash,
    /// User for squashed and unknown callers.
    pub anon_uid: u32,
    /// Group for squashed and unknown callers.
    pub anon_gid: u32,
}

impl Default for ExportRule {
    /// All clients, Kerberos, changes allowed, root squashed to [`ANON_ID`]. `secure` is on, for
    /// the time when somebody adds `sys`.
    fn default() -> Self {
        Self {
            clients: vec![RuleClient::Any],
            flavors: SecFlavor::KERBEROS.to_vec(),
            secure: true,
            read_only: false,
            squash: Squash::default(),
            anon_uid: ANON_ID,
            anon_gid: ANON_ID,
        }
    }
}

impl ExportRule {
    /// Returns whether the rule begins with all clients.
    #[inline]
    pub(crate) fn is_for_all(&self) -> bool {
        matches!(self.clients[..], [RuleClient::Any, ..])
    }

    /// Returns whether the rule names a client.
    ///
    /// # Errors
    /// The name that must be looked up first, if the rule does not name the client without it.
    pub fn names(&self, peer: ClientPeer) -> Result<bool, Unresolved> {
        let mut unresolved = None;
        for client in &self.clients {
            let named = match client {
                RuleClient::Any => Some(true),
                RuleClient::Network(network) => Some(network.contains(peer.ip())),
                RuleClient::Named(clients) => {
                    let known = clients.contains(peer.ip(), peer.now);
                    if known.is_none() && unresolved.is_none() {
                        unresolved = Some(Unresolved(clients.clone()));
                    }
                    known
                }
            };
            if named == Some(true) {
                return Ok(true);
            }
        }
        unresolved.map_or(Ok(false), Err)
    }

    /// Returns the flavors that a caller may use from its port, in order of preference. May be
    /// empty: `sys` alone, and a port that any program may use.
    #[inline]
    pub fn flavors_for(&self, peer: ClientPeer) -> impl Iterator<Item = SecFlavor> + '_ {
        let insecure = self.secure && peer.is_unprivileged();
        self.flavors.iter().copied().filter(move |flavor| !(insecure && *flavor == SecFlavor::Sys))
    }

    /// Returns whether a caller may use the flavor from its port.
    #[inline]
    pub fn allows(&self, flavor: SecFlavor, peer: ClientPeer) -> bool {
        self.flavors_for(peer).any(|usable| usable == flavor)
    }

    /// Returns the user for callers without an identity.
    pub fn anonymous(&self) -> Caller {
        Caller { uid: self.anon_uid, gid: self.anon_gid, groups: [].into() }
    }

    /// Returns the caller that the backend sees: the authenticated one (by Kerberos or AUTH_SYS)
    /// after squashing; `None` (AUTH_NONE, a principal without account) is the anonymous user.
    ///
    /// With `Squash::Root` user 0 becomes the anonymous user without groups, and group 0 of other
    /// users becomes the anonymous group.
    pub fn squash(&self, caller: Option<&Caller>) -> Caller {
        match self.unsquashed(caller) {
            None => self.anonymous(),
            Some(caller) if self.squash == Squash::Root => self.squash_group_zero(caller),
            Some(caller) => caller.clone(),
        }
    }

    /// Returns the user of [`ExportRule::squash`] alone.
    pub fn squash_uid(&self, caller: Option<&Caller>) -> u32 {
        self.unsquashed(caller).map_or(self.anon_uid, |caller| caller.uid)
    }

    /// Returns the caller, where that is not the anonymous user here.
    fn unsquashed<'c>(&self, caller: Option<&'c Caller>) -> Option<&'c Caller> {
        caller.filter(|caller| match self.squash {
            Squash::None => true,
            Squash::Root => caller.uid != 0,
            Squash::All => false,
        })
    }

    fn squash_group_zero(&self, caller: &Caller) -> Caller {
        let anon = |gid: u32| if gid == 0 { self.anon_gid } else { gid };
        let groups = if caller.groups.contains(&0) {
            caller.groups.iter().copied().map(anon).collect()
        } else {
            Arc::clone(&caller.groups)
        };
        Caller { uid: caller.uid, gid: anon(caller.gid), groups }
    }
}

/// The place of a rule among the rules of its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleIndex(u16);

impl RuleIndex {
    /// The rule that is written first in its export.
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) fn of(index: usize) -> Option<Self> {
        u16::try_from(index).ok().map(Self)
    }

    /// Returns the rule. An index of another export's rules gives a rule without clients or
    /// flavors.
    #[inline]
    pub(crate) fn find(self, rules: &[ExportRule]) -> &ExportRule {
        static NO_TERMS: ExportRule = ExportRule {
            clients: Vec::new(),
            flavors: Vec::new(),
            secure: true,
            read_only: true,
            squash: Squash::All,
            anon_uid: ANON_ID,
            anon_gid: ANON_ID,
        };
        rules.get(usize::from(self.0)).unwrap_or(&NO_TERMS)
    }

    /// Returns the number of the rule, from 1.
    pub fn number(self) -> u16 {
        self.0.saturating_add(1)
    }
}
