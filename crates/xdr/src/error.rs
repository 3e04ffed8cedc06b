//! Errors of XDR input.

/// The reason why bytes from a peer could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The input ends before the item does.
    #[error("input ends early: {needed} bytes needed, {remaining} left")]
    Truncated {
        /// The bytes that the item needs; for an array, the minimum for the announced elements.
        needed: usize,
        /// The bytes that were left.
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
    /// An enum has no such value in the grammar.
    #[error("{value} is no value of {name}")]
    InvalidEnum {
        /// The RFC's name of the enum.
        name: &'static str,
        /// The value in the input.
        value: u32,
    },
    /// A union has no arm for this discriminant.
    #[error("{name} has no arm for {value}")]
    InvalidDiscriminant {
        /// The RFC's name of the union.
        name: &'static str,
        /// The discriminant in the input.
        value: u32,
    },
    /// Bytes follow the last item.
    #[error("{0} bytes follow the last item")]
    TrailingBytes(usize),
}
