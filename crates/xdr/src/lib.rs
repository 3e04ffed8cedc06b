//! External Data Representation (RFC 4506): bytes to values and back, with limits.
//!
//! [`Decoder`] borrows from the record it reads: opaque data is never copied. It never panics,
//! never reads outside its input and never trusts a length before it has seen the bytes.
//! [`Encoder`] appends to a vector and cannot fail.
//!
//! Two choices where the RFC leaves room:
//! - Padding bytes other than zero are tolerated. They have no meaning, some clients send stale
//!   bytes of a buffer, and refusing them would protect nothing. The encoder always writes zeros.
//! - A boolean other than 0 or 1 and an enum value outside its list are refused (sections 4.3 and
//!   4.4), because no Rust value represents them.

#![warn(clippy::indexing_slicing)]

mod decode;
mod encode;
mod error;
mod values;

pub use decode::{ARRAY_SIZE_MAX, Decode, Decoder};
pub use encode::{Encode, Encoder};
pub use error::Error;

/// Opaque or string data, borrowed from a received record or owned.
pub type Opaque<'a> = std::borrow::Cow<'a, [u8]>;

/// Every XDR item takes a multiple of this many bytes (RFC 4506 section 3).
pub const UNIT: usize = 4;

/// The number of padding bytes behind opaque data of `length` bytes: 0 to 3 (RFC 4506 section 4.9).
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() % UNIT
}
