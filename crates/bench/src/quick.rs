//! `bench quick`: all flavors side by side, in interleaved rounds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::pattern::Pattern;
use crate::workload::{self, Conditions};
use crate::{
    Endpoint, Environment, Flavor, LeftOut, Measurement, Mount, Plan, Report, SCHEMA, Series, Workload,
};

/// How long each pair runs before it counts: caches, slots and the processor's clock settle.
const WARM_UP: Duration = Duration::from_millis(250);

/// How long each repetition runs before it counts. Without it the first in a round would pay for what the last
/// of the round before has left behind in caches and allocators at both ends.
const LEAD_IN: Duration = Duration::from_millis(100);

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Steps that are done.
    pub done: u32,
    /// Steps in all; they take about the same time, but for warm-ups.
    pub total: u32,
    /// The step that begins; `None` for files that are being written.
    pub workload: Option<Workload>,
    /// Whose turn it is.
    pub flavor: Flavor,
    /// The round, from 0; `None` for the warm-up.
    pub round: Option<u32>,
}

/// How the caller looks on and stops a run.
pub struct Watch<'a> {
    /// Ends the run as soon as it is set; what has been measured is kept.
    pub stop: &'a AtomicBool,
    /// Processor time of the server so far; `None` where it cannot be known.
    pub server_cpu: &'a dyn Fn() -> Option<Duration>,
    /// Hears of each step as it begins.
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order of workloads, then of flavors.
    pub series: Vec<Series>,
    /// What stopped the run before its end.
    pub stopped_by: Option<String>,
}

/// What is measured, and who asks.
pub struct Setup<'a> {
    /// What to run.
    pub plan: Plan,
    /// The export, as the server names it.
    pub path: &'a str,
    /// Name of the folders that the run makes in the export and removes; a flavor's name is added.
    pub folder: &'a str,
    /// How to connect with a flavor, but for the number of connections, which the plan says. An error leaves
    /// the flavor out.
    pub options: &'a dyn Fn(Flavor) -> Result<client::Options>,
    /// The server, as the user named it.
    pub target: String,
    /// The command that repeats the run.
    pub command: String,
    /// Seconds since 1970.
    pub started_at: u64,
}

/// Connects with each flavor of the plan, runs the plan, cleans up, and makes the report of it. A flavor that
/// the server refuses, or that there is no ticket for, is left out and named in the report.
///
/// # Errors
/// When no flavor is left; with the reason of each.
pub fn measure(setup: Setup<'_>, watch: Watch<'_>) -> Result<Report> {
    let mut environment = Environment::of_this_machine();
    let (mut mounts, mut left_out) = (Vec::new(), Vec::new());
    for flavor in &setup.plan.flavors {
        match connect(&setup, *flavor) {
            Ok(mount) => {
                environment.enctype = environment.enctype.or(mount.enctype().map(str::to_owned));
                mounts.push((*flavor, mount));
            }
            Err(error) => left_out.push(LeftOut { flavor: *flavor, reason: format!("{error:#}") }),
        }
    }
    if mounts.is_empty() {
        let reasons = left_out.iter().map(|one| format!("{}: {}", one.flavor.name(), one.reason));
        bail!("nothing can be measured: {}", reasons.collect::<Vec<_>>().join("; "));
    }
    let mut sides: Vec<Side<'_>> =
        mounts.iter_mut().map(|(flavor, mount)| (*flavor, mount as &mut dyn Endpoint)).collect();
    let mut outcome = run(&setup.plan, &mut sides, watch);
    for (flavor, mount) in &mut mounts {
        let finished = mount.finish().with_context(|| format!("{}: cleaning up", flavor.name()));
        if let Err(error) = finished {
            // A server that is gone is not waited for by each flavor in turn.
            outcome.stopped_by.get_or_insert_with(|| format!("{error:#}"));
            break;
        }
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        started_at: setup.started_at,
        target: setup.target,
        command: setup.command,
        plan: setup.plan,
        complete: outcome.stopped_by.is_none(),
        stopped_by: outcome.stopped_by,
        left_out,
        environment,
        series: outcome.series,
    })
}

fn connect(setup: &Setup<'_>, flavor: Flavor) -> Result<Mount> {
    let options = (setup.options)(flavor)?.connections(setup.plan.connections as usize);
    let folder = format!("{}-{}", setup.folder, flavor.name());
    let mut mount = Mount::connect(options, setup.path, &folder)?;
    // Whether the user may write there is better known before the others have begun.
    if let Err(error) = mount.prepare() {
        // What went wrong first is what the user has to know.
        let _ = mount.finish();
        return Err(error);
    }
    Ok(mount)
}

