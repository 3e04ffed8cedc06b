//! Everything that a client can make the server remember has a limit here.

use std::time::Duration;

/// Bounds the memory and the time that clients can claim.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long state lives without a SEQUENCE (RFC 8881 section 8.3). Default 60 s.
    pub lease: Duration,
    /// How long recorded clients may reclaim after a restart (RFC 8881 section 8.4.2). Default: the
    /// lease, since an idle client notices the restart only at its next renewal. It ends early when
    /// all have reclaimed.
    pub grace: Duration,
    /// How long beyond its lease a client keeps state without a conflict (RFC 8881 section 8.4.3).
    /// Default: a day.
    pub courtesy_max: Duration,
    /// Client records, confirmed or not. A principal (RPCSEC_GSS) or address (AUTH_SYS) alone may
    /// have half of them. EXCHANGE_ID beyond it takes the place of one that is unused, else:
    /// NFS4ERR_DELAY.
    pub clients_max: usize,
    /// Sessions of one client. CREATE_SESSION beyond it takes the place of one that was silent for
    /// a lease and has no connection. Without one: NFS4ERR_NOSPC.
    pub sessions_per_client_max: usize,
    /// Connections remembered for one session. The oldest of those that the client has not bound is
    /// forgotten first, and the oldest of the backchannel last.
    pub connections_per_session_max: usize,
    /// Slots of one session's fore channel.
    pub slots_max: u32,
    /// Slots of one session's backchannel.
    pub back_slots_max: u32,
    /// Bytes of one request, RPC header included (ca_maxrequestsize).
    pub request_size_max: u32,
    /// Bytes of one reply, RPC header included (ca_maxresponsesize).
    pub response_size_max: u32,
    /// Bytes of one cached reply (ca_maxresponsesize_cached).
    pub response_cached_max: u32,
    /// Operations of one COMPOUND (ca_maxoperations).
    pub operations_max: u32,
    /// Bytes of all sessions with their slots and cached replies. A principal (RPCSEC_GSS) or
    /// address (AUTH_SYS) alone may have half of them. Clients are asked to use fewer slots before;
    /// beyond it CREATE_SESSION takes the place of a session that is unused, else: NFS4ERR_DELAY.
    /// An upgrade copies them while clients wait.
    pub reply_cache_max: usize,
    /// Opens of one client. OPEN beyond it: NFS4ERR_NOSPC.
    pub opens_per_client_max: usize,
    /// Opens of all clients. OPEN beyond it: NFS4ERR_NOSPC.
    pub opens_max: usize,
    /// Locked ranges and lock stateids of one client. LOCK beyond it: NFS4ERR_DELAY.
    pub locks_per_client_max: usize,
    /// Locked ranges and lock stateids of all clients. LOCK beyond it: NFS4ERR_DELAY.
    pub locks_max: usize,
    /// How long a client may take to give back a delegation that is recalled; then it is revoked
    /// (RFC 8881 section 10.4.6). Default: the lease.
    pub recall_time: Duration,
    /// Delegations of one client, revoked ones included. OPEN beyond it grants none; from seven
    /// eighths on the client is asked for some back.
    pub delegations_per_client_max: usize,
    /// Delegations of all clients, with the same consequences.
    pub delegations_max: usize,
    /// Asynchronous copies of one client, including ended ones without an answered CB_OFFLOAD. A
    /// COPY beyond it is synchronous.
    pub copies_per_client_max: usize,
    /// Copies of all clients, with the same consequence. Each holds two open files.
    pub copies_max: usize,
    /// Open-owners and lock-owners of one NFSv4.0 client with stored sequence numbers and replies.
    /// A new one beyond it replaces those without opens and locks; if there are none:
    /// NFS4ERR_RESOURCE.
    pub owners_per_client_max: usize,
    /// The same of all NFSv4.0 clients. A principal (RPCSEC_GSS) or address (AUTH_SYS) alone may
    /// have half of them; beyond it, those of its largest client without opens and locks go.
    pub owners_max: usize,
    /// Bytes of a client owner, an open owner or a lock owner (NFS4_OPAQUE_LIMIT).
    pub owner_size_max: usize,
    /// Entries of one callback security list that are kept.
    pub callback_security_max: usize,
    /// Bytes of a context handle or machine name in a callback security list; entries with longer
    /// ones are not kept.
    pub callback_name_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            grace: Duration::from_secs(60),
            courtesy_max: Duration::from_secs(24 * 3600),
            clients_max: 16_384,
            sessions_per_client_max: 16,
            connections_per_session_max: 64,
            slots_max: 64,
            back_slots_max: 16,
            request_size_max: (1 << 20) + 64 * 1024,
            response_size_max: (1 << 20) + 64 * 1024,
            response_cached_max: 4096,
            operations_max: 128,
            reply_cache_max: 256 << 20,
            opens_per_client_max: 65_536,
            opens_max: 1 << 20,
            locks_per_client_max: 65_536,
            locks_max: 1 << 20,
            recall_time: Duration::from_secs(60),
            delegations_per_client_max: 8192,
            delegations_max: 65_536,
            copies_per_client_max: 32,
            copies_max: 256,
            owners_per_client_max: 8192,
            owners_max: 65_536,
            owner_size_max: 1024,
            callback_security_max: 8,
            callback_name_max: 255,
        }
    }
}
