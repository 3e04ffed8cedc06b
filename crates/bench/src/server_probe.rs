//! Probes of a server from outside: its metrics endpoint, and the operating system's figures of its
//! process.

use crate::cpu;
use crate::measuring::Stages;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long a metrics endpoint may take.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest answer of a metrics endpoint, in bytes.
const METRICS_MAX: u64 = 8 << 20;

/// The counter that exporters of process metrics have in common.
const CPU_METRIC: &str = "process_cpu_seconds_total";

/// Requests by flavor, and their time by flavor and stage, of Orthrus.
const REQUESTS_METRIC: &str = "orthrus_requests_total";
const STAGES_METRIC: &str = "orthrus_stage_seconds_total";

/// A metrics endpoint in the text format of Prometheus, by HTTP without encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsEndpoint {
    /// The address as `HOST:PORT`.
    host: String,
    /// Beginning with a slash.
    path: String,
}

impl std::str::FromStr for MetricsEndpoint {
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

impl std::fmt::Display for MetricsEndpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "http://{}{}", self.host, self.path)
    }
}

/// The values of an endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    /// Processor time of the server's process.
    cpu: Option<Duration>,
    /// Where the time of requests went, by flavor.
    stages: BTreeMap<String, Stages>,
}

impl MetricsEndpoint {
    /// Requests the metrics once.
    ///
    /// # Errors
    /// When nothing answers, or the answer is not metrics.
    fn fetch(&self) -> Result<Told> {
        let address = self.host.to_socket_addrs()?.next().context("the host has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, METRICS_TIMEOUT)?;
        stream.set_read_timeout(Some(METRICS_TIMEOUT))?;
        // At once: a peer that answers after a part of it would close with the rest unread, and
        // take its answer back.
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", self.path, self.host);
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.take(METRICS_MAX).read_to_string(&mut answer)?;
        let status = answer.split_whitespace().nth(1).unwrap_or_default();
        ensure!(status == "200", "the metrics endpoint answers {status:?}");
        Ok(parse(&answer))
    }
}

fn parse(answer: &str) -> Told {
    let mut told = Told::default();
    for line in answer.lines() {
        let Some((name, labels, value)) = sample(line) else { continue };
        match (name, label(labels, "flavor"), label(labels, "stage")) {
            (CPU_METRIC, ..) => {
                told.cpu = told.cpu.or_else(|| Duration::try_from_secs_f64(value).ok());
            }
            (REQUESTS_METRIC, Some(flavor), _) => {
                told.stages.entry(flavor.to_owned()).or_default().requests = value as u64;
            }
            (STAGES_METRIC, Some(flavor), Some(stage)) => {
                let stages = told.stages.entry(flavor.to_owned()).or_default();
                if let Some(seconds) = stages.stage_mut(stage) {
                    *seconds = value;
                }
            }
            _ => {}
        }
    }
    told
}

/// Splits a line into a name, the text in braces, and a value.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (head, value) = line.trim().rsplit_once(' ')?;
    let (name, labels) = head.trim().split_once('{').unwrap_or((head.trim(), ""));
    let value: f64 = value.parse().ok()?;
    value.is_finite().then(|| (name, labels.trim_end_matches('}'), value))
}

/// Returns the value of a label, if it has no quotes or commas.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut all = labels.split(',').filter_map(|label| label.split_once('='));
    let (_, value) = all.find(|(known, _)| known.trim() == name)?;
    Some(value.trim().trim_matches('"'))
}

/// Where a server can be looked at from outside, as far as it can.
#[derive(Clone, Debug, Default)]
pub struct ServerProbe {
    /// Its process, when it is one of this machine.
    pub pid: Option<u32>,
    /// The address of the metrics endpoint.
    pub metrics: Option<MetricsEndpoint>,
}

/// The figures of a server at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    cpu: Option<Duration>,
    stages: Option<BTreeMap<String, Stages>>,
}

/// The work of a server between two snapshots, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delta {
    /// Processor time of the server.
    pub cpu: Option<Duration>,
    /// Where the time of one flavor's requests went.
    pub stages: Option<Stages>,
}

