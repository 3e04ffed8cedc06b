//! Calls that wait for what a client answers to a callback; no thread waits with them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a call waits for such an answer at least, before its client is told to come again (NFS4ERR_DELAY); a second
/// more at most, since that is how often it is looked at.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
/// Calls that wait for answers; for further ones NFS4ERR_DELAY comes at once.
const CALLS_PARKED_MAX: usize = 1024;

/// Calls by what they wait for.
#[derive(Debug)]
pub struct Parked<K, T>(Mutex<Vec<(K, Instant, T)>>);

impl<K, T> Default for Parked<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy, T> Parked<K, T> {
    fn lock(&self) -> MutexGuard<'_, Vec<(K, Instant, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a call until its answer is there. What is answered wakes [`Parked::take`] afterwards, so that none is missed.
    ///
    /// # Errors
    /// The call, when it is there already or too many wait.
    pub fn park(&self, key: K, call: T, waits: impl FnOnce(K) -> bool) -> Result<(), T> {
        let mut all = self.lock();
        if all.len() >= CALLS_PARKED_MAX || !waits(key) {
            return Err(call);
        }
        all.push((key, Instant::now() + ANSWER_WAIT_MAX, call));
        Ok(())
    }

    /// Takes the calls whose answers are there, and by `now` those that have waited for long enough.
    pub fn take(&self, now: Option<Instant>, waits: impl Fn(K) -> bool) -> Vec<T> {
        let over = |until: Instant| now.is_some_and(|now| now >= until);
        let mut all = self.lock();
        all.extract_if(.., |(key, until, _)| over(*until) || !waits(*key)).map(|(_, _, call)| call).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_its_answer_and_no_longer_than_it_may() {
        let parked = Parked::default();
        assert_eq!(parked.park(1, "answered", |_| false), Err("answered"));
        for (key, call) in [(1, "one"), (2, "two"), (1, "another")] {
            assert_eq!(parked.park(key, call, |_| true), Ok(()));
        }
        assert!(parked.take(None, |_| true).is_empty());
        assert_eq!(parked.take(None, |key| key != 1), ["one", "another"]);
        assert!(parked.take(Some(Instant::now()), |_| true).is_empty());
        assert_eq!(parked.take(Some(Instant::now() + ANSWER_WAIT_MAX), |_| true), ["two"]);
        (0..CALLS_PARKED_MAX).for_each(|_| parked.park(3, "many", |_| true).expect("room"));
        assert_eq!(parked.park(3, "too many", |_| true), Err("too many"));
        assert_eq!(parked.len(), CALLS_PARKED_MAX);
    }
}
