//! Verifiers of exclusive creates (RFC 8881 section 18.16.3), stored in the file's times so that a
//! retry is recognised after a restart.

use nfs4::Verifier4;
use vfs::{Attributes, SetAttributes, SetTime, Timestamp};

/// Seconds within this mask are kept by every file system.
const SECONDS_MASK: u32 = 0x7fff_ffff;

/// Encodes a verifier in two times.
fn times(verifier: Verifier4) -> (Timestamp, Timestamp) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let high = u32::from_be_bytes([a, b, c, d]);
    let low = u32::from_be_bytes([e, f, g, h]);
    // The bit that seconds cannot hold goes into the nanoseconds, as a millisecond, which coarse
    // times keep.
    let time = |word: u32| Timestamp {
        seconds: i64::from(word & SECONDS_MASK),
        nanoseconds: if word & !SECONDS_MASK == 0 { 0 } else { 1_000_000 },
    };
    (time(high), time(low))
}

/// Adds a verifier to the attributes of a file to create.
pub(super) fn put(verifier: Verifier4, set: &mut SetAttributes) {
    let (atime, mtime) = times(verifier);
    set.atime = Some(SetTime::At(atime));
    set.mtime = Some(SetTime::At(mtime));
}

/// Returns whether a file was created with this verifier and has not been written since.
pub(super) fn matches(verifier: Verifier4, attributes: &Attributes) -> bool {
    (attributes.atime, attributes.mtime) == times(verifier)
}
