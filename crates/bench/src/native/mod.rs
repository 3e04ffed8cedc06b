//! Load by the project's own client: no root, no mount, every flavor, and every byte that is read is checked.

mod clients;
mod site;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

pub use site::{Counters, RemoteCpu, Site, Target};

use crate::measuring::{Case, Driver, Latencies, Load, Reach, Record, Sample, Turn};
use crate::workload::Tally;
use crate::{Endpoint as _, Flavor, Mount, cpu};
use clients::{Files, Work};

/// How long each repetition runs before it counts. Without it the first in a round would pay for what the last of the
/// round before has left behind in caches and allocators at both ends.
const LEAD_IN: Duration = Duration::from_millis(100);

/// Files are whole numbers of these bytes, so that they are whole numbers of requests.
const FILE_STEP: u64 = 1 << 20;

/// What sessions are made for; cases that have it in common share them.
type Key = (String, Reach, bool);

/// Sessions with the servers of a [`Site`], and loads on them.
pub struct Native<'a> {
    site: &'a mut dyn Site,
    stop: &'a AtomicBool,
    folder: String,
    /// Whether the server's and the clients' counters go into the samples.
    counts: bool,
    sessions: BTreeMap<Key, Vec<Mount>>,
    /// Folders that were named.
    named: u32,
}

impl<'a> Native<'a> {
    /// Makes sessions with the servers of `site` as they are needed; `folder` is how the folders that it makes in the
    /// export, and removes, begin.
    pub fn new(site: &'a mut dyn Site, folder: &str, stop: &'a AtomicBool) -> Self {
        Self { site, stop, folder: folder.to_owned(), counts: false, sessions: BTreeMap::new(), named: 0 }
    }

    /// Puts what server and clients count into the samples: drops, reconnects, repeated calls.
    pub fn counting(mut self) -> Self {
        self.counts = true;
        self
    }

    fn key(case: &Case) -> Key {
        (case.side.clone(), case.load.reach().clone(), matches!(case.load, Load::Transfer(_)))
    }

    fn connect(&mut self, case: &Case, index: u32) -> Result<Mount> {
        let reach = case.load.reach();
        let flavor: Flavor = case.side.parse().map_err(anyhow::Error::msg)?;
        let target = self.site.target(reach.server_cpu.as_deref())?;
        let mut options = target.options(flavor)?.connections(reach.connections as usize);
        options.lag_max = reach.lag_max;
        self.named += 1;
        let folder = format!("{}-{}-{index}-{}", self.folder, case.side, self.named);
        let mut mount = Mount::connect(options, &target.export, &folder)?;
        match mount.prepare() {
            Ok(()) => Ok(mount),
            Err(error) => {
                // What went wrong first is what the user has to know.
                let _ = mount.finish();
                Err(error)
            }
        }
    }

