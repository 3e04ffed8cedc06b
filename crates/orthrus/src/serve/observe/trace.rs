//! Traces: decoded operations for administrators who watch them live.

use super::named;
use crate::api::{TraceLine, TracedOperation};
use crate::logging::timestamp;
use hyper::body::{Body, Bytes, Frame};
use server::engine::{ObservedOperation, hex};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Traces that run at once.
const TRACES_MAX: usize = 4;
/// Operations that wait for the reader of a trace; further ones are dropped and counted.
const TRACE_LINES_MAX: usize = 1024;
/// How often a trace says that it lives.
const TRACE_SIGN_INTERVAL: Duration = Duration::from_secs(5);

/// The operations that a trace shows.
#[derive(Debug, Default)]
pub(in crate::serve) struct TraceFilter {
    pub(in crate::serve) client: Option<IpAddr>,
    pub(in crate::serve) principal: Option<String>,
    /// The backend's handle, and the pseudo path of its export.
    pub(in crate::serve) file: Option<(String, Vec<u8>)>,
    /// Whether names are shown, not only their lengths.
    pub(in crate::serve) names: bool,
}

impl TraceFilter {
    fn admits_caller(&self, client: IpAddr, principal: &str) -> bool {
        self.client.is_none_or(|admitted| admitted == client.to_canonical())
            && self.principal.as_ref().is_none_or(|admitted| admitted == principal)
    }

    fn admits(&self, observed: &ObservedOperation<'_>) -> bool {
        let is_file = |(export, handle): &(String, Vec<u8>)| {
            let is = |other: Option<&[u8]>, place| other == Some(handle) && place == Some(&**export);
            is(observed.handle, observed.export)
                || is(observed.from, observed.from_export)
                || observed.after == Some(handle)
        };
        self.admits_caller(observed.peer.ip(), observed.principal) && self.file.as_ref().is_none_or(is_file)
    }
}

/// All traces have their readers; there is no place for one more.
pub(in crate::serve) struct TracesFull;

struct RunningTrace {
    filter: TraceFilter,
    lines: Sender<TracedOperation>,
    dropped: Arc<AtomicU64>,
}

/// The traces of a server.
pub(in crate::serve) struct Traces {
    running: RwLock<Vec<Arc<RunningTrace>>>,
    any: AtomicBool,
    /// Whether the server is observed without a trace, too.
    is_audited: bool,
}

impl Traces {
    pub(super) fn new(is_audited: bool) -> Self {
        Self { running: RwLock::default(), any: AtomicBool::new(false), is_audited }
    }

