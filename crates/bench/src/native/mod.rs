//! Load by the project's own client: no root, no mount, every flavor, and every byte that is read
//! is checked.

mod clients;
mod diagnose;
mod leases;
mod leftovers;
mod server_set;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

pub use crate::counters::Counters;
pub use diagnose::explained;
pub use server_set::{ANSWER_MAX, BenchTarget, ServerSet};

use crate::measuring::{Case, CaseDriver, CaseTurn, ClientLayout, Load, Record, Sample};
use crate::workload;
use crate::{Endpoint as _, ExportMount, Flavor};
use clients::{ClientFiles, ClientWork};
use leases::while_renewing;
pub(crate) use leftovers::HANGS;
use leftovers::{Leftovers, end_all};

/// Time that each repetition runs before it counts. Otherwise the first in a round would pay for
/// the caches and allocators that the last of the former round left behind at both ends.
const LEAD_IN: Duration = Duration::from_millis(100);

/// The time after which sessions renew their leases that make no call, since those of another case
/// work; sooner where a third of the lease is less.
const RENEWAL_MAX: Duration = Duration::from_secs(5);

/// Files are whole numbers of these bytes, so that they are whole numbers of requests.
const FILE_STEP: u64 = 1 << 20;

/// The error for a case without [`CaseDriver::prepare`].
const NOT_PREPARED: &str = "the case was not prepared";

/// The key of sessions; cases with the same key share them.
type SessionKey = (String, ClientLayout, bool);

/// Sessions with the servers of a [`ServerSet`], and loads on them.
pub struct NativeDriver<'a> {
    site: &'a mut dyn ServerSet,
    stop: &'a AtomicBool,
    folder: String,
    /// Whether the server's and the clients' counters go into the samples.
    counts: bool,
    sessions: BTreeMap<SessionKey, Vec<ExportMount>>,
    /// Folders that were named.
    named: u32,
    /// The files of abandoned sessions at the server.
    leftovers: Leftovers,
    /// When all sessions renewed their leases.
    renewed: Instant,
    /// The time after which they do so again.
    renewal: Duration,
}

impl<'a> NativeDriver<'a> {
    /// Makes sessions with the servers of `site` as they are needed; `folder` is how the folders
    /// that it makes in the export, and removes, begin.
    pub fn new(site: &'a mut dyn ServerSet, folder: &str, stop: &'a AtomicBool) -> Self {
        let (folder, sessions) = (folder.to_owned(), BTreeMap::new());
        let (leftovers, renewed, renewal) = (Leftovers::default(), Instant::now(), RENEWAL_MAX);
        Self { site, stop, folder, counts: false, sessions, named: 0, leftovers, renewed, renewal }
    }

    /// Adds the counters of server and clients to the samples: drops, reconnects, repeated calls.
    pub fn counting(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Returns the files of all clients, below the exports.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.sessions.values().flatten().map(ExportMount::file)
    }

    fn key(case: &Case) -> SessionKey {
        (case.flavor().to_owned(), case.load.layout().clone(), matches!(case.load, Load::Transfer(_)))
    }

    fn connect(&mut self, case: &Case, index: u32) -> Result<ExportMount> {
        let layout = case.load.layout();
        let flavor: Flavor = case.flavor().parse().map_err(anyhow::Error::msg)?;
        let target = self.site.target(layout.server_cpu.as_deref())?;
        // AUTH_SYS takes this process' own user.
        let principal = if flavor == Flavor::Sys { 0 } else { index % layout.principals.max(1) };
        let mut options =
            target.options_of(flavor, principal as usize)?.connections(layout.connections as usize);
        options.lag_max = layout.lag_max;
        options.slots_max = layout.slots.unwrap_or(options.slots_max);
        self.named += 1;
        let folder = format!("{}-{}-{index}-{}", self.folder, flavor.name(), self.named);
        let mut mount = ExportMount::connect(options, &target.export, &folder)?;
        match mount.prepare() {
            Ok(()) => {
                mount.limit(layout);
                self.renewal = self.renewal.min(mount.lease() / 3);
                Ok(mount)
            }
            Err(error) => {
                self.drop_all(&Self::key(case), vec![mount]);
                Err(error)
            }
        }
    }

