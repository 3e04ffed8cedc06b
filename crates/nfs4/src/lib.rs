//! NFSv4.1 and 4.2 on the wire: generated types, bitmaps, stateids, filehandles and attributes.
//!
//! The types come from the grammars in `specs/` and stand at the top level of this crate under
//! their RFC names in Rust's case. A grammar cannot express the hand-written rest: [`Bitmap4`], the
//! special stateids, how this server's filehandles are made ([`filehandle`]), attribute lists
//! ([`attributes`]) and which errors an operation may answer ([`valid_error`]). Nothing here does
//! I/O, reads a clock or draws randomness.

#![warn(clippy::indexing_slicing)]

pub mod attributes;
mod bitmap;
mod compound;
pub mod filehandle;
pub mod generated;
mod stateid;
mod valid_errors;

pub use attributes::{
    AttributeError, AttributeValues, Purpose, decode_attributes, decode_fattr4, encode_fattr4,
};
pub use bitmap::{BITMAP_WORDS_MAX, Bitmap4, Bits};
pub use compound::{is_4_0_only, operation_name};
pub use filehandle::{Filehandle, FilehandleError, FilehandleKey};
pub use generated::*;
pub use valid_errors::{valid_callback_error, valid_error, valid_error_40, valid_errors, valid_errors_40};
