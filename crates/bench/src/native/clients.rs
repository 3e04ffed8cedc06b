//! The same load by several clients at once, each on a thread of its own.

use crate::counters::{self, Counters};
use crate::measuring::{Case, Load};
use crate::pattern::Pattern;
use crate::workload::{self, Conditions, LoadTally, SharedRate, TransferShape, git};
use crate::{ExportMount, Flavor, KnownRepository};
use anyhow::{Context as _, Result, bail};
use std::sync::atomic::AtomicBool;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// The files of the clients of a case.
#[derive(Clone, Copy)]
pub(super) struct ClientFiles {
    pattern: Pattern,
    size: u64,
}

impl ClientFiles {
    /// Files of a flavor; each at least a MiB.
    pub(super) fn new(flavor: &str, size: u64) -> Self {
        Self { pattern: pattern(flavor), size: size.max(1 << 20) }
    }

    /// Fills a client's file.
    pub(super) fn fill(self, mount: &mut ExportMount, stop: &AtomicBool) -> Result<()> {
        let conditions =
            Conditions { file_size: self.size, pattern: self.pattern, length: Duration::ZERO, stop };
        workload::fill(mount, &conditions)?;
        mount.filled(self.size);
        Ok(())
    }
}

/// A pattern of its own, so that one flavor's file is never taken for another's.
fn pattern(flavor: &str) -> Pattern {
    let number = Flavor::ALL.into_iter().position(|other| other.name() == flavor).unwrap_or(0);
    Pattern(0x6f72_7468_7275_7300 + number as u64)
}

/// The work of all clients of a case.
pub(super) struct ClientWork<'a> {
    case: &'a Case,
    length: Duration,
    stop: &'a AtomicBool,
    /// The repositories of the clients, where the case has any.
    repositories: Vec<git::RepositoryShape>,
}

impl<'a> ClientWork<'a> {
    /// Makes the load of a case for `length`.
    ///
    /// # Errors
    /// The errors of reading the repository of a case.
    pub(super) fn of(case: &'a Case, length: Duration, stop: &'a AtomicBool) -> Result<Self> {
        Ok(Self { case, length, stop, repositories: repositories(case, stop)? })
    }

    /// Runs the work of client `index` of `clients`, which all began at `start`.
    fn alone(
        &self,
        mount: &mut ExportMount,
        (index, clients): (usize, usize),
        start: Instant,
    ) -> Result<(LoadTally, Counters)> {
        let conditions = Conditions {
            file_size: mount.file_size(),
            pattern: pattern(self.case.flavor()),
            length: self.length,
            stop: self.stop,
        };
        let mut tally = LoadTally::default();
        let counters = match &self.case.load {
            Load::Git { .. } => {
                let repository = self.repositories.get(index).context("there is no repository")?;
                git::run(mount, repository, &conditions, &mut tally)?
            }
            Load::Metadata { .. } => {
                workload::metadata(mount, &conditions, &mut tally)?;
                Counters::new()
            }
            Load::Copy(_) | Load::Fetch(_) => bail!("files are copied by `bench lanl`"),
            Load::Transfer(transfer) => {
                let shape = TransferShape {
                    writes: transfer.writes,
                    random: transfer.random,
                    depth: transfer.depth.max(1) as usize,
                    size: usize::try_from(transfer.size)?,
                };
                let (client, clients) = (u32::try_from(index)?, u32::try_from(clients)?);
                let shared = transfer.rate.map(|rate| SharedRate { rate, clients, client, start });
                workload::load(shape, shared, mount, &conditions, &mut tally)?;
                Counters::new()
            }
        };
        Ok((tally, counters))
    }
}

/// Returns the shape of each client's working copies.
fn repositories(case: &Case, stop: &AtomicBool) -> Result<Vec<git::RepositoryShape>> {
    let Load::Git { seed, repository, layout } = &case.load else { return Ok(Vec::new()) };
    let seeds = (0..layout.clients.max(1)).map(|client| seed + u64::from(client));
    let Some(path) = repository else { return Ok(seeds.map(git::RepositoryShape::draw).collect()) };
    let known = KnownRepository::of(path, stop)?;
    Ok(seeds.map(|seed| git::RepositoryShape::of(&known, seed)).collect())
}

/// Starts all clients at once and returns their combined counts.
pub(super) fn run(mounts: &mut [ExportMount], work: &ClientWork<'_>) -> Result<(LoadTally, Counters)> {
    if let [mount] = mounts {
        return work.alone(mount, (0, 1), Instant::now());
    }
    let (clients, barrier) = (mounts.len(), Barrier::new(mounts.len()));
    // Their schedules are shifted against one common start.
    let start = OnceLock::new();
    let parts = workload::together(mounts, |index, mount| {
        barrier.wait();
        work.alone(mount, (index, clients), *start.get_or_init(Instant::now))
    });
    let (mut all, mut counters) = (LoadTally::default(), Counters::new());
    for (index, part) in parts.into_iter().enumerate() {
        let (tally, own) = part.with_context(|| format!("client {} of {clients}", index + 1))?;
        all.add(&tally);
        counters::add(&mut counters, own);
    }
    Ok((all, counters))
}
