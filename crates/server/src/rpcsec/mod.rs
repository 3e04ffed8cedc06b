//! RPCSEC_GSS at the server (RFC 2203): contexts, and the protection of replies.
//! `dispatch::ingress` opens the calls of a tick.
//!
//! Attacks, and the design that stops each:
//! - Forged sequence numbers cannot push valid calls out of the window: the MIC of a call's header
//!   is verified before its number moves the window.
//! - Threads cannot overtake each other between the socket and the window: it is checked in arrival
//!   order before anything is queued.
//! - Bodies cannot be moved between calls: the number inside a protected body must be the header's.
//! - Contexts of others cannot be used or destroyed: handles are random and mean nothing outside of
//!   the table, and RPCSEC_GSS_DESTROY must be signed with the context's key.
//! - Half-open contexts take no memory: nothing is kept for a context that is not established.

mod acceptor;
mod context;
mod control;
mod egress;
mod image;
mod received;
mod refresh;
mod table;

pub use acceptor::{AcceptError, Accepted, ContextAcceptor, Identities};
pub use context::{Context, HANDLE_LEN, Handle};
pub use image::ContextsImage;
pub use table::ContextTable;

pub(crate) use context::SharedContext;
pub(crate) use control::Created;
pub(crate) use egress::{Outgoing, Protection, ReplyConfounders, begin_reply, reply_overhead, seal};
pub(crate) use received::ReceivedGssCall;

use crate::metrics::Metrics;
use crate::tenants::LimitedTenants;
use krb5::{Pause, Run};
use refresh::{Nobodies, Refreshes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Work between two pauses of a tick, in bytes that are read, written, hashed or encrypted: about
/// 50 µs.
pub(crate) const PAUSE_WORK: usize = 256 << 10;

/// Makes a batch run with pauses, so that the shard serves others during large batches.
pub(crate) fn paused_run(pause: &mut dyn FnMut()) -> Run<'_> {
    Run::default().with_pause(Pause::new(PAUSE_WORK, pause))
}

/// Limits of contexts and tokens of RPCSEC_GSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcsecLimits {
    /// The number of established contexts. Beyond it the principals with the most contexts lose
    /// some.
    pub contexts_max: usize,
    /// The longest token accepted from a client, in bytes.
    pub token_size_max: usize,
    /// Sequence numbers of a context that may be outstanding; rounded up to a power of two. At
    /// least 4,096 suits clients with many connections.
    pub window_size: u32,
    /// The time after which the identity of a live context is looked up again.
    pub identity_refresh: Duration,
}

impl Default for RpcsecLimits {
    fn default() -> Self {
        Self {
            contexts_max: 65_536,
            token_size_max: rpc::gss::TOKEN_SIZE_MAX,
            window_size: rpc::SequenceWindow::SIZE_DEFAULT,
            identity_refresh: Duration::from_secs(300),
        }
    }
}

/// The server's side of RPCSEC_GSS: acceptor, identity mapping and established contexts.
pub struct Rpcsec {
    acceptor: Box<dyn ContextAcceptor>,
    identities: Box<dyn Identities>,
    contexts: Arc<ContextTable>,
    limits: RpcsecLimits,
    /// The current value of `identity_refresh`, in milliseconds.
    refresh_ms: AtomicU64,
    refreshes: Refreshes,
    nobodies: Nobodies,
    metrics: Arc<Metrics>,
}

impl Rpcsec {
    /// Makes the server's side of RPCSEC_GSS. Contexts are counted in `metrics`, and each for its
    /// principal in `tenants`.
    pub fn new(
        acceptor: Box<dyn ContextAcceptor>,
        identities: Box<dyn Identities>,
        limits: RpcsecLimits,
        metrics: Arc<Metrics>,
        tenants: Arc<LimitedTenants>,
    ) -> Self {
        Self {
            acceptor,
            identities,
            contexts: Arc::new(ContextTable::new(limits.contexts_max, metrics.clone(), tenants)),
            refresh_ms: AtomicU64::new(milliseconds(limits.identity_refresh)),
            limits,
            refreshes: Refreshes::default(),
            nobodies: Nobodies::default(),
            metrics,
        }
    }

    /// Refreshes the identities of live contexts that are due, without waiting for lookups. Called
    /// once a second, it covers the whole table several times a minute.
    pub fn refresh_identities(&self, now: Duration) {
        let interval = self.identity_refresh();
        self.refreshes.run(&self.contexts, &*self.identities, interval, now, &self.metrics);
    }

    /// Sets the time after which the identity of a live context is looked up again, for a reload.
    pub fn set_identity_refresh(&self, time: Duration) {
        self.refresh_ms.store(milliseconds(time), Relaxed);
    }

    fn identity_refresh(&self) -> Duration {
        Duration::from_millis(self.refresh_ms.load(Relaxed))
    }

    /// Makes an image of all contexts, for the next process of the server.
    pub fn image(&self) -> ContextsImage {
        self.refreshes.with_waiting(|waiting| self.contexts.image(waiting))
    }

    /// Restores the contexts of an image.
    ///
    /// # Errors
    /// The part that is inconsistent.
    pub fn restore(&self, image: ContextsImage, now: Duration) -> Result<(), ::image::ImageError> {
        self.contexts.restore(image, now)
    }

    /// Returns the table of established contexts.
    pub fn contexts(&self) -> &Arc<ContextTable> {
        &self.contexts
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
