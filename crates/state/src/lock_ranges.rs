//! The algebra of locked byte ranges, without owners' names, stateids or clients.

/// A range of bytes, both ends inclusive, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockRange {
    first: u64,
    last: u64,
}

/// Why offset and length are no range: always NFS4ERR_INVAL (RFC 8881 section 18.10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an empty range, or one that ends behind the last possible byte")]
pub struct RangeError;

impl LockRange {
    /// Makes a range from offset4 and length4; a length of all ones reaches to the end of any file.
    ///
    /// # Errors
    /// [`RangeError`] when the length is zero or the end does not fit 64 bits.
    pub fn new(offset: u64, length: u64) -> Result<Self, RangeError> {
        match length {
            0 => Err(RangeError),
            u64::MAX => Ok(Self { first: offset, last: u64::MAX }),
            _ => offset.checked_add(length - 1).map(|last| Self { first: offset, last }).ok_or(RangeError),
        }
    }

    /// Returns offset4.
    pub fn offset(self) -> u64 {
        self.first
    }

    /// Returns length4: all ones when the range reaches to the end.
    pub fn length(self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.first + 1 }
    }
}
