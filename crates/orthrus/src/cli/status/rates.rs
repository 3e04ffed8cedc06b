//! Rates of a server between two reports.

use crate::api::{ClientRow, ExportStatus, FileStatus, FlavorStatus, StatusReport, Warning, warnings};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The stages of a request in which threads work on it.
const WORK: [&str; 4] = ["unwrap", "execute", "wrap", "send"];
/// The stages that sign, verify, encrypt and decrypt.
const PROTECTION: [&str; 2] = ["unwrap", "wrap"];

/// A server in the time between two reports.
pub(super) struct StatusRates<'a> {
    before: &'a StatusReport,
    pub(super) now: &'a StatusReport,
    /// The time in seconds.
    seconds: f64,
}

/// The requests of a flavor. Times are microseconds for each request; `None` without requests.
pub(super) struct FlavorRates {
    pub(super) name: String,
    /// Requests in a second.
    pub(super) requests: f64,
    /// Time of threads at work on it.
    pub(super) time: Option<f64>,
    /// Time of threads for protection; `None` without protection, too.
    pub(super) protection: Option<f64>,
    /// Time of waiting for a thread or a disk.
    pub(super) waiting: Option<f64>,
    pub(super) latency: LatencyQuantiles,
}

/// The time of requests from their arrival to their reply, in seconds: upper bounds of classes.
#[derive(Clone, Copy, Default)]
pub(super) struct LatencyQuantiles {
    /// Half of the requests take at most this time; `None` without requests.
    pub(super) median: Option<f64>,
    /// 99 of 100 requests take at most this time; `None` without requests.
    pub(super) p99: Option<f64>,
}

/// An operation, an export or a file with its rates.
pub(super) struct NamedRates<'a> {
    pub(super) name: &'a str,
    /// How often in a second.
    pub(super) rate: f64,
    pub(super) latency: LatencyQuantiles,
    /// Megabytes received and sent in a second.
    pub(super) megabytes: (f64, f64),
}

/// The cost of signing and encryption.
pub(super) struct ProtectionCost {
    /// Cores that do nothing else.
    pub(super) cores: f64,
    /// The part of the time of threads, from 0 to 1.
    pub(super) share: f64,
}

impl<'a> StatusRates<'a> {
    /// Compares two reports. If the server has started again in between, rates are those since its
    /// start.
    pub(super) fn between(before: &'a StatusReport, now: &'a StatusReport) -> Self {
        let seconds = now.uptime - before.uptime;
        let seconds = if seconds > 0.0 { seconds } else { now.uptime };
        Self { before, now, seconds: seconds.max(0.001) }
    }

