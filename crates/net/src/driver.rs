//! The system calls of a shard: readiness by epoll, and one vectored read or write per step of a
//! connection.

use crate::input::Input;
use crate::mailbox::Mailbox;
use crate::output::Output;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// The event data of the mailbox; connections count from one.
const MAIL: u64 = 0;
/// The event data of the set of strangers.
const STRANGERS: u64 = u64::MAX;
/// Replies passed to the kernel in one call.
const SLICES_MAX: usize = 64;
/// Bytes passed to the kernel in one call. The shard can serve other connections between calls.
const STEP_BYTES_MAX: usize = 256 << 10;
/// Bytes read from a socket at once when no large record is in progress.
const SCRATCH_SIZE: usize = 256 << 10;
/// Bytes read from a stranger's socket at once. Small, because waiting requests keep their memory.
const STRANGER_READ_MAX: usize = 16 << 10;
/// Bytes of a stranger's large record that are read at once.
const STRANGER_LARGE_READ_MAX: usize = 64 << 10;
/// Bytes read behind a large record: enough for the header of the next one.
const HEAD_SIZE: usize = 4 << 10;

/// The epoll sets of one shard.
///
/// Strangers have a set of their own inside the main one, so that sockets cost no time before their
/// turn, regardless of the bytes that arrive on them. The set reports a stranger once and not again
/// until [`EpollDriver::watch`].
///
/// A driver knows no records: received bytes go into a connection's [`Input`], bytes to send come
/// from its [`Output`].
pub(crate) struct EpollDriver {
    epoll: OwnedFd,
    strangers: OwnedFd,
    /// Whether a wait ends when a stranger is ready.
    watches_strangers: bool,
    /// Whether a stranger may be ready, as far as the last wait tells.
    strangers_ready: bool,
    scratch: Vec<u8>,
}

/// A socket in one of the epoll sets, until [`EpollDriver::remove`].
pub(crate) struct Link {
    id: u64,
    stream: TcpStream,
    interest: Interest,
    is_stranger: bool,
    /// Whether the set reports the socket; a report disarms a stranger.
    armed: bool,
}

impl Link {
    /// Returns the socket of the connection.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns whether bytes wait to be read.
    pub(crate) fn has_input(&self) -> bool {
        rustix::io::ioctl_fionread(&self.stream).is_ok_and(|count| count > 0)
    }

    /// Records that the socket of a stranger has been reported.
    pub(crate) fn disarm(&mut self) {
        self.armed = !self.is_stranger;
    }
}

