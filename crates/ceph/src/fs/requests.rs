//! Requests to the metadata servers that are in flight, and a thread that hurries them.
//!
//! A request may have to wait until another client's change is in the journal of the metadata
//! server. The server writes its journal when a client asks for that, and every five seconds. So
//! files that several gateways open for writing would stand still for seconds. While a request
//! lasts too long, the thread asks.

use super::CephMount;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{Builder, Thread, park, park_timeout};
use std::time::{Duration, Instant};

/// Requests that are watched at once. Further ones are not hurried by themselves.
const WATCHED_MAX: usize = 64;
/// The time after which a request is hurried: several times that of an ordinary one. It doubles
/// each time, as a metadata server that is slow or gone has no use for more requests.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest time between two attempts to hurry a request.
const PATIENCE_MAX: Duration = Duration::from_secs(5);

/// The starts of requests in flight.
#[derive(Debug)]
pub(super) struct Requests {
    opened: Instant,
    /// Microseconds from `opened` to the start of a request; 0 for a free place.
    starts: [AtomicU64; WATCHED_MAX],
    next: AtomicUsize,
    /// Whether the thread sleeps until a request begins.
    sleeps: AtomicBool,
    thread: OnceLock<Thread>,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct RequestInFlight<'r>(Option<&'r AtomicU64>);

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.0 {
            start.store(0, Relaxed);
        }
    }
}

impl Requests {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            opened: now,
            starts: [const { AtomicU64::new(0) }; WATCHED_MAX],
            next: AtomicUsize::new(0),
            sleeps: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// Notes the start of a request.
    pub(super) fn begin(&self, now: Instant) -> RequestInFlight<'_> {
        let start = &self.starts[self.next.fetch_add(1, Relaxed) % WATCHED_MAX];
        let since = u64::try_from(now.duration_since(self.opened).as_micros()).unwrap_or(u64::MAX).max(1);
        if start.compare_exchange(0, since, SeqCst, Relaxed).is_err() {
            return RequestInFlight(None);
        }
        if self.sleeps.load(SeqCst) {
            self.wake();
        }
        RequestInFlight(Some(start))
    }

    /// Returns for how long the oldest request has been in flight.
    fn longest(&self, now: Instant) -> Option<Duration> {
        let starts = self.starts.iter().map(|start| start.load(SeqCst));
        let oldest = starts.filter(|start| *start != 0).min()?;
        Some(now.saturating_duration_since(self.opened + Duration::from_micros(oldest)))
    }

    /// Ends the sleep of the thread.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sleeps until a request begins, or is awaited no longer.
    fn sleep(&self, now: Instant) {
        self.sleeps.store(true, SeqCst);
        // A request that began before the store may not have seen it.
        if self.longest(now).is_none() {
            park();
        }
        self.sleeps.store(false, SeqCst);
    }
}

/// Hurries the requests of a mount for as long as it has owners.
///
/// # Errors
/// When there can be no more threads.
pub(super) fn hurry(mount: &Arc<CephMount>) -> std::io::Result<()> {
    let (requests, mount) = (Arc::clone(&mount.requests), Arc::downgrade(mount));
    let thread = requests.clone();
    let started = Builder::new().name("ceph-hurry".into()).spawn(move || run(&thread, &mount))?;
    let _ = requests.thread.set(started.thread().clone());
    Ok(())
}

fn run(requests: &Requests, mount: &Weak<CephMount>) {
    let mut patience = Patience::default();
    while mount.strong_count() > 0 {
        let waited = requests.longest(Instant::now());
        if patience.is_over(waited)
            && let Some(mount) = mount.upgrade()
        {
            // The request has the error, if there is one.
            let _ = mount.sync();
        }
        match waited {
            Some(_) => park_timeout(PATIENCE / 2),
            None => requests.sleep(Instant::now()),
        }
    }
}

/// The time that the oldest request may take until it is hurried again.
#[derive(Debug)]
struct Patience(Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(PATIENCE)
    }
}

impl Patience {
    /// Returns whether a request that has waited so long is to be hurried now.
    fn is_over(&mut self, waited: Option<Duration>) -> bool {
        let Some(waited) = waited.filter(|waited| *waited >= PATIENCE) else {
            *self = Self::default();
            return false;
        };
        let over = waited >= self.0;
        if over {
            self.0 = (self.0 * 2).min(waited + PATIENCE_MAX);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_in_flight_counts_and_surplus_ones_do_not() {
        let opened = Instant::now();
        let at = |seconds| opened + Duration::from_secs(seconds);
        let requests = Requests::new(opened);
        assert_eq!(requests.longest(at(1)), None);
        let first = requests.begin(at(1));
        let second = requests.begin(at(2));
        assert_eq!(requests.longest(at(5)), Some(Duration::from_secs(4)));
        drop(first);
        assert_eq!(requests.longest(at(5)), Some(Duration::from_secs(3)));
        let others: Vec<_> = (0..WATCHED_MAX * 2).map(|_| requests.begin(at(3))).collect();
        assert_eq!(others.iter().filter(|other| other.0.is_some()).count(), WATCHED_MAX - 1);
        drop((second, others));
        assert_eq!(requests.longest(at(5)), None);
        assert!(requests.begin(at(6)).0.is_some());
    }
    #[test]
    fn a_request_is_hurried_at_growing_intervals_and_the_next_one_soon_again() {
        let mut patience = Patience::default();
        let times = [0, 50, 99, 100, 150, 199, 200, 399, 400, 30, 100, 20_000, 24_999, 25_000];
        let hurried = times.into_iter().filter(|ms| patience.is_over(Some(Duration::from_millis(*ms))));
        assert_eq!(hurried.collect::<Vec<_>>(), [100, 200, 400, 100, 20_000, 24_999, 25_000]);
        assert!(!patience.is_over(None));
        assert!(patience.is_over(Some(PATIENCE)));
    }
}
