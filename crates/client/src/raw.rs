//! A blocking connection that sends and receives whole records.
//!
//! It carries session setup and context creation, and the invalid calls of server tests.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use rpc::{MsgType, RecordLimits, RecordReader, record_mark};

use crate::error::{Error, TransportError};
use crate::low_port::{connect_any, connect_low};
use crate::options::{Options, Security};

/// Returns the addresses of a server, in the resolver's order.
///
/// # Errors
/// [`TransportError::Resolve`] if there is no address.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, TransportError> {
    let failed = |cause| TransportError::Resolve { host: host.to_owned(), cause };
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(failed)?.collect();
    if addresses.is_empty() { Err(failed(std::io::ErrorKind::NotFound.into())) } else { Ok(addresses) }
}

/// A TCP connection that carries RPC records.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    reader: RecordReader,
    limits: RecordLimits,
    received: Vec<Vec<u8>>,
    early_calls: Vec<Vec<u8>>,
}

/// The number of calls of the server that a connection keeps during its setup. Further calls are
/// dropped; a server repeats them.
const EARLY_CALLS_MAX: usize = 16;

impl RawConnection {
    /// Connects to the first of `addresses` that accepts.
    ///
    /// # Errors
    /// [`TransportError::Connect`] with the error of the last address.
    pub fn connect(
        addresses: &[SocketAddr],
        timeout: Duration,
        record_size_max: usize,
    ) -> Result<Self, TransportError> {
        Self::connect_from(None, false, addresses, timeout, record_size_max)
    }

    /// Connects like [`RawConnection::connect`], from `source` if there is one. With `low` it comes
    /// from a port below 1024 if this process may bind one: servers require it of AUTH_SYS callers.
    ///
    /// # Errors
    /// The same as [`RawConnection::connect`].
    pub fn connect_from(
        source: Option<IpAddr>,
        low: bool,
        addresses: &[SocketAddr],
        timeout: Duration,
        record_size_max: usize,
    ) -> Result<Self, TransportError> {
        let connect = if low { connect_low } else { connect_any };
        let mut last = std::io::ErrorKind::AddrNotAvailable.into();
        for address in addresses {
            match connect(source, address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(Self::from_stream(stream, record_size_max));
                }
                Err(cause) => last = cause,
            }
        }
        Err(TransportError::Connect(last))
    }

    /// Connects as the options of a client say.
    ///
    /// # Errors
    /// The same as [`RawConnection::connect`].
    pub(crate) fn connect_by(options: &Options, addresses: &[SocketAddr]) -> Result<Self, TransportError> {
        let low = matches!(options.security, Security::Sys(_));
        let (timeout, record_size_max) = (options.connect_timeout, options.record_size_max);
        Self::connect_from(options.source, low, addresses, timeout, record_size_max)
    }

    /// Wraps a stream that is at a record boundary.
    pub fn from_stream(stream: TcpStream, record_size_max: usize) -> Self {
        let limits = RecordLimits { record_size_max, ..RecordLimits::default() };
        Self {
            stream,
            reader: RecordReader::new(limits),
            limits,
            received: Vec::new(),
            early_calls: Vec::new(),
        }
    }

    /// Returns the stream, the reader of its records, and the calls that the server sent during the
    /// setup.
    pub(crate) fn into_parts(mut self) -> (TcpStream, RecordReader, Vec<Vec<u8>>) {
        self.early_calls.append(&mut self.received);
        (self.stream, self.reader, self.early_calls)
    }

    /// Returns the limits of received records.
    pub const fn limits(&self) -> RecordLimits {
        self.limits
    }

    /// Sends `record` as one fragment.
    ///
    /// # Errors
    /// [`TransportError::Io`] if writing fails.
    pub fn send_record(&mut self, record: &[u8]) -> Result<(), TransportError> {
        let mut marked = Vec::with_capacity(record.len() + 4);
        marked.extend_from_slice(&record_mark(record.len()));
        marked.extend_from_slice(record);
        self.send_bytes(&marked)
    }

    /// Sends bytes unchanged, without a record mark.
    ///
    /// # Errors
    /// [`TransportError::Io`] if writing fails.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Shuts down the sending side, so that the server reads the end of the stream.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the shutdown fails.
    pub fn finish_sending(&mut self) -> Result<(), TransportError> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }

    /// Waits for the next record; `None` if `timeout` passes first.
    ///
    /// # Errors
    /// [`TransportError::Closed`] if the server closed the connection, and any other.
    pub fn receive_record(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, TransportError> {
        let deadline = Instant::now() + timeout;
        let mut scratch = [0; 16 << 10];
        while self.received.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut scratch) {
                Ok(0) => return Err(TransportError::Closed),
                Ok(count) => {
                    let bytes = scratch.get(..count).unwrap_or_default();
                    self.reader.push(bytes, &mut self.received)?;
                }
                Err(cause) if would_block(&cause) => {}
                Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Err(TransportError::Closed);
                }
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(Some(self.received.remove(0)))
    }

    /// Sends a call and waits for its reply. Late replies to earlier calls are dropped. A server
    /// may use the backchannel before it replies to CREATE_SESSION; its calls are answered after
    /// the setup.
    ///
    /// # Errors
    /// [`Error::Timeout`] and any transport error.
    pub fn exchange(&mut self, record: &[u8], timeout: Duration) -> Result<Vec<u8>, Error> {
        self.send_record(record)?;
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let received = self.receive_record(left)?.ok_or(Error::Timeout)?;
            if !is_call(&received) {
                if received.get(..4) == record.get(..4) {
                    return Ok(received);
                }
            } else if self.early_calls.len() < EARLY_CALLS_MAX {
                self.early_calls.push(received);
            }
        }
    }

    /// Waits until the server closes the connection; `false` if `timeout` passes first. Drops
    /// records that arrive meanwhile.
    pub fn wait_closed(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            match self.receive_record(deadline.saturating_duration_since(Instant::now())) {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// Returns whether the record is a call and not a reply (RFC 5531 section 9).
pub(crate) fn is_call(record: &[u8]) -> bool {
    record.get(4..8) == Some(&(MsgType::CALL as u32).to_be_bytes())
}

fn would_block(cause: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