    fn fill(&self, mounts: &mut [Mount], files: Files) -> Result<()> {
        for mount in mounts {
            files.fill(mount, self.stop).context("preparing the file")?;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// What the server counts now, and how often its clients had to begin anew.
    fn counters(&mut self, key: &Key) -> Result<Counters> {
        let mut counters = self.site.counters(key.1.server_cpu.as_deref())?.unwrap_or_default();
        let mounts = self.sessions.get(key).map(Vec::as_slice).unwrap_or_default();
        for statistics in mounts.iter().map(Mount::statistics) {
            for (name, count) in [
                ("client_calls", statistics.calls_sent),
                ("client_reconnects", statistics.reconnects),
                ("client_calls_repeated", statistics.calls_repeated),
                ("client_replies_dropped", statistics.replies_dropped),
                ("client_contexts_renewed", statistics.contexts_renewed),
            ] {
                *counters.entry(name.to_owned()).or_default() += count;
            }
        }
        Ok(counters)
    }

    /// Puts load on the sessions and returns what all of them did together.
    fn once(&mut self, key: &Key, work: &Work<'_>) -> Result<(Tally, Counters, Duration)> {
        let mounts = self.sessions.get_mut(key).context("the case was not prepared")?;
        let start = Instant::now();
        let (tally, counters) = clients::run(mounts, work)?;
        Ok((tally, counters, start.elapsed()))
    }
}

impl Driver for Native<'_> {
    fn begin(&mut self, cases: &[Case]) -> Result<()> {
        let wanted: Vec<Key> = cases.iter().map(Self::key).collect();
        let unwanted = self.sessions.keys().filter(|key| !wanted.contains(key)).cloned();
        for key in unwanted.collect::<Vec<_>>() {
            let mounts = self.sessions.remove(&key).unwrap_or_default();
            finish(mounts).context(key.0)?;
        }
        Ok(())
    }

    fn prepare(&mut self, case: &Case, record: &mut Record) -> Result<()> {
        let key = Self::key(case);
        if self.sessions.contains_key(&key) {
            return Ok(());
        }
        let clients = case.load.reach().clients.max(1);
        let mut mounts = Vec::new();
        let made = (0..clients).try_for_each(|index| {
            mounts.push(self.connect(case, index)?);
            Ok(())
        });
        let files =
            Files::new(&case.side, record.settings.file_size / u64::from(clients) / FILE_STEP * FILE_STEP);
        let made = made.and_then(|()| if key.2 { self.fill(&mut mounts, files) } else { Ok(()) });
        if let Err(error) = made {
            let _ = finish(mounts);
            return Err(error);
        }
        let enctype = mounts.first().and_then(Mount::enctype).map(str::to_owned);
        record.environment.enctype = record.environment.enctype.take().or(enctype);
        self.sessions.insert(key, mounts);
        Ok(())
    }

    fn measure(&mut self, case: &Case, turn: &Turn<'_>) -> Result<Option<Sample>> {
        let key = Self::key(case);
        ensure!(self.sessions.contains_key(&key), "the case was not prepared");
        if !turn.warm_up && key.2 {
            let work = Work::of(case, LEAD_IN.min(turn.length / 2), turn.stop);
            self.once(&key, &work)?;
        }
        let before = if self.counts { self.counters(&key)? } else { Counters::new() };
        let variant = key.1.server_cpu.as_deref();
        let (server, client) = (self.site.server_cpu(variant), cpu::of_this_process());
        let (tally, mut counters, took) = self.once(&key, &Work::of(case, turn.length, turn.stop))?;
        let client = cpu::of_this_process().saturating_sub(client);
        let server = server.zip(self.site.server_cpu(variant)).map(|(from, to)| to.saturating_sub(from));
        if turn.stop.load(Ordering::Relaxed) || tally.operations == 0 {
            return Ok(None);
        }
        if self.counts {
            counters.extend(grown(&before, self.counters(&key)?));
        }
        let rate = match &case.load {
            Load::Transfer(transfer) => transfer.rate,
            _ => None,
        };
        Ok(Some(Sample {
            operations: tally.operations,
            bytes: tally.bytes,
            seconds: took.as_secs_f64(),
            offered: rate,
            unserved: tally.unserved,
            latency: Latencies::of(tally.latencies),
            client_cpu_seconds: Some(client.as_secs_f64()),
            server_cpu_seconds: server.map(|time| time.as_secs_f64()),
            counters,
            ..Sample::default()
        }))
    }

    fn finish(&mut self) -> Result<()> {
        let sessions = std::mem::take(&mut self.sessions);
        // A server that is gone is not waited for by each session in turn.
        sessions.into_iter().try_for_each(|(key, mounts)| finish(mounts).context(key.0))
    }
}

fn finish(mounts: Vec<Mount>) -> Result<()> {
    mounts.into_iter().try_for_each(|mut mount| mount.finish())
}

/// By how much counters have grown; gauges that have shrunk are left out.
fn grown(before: &Counters, after: Counters) -> Counters {
    let grown = after.into_iter().map(|(name, after)| {
        let by = after.saturating_sub(before.get(&name).copied().unwrap_or(0));
        (name, by)
    });
    grown.filter(|(_, by)| *by > 0).collect()
}
