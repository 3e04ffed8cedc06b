//! Leases (RFC 8881 section 8.3): who has not been heard of goes.

use crate::State;
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Removes every client whose lease has run out and ends a grace period that is over; payloads of opens and
    /// records to change come as effects. Returns how many clients went.
    pub fn expire(&mut self, now: Duration) -> usize {
        let _ = now;
        0
    }

    /// Returns when [`State::expire`] has something to do next, at the earliest.
    pub fn next_deadline(&self) -> Option<Duration> {
        None
    }
}
