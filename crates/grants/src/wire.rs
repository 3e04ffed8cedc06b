//! The messages between users, nodes, schedulers and the grant service, and the sealed channel that
//! carries them.
//!
//! A connection has one exchange: the GSS token of the client (RFC 4121 section 4.1), the reply
//! token, the request and the reply. Each is a frame, a length in four bytes and so many bytes. An
//! empty reply token says that the service does not accept the client's.
//! Request and reply are JSON in a sealed token (RFC 4121 section 4.2.4). The context belongs to
//! the connection alone and has a fresh subkey, so that a recorded connection cannot be replayed: a
//! recorded first token is accepted, but only the owner of its key can seal a request.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use gss::{Acceptor, Credential, Established, ForwardedTicket, GssError, Initiator, Step};
use krb5::{Segments, TokenError, UnwrapMessage, WRAP_HEADROOM, WrapMessage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::table::{Grant, GrantSubmission};

/// Largest GSS token, in bytes. Tickets with many groups in their PAC have tens of kilobytes.
pub const TOKEN_FRAME_MAX: usize = 64 << 10;
/// Largest request, in bytes.
pub const REQUEST_FRAME_MAX: usize = 1 << 20;
/// Largest reply, in bytes.
pub const REPLY_FRAME_MAX: usize = 32 << 20;

/// A request to the grant service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantRequest {
    /// From a user: a new grant.
    Submit(GrantSubmission),
    /// From a user, for an own grant, or from an administrator or scheduler: ends a grant.
    End {
        /// The principal of the grant; `None` for the caller's.
        principal: Option<String>,
        /// The job of the grant.
        job: String,
    },
    /// From a user: the own grants. From an administrator: all grants.
    List,
    /// From a scheduler: the nodes of a run; none at its end.
    Assign {
        /// The principal of the job's user.
        principal: String,
        /// The job that grants refer to.
        job: String,
        /// The scheduler's name of this run.
        run: String,
        /// The nodes on which it runs.
        nodes: Vec<String>,
    },
    /// From a node: tickets for a job.
    Tickets {
        /// The principal of the job's user.
        principal: String,
        /// The job that grants refer to.
        job: String,
    },
}

/// The reply of the grant service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantReply {
    /// The grant as it is stored.
    Submitted(Grant),
    /// The KDC does not delegate for this user or service: the same submission with a forwarded
    /// ticket can succeed.
    NoDelegation(String),
    /// The change is stored.
    Done,
    /// The grants that the caller may see, with the nodes of their runs.
    Grants {
        /// The first of them, with their first nodes.
        grants: Vec<Grant>,
        /// Whether there are more than a reply may have.
        more: bool,
    },
    /// A ticket cache in MIT's file format, in hexadecimal.
    Tickets(String),
    /// The request is refused.
    Refused {
        /// Whether the same request can succeed later without a change.
        transient: bool,
        /// The cause and the remedy.
        text: String,
    },
}

/// A failure of an exchange.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The connection failed, or the peer was too slow.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A frame is larger than allowed.
    #[error("the peer announces {0} bytes, and {1} are allowed")]
    TooLarge(usize, usize),
    /// No context with the peer.
    #[error(transparent)]
    Gss(#[from] GssError),
    /// The service accepts no context with this ticket.
    #[error("the service does not accept the ticket")]
    NotAccepted,
    /// A sealed token is damaged or not encrypted.
    #[error("a message of the peer is damaged: {0}")]
    Token(TokenError),
    /// A message of the peer is not sealed.
    #[error("a message of the peer is not encrypted")]
    NotSealed,
    /// The message is no request or reply of this version.
    #[error("a message of the peer has another format: {0}")]
    Format(#[from] serde_json::Error),
    /// The system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

/// A connection with a deadline for all of it.
pub(crate) struct TimedStream {
    stream: TcpStream,
    end: Instant,
}

impl TimedStream {
    pub(crate) fn new(stream: TcpStream, time: Duration) -> Self {
        Self::until(stream, Instant::now() + time)
    }

    pub(crate) fn until(stream: TcpStream, end: Instant) -> Self {
        Self { stream, end }
    }

    fn remaining(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::new(io::ErrorKind::TimedOut, "too slow")) } else { Ok(left) }
    }

    /// Sends one frame within the time of the exchange.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        let length =
            u32::try_from(bytes.len()).map_err(|_| ExchangeError::TooLarge(bytes.len(), REPLY_FRAME_MAX))?;
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write_all(&[&length.to_be_bytes(), bytes].concat())?;
        Ok(())
    }

    /// Receives one frame of at most `max` bytes. Memory grows with the bytes that arrive, not with
    /// the announced length.
    pub(crate) fn receive(&mut self, max: usize) -> Result<Vec<u8>, ExchangeError> {
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > max {
            return Err(ExchangeError::TooLarge(length, max));
        }
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let start = bytes.len();
            bytes.resize(length.min(start + (64 << 10)), 0);
            let part = bytes.get_mut(start..).unwrap_or_default();
            self.fill(part)?;
        }
        Ok(bytes)
    }

    fn fill(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            self.stream.set_read_timeout(Some(self.remaining()?))?;
            let read = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer is too slow"));
                }
                Err(error) => return Err(error),
            };
            buffer = buffer.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }
}