    /// Returns the growth of a counter in a second.
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.checked_sub(before).unwrap_or(now) as f64 / self.seconds
    }

    /// Returns the growth of a time in a second.
    fn growth(&self, before: f64, now: f64) -> f64 {
        (if now >= before { now - before } else { now }) / self.seconds
    }

    /// Returns the state of the server in words.
    pub(super) fn state(&self) -> &'a str {
        match self.now.state.as_str() {
            "grace" => "in the grace period, so new opens wait for its end",
            "draining" => "draining: no new clients are served",
            "silent" => "silent: no client is answered without contact to the cluster",
            other => other,
        }
    }

    /// Returns the number of objects of a kind.
    pub(super) fn held(&self, name: &str) -> u64 {
        self.now.held.get(name).copied().unwrap_or_default()
    }

    /// Returns the cores that the server uses, if the system tells it.
    pub(super) fn cores(&self) -> Option<f64> {
        Some(self.growth(self.before.processor?, self.now.processor?))
    }

    /// Returns megabytes received and sent in a second.
    pub(super) fn network(&self) -> (f64, f64) {
        let megabytes = |before, now| self.rate(before, now) / 1e6;
        (megabytes(self.before.received, self.now.received), megabytes(self.before.sent, self.now.sent))
    }

    /// Returns all requests in a second.
    pub(super) fn requests(&self) -> f64 {
        self.flavors().iter().map(|flavor| flavor.requests).fold(0.0, |all, one| all + one)
    }

    /// Returns the flavors that have had requests.
    pub(super) fn flavors(&self) -> Vec<FlavorRates> {
        let none = FlavorStatus::default();
        let used = self.now.flavors.iter().filter(|flavor| flavor.requests > 0);
        used.map(|now| self.flavor(self.earlier(&now.name).unwrap_or(&none), now)).collect()
    }

    fn earlier(&self, flavor: &str) -> Option<&FlavorStatus> {
        self.before.flavors.iter().find(|before| before.name == flavor)
    }

    fn flavor(&self, before: &FlavorStatus, now: &FlavorStatus) -> FlavorRates {
        let requests = self.rate(before.requests, now.requests);
        let each = |stages: &[&str]| {
            let time = self.growth(spent(before, stages), spent(now, stages));
            (requests > 0.0).then(|| 1e6 * time / requests)
        };
        FlavorRates {
            name: now.name.clone(),
            requests,
            time: each(&WORK),
            protection: each(&PROTECTION).filter(|time| *time > 0.0),
            waiting: each(&["queue"]),
            latency: self.latency(&self.before.latency_by_flavor, &self.now.latency_by_flavor, &now.name),
        }
    }

    /// Returns the cost of signing and encryption of all flavors; `None` without any.
    pub(super) fn protection(&self) -> Option<ProtectionCost> {
        let none = FlavorStatus::default();
        let all = |stages: &[&str]| -> f64 {
            let growth = |now: &FlavorStatus| {
                let before = self.earlier(&now.name).unwrap_or(&none);
                self.growth(spent(before, stages), spent(now, stages))
            };
            self.now.flavors.iter().map(growth).sum()
        };
        let (cores, work) = (all(&PROTECTION), all(&WORK));
        (cores > 0.0 && work > 0.0).then(|| ProtectionCost { cores, share: cores / work })
    }

    /// Returns the latency of the requests of a name between the reports.
    fn latency(
        &self,
        before: &BTreeMap<String, Vec<u64>>,
        now: &BTreeMap<String, Vec<u64>>,
        name: &str,
    ) -> LatencyQuantiles {
        let Some(now) = now.get(name) else { return LatencyQuantiles::default() };
        let none = vec![0; now.len()];
        let before = before.get(name).unwrap_or(&none);
        let grown = |(now, before): (&u64, &u64)| now.checked_sub(*before).unwrap_or(*now);
        let counts: Vec<u64> = now.iter().zip(before).map(grown).collect();
        let bounds = &self.now.latency_bounds;
        LatencyQuantiles { median: quantile(&counts, bounds, 0.5), p99: quantile(&counts, bounds, 0.99) }
    }

    /// Returns the operations that run most often, with their rates and the latency of the requests
    /// that are about them.
    pub(super) fn operations(&self) -> Vec<NamedRates<'a>> {
        let busiest = self.busiest(&self.before.operations, &self.now.operations).into_iter();
        let named = |(name, rate)| NamedRates {
            name,
            rate,
            latency: self.latency(&self.before.latency_by_operation, &self.now.latency_by_operation, name),
            megabytes: (0.0, 0.0),
        };
        busiest.map(named).collect()
    }

    /// Returns the exports with requests, the busiest first.
    pub(super) fn exports(&self) -> Vec<NamedRates<'a>> {
        let none = ExportStatus::default();
        let named = |now: &'a ExportStatus| {
            let before = self.before.exports.iter().find(|before| before.export == now.export);
            let before = before.unwrap_or(&none);
            let megabytes = |before, now| self.rate(before, now) / 1e6;
            NamedRates {
                name: &now.export,
                rate: self.rate(before.requests, now.requests),
                latency: LatencyQuantiles::default(),
                megabytes: (megabytes(before.received, now.received), megabytes(before.sent, now.sent)),
            }
        };
        sorted(self.now.exports.iter().map(named).collect())
    }

    /// Returns the files that requests are about most often. Their rates are estimates from
    /// samples.
    pub(super) fn files(&self) -> Vec<NamedRates<'a>> {
        let samples = |now: &FileStatus| {
            let same = |before: &&FileStatus| (&before.export, &before.file) == (&now.export, &now.file);
            // A file that was not there had fewer samples than all that were.
            let before = self.before.files.iter().find(same).or(self.before.files.last());
            before.map_or(0, |before| before.samples)
        };
        let named = |now: &'a FileStatus| NamedRates {
            name: &now.file,
            rate: self.rate(samples(now).min(now.samples), now.samples) * self.now.sampled_one_in as f64,
            latency: LatencyQuantiles::default(),
            megabytes: (0.0, 0.0),
        };
        sorted(self.now.files.iter().map(named).collect())
    }

    /// Returns the statuses of failed operations, the most frequent first, with their rates.
    pub(super) fn failures(&self) -> Vec<(&'a str, f64)> {
        self.busiest(&self.before.failures, &self.now.failures)
    }

    /// Returns the counters that grow, the fastest first, with their rates.
    fn busiest(&self, before: &BTreeMap<String, u64>, now: &'a BTreeMap<String, u64>) -> Vec<(&'a str, f64)> {
        let rate = |(name, now): (&'a String, &u64)| {
            (name.as_str(), self.rate(before.get(name).copied().unwrap_or_default(), *now))
        };
        let mut rates: Vec<_> = now.iter().map(rate).filter(|(_, rate)| *rate > 0.0).collect();
        rates.sort_by(|one, other| other.1.total_cmp(&one.1));
        rates
    }

    /// Returns the clients, the busiest first, with their requests in a second.
    pub(super) fn clients(&self) -> Vec<(&'a ClientRow, f64)> {
        let before: BTreeMap<&str, u64> =
            self.before.clients.iter().map(|row| (row.id.as_str(), row.requests)).collect();
        let rate = |row: &'a ClientRow| {
            // A client that was not among those of the last report has been silent until now.
            let before = before.get(row.id.as_str()).copied().unwrap_or(row.requests);
            (row, self.rate(before, row.requests))
        };
        let mut clients: Vec<_> = self.now.clients.iter().map(rate).collect();
        clients.sort_by_key(|(row, rate)| (Reverse((rate * 10.0) as u64), row.silent));
        clients
    }

    /// Returns the counters that should be zero and are not.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        warnings(self.now)
    }
}

