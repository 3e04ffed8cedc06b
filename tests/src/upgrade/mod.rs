//! Upgrades of a server that clients work with, in every flavor.
//!
//! No client reconnects, no operation fails, and none is lost or runs twice: the clients check it
//! as they work.

mod load;

use crate::program::{Installation, next_program, run};
use crate::server::Server;
use crate::world::World;
use client::Flavor;
use load::UpgradeLoad;
use rng::SplitMix64;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The longest pause between two upgrades.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// The result of upgrades under load with one flavor.
#[derive(Clone, Debug)]
pub struct Upgraded {
    /// The flavor of the clients.
    pub flavor: Flavor,
    /// Upgrades in a row: to the next version and back.
    pub rounds: usize,
    /// The pauses that clients noticed, in milliseconds, sorted.
    pub pauses: Vec<f64>,
    /// Steps of the clients' work.
    pub steps: u64,
    /// Descriptors of the first process that has taken over, and of the last.
    pub descriptors: [usize; 2],
}

impl Upgraded {
    /// Returns the pause that half of the upgrades stayed below.
    pub fn median(&self) -> f64 {
        self.pauses.get(self.pauses.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the longest pause.
    pub fn longest(&self) -> f64 {
        self.pauses.last().copied().unwrap_or_default()
    }

    /// All of it, for programs.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "flavor": self.flavor.to_string(),
            "rounds": self.rounds,
            "pause_ms_median": self.median(),
            "pause_ms_max": self.longest(),
            "pauses_ms": self.pauses,
            "steps": self.steps,
            "descriptors": self.descriptors,
        })
    }
}

impl fmt::Display for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flavor, rounds, steps, descriptors: [first, last], .. } = self;
        let (median, longest) = (self.median(), self.longest());
        write!(
            f,
            "{flavor}: {rounds} upgrades, pause {median:.0} ms at the median and {longest:.0} ms at most, {steps} \
             steps of clients, {first} descriptors at first and {last} at last"
        )
    }
}

/// Upgrades a new server so often while clients work with it, to the next version and back.
///
/// # Panics
/// A client has noticed more than a pause.
pub fn upgrade_under_load(world: &World, flavor: Flavor, rounds: usize, seed: u64) -> Upgraded {
    let installation = Installation::with_program();
    let programs = [installation.add("orthrus-next", next_program()), installation.program()];
    let server = &mut world.server().program(&programs[1]).args(["--delegations", "all"]).start();
    let mut random = SplitMix64(seed);
    let accepted = server.counter("accepted");
    let load = UpgradeLoad::start(world, server, flavor, seed);
    let connections = load.connections();
    let (mut pauses, mut descriptors) = (Vec::new(), [0; 2]);
    for round in 0..rounds {
        let report = server.upgrade(Some(&programs[round % 2]));
        pauses.push(report["pause_ms"].as_f64().expect("a number"));
        descriptors[usize::from(round > 0)] = open_files(server.pid());
        // From no work in between to a lot.
        load.wait_for_steps(random.index(20) as u64);
        std::thread::sleep(PAUSE_MAX.mul_f64(random.index(1000) as f64 / 1000.0));
    }
    let end = Instant::now();
    load.wait_for_steps(50);
    let since = server.counter("accepted") - accepted;
    let (steps, faults) = load.stop();
    assert!(faults.is_empty(), "{faults:#?}\n{:?} after the last upgrade\n{}", end.elapsed(), server.log());
    assert_eq!(since, connections, "a client has connected again");
    pauses.sort_by(f64::total_cmp);
    Upgraded { flavor, rounds, pauses, steps, descriptors }
}

/// Makes upgrades fail while clients work, and a last one succeed. Each failure is a program and a
/// part of the message that the administrator gets.
///
/// # Panics
/// An upgrade does not fail in this way, or a client has noticed more than a pause.
pub fn fail_under_load(world: &World, server: &mut Server, flavor: Flavor, failures: &[(PathBuf, &str)]) {
    let accepted = server.counter("accepted");
    let load = UpgradeLoad::start(world, server, flavor, 1);
    let connections = load.connections();
    for (program, message) in failures {
        // On a busy machine calls take longer than usual, which would be another failure.
        let ended = run(server.upgrade_command(Some(program)).args(["--wait", "5000"]));
        let name = program.display();
        assert_eq!(ended.status.code(), Some(1), "{name}: {}\n{}", ended.stderr, server.log());
        assert!(ended.stderr.contains(message), "{name}: {}", ended.stderr);
        load.wait_for_steps(20);
    }
    server.upgrade(None);
    load.wait_for_steps(50);
    let since = server.counter("accepted") - accepted;
    let (_, faults) = load.stop();
    assert!(faults.is_empty(), "{faults:#?}\n{}", server.log());
    assert_eq!(since, connections, "a client has connected again");
}

/// Counts the descriptors of a process.
pub fn open_files(process: u32) -> usize {
    let folder = std::fs::read_dir(format!("/proc/{process}/fd"));
    folder.expect("the process runs").count()
}