    /// Returns the running traces, if there are any.
    fn running(&self) -> Option<RwLockReadGuard<'_, Vec<Arc<RunningTrace>>>> {
        self.any.load(Relaxed).then(|| self.running.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a trace may show operations of a caller.
    pub(super) fn want(&self, client: IpAddr, principal: &str) -> bool {
        let admits = |trace: &Arc<RunningTrace>| trace.filter.admits_caller(client, principal);
        self.running().is_some_and(|running| running.iter().any(admits))
    }

    pub(super) fn operation(&self, observed: &ObservedOperation<'_>, now: Duration) {
        let Some(running) = self.running() else { return };
        for trace in running.iter().filter(|trace| trace.filter.admits(observed)) {
            let name = |name: &&[u8]| match trace.filter.names {
                true => named(name),
                false => format!("<{} bytes>", name.len()),
            };
            // Nothing is written for a line that has no place.
            let Ok(place) = trace.lines.try_reserve() else {
                trace.dropped.fetch_add(1, Relaxed);
                continue;
            };
            place.send(TracedOperation {
                time: timestamp(),
                client: observed.peer.to_string(),
                principal: observed.principal.to_owned(),
                flavor: observed.flavor.to_owned(),
                operation: observed.operation.to_owned(),
                export: observed.export.map(str::to_owned),
                handle: observed.handle.map(hex),
                names: observed.names.iter().map(name).collect(),
                detail: observed.detail.clone(),
                status: observed.status.to_owned(),
                seconds: now.saturating_sub(observed.began).as_secs_f64(),
            });
        }
    }

    /// Begins a trace; `observe` switches the observation of the server.
    ///
    /// # Errors
    /// [`TracesFull`].
    pub(in crate::serve) fn begin(
        self: &Arc<Self>,
        filter: TraceFilter,
        observe: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<TraceLines, TracesFull> {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if running.len() >= TRACES_MAX {
            return Err(TracesFull);
        }
        let (lines, queued) = channel(TRACE_LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let trace = Arc::new(RunningTrace { filter, lines, dropped: dropped.clone() });
        running.push(trace.clone());
        self.any.store(true, Relaxed);
        observe(true);
        let mut signs = interval(TRACE_SIGN_INTERVAL);
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(TraceLines { traces: self.clone(), trace, observe: Box::new(observe), queued, dropped, signs })
    }

    fn end(&self, trace: &Arc<RunningTrace>, observe: &(dyn Fn(bool) + Send + Sync)) {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        running.retain(|other| !Arc::ptr_eq(other, trace));
        let any = !running.is_empty();
        self.any.store(any, Relaxed);
        observe(any || self.is_audited);
    }
}

/// The lines of a trace, as the body of an answer. The trace ends with it.
pub(in crate::serve) struct TraceLines {
    traces: Arc<Traces>,
    trace: Arc<RunningTrace>,
    observe: Box<dyn Fn(bool) + Send + Sync>,
    queued: Receiver<TracedOperation>,
    dropped: Arc<AtomicU64>,
    signs: Interval,
}

impl Body for TraceLines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let operation = match self.queued.poll_recv(context) {
            Poll::Ready(Some(operation)) => Some(operation),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending if self.signs.poll_tick(context).is_ready() => None,
            Poll::Pending => return Poll::Pending,
        };
        let line = TraceLine { dropped: self.dropped.load(Relaxed), operation };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}

impl Drop for TraceLines {
    fn drop(&mut self) {
        tracing::info!("a trace ended; {} operations were dropped", self.dropped.load(Relaxed));
        self.traces.end(&self.trace, &*self.observe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed<'a>(handle: &'a [u8], names: Vec<&'a [u8]>) -> ObservedOperation<'a> {
        ObservedOperation {
            peer: "[::ffff:10.0.0.7]:900".parse().unwrap(),
            principal: "alice@R",
            flavor: "krb5",
            operation: "LOOKUP",
            status: "NFS4_OK",
            export: Some("/data"),
            handle: Some(handle),
            after: None,
            from: None,
            from_export: None,
            names,
            detail: String::new(),
            deed: None,
            is_denied: false,
            has_effect: true,
            began: Duration::ZERO,
        }
    }

    #[tokio::test]
    async fn a_slow_reader_costs_lines_that_are_counted() {
        let traces = Arc::new(Traces::new(false));
        let switched = Arc::new(AtomicBool::new(false));
        let switch = switched.clone();
        let begin = |filter| {
            let switch = switch.clone();
            traces.begin(filter, move |is_on| switch.store(is_on, Relaxed))
        };
        let Ok(mut lines) = begin(TraceFilter::default()) else { panic!("there is a place") };
        assert!(switched.load(Relaxed));
        for _ in 0..TRACE_LINES_MAX + 5 {
            traces.operation(&observed(b"h", vec![b"secret"]), Duration::from_secs(1));
        }
        assert_eq!(lines.dropped.load(Relaxed), 5);
        let line = lines.queued.recv().await.unwrap();
        assert_eq!((line.names, line.seconds), (vec!["<6 bytes>".to_owned()], 1.0));
        let more: Vec<_> = (1..TRACES_MAX).map(|_| begin(TraceFilter::default())).collect();
        assert!(more.iter().all(Result::is_ok) && begin(TraceFilter::default()).is_err());
        drop(more);
        assert!(switched.load(Relaxed));
        drop(lines);
        assert!(!switched.load(Relaxed) && traces.running().is_none());
    }

    #[test]
    fn each_condition_of_a_filter_counts() {
        let seen = observed(b"h", Vec::new());
        let client = |text: &str| TraceFilter { client: text.parse().ok(), ..TraceFilter::default() };
        assert!(client("10.0.0.7").admits(&seen) && !client("10.0.0.8").admits(&seen));
        let principal =
            |name: &str| TraceFilter { principal: Some(name.to_owned()), ..TraceFilter::default() };
        assert!(principal("alice@R").admits(&seen) && !principal("alice").admits(&seen));
        let admits_caller = |filter: TraceFilter| filter.admits_caller(seen.peer.ip(), seen.principal);
        assert!(admits_caller(client("10.0.0.7")) && admits_caller(principal("alice@R")));
        assert!(!admits_caller(client("10.0.0.8")) && !admits_caller(principal("bob@R")));
        let file = |export: &str, handle: &[u8]| TraceFilter {
            file: Some((export.to_owned(), handle.to_owned())),
            ..TraceFilter::default()
        };
        assert!(file("/data", b"h").admits(&seen));
        assert!(!file("/data", b"i").admits(&seen) && !file("/other", b"h").admits(&seen));
        let moved = ObservedOperation { from: Some(b"i"), from_export: Some("/other"), ..seen };
        assert!(file("/other", b"i").admits(&moved) && !file("/data", b"i").admits(&moved));
    }
}
