//! Bringing the server to a standstill, while the next process takes over.
//!
//! Calls that the shards have deferred end, and their replies leave. A copy that goes on after its
//! reply stops between two pieces. Housekeeping and administration wait at a gate.

use server::engine::BackgroundCopy;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which a wait checks the number of calls in flight.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Counts calls that are deferred, from their deferral to the send of their completion.
#[derive(Debug, Default)]
pub(crate) struct Flights(Arc<AtomicUsize>);

impl Flights {
    pub(crate) fn begin(&self) -> CallFlight {
        self.0.fetch_add(1, AcqRel);
        CallFlight(self.0.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Acquire)
    }

    /// Waits until there are none, at most until then; `before` runs before each check.
    pub(crate) fn wait_for_none(&self, until: Instant, mut before: impl FnMut()) -> bool {
        loop {
            before();
            if self.count() == 0 {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}

/// One call or copy in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallFlight(Arc<AtomicUsize>);

impl Drop for CallFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, AcqRel);
    }
}

/// Copies between two pieces.
pub(crate) type PausedCopies = Vec<Box<BackgroundCopy>>;

/// Pauses copies between two pieces.
#[derive(Debug)]
pub(crate) struct CopyGate<C = Box<BackgroundCopy>> {
    closed: AtomicBool,
    paused: Mutex<Vec<C>>,
    /// Copies that have passed, until their pieces are done.
    pub(crate) flights: Flights,
}

impl<C> Default for CopyGate<C> {
    fn default() -> Self {
        Self { closed: AtomicBool::new(false), paused: Mutex::default(), flights: Flights::default() }
    }
}

impl<C> CopyGate<C> {
    fn paused(&self) -> MutexGuard<'_, Vec<C>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pauses a copy if the gate is closed, or returns it with its flight. So each copy is paused
    /// or counts from the moment at which the gate has closed.
    pub(crate) fn admit(&self, copy: C) -> Option<(C, CallFlight)> {
        let mut paused = self.paused();
        if self.closed.load(Relaxed) {
            paused.push(copy);
            return None;
        }
        Some((copy, self.flights.begin()))
    }

    pub(crate) fn close(&self) {
        let _paused = self.paused();
        self.closed.store(true, Release);
    }

    /// Opens the gate; returns the copies that were paused.
    pub(crate) fn open(&self) -> Vec<C> {
        let mut paused = self.paused();
        self.closed.store(false, Release);
        std::mem::take(&mut paused)
    }

    /// Runs a closure on the paused copies.
    pub(crate) fn with_paused<R>(&self, run: impl FnOnce(&[C]) -> R) -> R {
        run(&self.paused())
    }
}

/// A gate for work that changes the server besides calls: housekeeping and administration.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    inside: usize,
    closed: bool,
}

/// The right to change the server, until it is dropped.
#[must_use = "the gate may close when it is dropped"]
#[derive(Debug)]
pub struct Inside<'g>(&'g Gate);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the gate is open, and goes inside.
    pub fn enter(&self) -> Inside<'_> {
        let closed = |state: &mut GateState| state.closed;
        let mut state = self.changed.wait_while(self.lock(), closed).unwrap_or_else(PoisonError::into_inner);
        state.inside += 1;
        Inside(self)
    }

    /// Closes the gate, and waits until nothing is inside. Returns false if something still is by
    /// then; the gate is closed in any case.
    pub fn close(&self, until: Instant) -> bool {
        let mut state = self.lock();
        state.closed = true;
        while state.inside > 0 {
            let Some(rest) = until.checked_duration_since(Instant::now()) else { return false };
            (state, _) = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Opens the gate for all that wait.
    pub fn open(&self) {
        self.lock().closed = false;
        self.changed.notify_all();
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.lock().inside -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn a_gate_closes_when_the_last_has_left_and_lets_none_in_meanwhile() {
        let gate = Arc::new(Gate::default());
        let inside = gate.enter();
        assert!(!gate.close(Instant::now() + SOON));
        let entered = Arc::new(AtomicBool::new(false));
        let other = {
            let (gate, entered) = (gate.clone(), entered.clone());
            std::thread::spawn(move || {
                let _inside = gate.enter();
                entered.store(true, Release);
            })
        };
        drop(inside);
        assert!(gate.close(Instant::now() + Duration::from_secs(10)));
        assert!(!entered.load(Acquire));
        gate.open();
        other.join().unwrap();
        assert!(entered.load(Acquire));
    }

    #[test]
    fn flights_are_waited_for_until_the_time_is_over() {
        let flights = Flights::default();
        let flight = flights.begin();
        assert!(!flights.wait_for_none(Instant::now() + SOON, || ()));
        let mut flight = Some(flight);
        assert!(flights.wait_for_none(Instant::now() + Duration::from_secs(10), || drop(flight.take())));
    }

    #[test]
    fn a_copy_that_has_passed_the_gate_counts_though_it_has_not_reached_its_pool() {
        let gate = CopyGate::default();
        let (copy, flight) = gate.admit("before").unwrap();
        gate.close();
        assert_eq!(gate.flights.count(), 1);
        assert!(gate.admit(copy).is_none() && gate.admit("after").is_none());
        drop(flight);
        assert_eq!(gate.flights.count(), 0);
        assert_eq!(gate.open(), ["before", "after"]);
    }
}
