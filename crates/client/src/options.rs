//! What a client is told when it is made.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gss::Credential;
use rpc::gss::RpcGssServiceT;

/// The port of NFSv4.
pub const NFS_PORT: u16 = 2049;

/// A security flavor as `mount -o sec=` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flavor {
    /// AUTH_SYS: numbers that nothing vouches for.
    Sys,
    /// Kerberos, the head of each call signed.
    Krb5,
    /// Kerberos, all signed.
    Krb5i,
    /// Kerberos, all encrypted.
    Krb5p,
}

impl Flavor {
    /// All flavors, the cheapest first.
    pub const ALL: [Self; 4] = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p];

    /// The name: `sys`, `krb5`, `krb5i`, `krb5p`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }

    /// The service of RPCSEC_GSS; `None` for AUTH_SYS.
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

/// Who calls, and how calls are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS (RFC 5531 appendix A).
    Sys(SysCredential),
    /// RPCSEC_GSS with Kerberos.
    Gss(GssCredential),
}

/// What an AUTH_SYS credential says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysCredential {
    /// The client's name for its machine.
    pub machine_name: String,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups, of which the first 16 are sent.
    pub gids: Vec<u32>,
}

/// Where a Kerberos context comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssCredential {
    /// The service, `nfs@server.example.org`.
    pub target: String,
    /// The tickets.
    pub credential: Credential,
    /// The service of calls that do not ask for another one.
    pub service: RpcGssServiceT,
}

impl Security {
    /// AUTH_SYS with the ids of this process.
    pub fn sys() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self::Sys(SysCredential {
            machine_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            gids: groups.into_iter().map(|group| group.as_raw()).collect(),
        })
    }

    /// AUTH_SYS as another user.
    pub fn sys_as(uid: u32, gid: u32) -> Self {
        Self::Sys(SysCredential { machine_name: "client".to_owned(), uid, gid, gids: Vec::new() })
    }

    /// Kerberos to the NFS service of `host`, or AUTH_SYS with the ids of this process for
    /// [`Flavor::Sys`].
    pub fn of(flavor: Flavor, host: &str, credential: Credential) -> Self {
        match flavor.service() {
            None => Self::sys(),
            Some(service) => Self::Gss(GssCredential { target: format!("nfs@{host}"), credential, service }),
        }
    }
}

/// How the client's state is protected (RFC 8881 section 2.10.8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateProtection {
    /// SP4_NONE.
    #[default]
    None,
    /// SP4_MACH_CRED: the machine's identity must use RPCSEC_GSS; it is called with integrity at
    /// least.
    MachineCredential,
}

/// All that a [`Client`](crate::Client) is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The user: the identity of calls that do not ask for another one.
    pub security: Security,
    /// The machine: the identity of EXCHANGE_ID, CREATE_SESSION and the like; the user's if `None`.
    pub machine: Option<Security>,
    /// Protection of the client's state.
    pub state_protection: StateProtection,
    /// Connections of the session.
    pub connections: usize,
    /// The minor version, 1 or 2.
    pub minor_version: u32,
    /// `co_ownerid`: who this client is, the same after a restart of it. Random if `None`, so that
    /// several clients on one machine do not take each other's state away.
    pub owner: Option<Vec<u8>>,
    /// Slots to ask for.
    pub slots_max: u32,
    /// The largest READ or WRITE, in bytes; the server may grant less.
    pub io_size_max: u32,
    /// The longest record that is accepted, in bytes.
    pub record_size_max: usize,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// How long a call may take, reconnects included.
    pub call_timeout: Duration,
    /// The wait before the first attempt to connect again; it doubles with each.
    pub backoff: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
    /// How long to go on trying to connect again.
    pub reconnect_max: Duration,
    /// How long blocking helpers repeat what the server answers with NFS4ERR_DELAY or
    /// NFS4ERR_GRACE.
    pub delay_max: Duration,
    /// Whether to send RECLAIM_COMPLETE at once. Without it opens are refused with NFS4ERR_GRACE.
    pub reclaim_complete: bool,
    /// Holds connections back at random while up to this many calls go over the others, so that
    /// calls arrive in another order than that of their sequence numbers: for tests of servers.
    pub lag_max: Option<u32>,
    /// Whether to bind each further connection with BIND_CONN_TO_SESSION even where that is not
    /// required.
    pub bind_always: bool,
    /// Whether the server may call the client back over each of its connections, so that there can
    /// be delegations.
    pub backchannel: bool,
    /// How it is to call: by the machine's Kerberos context and with this service, else with
    /// AUTH_NONE.
    pub callback_service: Option<RpcGssServiceT>,
}

impl Options {
    /// One connection with 64 slots and 1 MiB I/O to `host` as NFSv4.1.
    pub fn new(host: impl Into<String>, security: Security) -> Self {
        Self {
            host: host.into(),
            port: NFS_PORT,
            security,
            machine: None,
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
            reclaim_complete: true,
            lag_max: None,
            bind_always: false,
            backchannel: false,
            callback_service: None,
        }
    }

    /// Sets the port.
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