/// Sorts by rate, and leaves out what is idle.
fn sorted(mut rates: Vec<NamedRates<'_>>) -> Vec<NamedRates<'_>> {
    rates.retain(|named| named.rate > 0.0);
    rates.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    rates
}

/// Returns the upper bound of the class in which a part of all observations ends; the last class
/// has the bound of the one before. `None` without observations.
fn quantile(counts: &[u64], bounds: &[f64], part: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let wanted = (all as f64 * part).ceil() as u64;
    let mut sum = 0;
    let class = counts.iter().position(|count| {
        sum += count;
        sum >= wanted && wanted > 0
    })?;
    bounds.get(class).or(bounds.last()).copied()
}

/// Returns the time of a flavor in stages, in seconds since the start.
fn spent(flavor: &FlavorStatus, stages: &[&str]) -> f64 {
    stages.iter().filter_map(|stage| flavor.stages.get(*stage)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_of_its_class() {
        let bounds = [0.1, 1.0];
        assert_eq!(quantile(&[50, 49, 1], &bounds, 0.5), Some(0.1));
        assert_eq!(quantile(&[50, 49, 1], &bounds, 0.99), Some(1.0));
        assert_eq!(quantile(&[0, 0, 1], &bounds, 0.99), Some(1.0), "at least");
        assert_eq!(quantile(&[0, 0, 0], &bounds, 0.5), None);
        assert_eq!(quantile(&[], &[], 0.5), None);
    }
}