impl EpollDriver {
    /// Creates a driver that wakes when the mailbox rings.
    pub(crate) fn new(mailbox: &Arc<Mailbox>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, mailbox.as_ref(), EventData::new_u64(MAIL), EventFlags::IN)?;
        let strangers = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &strangers, EventData::new_u64(STRANGERS), EventFlags::IN)?;
        Ok(Self {
            epoll,
            strangers,
            watches_strangers: true,
            strangers_ready: true,
            scratch: vec![0; SCRATCH_SIZE],
        })
    }

    /// Adds the non-blocking socket of a stranger.
    pub(crate) fn add(&mut self, id: u64, stream: TcpStream) -> io::Result<Link> {
        let interest = Interest { input: true, output: false };
        let link = Link { id, stream, interest, is_stranger: true, armed: true };
        epoll::add(&self.strangers, &link.stream, EventData::new_u64(id), flags(&link))?;
        Ok(link)
    }

    /// Moves the socket of a stranger to the main set.
    pub(crate) fn promote(&mut self, link: &mut Link) -> io::Result<()> {
        if !std::mem::take(&mut link.is_stranger) {
            return Ok(());
        }
        link.armed = true;
        epoll::delete(&self.strangers, &link.stream)?;
        Ok(epoll::add(&self.epoll, &link.stream, EventData::new_u64(link.id), flags(link))?)
    }

    /// Removes a socket from its set, before the caller drops it. While another process holds the
    /// socket, as during an upgrade, dropping it removes nothing and ends no connection: `ends` has
    /// the connection end for that process as well.
    pub(crate) fn remove(&self, link: &Link, ends: bool) {
        let set = if link.is_stranger { &self.strangers } else { &self.epoll };
        // A socket is in no set if adding it has failed, and a peer may have ended the connection.
        let _ = epoll::delete(set, &link.stream);
        if ends {
            let _ = link.stream.shutdown(Shutdown::Both);
        }
    }

    /// Sets the readiness of this connection that waits report; for a stranger, once.
    pub(crate) fn watch(&mut self, link: &mut Link, interest: Interest) -> io::Result<()> {
        if std::mem::replace(&mut link.interest, interest) != interest || !link.armed {
            link.armed = true;
            let set = if link.is_stranger { &self.strangers } else { &self.epoll };
            epoll::modify(set, &link.stream, EventData::new_u64(link.id), flags(link))?;
        }
        Ok(())
    }

    /// Sets whether the next waits end when a stranger is ready.
    pub(crate) fn watch_strangers(&mut self, watches: bool) -> io::Result<()> {
        if std::mem::replace(&mut self.watches_strangers, watches) != watches {
            let flags = if watches { EventFlags::IN } else { EventFlags::empty() };
            epoll::modify(&self.epoll, &self.strangers, EventData::new_u64(STRANGERS), flags)?;
        }
        Ok(())
    }

    /// Waits until something watched is ready, and appends it to `ready`.
    pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.ask(false, timeout, ready)
    }

    /// Returns whether a stranger may be ready.
    pub(crate) fn has_ready_strangers(&self) -> bool {
        self.strangers_ready
    }

    /// Appends ready strangers to `ready`.
    pub(crate) fn poll_strangers(&mut self, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.ask(true, Duration::ZERO, ready)
    }

    fn ask(&mut self, strangers: bool, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let set = if strangers { &self.strangers } else { &self.epoll };
        if !strangers {
            // A wait that does not watch them tells nothing.
            self.strangers_ready = !self.watches_strangers;
        }
        // On the stack, because the kernel's events cannot move between threads, but a driver can.
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(set, &mut room, Some(&timeout)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (id, flags) = (event.data.u64(), event.flags);
            if id == MAIL {
                ready.push(Ready::Mail);
                continue;
            }
            if id == STRANGERS {
                self.strangers_ready = true;
                continue;
            }
            if flags.contains(EventFlags::OUT) {
                ready.push(Ready::Output(id));
            }
            if flags.contains(EventFlags::IN) {
                ready.push(Ready::Input(id));
            } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                // The kernel always reports these events, at each wait while the socket exists.
                ready.push(Ready::Over(id));
            }
        }
        Ok(())
    }

    /// Reads bytes with one system call: first into the record in progress, then through the
    /// scratch memory.
    ///
    /// # Errors
    /// `WouldBlock` if none have arrived.
    pub(crate) fn receive(&mut self, link: &Link, input: &mut Input, trusted: bool) -> io::Result<Received> {
        let scratch = &mut self.scratch;
        let beyond = match input.expects_large() {
            true => HEAD_SIZE,
            false if trusted => scratch.len(),
            false => STRANGER_READ_MAX,
        };
        let target = input.target();
        let most = if trusted { target.len() } else { target.len().min(STRANGER_LARGE_READ_MAX) };
        let target = target.get_mut(..most).unwrap_or_default();
        let room = target.len();
        let mut places =
            [IoSliceMut::new(target), IoSliceMut::new(scratch.get_mut(..beyond).unwrap_or_default())];
        let places = if room == 0 { &mut places[1..] } else { &mut places[..] };
        let count = (&link.stream).read_vectored(places)?;
        input.advance(count.min(room));
        input.push(scratch.get(..count.saturating_sub(room)).unwrap_or_default());
        Ok(Received { count, more: count == room + beyond })
    }

    /// Sends bytes of `output` with one system call, at most [`SLICES_MAX`] replies and about
    /// [`STEP_BYTES_MAX`] bytes. Moves completely sent replies to `spent`.
    ///
    /// # Errors
    /// `WouldBlock` if the socket takes none at the moment.
    pub(crate) fn send(link: &Link, output: &mut Output, spent: &mut Vec<Vec<u8>>) -> io::Result<Sent> {
        if let Some((data, more)) = output.file_data() {
            let wanted = data.len().min(STEP_BYTES_MAX);
            let count = data.send(link.stream.as_fd(), wanted, more)?;
            output.advance_data(count);
            return Ok(Sent { count, more: count == wanted });
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let gathered = output.slices(&mut slices, STEP_BYTES_MAX);
        let slices = slices.get(..gathered.used).unwrap_or_default();
        // Without the flag, the bytes before file data would leave in a packet of their own.
        let flags = if gathered.data_follows { SendFlags::MORE } else { SendFlags::empty() };
        let mut control = SendAncillaryBuffer::default();
        let count = sendmsg(&link.stream, slices, &mut control, flags | SendFlags::NOSIGNAL)?;
        output.advance(count, spent);
        Ok(Sent { count, more: count == gathered.bytes })
    }
}

fn flags(link: &Link) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, link.interest.input);
    flags.set(EventFlags::OUT, link.interest.output);
    flags.set(EventFlags::ONESHOT, link.is_stranger);
    flags
}

/// The readiness that a shard waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Readable: bytes have arrived.
    pub(crate) input: bool,
    /// Writable: there is room for bytes to send.
    pub(crate) output: bool,
}

/// One event of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ready {
    /// The mailbox has rung, and rings until [`Mailbox::silence`].
    Mail,
    /// Bytes have arrived, or the connection is over.
    Input(u64),
    /// There is room for bytes to send.
    Output(u64),
    /// The connection has ended while the shard watched neither direction.
    Over(u64),
}

impl Ready {
    /// Returns the connection of the event.
    pub(crate) fn connection(self) -> Option<u64> {
        match self {
            Self::Mail => None,
            Self::Input(id) | Self::Output(id) | Self::Over(id) => Some(id),
        }
    }
}

/// The result of one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes received; 0 at the end of the stream.
    pub(crate) count: usize,
    /// Whether more bytes may have arrived.
    pub(crate) more: bool,
}

/// The result of one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes that the socket took.
    pub(crate) count: usize,
    /// Whether the socket took all bytes, and may take more.
    pub(crate) more: bool,
}