    /// Connects as many clients as a case needs, and fills their files if it reads or writes any.
    fn make(&mut self, case: &Case, file_size: u64) -> Result<Vec<ExportMount>> {
        let clients = case.load.layout().clients.max(1);
        let mut mounts = Vec::new();
        let made = (0..clients).try_for_each(|index| {
            mounts.push(self.connect(case, index)?);
            Ok(())
        });
        let files = ClientFiles::new(case.flavor(), file_size / u64::from(clients) / FILE_STEP * FILE_STEP);
        let with_files = matches!(case.load, Load::Transfer(_));
        match made.and_then(|()| if with_files { self.fill(&mut mounts, files) } else { Ok(()) }) {
            Ok(()) => Ok(mounts),
            Err(error) => {
                self.drop_all(&Self::key(case), mounts);
                Err(error)
            }
        }
    }

    /// Drops sessions without a message to the server, which may not answer.
    fn drop_all(&mut self, key: &SessionKey, mounts: Vec<ExportMount>) {
        for mount in mounts {
            self.leftovers.add(&key.0, key.1.server_cpu.as_deref(), mount.folder());
        }
    }

    /// Describes an error of the server of a case.
    fn explain(&mut self, case: &Case, error: anyhow::Error) -> anyhow::Error {
        match self.site.target(case.load.layout().server_cpu.as_deref()) {
            Ok(target) => target.explain(error),
            Err(_) => error,
        }
    }

    /// Fills the files of clients one after the other; all other sessions keep their leases.
    fn fill(&mut self, mounts: &mut [ExportMount], files: ClientFiles) -> Result<()> {
        let stop = self.stop;
        for index in 0..mounts.len() {
            let (before, rest) = mounts.split_at_mut(index);
            let Some((mount, after)) = rest.split_first_mut() else { break };
            let others = self.sessions.values_mut().flatten().chain(before).chain(after).collect();
            while_renewing(self.renewal, others, renew, || files.fill(mount, stop))
                .context("preparing the file")?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the server's counters, and the number of its clients' reconnects.
    fn counters(&mut self, key: &SessionKey) -> Result<Counters> {
        let mut counters = self.site.counters(key.1.server_cpu.as_deref())?.unwrap_or_default();
        let mounts = self.sessions.get(key).map(Vec::as_slice).unwrap_or_default();
        for statistics in mounts.iter().map(ExportMount::statistics) {
            for (name, count) in [
                ("client_calls", statistics.calls_sent),
                ("client_reconnects", statistics.reconnects),
                ("client_calls_repeated", statistics.calls_repeated),
                ("client_replies_dropped", statistics.replies_dropped),
                ("client_contexts_renewed", statistics.contexts_renewed),
                ("client_delays", statistics.delays),
            ] {
                *counters.entry(name.to_owned()).or_default() += count;
            }
        }
        Ok(counters)
    }
}

impl CaseDriver for NativeDriver<'_> {
    fn begin(&mut self, cases: &[Case]) -> Result<()> {
        let wanted: Vec<SessionKey> = cases.iter().map(Self::key).collect();
        let unwanted = self.sessions.keys().filter(|key| !wanted.contains(key)).cloned();
        for key in unwanted.collect::<Vec<_>>() {
            // An error at the end of a session does not stop the run.
            let _ = self.end(&key);
        }
        Ok(())
    }

    fn prepare(&mut self, case: &Case, record: &mut Record) -> Result<()> {
        let key = Self::key(case);
        if self.sessions.contains_key(&key) {
            return Ok(());
        }
        let made = self.make(case, record.settings.file_size);
        let mounts = made.map_err(|error| self.explain(case, error))?;
        let enctype = mounts.first().and_then(ExportMount::enctype).map(str::to_owned);
        if let Err(error) = record.environment.add_enctype(enctype) {
            self.drop_all(&key, mounts);
            return Err(error);
        }
        if let (None, Some(mount)) = (case.load.layout().slots, mounts.first()) {
            let slots = u32::try_from(mount.depth_max()).unwrap_or(u32::MAX);
            record.environment.slots.entry(case.variant.clone()).or_insert(slots);
        }
        self.sessions.insert(key, mounts);
        Ok(())
    }

    fn measure(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        if self.renewed.elapsed() >= self.renewal {
            self.renew();
        }
        self.sample(case, turn).map_err(|error| self.explain(case, error))
    }

    fn give_up(&mut self, case: &Case) -> Result<()> {
        let own = self.sessions.keys().filter(|key| key.0 == case.flavor()).cloned();
        for key in own.collect::<Vec<_>>() {
            let mounts = self.sessions.remove(&key).unwrap_or_default();
            self.drop_all(&key, mounts);
        }
        let server_cpu = case.load.layout().server_cpu.as_deref();
        self.site.target(server_cpu)?.ping()?;
        self.renew();
        self.sweep(case.flavor(), server_cpu);
        self.renew();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let (mut first, mut gone) = (Ok(()), BTreeSet::new());
        for key in self.sessions.keys().cloned().collect::<Vec<_>>() {
            let server_cpu = key.1.server_cpu.clone();
            if gone.contains(&server_cpu) {
                // A server that is gone is not waited for by each session in turn.
                let mounts = self.sessions.remove(&key).unwrap_or_default();
                self.drop_all(&key, mounts);
            } else if let Err(error) = self.end(&key) {
                first = first.and(Err(error.context(key.0)));
                if !self.answers(server_cpu.as_deref()) {
                    gone.insert(server_cpu);
                }
            }
        }
        for (variant, server_cpu) in self.leftovers.places() {
            if !gone.contains(&server_cpu) {
                self.sweep(&variant, server_cpu.as_deref());
            }
        }
        first
    }

    fn left_behind(&mut self) -> Vec<String> {
        self.leftovers.sentences()
    }
}

impl NativeDriver<'_> {
    /// Ends the sessions of a key; the folders of sessions that cannot end are kept in mind.
    fn end(&mut self, key: &SessionKey) -> Result<()> {
        let mounts = self.sessions.remove(key).unwrap_or_default();
        let (left, ended) = end_all(mounts, ExportMount::finish);
        self.drop_all(key, left);
        ended
    }

