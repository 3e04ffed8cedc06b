//! The messages of a handover, and the image.

use image::ImageError;
use minicbor::{Decode, Encode};
use net::NetImage;
use runtime::ServerImage;
use server::engine::ObjectsImage;
use std::net::SocketAddr;

/// The first message, from the old process. With it go, in this order, the listening socket, the
/// lock of the state folder, the original standard input and, if there are such, the sockets of the
/// metrics and of the web page.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// [`crate::MAJOR`] of the sender.
    #[n(0)]
    pub major: u32,
    /// [`crate::MINOR`] of the sender.
    #[n(1)]
    pub minor: u32,
    /// The version of the sender's program.
    #[n(2)]
    pub version: String,
    /// When its clock began, in nanoseconds of CLOCK_MONOTONIC.
    #[n(3)]
    pub began: u64,
    /// The address that it was configured to listen on.
    #[n(4)]
    pub listen: SocketAddr,
    /// The address that it was configured to show metrics on.
    #[n(5)]
    pub metrics: Option<SocketAddr>,
    /// The folder of its state, without symbolic links.
    #[n(6)]
    pub state_dir: String,
    /// Whether the service manager passed the listening socket, so that `listen` does not count.
    #[n(7)]
    pub passed: Option<bool>,
    /// The address that it was configured to show the web page on.
    #[n(8)]
    pub web: Option<SocketAddr>,
    /// The size of its table of descriptors, which the new process will need as well.
    #[n(9)]
    pub descriptor_table: Option<u32>,
    /// The bytes of memory that restoring its state will take, about.
    #[n(10)]
    pub memory: Option<u64>,
}

/// A further message from the old process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Order {
    /// Take over. With it goes the image; so many messages with descriptors follow.
    #[n(0)]
    Take(#[n(0)] Taken),
    /// Some of the descriptors.
    #[n(1)]
    Descriptors,
    /// Answer, and serve from then on.
    #[n(2)]
    Go,
}

/// The numbers of descriptors that belong to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Taken {
    /// The sockets of connections, which come first.
    #[n(0)]
    pub sockets: u32,
    /// The descriptors of open files and locks.
    #[n(1)]
    pub objects: u32,
}

/// A message from the old process to the one that starts programs for it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum StarterOrder {
    /// Start the program of a path. With it goes its standard input.
    #[n(0)]
    Start(#[n(0)] String),
    /// End the process that was started last, by force.
    #[n(1)]
    End,
    /// Ask the process that was started last to end.
    #[n(2)]
    Terminate,
    /// Ask the process that was started last to apply its configuration file.
    #[n(3)]
    Reload,
}

/// The answer to a [`StarterOrder`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum StarterAnswer {
    /// The number of the process that was started.
    #[n(0)]
    Started(#[n(0)] u32),
    /// The reason why the order was not obeyed.
    #[n(1)]
    Failed(#[n(0)] String),
    /// The order was obeyed.
    #[n(2)]
    Done,
}

/// A message from the new process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum SuccessorAnswer {
    /// It has read its configuration and opened everything: the version of its program.
    #[n(0)]
    Prepared(#[n(0)] String),
    /// It cannot take over, for this reason.
    #[n(1)]
    Refused(#[n(0)] String),
    /// It has restored the image, and waits for [`Order::Go`].
    #[n(2)]
    Restored,
    /// It serves from now on.
    #[n(3)]
    Serving,
    /// It has a socket for administrators in the place of the old process's.
    #[n(4)]
    Listening,
}

/// By how much counters of events have grown since each minute of the last hour, the oldest first.
pub type RecentEventsImage = Vec<Vec<(String, u64)>>;

/// Everything that goes over besides descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HandoverImage {
    /// Clients with all that they have, contexts, callbacks, copies and counters.
    #[n(0)]
    pub server: ServerImage,
    /// The connections, trusted and not.
    #[n(1)]
    pub net: NetImage,
    /// Open files, leases and locks.
    #[n(2)]
    pub objects: ObjectsImage,
    /// Counters of the network layer by name.
    #[n(3)]
    pub net_counters: Vec<(String, u64)>,
    /// The events that administrators are warned of.
    #[n(4)]
    pub recent_events: Option<RecentEventsImage>,
    /// A field that only the next version has, for tests of compatibility.
    #[cfg(feature = "next-version")]
    #[n(5)]
    pub of_next_version: Option<String>,
}

impl HandoverImage {
    /// Reads an image. [`runtime::Builder::inherit`] and [`net::InheritedConnections::check`] check
    /// the rest.
    ///
    /// # Errors
    /// Bytes that are no image of this major version.
    pub fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        image::decode(bytes)
    }
}
