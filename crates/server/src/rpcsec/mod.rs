//! RPCSEC_GSS at the server (RFC 2203): contexts, the way in and the way out.
//!
//! What stops which attack:
//! - The MIC of a call's header is verified before its sequence number moves the window, so forged
//!   numbers cannot push valid calls out.
//! - The window is asked in arrival order before anything is queued, so threads cannot overtake
//!   each other between the socket and the window.
//! - The number inside a protected body must be the header's, so bodies cannot be moved between
//!   calls.
//! - Handles are random and mean nothing outside of the table, and a context can be destroyed only
//!   by a call that is signed with its key.
//! - Nothing is kept for a context that is not established.

mod acceptor;
mod context;
mod control;
mod egress;
mod ingress;
mod table;

pub use acceptor::{AcceptError, Accepted, ContextAcceptor, Identities};
pub use context::{Context, HANDLE_LEN, Handle};
pub use table::ContextTable;

pub(crate) use context::SharedContext;
pub(crate) use control::Created;
pub(crate) use egress::{Confounders, Outgoing, Protection, begin_reply, reply_overhead, seal};
pub(crate) use ingress::{GssCall, decrypt, verify_headers, verify_integrity};

use crate::call::PAUSE_WORK;
use crate::metrics::Metrics;
use krb5::{Pause, Run};
use std::sync::Arc;

/// How large batches are worked on: the shard looks after others now and then.
fn run(pause: &mut dyn FnMut()) -> Run<'_> {
    Run::default().with_pause(Pause::new(PAUSE_WORK, pause))
}

/// What the server allows of RPCSEC_GSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcsecLimits {
    /// The most established contexts; beyond it those of the principals that have most make room.
    pub contexts_max: usize,
    /// The longest token of a client, in bytes.
    pub token_size_max: usize,
    /// How many sequence numbers of a context may be outstanding; rounded up to a power of two. At
    /// least 4,096 keeps clients with many connections out of trouble.
    pub window_size: u32,
}

impl Default for RpcsecLimits {
    fn default() -> Self {
        Self {
            contexts_max: 65_536,
            token_size_max: rpc::gss::TOKEN_SIZE_MAX,
            window_size: rpc::SequenceWindow::SIZE_DEFAULT,
        }
    }
}

/// The server's side of RPCSEC_GSS: who accepts contexts, who their principals are, and those
/// established.
pub struct Rpcsec {
    acceptor: Box<dyn ContextAcceptor>,
    identities: Box<dyn Identities>,
    contexts: Arc<ContextTable>,
    limits: RpcsecLimits,
}

impl Rpcsec {
    /// Makes the server's side; contexts are counted in `metrics`.
    pub fn new(
        acceptor: Box<dyn ContextAcceptor>,
        identities: Box<dyn Identities>,
        limits: RpcsecLimits,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            acceptor,
            identities,
            contexts: Arc::new(ContextTable::new(limits.contexts_max, metrics)),
            limits,
        }
    }

    /// The established contexts.
    pub fn contexts(&self) -> &Arc<ContextTable> {
        &self.contexts
    }
}
