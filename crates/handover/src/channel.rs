//! Messages with descriptors over a pair of sockets. Each message arrives whole, and each wait has
//! an end.

use minicbor::{Decode, Encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Descriptors that Linux takes with one message (SCM_MAX_FD).
pub const FDS_PER_MESSAGE_MAX: usize = 253;
/// Bytes of a message; the image goes as a file.
const MESSAGE_SIZE_MAX: usize = 64 << 10;

/// Why the other process gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other process has closed its end, or ended.
    #[error("the other process has ended")]
    Closed,
    /// It has sent nothing by the end of the wait.
    #[error("the other process does not answer")]
    Silent,
    /// The message means nothing, or descriptors are missing.
    #[error("the other process sends a message that means nothing: {0}")]
    Garbage(String),
    /// The error of the kernel.
    #[error("the other process cannot be reached: {0}")]
    System(#[from] Errno),
}

/// One end of the conversation.
#[derive(Debug)]
pub struct HandoverChannel(OwnedFd);

impl From<OwnedFd> for HandoverChannel {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl HandoverChannel {
    /// Makes both ends: one for this process, and one to pass on.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn pair() -> Result<(Self, OwnedFd), Errno> {
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), other))
    }

    /// Sends a message, with at most [`FDS_PER_MESSAGE_MAX`] descriptors.
    ///
    /// # Errors
    /// [`ChannelError::Closed`], [`ChannelError::Silent`] if the other end takes nothing by then.
    pub fn send(
        &self,
        message: &impl Encode<()>,
        fds: &[BorrowedFd<'_>],
        until: Instant,
    ) -> Result<(), ChannelError> {
        let bytes = image::encode(message);
        let mut space = ancillary_space();
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::TOOMANYREFS.into());
        }
        loop {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, until)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives a message with its descriptors.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub fn receive<T: for<'b> Decode<'b, ()>>(
        &self,
        until: Instant,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.wait(PollFlags::IN, until)?;
        let mut bytes = vec![0; MESSAGE_SIZE_MAX];
        let mut space = ancillary_space();
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut is_reset = false;
        let received = loop {
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(ChannelError::Silent),
                // The other end closed before it read all. Its last words may still be here: the
                // kernel reports this once, before them.
                Err(Errno::CONNRESET) if !is_reset => is_reset = true,
                Err(Errno::CONNRESET) => return Err(ChannelError::Closed),
                received => break received?,
            }
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(ChannelError::Garbage(
                "it is cut off, or a process may open too few files".to_owned(),
            ));
        }
        let message = image::decode(bytes.get(..received.bytes).unwrap_or_default());
        Ok((message.map_err(|error| ChannelError::Garbage(error.to_string()))?, fds))
    }

    /// Ends the conversation in both directions: no message arrives at the other end from now on.
    /// One that has arrived here before can still be received.
    pub fn close(&self) {
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    fn wait(&self, events: PollFlags, until: Instant) -> Result<(), ChannelError> {
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(rest).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            match poll(&mut [PollFd::new(&self.0, events)], Some(&timeout)) {
                Ok(0) if rest == Duration::ZERO => return Err(ChannelError::Silent),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for HandoverChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Room for the descriptors of one message.
fn ancillary_space() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_MESSAGE_MAX))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, SuccessorAnswer, Taken};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn messages_arrive_whole_and_in_order_with_their_descriptors() {
        let (own, other) = HandoverChannel::pair().unwrap();
        let other = HandoverChannel::from(other);
        let taken = Order::Take(Taken { sockets: 1, objects: 2 });
        let null = std::fs::File::open("/dev/null").unwrap();
        own.send(&taken, &[null.as_fd()], soon()).unwrap();
        own.send(&Order::Descriptors, &vec![null.as_fd(); FDS_PER_MESSAGE_MAX], soon()).unwrap();
        own.send(&Order::Go, &[], soon()).unwrap();
        let (order, fds) = other.receive::<Order>(soon()).unwrap();
        assert_eq!((order, fds.len()), (taken, 1));
        let (order, fds) = other.receive::<Order>(soon()).unwrap();
        assert_eq!((order, fds.len()), (Order::Descriptors, FDS_PER_MESSAGE_MAX));
        assert_eq!(other.receive::<Order>(soon()).unwrap().0, Order::Go);
        let too_many = vec![null.as_fd(); FDS_PER_MESSAGE_MAX + 1];
        assert!(own.send(&Order::Descriptors, &too_many, soon()).is_err());
    }

    #[test]
    fn the_last_words_of_an_end_that_reads_no_more_arrive() {
        let (own, other) = HandoverChannel::pair().unwrap();
        let other = HandoverChannel::from(other);
        own.send(&Order::Go, &[], soon()).unwrap();
        let words = SuccessorAnswer::Refused("a reason".to_owned());
        other.send(&words, &[], soon()).unwrap();
        drop(other);
        assert_eq!(own.receive::<SuccessorAnswer>(soon()).unwrap().0, words);
        assert!(matches!(own.receive::<SuccessorAnswer>(soon()), Err(ChannelError::Closed)));
    }

    #[test]
    fn closed_silent_and_garbled_ends_give_different_errors() {
        let (own, other) = HandoverChannel::pair().unwrap();
        let silent = own.receive::<SuccessorAnswer>(Instant::now() + Duration::from_millis(5));
        assert!(matches!(silent, Err(ChannelError::Silent)));
        rustix::io::write(&other, b"\xffgarbage").unwrap();
        assert!(matches!(own.receive::<SuccessorAnswer>(soon()), Err(ChannelError::Garbage(_))));
        rustix::io::write(&other, &[0; 70_000]).unwrap();
        assert!(matches!(own.receive::<SuccessorAnswer>(soon()), Err(ChannelError::Garbage(_))));
        drop(other);
        assert!(matches!(own.receive::<SuccessorAnswer>(soon()), Err(ChannelError::Closed)));
        assert!(matches!(own.send(&Order::Go, &[], soon()), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_message_arrives_before_the_close_or_never() {
        let (own, other) = HandoverChannel::pair().unwrap();
        let other = HandoverChannel::from(other);
        other.send(&SuccessorAnswer::Restored, &[], soon()).unwrap();
        own.close();
        assert!(matches!(other.send(&SuccessorAnswer::Serving, &[], soon()), Err(ChannelError::Closed)));
        assert_eq!(own.receive::<SuccessorAnswer>(soon()).unwrap().0, SuccessorAnswer::Restored);
        assert!(matches!(own.receive::<SuccessorAnswer>(soon()), Err(ChannelError::Closed)));
    }
}
