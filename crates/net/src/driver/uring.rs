//! Bytes and readiness by io_uring: what is short arrives with the wait itself, so that a shard's tick takes one
//! system call for all its connections and one for each that it answers.
//!
//! Short input comes in the ring's own buffers, which idle connections do not take. Large records are waited for and
//! then read straight into their memory, and replies are sent, as with epoll: that one call is nothing beside their
//! bytes, and so no memory of a connection is ever in the kernel's hands.

use super::{Driver, Interest, Mailbox, Ready, Received, Sent, direct};
use crate::input::Input;
use crate::output::Output;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use uring::{Chunk, Completion, Events, Options, Ring};

/// Sizes of a shard's ring: 4 MiB of buffers, of which only as much becomes resident as arrives at once.
const OPTIONS: Options = Options { entries: 256, buffers: 64, buffer_size: 64 << 10 };
/// The tag of the mailbox's bell.
const MAIL: u64 = u64::MAX;

/// What an operation is for: the lowest bits of its tag, below the place of its link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive = 0,
    Input = 1,
    Output = 2,
    Cancel = 3,
}

const KIND_BITS: u32 = 2;

impl Kind {
    fn tag(self, place: usize) -> u64 {
        (place as u64) << KIND_BITS | self as u64
    }

    fn of(tag: u64) -> (Self, usize) {
        let kind = match tag & ((1 << KIND_BITS) - 1) {
            0 => Self::Receive,
            1 => Self::Input,
            2 => Self::Output,
            _ => Self::Cancel,
        };
        (kind, usize::try_from(tag >> KIND_BITS).unwrap_or(usize::MAX))
    }
}

/// What is known of a socket's input.
enum Arrived {
    /// Nothing.
    Unknown,
    /// There may be something to read.
    Readable,
    /// The kernel has received it already; whether there is more.
    Chunk(Chunk, usize, bool),
    /// The peer has sent its last.
    End,
    /// The socket failed.
    Failed(io::Error),
}

struct Link {
    id: u64,
    stream: Arc<TcpStream>,
    arrived: Arrived,
    /// Whether a large record is under way or likely to come.
    large: bool,
    /// Operations under way: at most one that waits for input, one for output, and their cancellations.
    input: Option<Kind>,
    output: bool,
    cancels: u8,
    closed: bool,
}

/// The place of a connection in the driver's table.
pub(crate) struct Place(usize);

/// The driver for kernels from 6.1 on that have io_uring.
pub(crate) struct Uring {
    ring: Ring,
    mailbox: Arc<Mailbox>,
    links: Vec<Option<Link>>,
    free: Vec<usize>,
    /// Connections whose input is known already; the next wait reports them.
    due: Vec<u64>,
    completions: Vec<Completion>,
    scratch: Vec<u8>,
}

impl Driver for Uring {
    type Link = Place;

    fn new(mailbox: &Arc<Mailbox>) -> io::Result<Self> {
        let mut ring = Ring::new(&OPTIONS)?;
        ring.poll(mailbox.clone(), Events::Input, MAIL)?;
        Ok(Self {
            ring,
            mailbox: mailbox.clone(),
            links: Vec::new(),
            free: Vec::new(),
            due: Vec::new(),
            completions: Vec::new(),
            scratch: vec![0; direct::SCRATCH_SIZE],
        })
    }

