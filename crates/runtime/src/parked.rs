//! Parked calls: they wait for a client's answer to a callback without using a thread.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a call waits at least for the answer before its client gets NFS4ERR_DELAY. It may wait
/// up to a second more, the interval of the check.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);
/// The most calls that wait for answers; further ones get NFS4ERR_DELAY at once. The calls of an
/// address take at most an eighth of the places.
const CALLS_PARKED_MAX: usize = 1024;
/// The most bytes that these calls hold. A call takes at most an eighth of the bytes that are left,
/// so that small calls find room beside large ones.
const PARKED_BYTES_MAX: usize = 64 << 20;
/// The part of the places for an address, and of the bytes that are left for a call.
const SHARE: usize = 8;

/// A call, and the answer that it waits for.
#[derive(Debug)]
pub(crate) struct ParkedCall<K, T> {
    pub(crate) key: K,
    /// The address of its client.
    pub(crate) address: IpAddr,
    /// The memory that it holds.
    pub(crate) bytes: usize,
    pub(crate) call: T,
}

/// Parked calls, each with the time at which its wait ends.
#[derive(Debug)]
pub(crate) struct Parked<K, T>(Mutex<Vec<(Duration, ParkedCall<K, T>)>>);

impl<K, T> Default for Parked<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy, T> Parked<K, T> {
    fn lock(&self) -> MutexGuard<'_, Vec<(Duration, ParkedCall<K, T>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parks a call until its answer arrives. Every answer calls [`Parked::take`] afterwards, so
    /// that no call is missed.
    ///
    /// # Errors
    /// Returns the call if its answer has arrived already, or if there is no room for it.
    pub(crate) fn park(
        &self,
        call: ParkedCall<K, T>,
        now: Duration,
        waits: impl FnOnce(K) -> bool,
    ) -> Result<(), T> {
        let mut all = self.lock();
        let (mut bytes, mut of_address) = (0, 0);
        for (_, parked) in all.iter() {
            bytes += parked.bytes;
            of_address += usize::from(parked.address == call.address);
        }
        let has_room = all.len() < CALLS_PARKED_MAX
            && of_address < CALLS_PARKED_MAX / SHARE
            && call.bytes <= PARKED_BYTES_MAX.saturating_sub(bytes) / SHARE;
        if !has_room || !waits(call.key) {
            return Err(call.call);
        }
        all.push((now + ANSWER_WAIT_MAX, call));
        Ok(())
    }

    /// Takes the calls whose answers have arrived, and the calls whose wait has ended at `now`.
    pub(crate) fn take(&self, now: Option<Duration>, waits: impl Fn(K) -> bool) -> Vec<T> {
        let over = |until: Duration| now.is_some_and(|now| now >= until);
        let mut all = self.lock();
        let taken = all.extract_if(.., |(until, parked)| over(*until) || !waits(parked.key));
        taken.map(|(_, parked)| parked.call).collect()
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

    fn of<T>(host: usize, key: u32, bytes: usize, call: T) -> ParkedCall<u32, T> {
        let host = u8::try_from(host).expect("a host");
        ParkedCall { key, address: [192, 0, 2, host].into(), bytes, call }
    }

    #[test]
    fn a_call_waits_for_its_answer_and_no_longer_than_it_may() {
        let parked = Parked::default();
        assert_eq!(parked.park(of(1, 1, 100, "answered"), START, |_| false), Err("answered"));
        for (key, call) in [(1, "one"), (2, "two"), (1, "another")] {
            assert_eq!(parked.park(of(1, key, 100, call), START, |_| true), Ok(()));
        }
        assert!(parked.take(None, |_| true).is_empty());
        assert_eq!(parked.take(None, |key| key != 1), ["one", "another"]);
        assert!(parked.take(Some(START), |_| true).is_empty());
        assert_eq!(parked.take(Some(START + ANSWER_WAIT_MAX), |_| true), ["two"]);
    }

    #[test]
    fn the_calls_of_an_address_leave_places_to_others() {
        let parked = Parked::default();
        let park = |host| parked.park(of(host, 3, 100, ()), START, |_| true);
        let fill = |host| (0..CALLS_PARKED_MAX).filter(|_| park(host).is_ok()).count();
        for host in 0..SHARE {
            assert_eq!(fill(host), CALLS_PARKED_MAX / SHARE);
        }
        assert_eq!(fill(SHARE), 0);
        assert_eq!(parked.len(), CALLS_PARKED_MAX);
    }

    #[test]
    fn large_calls_leave_bytes_to_small_ones() {
        let parked = Parked::default();
        let park = |host, bytes| parked.park(of(host, 3, bytes, ()), START, |_| true);
        let large = (0..200).filter(|call| park(call % 4, 1 << 20).is_ok()).count();
        assert!((50..64).contains(&large), "{large} MiB");
        for _ in 0..CALLS_PARKED_MAX / SHARE {
            assert_eq!(park(5, 1000), Ok(()));
        }
        parked.take(None, |_| false);
        assert_eq!(park(1, 1 << 20), Ok(()), "the bytes are free again");
    }
}