impl ServerProbe {
    /// Takes a snapshot before a measurement: the server's cost of answering comes before it.
    pub fn snapshot(&self) -> Snapshot {
        let told = self.told();
        self.seen(self.of_process(), told)
    }

    /// The process's time so far, where there is one of this machine.
    fn of_process(&self) -> Option<Duration> {
        self.pid.and_then(cpu::of_process)
    }

    fn told(&self) -> Option<Told> {
        self.metrics.as_ref()?.fetch().ok()
    }

    fn seen(&self, own: Option<Duration>, told: Option<Told>) -> Snapshot {
        let cpu = if self.pid.is_some() { own } else { told.as_ref().and_then(|told| told.cpu) };
        Snapshot { cpu, stages: told.map(|told| told.stages).filter(|stages| !stages.is_empty()) }
    }

    /// Returns the work since a snapshot for `variant`: a flavor, or a flavor with an encryption
    /// type (`krb5p-18`).
    pub fn since(&self, before: &Snapshot, variant: &str) -> Delta {
        // The process first: to tell costs it something as well.
        let own = self.of_process();
        let now = self.seen(own, self.told());
        let flavor = variant.split('-').next().unwrap_or_default();
        let of = |snapshot: &Snapshot| snapshot.stages.as_ref()?.get(flavor).copied();
        Delta {
            cpu: before.cpu.zip(now.cpu).map(|(from, to)| to.saturating_sub(from)),
            stages: of(before).zip(of(&now)).and_then(|(from, to)| to.since(&from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_in_the_text_of_an_exporter() {
        let cpu = |text| parse(text).cpu;
        let text = "# HELP process_cpu_seconds_total Time.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n";
        assert_eq!(cpu(text), Some(Duration::from_millis(12_500)));
        assert_eq!(cpu("process_cpu_seconds_total{job=\"nfs\"} 3"), Some(Duration::from_secs(3)));
        assert_eq!(cpu("process_cpu_seconds_totals 3\nother 4\nprocess_cpu_seconds_total NaN"), None);
    }

    #[test]
    fn stages_are_found_by_flavor_and_unknown_ones_are_left_out() {
        let told = parse(
            "orthrus_requests_total{flavor=\"krb5p\"} 7\n\
             orthrus_stage_seconds_total{flavor=\"krb5p\",stage=\"unwrap\"} 0.5\n\
             orthrus_stage_seconds_total{stage=\"send\",flavor=\"krb5p\"} 0.25\n\
             orthrus_stage_seconds_total{flavor=\"krb5p\",stage=\"another\"} 9\n\
             orthrus_stage_seconds_total 3\n",
        );
        let expect = Stages { requests: 7, unwrap_seconds: 0.5, send_seconds: 0.25, ..Stages::default() };
        assert_eq!(told.stages, BTreeMap::from([("krb5p".to_owned(), expect)]));
    }

    #[test]
    fn an_endpoint_is_asked_over_http_before_and_after() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            (1..=2).for_each(|turn| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                let count = stream.read(&mut request).unwrap();
                assert!(request[..count].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                let text = format!(
                    "HTTP/1.0 200 OK\r\n\r\nprocess_cpu_seconds_total {turn}\northrus_requests_total{{flavor=\"sys\"}} {turn}\n"
                );
                stream.write_all(text.as_bytes()).unwrap();
            });
        });
        let probe = ServerProbe { pid: None, metrics: Some(url.parse().unwrap()) };
        let before = probe.snapshot();
        let seen = probe.since(&before, "sys");
        let stages = Stages { requests: 1, ..Stages::default() };
        assert_eq!(seen, Delta { cpu: Some(Duration::from_secs(1)), stages: Some(stages) });
        answering.join().unwrap();
        // The endpoint does not answer any more.
        assert_eq!(probe.since(&before, "sys"), Delta::default());
        assert_eq!(probe.metrics.map(|metrics| metrics.to_string()), Some(url));
        assert!(
            "ftp://x".parse::<MetricsEndpoint>().is_err() && "http://".parse::<MetricsEndpoint>().is_err()
        );
    }
}
