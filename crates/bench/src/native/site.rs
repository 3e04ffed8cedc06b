//! The servers that are measured, and what they tell of themselves.

use super::trouble::explained;
use crate::{Flavor, cpu};
use anyhow::{Context as _, Result, bail, ensure};
use client::{Head, Options, Protection, RawConnection, Security};
use gss::Credential;
use nfs4::NFSPROC4_NULL;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// Counters by name.
pub type Counters = BTreeMap<String, u64>;

/// How long any request may go without an answer before the case that made it has failed.
pub const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How long a connection that is lost may stay lost before the case that needs it has failed, and how long making one may take.
const RECONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to say that it is still there, after a case has failed.
const PING_MAX: Duration = Duration::from_secs(5);

/// The longest reply to that, in bytes.
const PING_SIZE_MAX: usize = 4 << 10;

/// How long a metrics endpoint may take.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest answer of one, in bytes.
const METRICS_MAX: u64 = 8 << 20;

/// The flavor of a call that nobody makes (RFC 5531 section 10.1).
const AUTH_NONE: u32 = 0;

/// The counter that exporters of process metrics have in common.
const CPU_METRIC: &str = "process_cpu_seconds_total";

/// A server, and how to get there.
#[derive(Clone, Debug)]
pub struct Target {
    /// Host name or address to connect to.
    pub host: String,
    /// Host name in the service's principal, `nfs@NAME`.
    pub service_host: String,
    /// TCP port.
    pub port: u16,
    /// The export, as the server names it.
    pub export: String,
    /// Where tickets come from.
    pub credential: Credential,
    /// Where the tickets of further principals come from.
    pub others: Vec<Credential>,
    /// The server's process, when it is one of this machine.
    pub pid: Option<u32>,
    /// Where a server elsewhere tells its processor time.
    pub remote_cpu: Option<RemoteCpu>,
    /// The server, as the report names it.
    pub label: String,
}

impl Target {
    /// How to connect with a flavor: one connection, a server that stays away is soon said to be so.
    ///
    /// # Errors
    /// None that can happen: both names of a flavor are the same.
    pub fn options(&self, flavor: Flavor) -> Result<Options> {
        self.options_of(flavor, 0)
    }

    /// As [`Target::options`], as one of the principals, from 0.
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
        let flavor: client::Flavor = flavor.name().parse().map_err(anyhow::Error::msg)?;
        let security = Security::of(flavor, &self.service_host, credential.clone());
        let mut options = Options::new(&self.host, security).port(self.port);
        (options.call_timeout, options.reconnect_max) = (ANSWER_MAX, RECONNECT_MAX);
        options.connect_timeout = RECONNECT_MAX;
        Ok(options)
    }

    /// Says in words what is wrong, with its cure where there is one: see [`explained`].
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        explained(error, &self.host, self.port)
    }

    /// Asks the server whether it is there: a connection of its own, and the procedure that does nothing.
    ///
    /// # Errors
    /// When it cannot be connected to or does not answer; an answer of whatever kind will do.
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

    /// Returns the server's processor time so far; `None` where it cannot be known.
    pub fn server_cpu(&self) -> Option<Duration> {
        match (self.pid, &self.remote_cpu) {
            (Some(pid), _) => cpu::of_process(pid),
            (None, Some(remote)) => remote.fetch().ok(),
            (None, None) => None,
        }
    }
}

/// The servers of a run: one, or one for each choice of instructions where it starts them itself.
pub trait Site {
    /// Returns the server that makes this choice (`ORTHRUS_CPU`), or the one that makes its own.
    ///
    /// # Errors
    /// When it cannot be started, or the server is not ours to start.
    fn target(&mut self, server_cpu: Option<&str>) -> Result<&Target>;

    /// Returns the processor time of that server so far; `None` where it cannot be known.
    fn server_cpu(&mut self, server_cpu: Option<&str>) -> Option<Duration> {
        self.target(server_cpu).ok()?.server_cpu()
    }

    /// Returns what that server counts; `None` where it does not tell.
    ///
    /// # Errors
    /// When it should tell and does not.
    fn counters(&mut self, _server_cpu: Option<&str>) -> Result<Option<Counters>> {
        Ok(None)
    }
}

/// A metrics endpoint in the text format of Prometheus, by HTTP without encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCpu {
    /// `HOST:PORT`.
    host: String,
    /// Beginning with a slash.
    path: String,
}

impl std::str::FromStr for RemoteCpu {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or("it must begin with http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        let port = if host.contains(':') { "" } else { ":80" };
        Ok(Self { host: format!("{host}{port}"), path: format!("/{path}") })
    }
}

impl RemoteCpu {
    /// Asks for the processor time of the server's process.
    ///
    /// # Errors
    /// When nobody answers, or the answer does not have it.
    pub fn fetch(&self) -> Result<Duration> {
        let address = self.host.to_socket_addrs()?.next().context("the host has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, METRICS_TIMEOUT)?;
        stream.set_read_timeout(Some(METRICS_TIMEOUT))?;
        // At once: a peer that answers after a part of it would close with the rest unread, and take its answer back.
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", self.path, self.host);
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(METRICS_MAX).read_to_string(&mut answer)?;
        let status = answer.split_whitespace().nth(1).unwrap_or_default();
        ensure!(status == "200", "the metrics endpoint answers {status:?}");
        parse(&answer).with_context(|| format!("the answer has no {CPU_METRIC}"))
    }
}

fn parse(answer: &str) -> Option<Duration> {
    let line = answer
        .lines()
        .find(|line| line.strip_prefix(CPU_METRIC).is_some_and(|rest| rest.starts_with([' ', '{'])))?;
    let value = line.rsplit_once(['}', ' '])?.1;
    Duration::try_from_secs_f64(value.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_in_the_text_of_an_exporter() {
        let text = "# HELP process_cpu_seconds_total Time.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n";
        assert_eq!(parse(text), Some(Duration::from_millis(12_500)));
        assert_eq!(parse("process_cpu_seconds_total{job=\"nfs\"} 3"), Some(Duration::from_secs(3)));
        assert_eq!(parse("process_cpu_seconds_totals 3\nother 4"), None);
    }

    #[test]
    fn an_endpoint_is_asked_over_http() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote: RemoteCpu = format!("http://{}/metrics", listener.local_addr().unwrap()).parse().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let count = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nprocess_cpu_seconds_total 2\n").unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        assert_eq!(remote.fetch().unwrap(), Duration::from_secs(2));
        assert!(answering.join().unwrap().starts_with("GET /metrics HTTP/1.0\r\n"));
        assert!("ftp://x".parse::<RemoteCpu>().is_err() && "http://".parse::<RemoteCpu>().is_err());
    }
}
