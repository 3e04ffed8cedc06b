//! Parked calls: they wait for a client's answer to a callback without using a thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a call waits at least for the answer before its client gets NFS4ERR_DELAY. It may wait
/// up to a second more, the interval of the check.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
/// The most calls that wait for answers; further ones get NFS4ERR_DELAY at once.
const CALLS_PARKED_MAX: usize = 1024;

/// Parked calls, with the answer that each waits for.
#[derive(Debug)]
pub(crate) struct Parked<K, T>(Mutex<Vec<(K, Duration, T)>>);

impl<K, T> Default for Parked<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy, T> Parked<K, T> {
    fn lock(&self) -> MutexGuard<'_, Vec<(K, Duration, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call until its answer arrives. Every answer calls [`Parked::take`] afterwards, so
    /// that no call is missed.
    ///
    /// # Errors
    /// Returns the call if its answer has arrived already, or if too many calls wait.
    pub(crate) fn park(
        &self,
        key: K,
        call: T,
        now: Duration,
        waits: impl FnOnce(K) -> bool,
    ) -> Result<(), T> {
        let mut all = self.lock();
        if all.len() >= CALLS_PARKED_MAX || !waits(key) {
            return Err(call);
        }
        all.push((key, now + ANSWER_WAIT_MAX, call));
        Ok(())
    }

    /// Takes the calls whose answers have arrived, and the calls whose wait has ended at `now`.
    pub(crate) fn take(&self, now: Option<Duration>, waits: impl Fn(K) -> bool) -> Vec<T> {
        let over = |until: Duration| now.is_some_and(|now| now >= until);
        let mut all = self.lock();
        all.extract_if(.., |(key, until, _)| over(*until) || !waits(*key)).map(|(_, _, call)| call).collect()
    }

    /// Returns the number of parked calls.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(5);

    #[test]
    fn a_call_waits_for_its_answer_and_no_longer_than_it_may() {
        let parked = Parked::default();
        assert_eq!(parked.park(1, "answered", START, |_| false), Err("answered"));
        for (key, call) in [(1, "one"), (2, "two"), (1, "another")] {
            assert_eq!(parked.park(key, call, START, |_| true), Ok(()));
        }
        assert!(parked.take(None, |_| true).is_empty());
        assert_eq!(parked.take(None, |key| key != 1), ["one", "another"]);
        assert!(parked.take(Some(START), |_| true).is_empty());
        assert_eq!(parked.take(Some(START + ANSWER_WAIT_MAX), |_| true), ["two"]);
        (0..CALLS_PARKED_MAX).for_each(|_| parked.park(3, "many", START, |_| true).expect("room"));
        assert_eq!(parked.park(3, "too many", START, |_| true), Err("too many"));
        assert_eq!(parked.len(), CALLS_PARKED_MAX);
    }
}
