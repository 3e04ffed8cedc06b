//! Observers of single operations: the audit log and the traces.

mod audit;
mod refusals;
mod trace;

pub(super) use audit::{AuditLog, dropped_lines};
pub(super) use refusals::suppressed as suppressed_refusals;
pub(super) use trace::{TraceFilter, Traces, TracesFull};

use runtime::NfsService;
use server::engine::{ObservedOperation, ObservedRefusal, Observer, WantedOperations};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a name that a line has: one that is longer exists in no file system, but in arguments.
const NAME_BYTES_MAX: usize = 1024;

/// Returns a name as text; the rest of a long one is cut.
fn named(name: &[u8]) -> String {
    match name.split_at_checked(NAME_BYTES_MAX) {
        Some((kept, rest)) if !rest.is_empty() => format!("{}…", terminal::text(kept)),
        _ => terminal::text(name),
    }
}

/// The observers of a server.
pub(super) struct Observers {
    began: Instant,
    audit: Option<AuditLog>,
    traces: Arc<Traces>,
}

impl Observers {
    /// Connects the audit log and the traces to the server.
    pub(super) fn connect(service: &NfsService, audit: Option<AuditLog>) -> Arc<Traces> {
        let engine = service.server().engine();
        let traces = Arc::new(Traces::new(audit.is_some()));
        engine.set_observed(audit.is_some());
        engine.connect_observer(Box::new(Self { began: Instant::now(), audit, traces: traces.clone() }));
        traces
    }
}

impl Observer for Observers {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wants(&self, peer: SocketAddr, principal: &str) -> Option<WantedOperations> {
        let audited = self.audit.as_ref().map(|_| WantedOperations::DeedsAndDenials);
        if self.traces.want(peer.ip(), principal) { Some(WantedOperations::All) } else { audited }
    }

    fn operation(&self, observed: &ObservedOperation<'_>) {
        if let Some(audit) = &self.audit {
            audit.operation(observed);
        }
        self.traces.operation(observed, self.now());
    }

    fn refusal(&self, observed: &ObservedRefusal<'_>) {
        if let Some(audit) = &self.audit {
            audit.refusal(observed);
        }
    }
}
