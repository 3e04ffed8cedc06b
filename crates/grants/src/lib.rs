//! Access to files for batch jobs, without the user's password, keytab or ticket-granting ticket on
//! any node.
//!
//! A user submits a [`Grant`] for a job with a live ticket. The [`GrantService`] stores it. A
//! scheduler announces the nodes of each run. On a node, the [`NodeAgent`] authenticates with the
//! host's key, obtains short tickets for the granted NFS services, puts them where rpc.gssd looks,
//! renews them, and removes them at the end of the run. The service gets the tickets by constrained
//! delegation ([`TicketMint`]), so that only its key has that right.
//!
//! [`GrantTable`] is pure state; [`GrantStore`] makes it durable. All names and sizes that a peer
//! sends are bounded.

mod agent;
mod cache;
mod call;
mod clock;
mod mint;
mod names;
mod service;
mod store;
mod table;
mod wire;

pub use agent::{AgentError, AgentSettings, AttachedRun, NodeAgent, RunStatus, attach, detach};
pub use cache::{CachedTicket, TICKET_CACHE_MAX, TicketCache};
pub use call::{GrantCallError, GrantServer};
pub use mint::{MINT_TIME_MAX, MINTS_MAX, MintError, TicketMint};
pub use names::{NAME_MAX, NameError, check_job, check_node, check_service, check_user};
pub use service::{GrantService, GrantServiceError, ServiceSettings};
pub use store::{GrantStore, GrantStoreError, StoredGrants};
pub use table::{
    GRANT_NODES_MAX, GRANT_SERVICES_MAX, Grant, GrantChange, GrantLimits, GrantRecord, GrantRefusal,
    GrantSubmission, GrantTable, JobRun, TicketSource,
};
pub use wire::{
    ExchangeError, GrantReply, GrantRequest, REPLY_FRAME_MAX, REQUEST_FRAME_MAX, TOKEN_FRAME_MAX,
};
