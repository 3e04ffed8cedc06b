//! What can be wrong with XDR input.

/// Says why bytes from a peer are not the value that they were decoded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The input ends before the item does.
    #[error("input ends early: {needed} bytes needed, {remaining} left")]
    Truncated {
        /// Bytes that the item takes; for arrays the least that the announced elements can take.
        needed: usize,
        /// Bytes that were left.
        remaining: usize,
    },
    /// An opaque, a string or an array is longer than its definition allows.
    #[error("length {length} is above the limit of {max}")]
    TooLong {
        /// The announced length, in bytes or elements.
        length: usize,
        /// The limit, in the same unit.
        max: usize,
    },
    /// A boolean is neither 0 nor 1.
    #[error("{0} is not a boolean")]
    InvalidBool(u32),
    /// An enum has no such value.
    #[error("{value} is no value of {name}")]
    InvalidEnum {
        /// The RFC's name of the enum.
        name: &'static str,
        /// What was received.
        value: u32,
    },
    /// A union has no arm for this discriminant.
    #[error("{name} has no arm for {value}")]
    InvalidDiscriminant {
        /// The RFC's name of the union.
        name: &'static str,
        /// What was received.
        value: u32,
    },
    /// Bytes follow the last item.
    #[error("{0} bytes follow the last item")]
    TrailingBytes(usize),
}
