//! Clients that make, rename and remove files, several requests of each in flight.

use anyhow::{Context, ensure};
use bench::workload::together;
use client::{CallOptions, Client, Completion, Create, OpenHow, Options, Security};
use nfs4::*;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The changes that each request makes in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChurnKind {
    /// It makes a file, renames it and removes it.
    All,
    /// It makes files, each with a name of its own. They stay.
    Creates,
}

/// Several clients in the same directories.
pub(crate) struct Crowd(Vec<ChurnWorker>);

/// A client that makes and removes names.
struct ChurnWorker {
    client: Client,
    directories: Vec<Vec<u8>>,
    lanes: Vec<ChurnLane>,
    completions: Vec<Completion>,
    kind: ChurnKind,
    /// The first part of the names of files that stay.
    series: String,
    /// The number of the last file that stays.
    made: u64,
}

/// A request in flight: the next change of one file.
struct ChurnLane {
    name: [String; 2],
    /// The index of the directory of its file.
    directory: usize,
    /// 0: it is to be made; 1: renamed; 2: removed.
    next: usize,
    since: Instant,
}

/// Times of the changes that were made, in microseconds, by kind.
#[derive(Default)]
pub(crate) struct ChurnTimes([Vec<f64>; 3]);

impl ChurnTimes {
    /// How many there were.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// The median of a kind.
    pub(super) fn p50_us(&self, kind: usize) -> f64 {
        let mut times = self.0.get(kind).cloned().unwrap_or_default();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(0.0)
    }

    fn add(&mut self, other: Self) {
        for (all, more) in self.0.iter_mut().zip(other.0) {
            all.extend(more);
        }
    }
}

impl Crowd {
    /// Makes the sessions: so many clients, and requests of each. The names of the files begin
    /// with `prefix`, another one for each crowd in the same directories.
    pub(crate) fn connect(
        options: &Options,
        prefix: &str,
        directories: &[String],
        (clients, depth): (usize, usize),
    ) -> anyhow::Result<Self> {
        let worker = |number| {
            ChurnWorker::connect(options.clone(), directories, &format!("{prefix}{number}"), (number, depth))
        };
        Ok(Self((0..clients).map(worker).collect::<anyhow::Result<_>>()?))
    }

    /// Only makes files from now on, with names that begin with `series`. No other crowd in the
    /// directories may use it: a create would open the file of the other.
    pub(crate) fn only_creating(mut self, series: &str) -> Self {
        for (number, worker) in self.0.iter_mut().enumerate() {
            worker.kind = ChurnKind::Creates;
            worker.series = format!("{series}-{number}");
        }
        self
    }

    /// Changes names for `length`, then waits for the requests in flight.
    pub(crate) fn work(&mut self, length: Duration) -> anyhow::Result<ChurnTimes> {
        let end = Instant::now() + length;
        let mut all = ChurnTimes::default();
        for times in together(&mut self.0, |_, worker| worker.work(end)) {
            all.add(times?);
        }
        Ok(all)
    }

    /// Removes the remaining names and ends the sessions.
    pub(crate) fn leave(self) -> anyhow::Result<()> {
        self.0.into_iter().try_for_each(ChurnWorker::leave)
    }
}

impl ChurnWorker {
    fn connect(
        mut options: Options,
        directories: &[String],
        prefix: &str,
        (number, depth): (usize, usize),
    ) -> anyhow::Result<Self> {
        options.call_timeout = ANSWER_MAX;
        // Without a backchannel there would be no delegations to think of.
        options.backchannel = true;
        let mut client = Client::connect(options)?;
        let find = |path: &String| Ok(client.lookup_path(path)?.0.into_owned());
        let directories: Vec<Vec<u8>> = directories.iter().map(find).collect::<anyhow::Result<_>>()?;
        let name = |lane, what| format!("{what}-{prefix}-{lane}");
        let lane = |lane| ChurnLane {
            name: [name(lane, "new"), name(lane, "old")],
            directory: (number * depth + lane) % directories.len().max(1),
            next: 0,
            since: Instant::now(),
        };
        let lanes = (0..depth).map(lane).collect();
        let (completions, kind) = (Vec::new(), ChurnKind::All);
        Ok(Self { client, directories, lanes, completions, kind, series: String::new(), made: 0 })
    }

    fn work(&mut self, end: Instant) -> anyhow::Result<ChurnTimes> {
        let mut done = ChurnTimes::default();
        for lane in 0..self.lanes.len() {
            self.start(lane)?;
        }
        let mut running = self.lanes.len();
        while running > 0 {
            let mut completions = std::mem::take(&mut self.completions);
            ensure!(self.client.poll(ANSWER_MAX, &mut completions)? > 0, "no answer in time");
            for completion in completions.drain(..) {
                let number = usize::try_from(completion.tag)?;
                let reply = completion.result?;
                reply.check()?;
                self.client.recycle(reply);
                let lane = self.lanes.get_mut(number).context("an answer to nothing")?;
                if let Some(times) = done.0.get_mut(lane.next) {
                    times.push(lane.since.elapsed().as_secs_f64() * 1e6);
                }
                if self.kind == ChurnKind::All {
                    lane.next = (lane.next + 1) % 3;
                }
                if lane.next == 0 {
                    lane.directory = (lane.directory + 1) % self.directories.len().max(1);
                }
                if Instant::now() < end {
                    self.start(number)?;
                } else {
                    running -= 1;
                }
            }
            self.completions = completions;
        }
        Ok(done)
    }

    fn start(&mut self, number: usize) -> anyhow::Result<()> {
        let lane = self.lanes.get_mut(number).context("no such lane")?;
        lane.since = Instant::now();
        if self.kind == ChurnKind::Creates {
            self.made += 1;
            lane.name[0] = format!("{}-{}", self.series, self.made);
        }
        let [name, renamed] = &lane.name;
        let mut compound = self.client.compound();
        compound.putfh(self.directories.get(lane.directory).context("no such directory")?);
        match lane.next {
            0 => {
                let claim = OpenClaim4::CLAIM_NULL(name.as_bytes().into());
                compound.open(creation().arguments(b"names", claim)).getfh().close(Stateid4::CURRENT)
            }
            1 => compound.savefh().rename(name.as_bytes(), renamed.as_bytes()),
            _ => compound.remove(renamed.as_bytes()),
        };
        let options = CallOptions { tag: number as u64, ..CallOptions::default() };
        self.client.submit_with(compound, options)?;
        Ok(())
    }

    fn leave(mut self) -> anyhow::Result<()> {
        for lane in &self.lanes {
            let [name, renamed] = &lane.name;
            let left = match lane.next {
                0 => continue,
                1 => name,
                _ => renamed,
            };
            let directory = self.directories.get(lane.directory).context("no such directory")?;
            self.client.remove(directory, left.as_bytes())?;
        }
        Ok(self.client.close()?)
    }
}

/// Returns how to connect as the superuser with `sys`.
pub(super) fn options(address: SocketAddr) -> Options {
    Options::new(address.ip().to_string(), Security::sys_as(0, 0)).port(address.port())
}

/// Makes a file as programs do that only write it.
fn creation() -> OpenHow {
    let values = AttributeValues { mode: Some(0o644), ..AttributeValues::default() };
    OpenHow {
        access: OPEN4_SHARE_ACCESS_WRITE,
        create: Create::Unchecked(Box::new(values)),
        ..OpenHow::write()
    }
}
