//! Floods by a peer without credentials, next to an honest load, and the honest load's loss.
//!
//! The sender of a flood burns processor time on the machine that also serves. The harness
//! therefore compares each flood with an honest load beside threads that burn the same time and
//! send nothing, and prints the figures for the idle machine as well.

mod burner;
mod floods;
mod honest;
mod peer;

pub use floods::{FLOODS, Flood};
pub use honest::Pace;

use crate::server::Server;
use crate::world::World;
use burner::Burner;
use client::{Client, Flavor, Options};
use floods::Crew;
use honest::Honest;
use std::fmt;
use std::time::Duration;

/// Part of the honest throughput that must remain beside a flood.
pub const REMAINS_MIN: f64 = 2.0 / 3.0;
/// Memory that a flood may cost the server, in KiB: 256 MiB beyond `input_bytes_max` of
/// docs/limits.md, the one limit that a peer without credentials can reach.
pub const MEMORY_MAX_KIB: u64 = (256 + 256) << 10;
/// Pause before memory is looked at after a flood, so that the server sees the peer's connections
/// end.
const AFTERMATH: Duration = Duration::from_secs(2);

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of each phase.
    pub phase: Duration,
    /// Whether to measure the idle machine and the burner as well; without them only losses and
    /// memory are judged.
    pub compares: bool,
    /// How often the phases are repeated.
    pub rounds: u32,
}

/// One flood next to one flavor.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the flood.
    pub flood: &'static str,
    /// Flavor of the honest load.
    pub flavor: Flavor,
    /// Honest requests on the idle machine.
    pub alone: Pace,
    /// Honest requests beside the flood.
    pub flooded: Pace,
    /// Honest requests beside threads that burn the processor time of the flood.
    pub burned: Pace,
    /// The losses of honest clients: connections, the lock, requests, or the mount of a second
    /// client.
    pub losses: Vec<String>,
    /// Processor time of the flood's sender, in cores.
    pub cores: f64,
    /// Resident memory of the server in KiB: before, at most during, and after the flood.
    pub memory: [u64; 3],
}

impl Row {
    /// Honest throughput beside the flood, as a part of the throughput beside the burner.
    pub fn remains(&self) -> f64 {
        self.flooded.rate() / self.burned.rate().max(f64::MIN_POSITIVE)
    }

    /// KiB by which the server grew during the flood.
    pub fn growth(&self) -> u64 {
        self.memory[1].saturating_sub(self.memory[0])
    }

    /// The header of a table of rows.
    pub const HEAD: &'static str = "flood            beside   of burner  of alone  p99 alone/flood/burner ms  sender cores  RSS before/peak/after MiB  lost";

    /// All figures, for programs.
    pub fn json(&self) -> serde_json::Value {
        let pace = |pace: &Pace| serde_json::json!({ "per_second": pace.rate(), "p99_ms": pace.p99_ms() });
        serde_json::json!({
            "flood": self.flood,
            "flavor": self.flavor.name(),
            "alone": pace(&self.alone),
            "flooded": pace(&self.flooded),
            "burned": pace(&self.burned),
            "remains": self.remains(),
            "sender_cores": self.cores,
            "rss_kib": self.memory,
            "losses": self.losses,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alone = self.flooded.rate() / self.alone.rate().max(f64::MIN_POSITIVE);
        let [before, peak, after] = self.memory.map(|kib| kib >> 10);
        let p99 = [&self.alone, &self.flooded, &self.burned].map(Pace::p99_ms);
        write!(f, "{:16} {:8} {:9.2} {alone:9.2}", self.flood, self.flavor.name(), self.remains())?;
        write!(f, "{:13.2} / {:6.2} / {:6.2}", p99[0], p99[1], p99[2])?;
        write!(f, "{:11.2}  {before:10} / {peak:4} / {after:4}", self.cores)?;
        match self.losses.as_slice() {
            [] => write!(f, "         nothing"),
            losses => write!(f, "         {}", losses.join("; ")),
        }
    }
}

/// Sends one flood at a server that exports `/export` with a file `file` to 127.0.0.1 alone, next
/// to an honest client.
pub fn flood(world: &World, server: &Server, flood: &'static Flood, flavor: Flavor, plan: Plan) -> Row {
    let options = world.options(server, "alice", flavor);
    let before = server.rss_kib();
    let mut losses = Vec::new();
    let mut honest = Honest::connect(options.clone());
    let [mut alone, mut flooded, mut burned] = [Pace::default(), Pace::default(), Pace::default()];
    let (mut peak, mut cores) = (before, 0.0);
    for _ in 0..plan.rounds {
        if plan.compares {
            honest.work(plan.phase, &mut alone, || ());
        }
        let crew = Crew::start(flood, world, server);
        honest.work(plan.phase, &mut flooded, || peak = peak.max(server.rss_kib()));
        losses.extend(second_client(&options));
        let used = crew.stop();
        cores += used.cores / f64::from(plan.rounds);
        if plan.compares {
            let burner = Burner::start(used);
            honest.work(plan.phase, &mut burned, || ());
            burner.stop();
        }
    }
    losses.extend(honest.leave());
    if plan.compares {
        std::thread::sleep(AFTERMATH);
    }
    let memory = [before, peak, server.rss_kib()];
    Row { flood: flood.name, flavor, alone, flooded, burned, losses, cores, memory }
}

/// Mounts as a second honest client during the flood; returns the reason if it fails.
fn second_client(options: &Options) -> Option<String> {
    let second = Client::connect(options.clone()).and_then(|mut client| {
        client.lookup_path("/export/file")?;
        client.close()
    });
    second.err().map(|error| format!("a second client was kept out: {error}"))
}
