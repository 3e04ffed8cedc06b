//! Samples of the server's resources, and the verdicts on them.

use super::Soak;
use super::load::THREADS;
use crate::server::Server;
use std::fmt;
use std::time::Duration;

/// The permitted growth of resident memory once the clients are warm, as a fraction.
const GROWTH_MAX: f64 = 0.10;
/// Growth in KiB that is always permitted: allocators do not return memory at once.
const GROWTH_FLOOR: u64 = 16 << 10;
/// Descriptors more than at the beginning that count as none: the log, a timer.
const DESCRIPTORS_SLACK: u64 = 4;
/// Descriptors that a session may take: its connections, its opens, and the objects that the server
/// keeps open for them.
const DESCRIPTORS_PER_SESSION: u64 = 16;

/// A sample of the server's resources.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `idle`, `working` or `after`.
    pub phase: &'static str,
    /// Time since the beginning.
    pub at: Duration,
    /// Resident memory, in KiB.
    pub rss_kib: u64,
    /// Number of open descriptors.
    pub descriptors: u64,
    /// Clients, sessions, opens, lock stateids, ranges, delegations, files and contexts.
    pub held: [(&'static str, u64); 8],
}

/// A condition, its figures, and whether it holds.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The condition, as a sentence.
    pub what: String,
    /// The figures that decide it.
    pub figures: String,
    /// Whether the condition holds.
    pub good: bool,
}

const HELD: [&str; 8] =
    ["clients", "sessions", "opens", "lock_stateids", "ranges", "delegations", "files", "contexts"];

/// Looks at the server.
pub(super) fn sample(server: &Server, phase: &'static str, at: Duration) -> Sample {
    let held = server.counters(&HELD);
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the server runs");
    Sample { phase, at, rss_kib: server.rss_kib(), descriptors: descriptors.count() as u64, held }
}

impl Sample {
    /// How many there are of something.
    pub fn count(&self, name: &str) -> u64 {
        self.held.iter().find(|(of, _)| *of == name).map_or(0, |(_, count)| *count)
    }

    /// Whether no objects and descriptors are left that were not there at the first sample.
    /// Contexts stay: a client that was cut off may come back to its own.
    pub(super) fn is_as_clean_as(&self, first: &Self) -> bool {
        self.descriptors <= first.descriptors + DESCRIPTORS_SLACK
            && self.held.iter().all(|(name, count)| *name == "contexts" || *count == 0)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, rss) = (self.at.as_secs_f64(), self.rss_kib as f64 / 1024.0);
        write!(f, "{at:7.1} s  {:8} {rss:8.1} MiB {:6} descriptors", self.phase, self.descriptors)?;
        self.held.iter().try_for_each(|(name, count)| write!(f, "  {name} {count}"))
    }
}

/// Derives the verdicts from the samples.
pub(super) fn judge(
    samples: &[Sample],
    how: &Soak,
    done: &[(&'static str, u64)],
    errors: &[String],
) -> Vec<Verdict> {
    let working: Vec<&Sample> = samples.iter().filter(|sample| sample.phase == "working").collect();
    let third = working.len().div_ceil(3);
    let most = |samples: &[&Sample], of: fn(&Sample) -> u64| samples.iter().map(|s| of(s)).max().unwrap_or(0);
    let mut verdicts = Vec::new();
    let mut hold = |what: String, figures: String, good| verdicts.push(Verdict { what, figures, good });

    // The first third is for warming up.
    let (middle, last) =
        working.get(third..).unwrap_or_default().split_at(working.len().saturating_sub(third) / 2);
    let (before, after) = (most(middle, |s| s.rss_kib), most(last, |s| s.rss_kib));
    let room = GROWTH_FLOOR.max((before as f64 * GROWTH_MAX) as u64);
    hold(
        format!("resident memory grows by no more than {} MiB after warming up", room >> 10),
        format!("{} KiB in the middle third, {after} KiB in the last", before),
        after <= before + room,
    );
    let (first, end) = (samples.first(), samples.last());
    let idle = first.map_or(0, |sample| sample.descriptors);
    let bound = idle + how.sessions as u64 * DESCRIPTORS_PER_SESSION;
    let top = most(&working, |s| s.descriptors);
    hold(
        format!("no more than {DESCRIPTORS_PER_SESSION} descriptors for a session"),
        format!("{top} at most, with {idle} idle"),
        top <= bound,
    );
    let sessions = most(&working, |s| s.count("sessions"));
    hold(
        format!("{} sessions at once, but for those that just come back", how.sessions),
        format!("{sessions} at most"),
        sessions + THREADS as u64 >= how.sessions as u64,
    );
    let contexts = samples.iter().map(|sample| sample.count("contexts")).max().unwrap_or(0);
    hold(
        format!("no more than {} contexts", how.contexts),
        format!("{contexts} at most"),
        contexts <= how.contexts as u64,
    );
    let clean = first.zip(end).is_some_and(|(first, end)| end.is_as_clean_as(first));
    hold(
        "descriptors and objects are those of the beginning when the clients are gone".to_owned(),
        end.map(ToString::to_string).unwrap_or_default(),
        clean,
    );
    let calls: u64 = done.iter().map(|(_, count)| count).sum();
    let told = errors.first().map_or(String::new(), |error| format!(", such as: {error}"));
    hold(
        "no operation fails".to_owned(),
        format!("{calls} done, {} failed{told}", errors.len()),
        errors.is_empty(),
    );
    verdicts
}
