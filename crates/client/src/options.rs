//! The options of a client: server, credentials, limits and timeouts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gss::Credential;
use rpc::gss::RpcGssServiceT;

/// The TCP port of NFSv4.
pub const NFS_PORT: u16 = 2049;

/// A security flavor as `mount -o sec=` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flavor {
    /// AUTH_SYS: the server trusts the user and group ids that the client sends.
    Sys,
    /// Kerberos with signed call headers.
    Krb5,
    /// Kerberos with integrity: headers and arguments are signed.
    Krb5i,
    /// Kerberos with privacy: arguments are encrypted.
    Krb5p,
}

impl Flavor {
    /// All flavors, ordered by cost, the cheapest first.
    pub const ALL: [Self; 4] = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p];

    /// Returns the name: `sys`, `krb5`, `krb5i`, `krb5p`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }

    /// Returns the RPCSEC_GSS service, or `None` for AUTH_SYS.
    pub const fn service(self) -> Option<RpcGssServiceT> {
        match self {
            Self::Sys => None,
            Self::Krb5 => Some(RpcGssServiceT::rpc_gss_svc_none),
            Self::Krb5i => Some(RpcGssServiceT::rpc_gss_svc_integrity),
            Self::Krb5p => Some(RpcGssServiceT::rpc_gss_svc_privacy),
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Flavor {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|flavor| flavor.name() == name);
        found.ok_or_else(|| format!("`{name}` is no flavor; there are sys, krb5, krb5i and krb5p"))
    }
}

/// The credential of calls and their protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// AUTH_NONE: calls carry no credential.
    None,
    /// AUTH_SYS credential (RFC 5531 appendix A).
    Sys(SysCredential),
    /// RPCSEC_GSS with a Kerberos context.
    Gss(GssCredential),
}

/// The contents of an AUTH_SYS credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysCredential {
    /// The client's name for its machine.
    pub machine_name: String,
    /// Numeric id of the user.
    pub uid: u32,
    /// Numeric id of the primary group.
    pub gid: u32,
    /// Supplementary groups, of which the first 16 are sent.
    pub gids: Vec<u32>,
}

/// The credential from which Kerberos contexts are established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssCredential {
    /// The service, such as `nfs@server.example.org`.
    pub target: String,
    /// The tickets of the user.
    pub credential: Credential,
    /// The service of the calls.
    pub service: RpcGssServiceT,
}

impl Security {
    /// Returns AUTH_SYS with the ids of this process.
    pub fn sys() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self::Sys(SysCredential {
            machine_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            gids: groups.into_iter().map(|group| group.as_raw()).collect(),
        })
    }

    /// Returns AUTH_SYS for another user.
    pub fn sys_as(uid: u32, gid: u32) -> Self {
        Self::Sys(SysCredential { machine_name: "client".to_owned(), uid, gid, gids: Vec::new() })
    }

    /// Returns Kerberos to the NFS service of `host`, or AUTH_SYS with the ids of this process for
    /// [`Flavor::Sys`].
    pub fn of(flavor: Flavor, host: &str, credential: Credential) -> Self {
        match flavor.service() {
            None => Self::sys(),
            Some(service) => Self::Gss(GssCredential { target: format!("nfs@{host}"), credential, service }),
        }
    }
}

/// The protection of the client's state (RFC 8881 section 2.10.8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateProtection {
    /// SP4_NONE: state is not protected.
    #[default]
    None,
    /// SP4_MACH_CRED: the client must use RPCSEC_GSS, with at least integrity for calls about its
    /// state.
    MachineCredential,
}

/// All settings of a [`Client`](crate::Client).
#[derive(Clone, Debug)]
pub struct Options {
    /// Host name or IP address of the server.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// The address of this machine to connect from; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// The identity of all calls.
    pub security: Security,
    /// Protection of the client's state.
    pub state_protection: StateProtection,
    /// Number of connections of the session.
    pub connections: usize,
    /// The minor version, 1 or 2.
    pub minor_version: u32,
    /// `co_ownerid`, which identifies this client across restarts. Random if `None`, so that
    /// several clients on one machine do not discard each other's state.
    pub owner: Option<Vec<u8>>,
    /// Number of slots to request.
    pub slots_max: u32,
    /// The largest READ or WRITE, in bytes; the server may grant less.
    pub io_size_max: u32,
    /// The longest accepted record, in bytes.
    pub record_size_max: usize,
    /// The time limit of one connection attempt.
    pub connect_timeout: Duration,
    /// The time limit of a call, reconnects included.
    pub call_timeout: Duration,
    /// The delay before the first reconnect; it doubles with each attempt.
    pub backoff: Duration,
    /// The longest delay between two reconnects.
    pub backoff_max: Duration,
    /// The time after which the client stops reconnecting.
    pub reconnect_max: Duration,
    /// The time for which blocking helpers retry after NFS4ERR_DELAY or NFS4ERR_GRACE.
    pub delay_max: Duration,
    /// Once it is set, blocking helpers retry for at most a second, so that an interrupted program
    /// does not wait for the end of a grace period.
    pub stop: Option<Arc<AtomicBool>>,
    /// Whether to send RECLAIM_COMPLETE at once. Without it OPEN fails with NFS4ERR_GRACE.
    pub reclaim_complete: bool,
    /// Holds connections back at random while up to this many calls use the others, so that calls
    /// arrive out of sequence order, for tests of servers.
    pub lag_max: Option<u32>,
    /// Whether each connection also serves as backchannel. Delegations need this.
    pub backchannel: bool,
    /// The service of callbacks by RPCSEC_GSS, on the Kerberos context. Callbacks use
    /// AUTH_NONE if `None`.
    pub callback_service: Option<RpcGssServiceT>,
}

impl Options {
    /// Returns options for NFSv4.1 to `host` over one connection with 64 slots and 1 MiB I/O.
    pub fn new(host: impl Into<String>, security: Security) -> Self {
        Self {
            host: host.into(),
            port: NFS_PORT,
            source: None,
            security,
            state_protection: StateProtection::None,
            connections: 1,
            minor_version: 1,
            owner: None,
            slots_max: 64,
            io_size_max: 1 << 20,
            record_size_max: 4 << 20,
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(60),
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            reconnect_max: Duration::from_secs(60),
            delay_max: Duration::from_secs(120),
            stop: None,
            reclaim_complete: true,
            lag_max: None,
            backchannel: false,
            callback_service: None,
        }
    }

    /// Sets the TCP port of the server.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the number of connections, as the mount option nconnect does.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }
}
