//! The order of measuring: warm-up of all sides, then A B C D, B C D A, C D A B …, with a look at the machine's noise before
//! each round. Each side comes first in turn, since what is measured right after that look pays for it.

use super::{Calibration, Case, CaseRecord, Missing, Record, Sample, calibrate};
use anyhow::{Context as _, Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a case runs at most before it counts: caches, slots and the processor's clock settle.
const WARM_UP_MAX: Duration = Duration::from_millis(500);

/// Says what is measured next.
pub trait Evaluation {
    /// Returns the cases that are to be measured side by side next; `None` at the end. What comes may depend on what has
    /// been measured, and on nothing else: a run that goes on must come to the same cases.
    fn next(&mut self, record: &Record) -> Option<Vec<Case>>;

    /// Estimates how many cases are still to come, those of the last answer of [`Evaluation::next`] left out.
    fn to_come(&self, record: &Record) -> usize;
}

/// Measures cases; how is its own affair.
pub trait Driver {
    /// Hears which cases come next; what none of them needs can be closed.
    ///
    /// # Errors
    /// Those of closing.
    fn begin(&mut self, cases: &[Case]) -> Result<()>;

    /// Gets ready for a case: connects, makes files. What is there already stays.
    ///
    /// # Errors
    /// The server's. They leave the case's side out when it has never been measured, and end the run otherwise.
    fn prepare(&mut self, case: &Case, record: &mut Record) -> Result<()>;

    /// Measures a case once. `None` when it was stopped before its time. The core sets the sample's repetition.
    ///
    /// # Errors
    /// Any; they end the run.
    fn measure(&mut self, case: &Case, turn: &Turn<'_>) -> Result<Option<Sample>>;

    /// Removes what it has made and ends what it has begun.
    ///
    /// # Errors
    /// The first thing that went wrong.
    fn finish(&mut self) -> Result<()>;
}

/// One repetition, as a driver hears of it.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// How long to go on.
    pub length: Duration,
    /// Whether the sample will count.
    pub warm_up: bool,
    /// Ends the repetition early.
    pub stop: &'a AtomicBool,
}

/// What a step of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sessions and files are made.
    Preparing,
    /// A sample that does not count.
    WarmUp,
    /// A sample that counts, from 0.
    Repetition(u32),
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The case whose turn it is.
    pub case: &'a Case,
    /// What happens with it.
    pub phase: Phase,
    /// Samples that were taken since the start.
    pub done: usize,
    /// Samples in all, as far as is known.
    pub total: usize,
    /// How much longer it will take, as far as is known.
    pub remaining: Duration,
}

/// How the caller looks on, stops a run and keeps what it has.
pub struct Watch<'a> {
    /// Ends the run as soon as it is set; what has been measured is kept.
    pub stop: &'a AtomicBool,
    /// Hears of each step as it begins.
    pub step: &'a mut dyn FnMut(&Step<'_>),
    /// Gets the record whenever cases are done, so that it can be kept.
    pub save: &'a mut dyn FnMut(&Record) -> Result<()>,
}

/// Measures what an evaluation asks for into a record, and says in the record whether that was all. Samples that are in the
/// record already are not taken again.
///
/// # Errors
/// When nothing can be measured at all, with the reason of each side, or when the record cannot be kept.
pub fn run(
    evaluation: &mut dyn Evaluation,
    driver: &mut dyn Driver,
    record: &mut Record,
    watch: Watch<'_>,
) -> Result<()> {
    (record.complete, record.stopped_by) = (false, None);
    record.left_out.clear();
    let mut schedule = Schedule { driver, record, watch, begun: Instant::now(), done: 0, to_come: 0 };
    let outcome = schedule.all(evaluation);
    let finished = schedule.driver.finish().context("cleaning up");
    let interrupted = schedule.stopped();
    record.summarise();
    if record.cases.iter().all(|one| one.figures.is_none()) && !interrupted {
        let reasons = record.left_out.iter().map(|one| format!("{}: {}", one.side, one.reason));
        let reasons: Vec<String> =
            reasons.chain(outcome.as_ref().err().map(|error| format!("{error:#}"))).collect();
        bail!("nothing can be measured: {}", reasons.join("; "));
    }
    record.stopped_by = match (interrupted, outcome.and(finished)) {
        (true, _) => Some("it was interrupted".to_owned()),
        (false, Err(error)) => Some(format!("{error:#}")),
        (false, Ok(())) => None,
    };
    record.complete = record.stopped_by.is_none();
    Ok(())
}

