//! Everything that a shard asks of the kernel: readiness by epoll, bytes by one system call for each connection and
//! direction.

use crate::input::Input;
use crate::mailbox::Mailbox;
use crate::output::Output;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// The event data of the mailbox; connections count from one.
const MAIL: u64 = 0;
/// Replies handed to the kernel in one call.
const SLICES_MAX: usize = 64;
/// Bytes handed to the kernel in one call: other connections are looked after in between.
const STEP_BYTES_MAX: usize = 256 << 10;
/// Bytes read from a socket at once when no large record is under way.
const SCRATCH_SIZE: usize = 256 << 10;
/// The same for an untrusted connection: its short requests wait for their turns, each in memory of its own.
const UNTRUSTED_READ_MAX: usize = 16 << 10;
/// Bytes read beyond a large record: enough to learn what follows it.
const HEAD_SIZE: usize = 4 << 10;

/// The epoll set of one shard, made and used on its thread.
///
/// It knows no records: received bytes go into a connection's [`Input`], bytes to send come from its [`Output`].
pub(crate) struct Driver {
    epoll: OwnedFd,
    mailbox: Arc<Mailbox>,
    events: Vec<Event>,
    scratch: Vec<u8>,
}

/// A socket in the epoll set; dropping it closes the socket and takes it out of the set.
pub(crate) struct Link {
    id: u64,
    stream: TcpStream,
    interest: Interest,
}

impl Driver {
    /// Makes a driver that wakes when the mailbox rings.
    pub(crate) fn new(mailbox: &Arc<Mailbox>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, mailbox.as_ref(), EventData::new_u64(MAIL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            mailbox: mailbox.clone(),
            events: Vec::with_capacity(EVENTS_MAX),
            scratch: vec![0; SCRATCH_SIZE],
        })
    }

    /// Takes over a connection's socket, which does not block.
    pub(crate) fn add(&mut self, id: u64, stream: TcpStream) -> io::Result<Link> {
        let interest = Interest { input: true, output: false };
        epoll::add(&self.epoll, &stream, EventData::new_u64(id), flags(interest))?;
        Ok(Link { id, stream, interest })
    }

    /// Says what of this connection the next wait is to report; it holds until the next call.
    pub(crate) fn watch(&mut self, link: &mut Link, interest: Interest) -> io::Result<()> {
        if std::mem::replace(&mut link.interest, interest) != interest {
            epoll::modify(&self.epoll, &link.stream, EventData::new_u64(link.id), flags(interest))?;
        }
        Ok(())
    }

    /// Waits until something watched is ready, and appends it to `ready`.
    pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let (id, flags) = (event.data.u64(), event.flags);
            if id == MAIL {
                self.mailbox.silence();
                ready.push(Ready::Mail);
                continue;
            }
            if flags.contains(EventFlags::OUT) {
                ready.push(Ready::Output(id));
            }
            if flags.contains(EventFlags::IN) {
                ready.push(Ready::Input(id));
            } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                // The kernel reports these unasked, at each wait for as long as the socket is there.
                ready.push(Ready::Over(id));
            }
        }
        Ok(())
    }

    /// Moves bytes that have arrived with one system call: first into the record under way, then through the scratch
    /// memory.
    ///
    /// # Errors
    /// `WouldBlock` when none have arrived.
    pub(crate) fn receive(&mut self, link: &Link, input: &mut Input, trusted: bool) -> io::Result<Received> {
        let scratch = &mut self.scratch;
        let beyond = match input.expects_large() {
            true => HEAD_SIZE,
            false if trusted => scratch.len(),
            false => UNTRUSTED_READ_MAX,
        };
        let target = input.target();
        let room = target.len();
        let mut places =
            [IoSliceMut::new(target), IoSliceMut::new(scratch.get_mut(..beyond).unwrap_or_default())];
        let places = if room == 0 { &mut places[1..] } else { &mut places[..] };
        let count = (&link.stream).read_vectored(places)?;
        input.advance(count.min(room));
        input.push(scratch.get(..count.saturating_sub(room)).unwrap_or_default());
        Ok(Received { count, more: count == room + beyond })
    }

    /// Moves bytes from `output` to the socket with one system call, as many replies as one step may.
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes none for now.
    pub(crate) fn send(link: &Link, output: &Output) -> io::Result<Sent> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (used, bytes) = output.slices(&mut slices, STEP_BYTES_MAX);
        let count = (&link.stream).write_vectored(slices.get(..used).unwrap_or_default())?;
        Ok(Sent { count, more: count == bytes })
    }
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.input);
    flags.set(EventFlags::OUT, interest.output);
    flags
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
