//! Images of connections, for the next process of the server. Their sockets go beside them.

use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;

/// The image of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ConnectionImage {
    #[n(0)]
    pub(crate) id: u64,
    /// Position in the order of arrival.
    #[n(1)]
    pub(crate) order: u64,
    #[n(2)]
    pub(crate) peer: SocketAddr,
    #[n(3)]
    pub(crate) trusted: bool,
    /// Received bytes of the stream that no request was served from yet.
    #[n(4)]
    pub(crate) input: SharedBytes,
    /// Bytes that are still to be sent.
    #[n(5)]
    pub(crate) output: SharedBytes,
    /// Whether it closes once they are sent.
    #[n(6)]
    pub(crate) closing: bool,
}

/// The connections of all shards.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NetImage {
    /// Connections accepted so far: the last number of a connection.
    #[n(0)]
    pub(crate) accepted: u64,
    #[n(1)]
    pub(crate) connections: Vec<ConnectionImage>,
}

impl NetImage {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

/// The connections of the previous process, with their sockets in the order of the image.
#[derive(Debug)]
pub struct InheritedConnections {
    /// The image of the connections.
    pub image: NetImage,
    /// Their sockets, in the same order.
    pub sockets: Vec<OwnedFd>,
}

impl InheritedConnections {
    /// Checks that each connection has a socket, and a number of its own.
    ///
    /// # Errors
    /// [`ImageError::Inconsistent`].
    pub fn check(&self) -> Result<(), ImageError> {
        ensure(self.image.connections.len() == self.sockets.len(), "connections without sockets")?;
        let ids: std::collections::BTreeSet<u64> =
            self.image.connections.iter().map(|connection| connection.id).collect();
        ensure(ids.len() == self.sockets.len(), "two connections of one number")?;
        let known = |connection: &ConnectionImage| connection.order <= self.image.accepted;
        ensure(self.image.connections.iter().all(known), "the number of a connection")
    }
}
