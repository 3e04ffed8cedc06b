//! The measured servers, and their counters.

use super::diagnose::explained;
use crate::counters::Counters;
use crate::{Flavor, MetricsEndpoint, ServerProbe};
use anyhow::{Context as _, Result, bail, ensure};
use client::{Head, Options, Protection, RawConnection, Security};
use gss::Credential;
use nfs4::NFSPROC4_NULL;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long any request of a run may go without an answer before its case has failed.
pub const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How long a connection that is lost may stay lost before the case that needs it has failed, and
/// how long making one may take.
const RECONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to say that it is still there, after a case has failed.
const PING_MAX: Duration = Duration::from_secs(5);

/// The longest reply to that, in bytes.
const PING_SIZE_MAX: usize = 4 << 10;

/// The flavor of calls without a caller (RFC 5531 section 10.1).
const AUTH_NONE: u32 = 0;

/// A server, and how to get there.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    /// Host name or address to connect to.
    pub host: String,
    /// Host name in the service's principal, `nfs@NAME`.
    pub service_host: String,
    /// TCP port of the server.
    pub port: u16,
    /// The address of this machine to connect from; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// The export, as the server names it.
    pub export: String,
    /// Where tickets come from.
    pub credential: Credential,
    /// Where the tickets of further principals come from.
    pub others: Vec<Credential>,
    /// The server's process, when it is one of this machine.
    pub pid: Option<u32>,
    /// Where it tells its processor time and, if it is Orthrus, where its time goes.
    pub metrics: Option<MetricsEndpoint>,
    /// The server, as the report names it.
    pub label: String,
    /// How long a request may go without an answer; [`ANSWER_MAX`] of a run.
    pub answer_max: Duration,
    /// Ends the wait for a server that puts calls off, as in its grace period.
    pub stop: Option<Arc<AtomicBool>>,
}

impl BenchTarget {
    /// Returns whether the server is on this machine: its process was named, or a socket here can
    /// have its address.
    pub fn is_local(&self) -> bool {
        self.pid.is_some() || is_here(&self.host)
    }

    /// How to connect with a flavor: one connection, a server that stays away is soon said to be
    /// so.
    ///
    /// # Errors
    /// None that can happen: both names of a flavor are the same.
    pub fn options(&self, flavor: Flavor) -> Result<Options> {
        self.options_of(flavor, 0)
    }

    /// As [`BenchTarget::options`], as one of the principals, from 0.
    ///
    /// # Errors
    /// When so many are not known.
    pub fn options_of(&self, flavor: Flavor, principal: usize) -> Result<Options> {
        let mut known = std::iter::once(&self.credential).chain(&self.others);
        let credential = known.nth(principal).with_context(|| {
            format!(
                "principal {} is not known, only {}: name a ticket cache for each, with --ccache several times",
                principal + 1,
                1 + self.others.len()
            )
        })?;
        let security = Security::of(flavor, &self.service_host, credential.clone());
        let mut options = Options::new(&self.host, security).port(self.port);
        (options.call_timeout, options.reconnect_max) = (self.answer_max, RECONNECT_MAX);
        options.connect_timeout = RECONNECT_MAX;
        options.source = self.source;
        options.stop.clone_from(&self.stop);
        Ok(options)
    }

    /// Describes an error with its remedy, if there is one: see [`explained`].
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        explained(error, &self.host, self.port, self.answer_max)
    }

    /// Checks that the server answers: calls the NULL procedure on a new connection.
    ///
    /// # Errors
    /// When the connection fails or no answer comes; any kind of answer is enough.
    pub fn ping(&self) -> Result<()> {
        let answered = || -> Result<(), client::Error> {
            let addresses = client::resolve(&self.host, self.port)?;
            let mut connection = RawConnection::connect(&addresses, PING_MAX, PING_SIZE_MAX)?;
            let nobody = Protection::Plain { flavor: AUTH_NONE, body: Default::default() };
            Head::nfs(1, NFSPROC4_NULL, nobody).call(&mut connection, &[], PING_MAX).map(drop)
        };
        match answered() {
            Ok(()) | Err(client::Error::Rpc(_) | client::Error::Protection(_)) => Ok(()),
            Err(client::Error::Timeout) => {
                let seconds = PING_MAX.as_secs();
                bail!(
                    "{} takes connections and does not answer, not even in {seconds} s to a NULL call; is it stopped, or is it no NFS server?",
                    self.host
                )
            }
            Err(error) => Err(self.explain(error.into())),
        }
    }

    /// Returns a probe of the server.
    pub fn probe(&self) -> ServerProbe {
        ServerProbe { pid: self.pid, metrics: self.metrics.clone() }
    }
}

/// The servers of a run: one, or one for each choice of instructions where it starts them itself.
pub trait ServerSet: Send {
    /// Returns the server that makes this choice (`ORTHRUS_CPU`), or the one that makes its own.
    ///
    /// # Errors
    /// When it cannot be started, or the server is not ours to start.
    fn target(&mut self, server_cpu: Option<&str>) -> Result<&BenchTarget>;

    /// Returns that server's counters; `None` if it has none.
    ///
    /// # Errors
    /// When the server should have counters and does not return them.
    fn counters(&mut self, _server_cpu: Option<&str>) -> Result<Option<Counters>> {
        Ok(None)
    }
}

/// A server that somebody else has started.
impl ServerSet for BenchTarget {
    fn target(&mut self, server_cpu: Option<&str>) -> Result<&BenchTarget> {
        ensure!(server_cpu.is_none(), "the instructions of a server elsewhere cannot be chosen");
        Ok(self)
    }
}

/// Returns whether a host has an address of this machine.
fn is_here(host: &str) -> bool {
    let is_own = |address: SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    (host, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.any(is_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_an_address_of_this_machine_is_here() {
        assert!(is_here("127.0.0.1") && is_here("localhost"));
        assert!(!is_here("192.0.2.1") && !is_here("nowhere.invalid"));
    }
}
