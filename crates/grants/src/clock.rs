//! The time of the day, and chance in pauses: many nodes must not call at the same moment.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns a random number from 0 to 1; 0.5 without a source.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    if getrandom::fill(&mut bytes).is_err() {
        0.5
    } else {
        f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
    }
}