    fn add(&mut self, id: u64, stream: TcpStream) -> io::Result<Place> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        let link = Link {
            id,
            stream: Arc::new(stream),
            arrived: Arrived::Unknown,
            large: false,
            input: None,
            output: false,
            cancels: 0,
            closed: false,
        };
        if let Some(free) = self.links.get_mut(place) {
            *free = Some(link);
        }
        let mut place = Place(place);
        match self.watch(&mut place, Interest { input: true, output: false }) {
            Ok(()) => Ok(place),
            Err(error) => {
                self.remove(place);
                Err(error)
            }
        }
    }

    /// What is under way is not taken back: an event that nobody wants any more is kept until it is wanted.
    fn watch(&mut self, place: &mut Place, interest: Interest) -> io::Result<()> {
        let Some(Some(link)) = self.links.get_mut(place.0) else { return Ok(()) };
        if interest.input && link.input.is_none() {
            match link.arrived {
                Arrived::Unknown if link.large => {
                    self.ring.poll(link.stream.clone(), Events::Input, Kind::Input.tag(place.0))?;
                    link.input = Some(Kind::Input);
                }
                Arrived::Unknown => {
                    self.ring.receive(link.stream.clone(), Kind::Receive.tag(place.0))?;
                    link.input = Some(Kind::Receive);
                }
                _ => self.due.push(link.id),
            }
        }
        if interest.output && !link.output {
            self.ring.poll(link.stream.clone(), Events::Output, Kind::Output.tag(place.0))?;
            link.output = true;
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = if self.due.is_empty() { timeout } else { Duration::ZERO };
        let mut completions = std::mem::take(&mut self.completions);
        let waited = self.ring.wait(timeout, &mut completions);
        ready.extend(self.due.drain(..).map(Ready::Input));
        for completion in completions.drain(..) {
            ready.extend(self.complete(completion));
        }
        self.completions = completions;
        waited
    }

    fn receive(&mut self, place: &mut Place, input: &mut Input) -> io::Result<Received> {
        let Some(Some(link)) = self.links.get_mut(place.0) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let received = match std::mem::replace(&mut link.arrived, Arrived::Unknown) {
            Arrived::Unknown => Err(io::ErrorKind::WouldBlock.into()),
            Arrived::Readable => direct::receive(&link.stream, input, &mut self.scratch),
            Arrived::Chunk(chunk, count, more) => {
                input.push(self.ring.bytes(&chunk));
                self.ring.give_back(chunk);
                Ok(Received { count, more })
            }
            Arrived::End => Ok(Received { count: 0, more: false }),
            Arrived::Failed(error) => Err(error),
        };
        match &received {
            Ok(Received { more: true, .. }) => link.arrived = Arrived::Readable,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => link.arrived = Arrived::Readable,
            _ => {}
        }
        link.large = input.expects_large();
        received
    }

    fn send(&mut self, place: &mut Place, output: &Output) -> io::Result<Sent> {
        let Some(Some(link)) = self.links.get(place.0) else { return Err(io::ErrorKind::NotFound.into()) };
        direct::send(&link.stream, output)
    }

    fn remove(&mut self, Place(place): Place) {
        let Some(Some(link)) = self.links.get_mut(place) else { return };
        link.closed = true;
        if let Arrived::Chunk(chunk, ..) = std::mem::replace(&mut link.arrived, Arrived::Unknown) {
            self.ring.give_back(chunk);
        }
        // Operations hold the socket open: the peer hears of its end when they are over.
        let output = link.output.then_some(Kind::Output);
        for kind in link.input.into_iter().chain(output) {
            if self.ring.cancel(kind.tag(place), Kind::Cancel.tag(place)).is_ok() {
                link.cancels += 1;
            }
        }
        self.free_if_over(place);
    }
}

impl Uring {
    /// Notes an operation's end and says what it means to the shard.
    fn complete(&mut self, completion: Completion) -> Option<Ready> {
        if completion.tag == MAIL {
            self.mailbox.silence();
            if let Err(error) = self.ring.poll(self.mailbox.clone(), Events::Input, MAIL) {
                tracing::error!("the mailbox cannot be watched: {error}");
            }
            return Some(Ready::Mail);
        }
        let (kind, place) = Kind::of(completion.tag);
        let Some(Some(link)) = self.links.get_mut(place) else { return None };
        match kind {
            Kind::Receive | Kind::Input => link.input = None,
            Kind::Output => link.output = false,
            Kind::Cancel => link.cancels = link.cancels.saturating_sub(1),
        }
        if link.closed {
            completion.chunk.into_iter().for_each(|chunk| self.ring.give_back(chunk));
            self.free_if_over(place);
            return None;
        }
        match kind {
            Kind::Cancel => return None,
            Kind::Output => return Some(Ready::Output(link.id)),
            Kind::Input => link.arrived = Arrived::Readable,
            Kind::Receive => link.arrived = arrived(completion, self.ring.buffer_size()),
        }
        Some(Ready::Input(link.id))
    }

    fn free_if_over(&mut self, place: usize) {
        let Some(slot) = self.links.get_mut(place) else { return };
        if slot.as_ref().is_some_and(|link| link.input.is_none() && !link.output && link.cancels == 0) {
            *slot = None;
            self.free.push(place);
        }
    }
}

/// What a receive has brought. One that found no buffer free is as good as readiness.
fn arrived(completion: Completion, buffer_size: usize) -> Arrived {
    match (completion.result, completion.chunk) {
        (Ok(count), Some(chunk)) if count > 0 => {
            Arrived::Chunk(chunk, count, completion.more || count == buffer_size)
        }
        (Ok(_), _) => Arrived::End,
        (Err(error), _) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
            Arrived::Readable
        }
        (Err(error), _) => Arrived::Failed(error),
    }
}