/// An authenticated connection for one message in each direction.
pub(crate) struct SealedChannel {
    stream: TimedStream,
    context: Established,
}

impl SealedChannel {
    /// Accepts a context as the service.
    pub(crate) fn accept(mut stream: TimedStream, acceptor: &Acceptor) -> Result<Self, ExchangeError> {
        let accepted = acceptor.accept_forwarded(&stream.receive(TOKEN_FRAME_MAX)?);
        stream.send(accepted.as_ref().map_or(&[], |context| &context.token))?;
        Ok(Self { stream, context: accepted? })
    }

    /// Establishes a context with `target`, such as `grants@host.example.org`. Connects only once
    /// there is a ticket. With `forwards` the service gets a forwarded ticket-granting ticket.
    pub(crate) fn initiate(
        connect: impl FnOnce() -> io::Result<TimedStream>,
        target: &str,
        credential: &Credential,
        forwards: bool,
    ) -> Result<Self, ExchangeError> {
        let begin = if forwards { Initiator::forwarding } else { Initiator::new };
        let mut initiator = begin(target, credential)?;
        let mut step = initiator.step(None)?;
        let mut stream = connect()?;
        loop {
            match step {
                Step::Send(token) => stream.send(&token)?,
                Step::Done(context) => return Ok(Self { stream, context: *context }),
            }
            let token = stream.receive(TOKEN_FRAME_MAX)?;
            if token.is_empty() {
                return Err(ExchangeError::NotAccepted);
            }
            step = initiator.step(Some(&token))?;
        }
    }

    /// Returns the peer's principal with its realm.
    pub(crate) fn peer(&self) -> &str {
        &self.context.principal
    }

    /// Takes the ticket that the peer has forwarded.
    pub(crate) fn take_forwarded(&mut self) -> Option<ForwardedTicket> {
        self.context.forwarded.take()
    }

    /// Gives the rest of the exchange this much time from now.
    pub(crate) fn extend(&mut self, time: Duration) {
        self.stream.end = Instant::now() + time;
    }

    /// Seals and sends a message. Each side sends one, so that its number is the first.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ExchangeError> {
        let mut bytes = vec![0; WRAP_HEADROOM];
        serde_json::to_writer(&mut bytes, message)?;
        bytes.resize(bytes.len() + self.context.keys.wrap_trailer_len(), 0);
        let mut confounder = [0; 16];
        getrandom::fill(&mut confounder).map_err(ExchangeError::Random)?;
        let (keys, sequence) = (&self.context.keys, self.context.send_sequence);
        let token = Segments::from(bytes.as_mut_slice());
        krb5::wrap(&mut [WrapMessage { keys, sequence, confounder, token }]);
        self.stream.send(&bytes)
    }

    /// Receives and opens a message of at most `max` bytes.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, max: usize) -> Result<T, ExchangeError> {
        let mut bytes = self.stream.receive(max)?;
        let (token, result) = (Segments::from(bytes.as_mut_slice()), Err(TokenError::Malformed));
        let mut batch = [UnwrapMessage { keys: &self.context.keys, token, result }];
        krb5::unwrap(&mut batch);
        let [UnwrapMessage { result, .. }] = batch;
        let opened = result.map_err(ExchangeError::Token)?;
        if !opened.sealed {
            return Err(ExchangeError::NotSealed);
        }
        Ok(serde_json::from_slice(bytes.get(opened.plain).unwrap_or_default())?)
    }
}

/// Encodes bytes in hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits; `None` for anything else.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair(time: Duration) -> (TimedStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (TimedStream::new(listener.accept().unwrap().0, time), client)
    }

    #[test]
    fn hexadecimal_digits_are_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        for wrong in ["0", "0g", "+1", "é"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_peer_that_sends_slowly_has_no_more_time_than_one_that_sends_nothing() {
        let (mut stream, mut client) = pair(Duration::from_millis(300));
        let begin = Instant::now();
        let slow = std::thread::spawn(move || {
            let _ = client.write_all(&1000_u32.to_be_bytes());
            while begin.elapsed() < Duration::from_secs(2) && client.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(matches!(stream.receive(1000), Err(ExchangeError::Io(_))));
        assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
        drop(stream);
        slow.join().unwrap();
    }

    #[test]
    fn a_frame_that_is_announced_too_large_is_refused_at_once() {
        let (mut stream, mut client) = pair(Duration::from_secs(5));
        client.write_all(&u32::MAX.to_be_bytes()).unwrap();
        assert!(matches!(stream.receive(TOKEN_FRAME_MAX), Err(ExchangeError::TooLarge(..))));
    }
}
