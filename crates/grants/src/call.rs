//! Calls of a grant service, by users, schedulers and nodes.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use gss::{Credential, GssError};

use crate::clock::chance;
use crate::wire::{ExchangeError, GrantReply, GrantRequest, REPLY_FRAME_MAX, SealedChannel, TimedStream};

/// Time to connect to one address of the service.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time of a whole exchange. The service may wait for the KDC.
const CALL_TIME_MAX: Duration = Duration::from_secs(40);
/// Shortest and longest time between two calls while the service is busy or restarts.
const CALLS_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The address of a grant service. Its principal is `grants/HOST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantServer {
    /// The host name, which is part of the service's principal.
    pub host: String,
    /// The TCP port at which it listens.
    pub port: u16,
}

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum GrantCallError {
    /// The user has no ticket, or only an expired one.
    #[error("no valid ticket: run `kinit`, then this command again ({0})")]
    NoTicket(GssError),
    /// The service cannot be reached, or the exchange failed.
    #[error("no answer of the grant service {server}: {error}")]
    Exchange {
        /// The service's host and port.
        server: String,
        /// The failure of the network or of the context.
        error: ExchangeError,
    },
    /// The service accepts no context with the ticket, as after its key was replaced.
    #[error(
        "the grant service {0} does not accept the ticket, and its log says why: if its key was replaced, run `kdestroy` and `kinit`, then this command again"
    )]
    NotAccepted(String),
    /// The service refuses the request.
    #[error("{text}")]
    Refused {
        /// Whether the same request can succeed later without a change.
        transient: bool,
        /// The cause and the remedy.
        text: String,
    },
}

impl GrantCallError {
    /// Returns whether the same call can succeed a moment later.
    fn is_transient(&self) -> bool {
        match self {
            Self::Refused { transient, .. } => *transient,
            Self::Exchange { error, .. } => matches!(error, ExchangeError::Io(_)),
            Self::NoTicket(_) | Self::NotAccepted(_) => false,
        }
    }
}

impl GrantServer {
    /// Sends a request as [`GrantServer::call`] does, and again while the service is busy: the
    /// prologs of many jobs call at the same moment, and one address has few places. The exchanges
    /// end within `time`; the service may see the request twice.
    ///
    /// # Errors
    /// The last [`GrantCallError`].
    pub fn call_patiently(
        &self,
        credential: &Credential,
        request: &GrantRequest,
        time: Duration,
    ) -> Result<GrantReply, GrantCallError> {
        let (mut pause, longest) = CALLS_PAUSE;
        let end = Instant::now() + time;
        loop {
            let outcome = self.call_until(end, credential, request);
            let is_over = Instant::now() + pause >= end;
            if is_over || !outcome.as_ref().is_err_and(GrantCallError::is_transient) {
                return outcome;
            }
            std::thread::sleep(pause.mul_f64(0.5 + chance()));
            pause = (pause * 2).min(longest);
        }
    }

    /// Sends a request and returns the reply, which is not `Refused`.
    ///
    /// # Errors
    /// [`GrantCallError`].
    pub fn call(
        &self,
        credential: &Credential,
        request: &GrantRequest,
    ) -> Result<GrantReply, GrantCallError> {
        self.call_until(Instant::now() + CALL_TIME_MAX, credential, request)
    }

    fn call_until(
        &self,
        end: Instant,
        credential: &Credential,
        request: &GrantRequest,
    ) -> Result<GrantReply, GrantCallError> {
        let exchange = || {
            let target = format!("grants@{}", self.host);
            let forwards = matches!(request, GrantRequest::Submit(submission) if submission.forwarded);
            let mut channel = SealedChannel::initiate(|| self.connect(end), &target, credential, forwards)?;
            channel.send(request)?;
            channel.receive(REPLY_FRAME_MAX)
        };
        let server = || format!("{}:{}", self.host, self.port);
        match exchange() {
            Ok(GrantReply::Refused { transient, text }) => Err(GrantCallError::Refused { transient, text }),
            Ok(reply) => Ok(reply),
            Err(ExchangeError::Gss(error @ (GssError::NoTicket(_) | GssError::TicketExpired(_)))) => {
                Err(GrantCallError::NoTicket(error))
            }
            Err(ExchangeError::NotAccepted) => {
                // The next call with a keytab fetches a ticket for the new key.
                credential.forget_tickets();
                Err(GrantCallError::NotAccepted(server()))
            }
            Err(error) => Err(GrantCallError::Exchange { server: server(), error }),
        }
    }

    fn connect(&self, end: Instant) -> io::Result<TimedStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX.min(left)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(TimedStream::until(stream, end));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
