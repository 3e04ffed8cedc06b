//! A soak of bounded length: many clients connect, work and leave while the server's memory and
//! descriptors are sampled.
//!
//! The verdicts: memory and descriptors stop growing once the clients are warm, no call fails, and
//! the server holds nothing when the clients have left.

mod load;
mod samples;

pub use samples::{Sample, Verdict};

use crate::server::Server;
use crate::world::World;
use client::Flavor;
use load::Load;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use samples::{judge, sample};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Seconds between two samples.
const PAUSE: Duration = Duration::from_secs(2);
/// Time for the server to release the state of departed clients: it trims its objects twice a
/// minute.
const SETTLE: Duration = Duration::from_secs(100);

/// Samples that are printed, about.
const SAMPLES_SHOWN: usize = 15;

/// The parameters of a soak.
#[derive(Clone, Debug)]
pub struct Soak {
    /// How long the clients work.
    pub time: Duration,
    /// Client sessions at once.
    pub sessions: usize,
    /// Security contexts that the server keeps at most.
    pub contexts: usize,
    /// The file that gets a line for each sample.
    pub progress: Option<PathBuf>,
}

/// The result of a soak.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The server's resources: idle, at each sample, and after the clients have left.
    pub samples: Vec<Sample>,
    /// The number of each activity.
    pub done: Vec<(&'static str, u64)>,
    /// All verdicts of the soak.
    pub verdicts: Vec<Verdict>,
}

/// Soaks a server that exports `/export` with clients of alice's in all flavors.
pub fn soak(world: &World, server: &Server, how: &Soak) -> Outcome {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard), hard).expect("a soft limit may be raised");
    let log = how.progress.as_ref().map(|path| File::create(path).expect("a file for the progress"));
    let mut record = SoakRecord { server, began: Instant::now(), log, samples: Vec::new() };
    record.take("idle");
    let options = Flavor::ALL.map(|flavor| world.options(server, "alice", flavor));
    let load = Load::start(options, how.sessions);
    load.wait_until_connected();
    let end = Instant::now() + how.time;
    while Instant::now() < end {
        record.take("working");
        std::thread::sleep(PAUSE.min(how.time / 12));
    }
    record.take("working");
    let (done, errors) = load.stop();
    let settled = Instant::now() + SETTLE;
    while !record.take("after") && Instant::now() < settled {
        std::thread::sleep(Duration::from_millis(500));
    }
    let verdicts = judge(&record.samples, how, &done, &errors);
    Outcome { samples: record.samples, done, verdicts }
}

/// The samples so far.
struct SoakRecord<'s> {
    server: &'s Server,
    began: Instant,
    log: Option<File>,
    samples: Vec<Sample>,
}

impl SoakRecord<'_> {
    /// Takes a sample, and returns whether the server holds as little as at the first.
    fn take(&mut self, name: &'static str) -> bool {
        let sample = sample(self.server, name, self.began.elapsed());
        if let Some(log) = &mut self.log {
            // The progress file is optional.
            let _ = writeln!(log, "{sample}");
        }
        let clean = self.samples.first().is_some_and(|first| sample.is_as_clean_as(first));
        self.samples.push(sample);
        clean
    }
}

impl Outcome {
    /// All of it, for programs.
    pub fn json(&self) -> serde_json::Value {
        let sample = |sample: &Sample| {
            let held: serde_json::Map<String, serde_json::Value> =
                sample.held.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
            serde_json::json!({
                "phase": sample.phase,
                "seconds": sample.at.as_secs_f64(),
                "rss_kib": sample.rss_kib,
                "descriptors": sample.descriptors,
                "held": held,
            })
        };
        let verdict = |verdict: &Verdict| serde_json::json!({ "what": verdict.what, "figures": verdict.figures, "good": verdict.good });
        let done: serde_json::Map<String, serde_json::Value> =
            self.done.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
        serde_json::json!({
            "samples": self.samples.iter().map(sample).collect::<Vec<_>>(),
            "done": done,
            "verdicts": self.verdicts.iter().map(verdict).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Outcome {
    /// Prints a dozen samples, the counts, and each verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.samples.len().div_ceil(SAMPLES_SHOWN).max(1);
        let last = self.samples.len().saturating_sub(1);
        let chosen = self.samples.iter().enumerate().filter(|(at, _)| at % shown == 0 || *at == last);
        chosen.into_iter().try_for_each(|(_, sample)| writeln!(f, "{sample}"))?;
        self.done.iter().try_for_each(|(name, count)| writeln!(f, "{count:9} {name}"))?;
        self.verdicts.iter().try_for_each(|verdict| {
            let word = if verdict.good { "holds" } else { "FAILS" };
            writeln!(f, "{word}: {} ({})", verdict.what, verdict.figures)
        })
    }
}