struct Schedule<'a, 'b> {
    driver: &'a mut dyn Driver,
    record: &'a mut Record,
    watch: Watch<'b>,
    begun: Instant,
    done: usize,
    /// Samples that are to come after the cases in hand.
    to_come: usize,
}

impl Schedule<'_, '_> {
    fn all(&mut self, evaluation: &mut dyn Evaluation) -> Result<()> {
        while !self.stopped() {
            let Some(cases) = evaluation.next(self.record) else { return Ok(()) };
            let each = self.record.settings.repetitions as usize + 1;
            self.to_come = evaluation.to_come(self.record) * each;
            cases.iter().for_each(|case| self.enter(case));
            let missing: Vec<Case> = cases.into_iter().filter(|case| self.is_missing(case)).collect();
            if !missing.is_empty() {
                self.block(missing)?;
                self.record.summarise();
                if self.record.cases.iter().any(|one| one.figures.is_some()) {
                    (self.watch.save)(self.record)?;
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, case: &Case) {
        if self.record.find(case).is_none() {
            self.record.cases.push(CaseRecord { case: case.clone(), samples: Vec::new(), figures: None });
        }
    }

    fn is_missing(&self, case: &Case) -> bool {
        let taken = self.record.find(case).map_or(0, |found| found.counted().count());
        taken < self.record.settings.repetitions as usize && !self.is_left_out(&case.side)
    }

    fn is_left_out(&self, side: &str) -> bool {
        self.record.left_out.iter().any(|missing| missing.side == side)
    }

    /// Measures cases in turns.
    fn block(&mut self, cases: Vec<Case>) -> Result<()> {
        self.driver.begin(&cases)?;
        let mut ready = Vec::new();
        for case in cases {
            self.announce(&case, Phase::Preparing, 0);
            match self.driver.prepare(&case, self.record) {
                Ok(()) => ready.push(case),
                Err(_) if self.stopped() => return Ok(()),
                Err(error) => self.leave_out(&case, error)?,
            }
        }
        ready.retain(|case| !self.is_left_out(&case.side));
        let mut left = ready.len() * (self.record.settings.repetitions as usize + 1);
        for case in &ready {
            self.measure(case, None, left)?;
            left -= 1;
        }
        for repetition in 0..self.record.settings.repetitions {
            let found: Calibration = calibrate(self.begun);
            self.record.calibrations.push(found);
            let first = repetition as usize % ready.len().max(1);
            for case in ready.iter().cycle().skip(first).take(ready.len()) {
                self.measure(case, Some(repetition), left)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// A side that was never measured is left out; one that was has broken.
    fn leave_out(&mut self, case: &Case, error: anyhow::Error) -> Result<()> {
        let measured = |one: &CaseRecord| one.case.side == case.side && !one.samples.is_empty();
        if self.record.cases.iter().any(measured) {
            return Err(error.context(case.side.clone()));
        }
        if !self.is_left_out(&case.side) {
            let missing = Missing { side: case.side.clone(), reason: format!("{error:#}") };
            self.record.left_out.push(missing);
        }
        Ok(())
    }

    fn measure(&mut self, case: &Case, repetition: Option<u32>, left: usize) -> Result<()> {
        let taken = |one: &CaseRecord| one.counted().any(|sample| Some(sample.repetition) == repetition);
        if self.stopped() || (repetition.is_some() && self.record.find(case).is_some_and(taken)) {
            return Ok(());
        }
        self.announce(case, repetition.map_or(Phase::WarmUp, Phase::Repetition), left);
        let length = self.record.settings.length();
        let turn = Turn {
            length: if repetition.is_some() { length } else { length.min(WARM_UP_MAX) },
            warm_up: repetition.is_none(),
            stop: self.watch.stop,
        };
        let sample = self.driver.measure(case, &turn).with_context(|| case.id())?;
        self.done += 1;
        let place = self
            .record
            .cases
            .iter_mut()
            .find(|one| one.case.side == case.side && one.case.group == case.group);
        if let (Some(sample), Some(place)) = (sample, place) {
            place.samples.push(Sample {
                repetition: repetition.unwrap_or(0),
                warm_up: turn.warm_up,
                ..sample
            });
        }
        Ok(())
    }

    fn announce(&mut self, case: &Case, phase: Phase, left: usize) {
        let left = left + self.to_come;
        let typical = match u32::try_from(self.done) {
            Ok(done) if done > 0 => self.begun.elapsed() / done,
            _ => self.record.settings.length(),
        };
        let remaining = typical.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX));
        let total = self.done + left;
        (self.watch.step)(&Step { case, phase, done: self.done, total, remaining });
    }

    fn stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }
}
