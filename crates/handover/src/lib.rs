//! The conversation in which one process of the server hands its clients over to the next.
//!
//! The old process starts the new one with one end of a socket pair as its standard input:
//!
//! 1. [`Hello`]: versions, and the sockets that both may use. The new process reads its
//!    configuration and opens everything that can fail. It answers [`SuccessorAnswer::Prepared`],
//!    or [`SuccessorAnswer::Refused`] with the reason.
//! 2. The old process comes to a standstill and sends [`Order::Take`] with the image, and then all
//!    descriptors. The new one restores everything and answers [`SuccessorAnswer::Restored`].
//! 3. [`Order::Go`] is the point of no return: the new process answers
//!    [`SuccessorAnswer::Serving`] and then serves. Without that answer it has never served, and
//!    the old one goes on.
//!
//! The image is CBOR with numbered fields (see `orthrus-image`). A change of its meaning raises
//! [`MAJOR`], and a process of another one is refused before the standstill.

mod channel;
mod image_file;
mod messages;

pub use channel::{ChannelError, FDS_PER_MESSAGE_MAX, HandoverChannel};
pub use image_file::{IMAGE_SIZE_MAX, read_image, write_image};
pub use messages::{
    HandoverImage, Hello, Order, RecentEventsImage, StarterAnswer, StarterOrder, SuccessorAnswer, Taken,
};

/// The version of the image's meaning.
pub const MAJOR: u32 = 1;
/// The version of the image within [`MAJOR`]: it tells of optional fields, for the log.
pub const MINOR: u32 = if cfg!(feature = "next-version") { 1 } else { 0 };