    /// Returns whether a server still answers.
    fn answers(&mut self, server_cpu: Option<&str>) -> bool {
        self.site.target(server_cpu).is_ok_and(|target| target.ping().is_ok())
    }

    /// Renews the leases of all sessions: they have made no call for as long as another one was
    /// waited for.
    fn renew(&mut self) {
        self.sessions.values_mut().flatten().for_each(renew);
        self.renewed = Instant::now();
    }

    /// Runs work of `length` while the sessions that have no part in it keep their leases.
    fn beside<T: Send>(&mut self, length: Duration, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        if length < self.renewal {
            // It ends before any of them has to renew its lease.
            return work();
        }
        let others = self.sessions.values_mut().flatten().collect();
        while_renewing(self.renewal, others, renew, work)
    }

    /// Removes the files of a variant in a session for that purpose.
    fn sweep(&mut self, variant: &str, server_cpu: Option<&str>) {
        if !self.leftovers.any(variant, server_cpu) {
            return;
        }
        let mut connected = || -> Result<ExportMount> {
            let target = self.site.target(server_cpu)?;
            let flavor: Flavor = variant.parse().map_err(anyhow::Error::msg)?;
            ExportMount::connect(target.options(flavor)?, &target.export, &self.folder)
        };
        if let Ok(mut mount) = connected() {
            self.leftovers.sweep(variant, server_cpu, &mut mount);
            let _ = mount.finish();
        }
    }

    fn sample(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        let key = Self::key(case);
        if !turn.warm_up && key.2 {
            let work = ClientWork::of(case, LEAD_IN.min(turn.length / 2), turn.stop)?;
            clients::run(self.sessions.get_mut(&key).context(NOT_PREPARED)?, &work)?;
        }
        let before = if self.counts { self.counters(&key)? } else { Counters::new() };
        let probe = self.site.target(key.1.server_cpu.as_deref())?.probe();
        let mut counters = Counters::new();
        let work = ClientWork::of(case, turn.length, turn.stop)?;
        let mut mounts = self.sessions.remove(&key).context(NOT_PREPARED)?;
        let measured = self.beside(turn.length, || {
            workload::measure(turn.stop, &probe, &case.variant, |tally| {
                (*tally, counters) = clients::run(&mut mounts, &work)?;
                Ok(())
            })
        });
        self.sessions.insert(key.clone(), mounts);
        let Some(sample) = measured? else { return Ok(None) };
        if self.counts {
            counters.extend(grown(&before, self.counters(&key)?));
        }
        let offered = match &case.load {
            Load::Transfer(transfer) => transfer.rate,
            _ => None,
        };
        Ok(Some(Sample { offered, counters, ..sample }))
    }
}

/// Renews the lease of a session.
fn renew(mount: &mut ExportMount) {
    // If that fails its next case will say so.
    let _ = mount.renew();
}

/// By how much counters have grown; gauges that have shrunk are left out.
fn grown(before: &Counters, after: Counters) -> Counters {
    let grown = after.into_iter().map(|(name, after)| {
        let by = after.saturating_sub(before.get(&name).copied().unwrap_or(0));
        (name, by)
    });
    grown.filter(|(_, by)| *by > 0).collect()
}
