//! Readiness by epoll, bytes by one system call a connection and direction.

use super::{Driver, Interest, Mailbox, Ready, Received, Sent, direct};
use crate::input::Input;
use crate::output::Output;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// The event data of the mailbox; connections count from one.
const MAIL: u64 = 0;

/// The driver for every kernel.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    mailbox: Arc<Mailbox>,
    events: Vec<Event>,
    scratch: Vec<u8>,
}

/// A socket in the epoll set.
pub(crate) struct Watched {
    id: u64,
    stream: TcpStream,
    interest: Interest,
}

impl Driver for Epoll {
    type Link = Watched;

    fn new(mailbox: &Arc<Mailbox>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, mailbox.as_ref(), EventData::new_u64(MAIL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            mailbox: mailbox.clone(),
            events: Vec::with_capacity(EVENTS_MAX),
            scratch: vec![0; direct::SCRATCH_SIZE],
        })
    }

    fn add(&mut self, id: u64, stream: TcpStream) -> io::Result<Watched> {
        let interest = Interest { input: true, output: false };
        epoll::add(&self.epoll, &stream, EventData::new_u64(id), flags(interest))?;
        Ok(Watched { id, stream, interest })
    }

    fn watch(&mut self, link: &mut Watched, interest: Interest) -> io::Result<()> {
        if std::mem::replace(&mut link.interest, interest) != interest {
            epoll::modify(&self.epoll, &link.stream, EventData::new_u64(link.id), flags(interest))?;
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
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

    fn receive(&mut self, link: &mut Watched, input: &mut Input) -> io::Result<Received> {
        direct::receive(&link.stream, input, &mut self.scratch)
    }

    fn send(&mut self, link: &mut Watched, output: &Output) -> io::Result<Sent> {
        direct::send(&link.stream, output)
    }

    fn remove(&mut self, link: Watched) {
        // Closing the socket takes it out of the epoll set as well.
        drop(link);
    }
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.input);
    flags.set(EventFlags::OUT, interest.output);
    flags
}