/// One flavor and its way to the server, prepared.
pub type Side<'a> = (Flavor, &'a mut dyn Endpoint);

/// Runs a plan. The flavors are those of `sides`, in their order; an error ends the run and is part of the
/// outcome, with all that was measured until then.
pub fn run(plan: &Plan, sides: &mut [Side<'_>], watch: Watch<'_>) -> Outcome {
    let steps = sides.len() * (1 + plan.workloads.len() * (1 + plan.rounds as usize));
    let total = u32::try_from(steps).unwrap_or(u32::MAX);
    let mut run = Run { plan, watch, done: 0, total, measured: Vec::new() };
    let stopped_by = match run.all(sides) {
        Err(error) => Some(format!("{error:#}")),
        Ok(()) if run.stopped() => Some("interrupted".to_owned()),
        Ok(()) => None,
    };
    let flavors: Vec<Flavor> = sides.iter().map(|(flavor, _)| *flavor).collect();
    Outcome { series: series(&plan.workloads, &flavors, &run.measured), stopped_by }
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    watch: Watch<'b>,
    done: u32,
    total: u32,
    measured: Vec<(Workload, Flavor, Measurement)>,
}

impl<'b> Run<'_, 'b> {
    fn all(&mut self, sides: &mut [Side<'_>]) -> Result<()> {
        for (flavor, endpoint) in &mut *sides {
            self.announce(None, *flavor, None);
            let conditions = self.conditions(*flavor, WARM_UP);
            workload::fill(*endpoint, &conditions)
                .with_context(|| format!("{}: preparing the file", flavor.name()))?;
        }
        for workload in &self.plan.workloads {
            self.workload(*workload, sides)?;
        }
        Ok(())
    }

    /// Interleaves: all flavors warm up, then all run round 0, then all run round 1, …
    fn workload(&mut self, workload: Workload, sides: &mut [Side<'_>]) -> Result<()> {
        for (flavor, endpoint) in &mut *sides {
            self.repeat(workload, *flavor, None, *endpoint)?;
        }
        for round in 0..self.plan.rounds {
            for (flavor, endpoint) in &mut *sides {
                self.repeat(workload, *flavor, Some(round), *endpoint)?;
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        workload: Workload,
        flavor: Flavor,
        round: Option<u32>,
        endpoint: &mut dyn Endpoint,
    ) -> Result<()> {
        if self.stopped() {
            return Ok(());
        }
        self.announce(Some(workload), flavor, round);
        let length = if round.is_some() { self.plan.length() } else { WARM_UP.min(self.plan.length()) };
        if round.is_some() {
            let conditions = self.conditions(flavor, LEAD_IN.min(length));
            workload::repeat(workload, 0, endpoint, &conditions)
                .with_context(|| format!("{}: {}", flavor.name(), workload.title()))?;
        }
        let conditions = self.conditions(flavor, length);
        let measured = workload::repeat(workload, round.unwrap_or(0), endpoint, &conditions)
            .with_context(|| format!("{}: {}", flavor.name(), workload.title()))?;
        if round.is_some() {
            self.measured.extend(measured.map(|one| (workload, flavor, one)));
        }
        Ok(())
    }

    fn announce(&mut self, workload: Option<Workload>, flavor: Flavor, round: Option<u32>) {
        let progress = Progress { done: self.done, total: self.total, workload, flavor, round };
        (self.watch.progress)(&progress);
        self.done += 1;
    }

    fn conditions(&self, flavor: Flavor, length: Duration) -> Conditions<'b> {
        Conditions {
            file_size: self.plan.file_size,
            // A pattern of its own, so that one flavor's file is never taken for another's.
            pattern: Pattern(0x6f72_7468_7275_7300 + flavor as u64),
            length,
            stop: self.watch.stop,
            server_cpu: self.watch.server_cpu,
        }
    }

    fn stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }
}

fn series(
    workloads: &[Workload],
    flavors: &[Flavor],
    measured: &[(Workload, Flavor, Measurement)],
) -> Vec<Series> {
    let of = |workload: Workload, flavor: Flavor| -> Vec<Measurement> {
        let own = measured.iter().filter(|(of, by, _)| *of == workload && *by == flavor);
        own.map(|(_, _, one)| one.clone()).collect()
    };
    let pairs = workloads.iter().flat_map(|workload| flavors.iter().map(|flavor| (*workload, *flavor)));
    pairs
        .filter_map(|(workload, flavor)| {
            Series::new(workload, flavor, of(workload, flavor), &of(workload, Flavor::Sys))
        })
        .collect()
}

#[cfg(test)]
#[path = "quick_tests.rs"]
mod tests;
