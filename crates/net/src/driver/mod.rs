//! What waits for sockets and moves their bytes: everything that a shard asks of the kernel.

mod direct;
mod epoll;
mod uring;

pub(crate) use epoll::Epoll;
pub(crate) use uring::Uring;

use crate::input::Input;
use crate::mailbox::Mailbox;
use crate::output::Output;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// A way to wait for sockets and to move their bytes; one for each shard, made and used on its thread.
///
/// It knows no records: what arrives goes into a connection's [`Input`], what leaves comes from its [`Output`].
pub(crate) trait Driver: Sized + 'static {
    /// What it keeps of one connection.
    type Link;

    /// Makes a driver that wakes when the mailbox rings.
    fn new(mailbox: &Arc<Mailbox>) -> io::Result<Self>;

    /// Takes over a connection's socket, which does not block.
    fn add(&mut self, id: u64, stream: TcpStream) -> io::Result<Self::Link>;

    /// Says what of this connection the next wait is to report; it holds until the next call.
    fn watch(&mut self, link: &mut Self::Link, interest: Interest) -> io::Result<()>;

    /// Waits until something watched is ready, and says what in `ready`.
    fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()>;

    /// Moves bytes that have arrived into `input`, with one system call at most.
    ///
    /// # Errors
    /// `WouldBlock` when none have arrived.
    fn receive(&mut self, link: &mut Self::Link, input: &mut Input) -> io::Result<Received>;

    /// Moves bytes from `output` to the socket, with one system call at most.
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes none for now.
    fn send(&mut self, link: &mut Self::Link, output: &Output) -> io::Result<Sent>;

    /// Closes a connection.
    fn remove(&mut self, link: Self::Link);
}

/// What a shard wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Bytes that have arrived.
    pub(crate) input: bool,
    /// Room for bytes to send.
    pub(crate) output: bool,
}

/// What a wait has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ready {
    /// The mailbox rang.
    Mail,
    /// Bytes have arrived, or the connection is over.
    Input(u64),
    /// There is room for bytes to send.
    Output(u64),
    /// The connection is over, and nothing of it was watched.
    Over(u64),
}

/// What one call has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes; none when the peer has sent its last.
    pub(crate) count: usize,
    /// Whether more may have arrived already.
    pub(crate) more: bool,
}

/// What one call has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes.
    pub(crate) count: usize,
    /// Whether the socket took all that it was given, and may take more.
    pub(crate) more: bool,
}
