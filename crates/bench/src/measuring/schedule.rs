//! The order of measurement: warm-up of all variants, then A B C D, B C D A, C D A B …, with a
//! calibration of the machine's noise before each round. Each variant comes first in turn, because
//! the first after a calibration pays for it.
//!
//! A case that fails is skipped with its reason, and its variant reconnects for the next one. After
//! a case without an answer, the schedule tries smaller depths, so that the reason names the depth
//! where the silence begins.

use super::depths::{Silence, at_depth, depth};
use super::{Calibration, Case, CaseRecord, Missing, NoAnswer, Record, Sample, calibrate};
use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a case runs at most before it counts: caches, slots and the processor's clock settle.
const WARM_UP_MAX: Duration = Duration::from_millis(500);
/// How often a warm-up is made until one of its operations finishes.
const WARM_UP_ATTEMPTS: u32 = 10;

/// Cases of a variant that may fail one after the other before the variant is left out for the rest
/// of the run: one more than a sweep from pure read to pure write has steps, so that another kind
/// of load gets its try.
pub const FAILURES_MAX: u32 = 6;

/// Selects the cases of a run.
pub trait Evaluation {
    /// Returns the cases to measure side by side next; `None` at the end. The answer may depend on
    /// the results so far, and on nothing else: a continued run must select the same cases.
    fn next(&mut self, record: &Record) -> Option<Vec<Case>>;

    /// Estimates the number of remaining cases, without the ones in the last answer of
    /// [`Evaluation::next`].
    fn to_come(&self, record: &Record) -> usize;

    /// Returns the bytes of the working copies of the user's repository, for all clients of a case
    /// together.
    ///
    /// # Errors
    /// The errors of reading the repository.
    fn copies(&self, _stop: &AtomicBool) -> Result<u64> {
        Ok(0)
    }
}

/// Measures cases; how is its own affair.
pub trait CaseDriver {
    /// Announces the next cases, so that the driver can close the sessions that none of them needs.
    ///
    /// # Errors
    /// Any error ends the run.
    fn begin(&mut self, cases: &[Case]) -> Result<()>;

    /// Prepares a case: connects and makes files. Existing files stay.
    ///
    /// # Errors
    /// The server's. The case is then skipped, or its variant if it has no sample yet.
    fn prepare(&mut self, case: &Case, record: &mut Record) -> Result<()>;

    /// Measures a case once. `None` when it was stopped before its time. The core sets the sample's
    /// repetition.
    ///
    /// # Errors
    /// Any; they leave the case out.
    fn measure(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>>;

    /// Calibrates the machine's noise before a round. `begun` is the start of the run.
    fn calibrate(&mut self, begun: Instant) -> Calibration {
        calibrate(begun)
    }

    /// Abandons the sessions of a failed case's variant without waiting for the server, so that the
    /// variant's next case reconnects.
    ///
    /// # Errors
    /// When the server is gone; this ends the run.
    fn give_up(&mut self, _case: &Case) -> Result<()> {
        Ok(())
    }

    /// Returns sentences on files that stay at the server, after [`CaseDriver::finish`].
    fn left_behind(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Removes all files and ends all sessions of the driver. After an error it goes on with the
    /// others.
    ///
    /// # Errors
    /// The first error.
    fn finish(&mut self) -> Result<()>;
}

/// One repetition, as a driver hears of it.
#[derive(Clone, Copy)]
pub struct CaseTurn<'a> {
    /// How long to go on.
    pub length: Duration,
    /// Whether the sample will count.
    pub warm_up: bool,
    /// Ends the repetition early.
    pub stop: &'a AtomicBool,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    /// Sessions and files are made.
    Preparing,
    /// A sample that does not count.
    WarmUp,
    /// A sample that counts, from 0.
    Repetition(u32),
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
pub struct RunStep<'a> {
    /// The case of the step.
    pub case: &'a Case,
    /// The phase of the case.
    pub phase: RunPhase,
    /// Samples that were taken since the start.
    pub done: usize,
    /// Samples in all, as far as is known.
    pub total: usize,
    /// How much longer it will take, as far as is known.
    pub remaining: Duration,
}

/// The caller's hooks: progress, interruption, and storage of the record.
pub struct RunWatch<'a> {
    /// Ends the run as soon as it is set; the record keeps its samples.
    pub stop: &'a AtomicBool,
    /// Hears of each step as it begins.
    pub step: &'a mut dyn FnMut(&RunStep<'_>),
    /// Gets the record whenever cases are done, so that it can be kept.
    pub save: &'a mut dyn FnMut(&Record) -> Result<()>,
}

/// Measures the cases of an evaluation into a record, and sets `complete` in the record. A block
/// that the record has all samples of is not measured again; one that lacks some is, as a whole.
///
/// # Errors
/// When no variant can be measured, with the reason of each, when the run is interrupted before it
/// has measured anything, or when the record cannot be stored.
pub fn run(
    evaluation: &mut dyn Evaluation,
    driver: &mut dyn CaseDriver,
    record: &mut Record,
    watch: RunWatch<'_>,
) -> Result<()> {
    (record.complete, record.stopped_by) = (false, None);
    record.notes.clear();
    record.try_again();
    let (begun, in_a_row) = (Instant::now(), BTreeMap::new());
    let mut schedule = Schedule { driver, record, watch, begun, done: 0, to_come: 0, in_a_row };
    let outcome = schedule.all(evaluation);
    let finished = schedule.driver.finish().context("cleaning up");
    let interrupted = schedule.stopped();
    let left_behind = schedule.driver.left_behind();
    record.notes.extend(left_behind);
    if let (true, Err(error)) = (interrupted, &finished) {
        // The reason of an interrupted run is the interruption.
        record.notes.push(format!("The run ended with an error: {error:#}."));
    }
    record.summarise();
    let is_empty = record.cases.iter().all(|one| one.figures.is_none());
    if is_empty && interrupted {
        // A record without figures must not replace that of an earlier run.
        let said = "it was interrupted before anything was measured, and has written no report";
        finished.context(said)?;
        bail!(said);
    }
    if is_empty {
        let reasons = record.skipped.iter().map(|one| format!("{}: {}", one.variant, one.reason));
        let ended = outcome.as_ref().err().map(|error| format!("{error:#}"));
        let mut reasons: Vec<String> = reasons.chain(ended).collect();
        reasons.dedup();
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

fn has_no_answer(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<NoAnswer>())
}

struct Schedule<'a, 'b> {
    driver: &'a mut dyn CaseDriver,
    record: &'a mut Record,
    watch: RunWatch<'b>,
    begun: Instant,
    done: usize,
    /// Samples that are to come after the cases in hand.
    to_come: usize,
    /// Cases that have failed since the last that did not, by variant.
    in_a_row: BTreeMap<String, u32>,
}

impl Schedule<'_, '_> {
    fn all(&mut self, evaluation: &mut dyn Evaluation) -> Result<()> {
        while !self.stopped() {
            let Some(cases) = evaluation.next(self.record) else { return Ok(()) };
            let each = self.record.settings.repetitions as usize + 1;
            self.to_come = evaluation.to_come(self.record) * each;
            cases.iter().for_each(|case| self.enter(case));
            if cases.iter().any(|case| self.is_missing(case)) {
                self.block(cases)?;
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

    /// Returns whether a case lacks samples of its load. The rate of a step may be another one than
    /// in the run that is continued.
    fn is_missing(&self, case: &Case) -> bool {
        let same = self.record.find(case).filter(|found| found.load == case.load);
        let taken = same.map_or(0, |found| found.counted().count());
        taken < self.record.settings.repetitions as usize && !self.is_out(case)
    }

    /// Drops the samples of a block that an earlier run has left: ratios are of samples that one
    /// run takes side by side. A variant that the block no longer has leaves the group.
    fn drop_samples(&mut self, cases: &[Case]) {
        self.record.cases.retain_mut(|one| {
            let mut group = cases.iter().filter(|case| case.group == one.case.group).peekable();
            if group.peek().is_none() {
                return true;
            }
            let now = group.find(|case| case.variant == one.case.variant);
            if let Some(now) = now {
                *one = CaseRecord { case: now.clone(), samples: Vec::new(), figures: None };
            }
            now.is_some()
        });
    }

    /// Returns whether a case, or its variant, is left out.
    fn is_out(&self, case: &Case) -> bool {
        self.record.is_skipped(&case.variant) || self.record.failure(&case.group, &case.variant).is_some()
    }

    /// Measures cases in turns, all of them or none.
    fn block(&mut self, cases: Vec<Case>) -> Result<()> {
        let wanted: Vec<Case> = cases.iter().filter(|case| !self.is_out(case)).cloned().collect();
        self.driver.begin(&wanted)?;
        let mut ready = Vec::new();
        for case in wanted {
            self.announce(&case, RunPhase::Preparing, 0);
            match self.driver.prepare(&case, self.record) {
                Ok(()) => ready.push(case),
                Err(_) if self.stopped() => return Ok(()),
                Err(error) => self.skip(&case, &error, true)?,
            }
        }
        ready.retain(|case| !self.is_out(case));
        if ready.is_empty() || self.stopped() {
            return Ok(());
        }
        self.drop_samples(&cases);
        let mut left = ready.len() * (self.record.settings.repetitions as usize + 1);
        for case in &ready {
            self.measure(case, None, left)?;
            left -= 1;
        }
        for repetition in 0..self.record.settings.repetitions {
            let found = self.driver.calibrate(self.begun);
            self.record.calibrations.push(found);
            let first = repetition as usize % ready.len().max(1);
            for case in ready.iter().cycle().skip(first).take(ready.len()) {
                self.measure(case, Some(repetition), left)?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// Leaves a case out. A variant that cannot even begin is left out as a whole, and so is one
    /// that has failed too often.
    fn skip(&mut self, case: &Case, error: &anyhow::Error, preparing: bool) -> Result<()> {
        let nothing_yet = self.record.cases.iter().all(|one| one.samples.is_empty());
        if let Err(gone) = self.driver.give_up(case) {
            // Before anything was measured it was not the case that did it.
            return Err(if nothing_yet { gone } else { anyhow!("{}: {error:#}; {gone:#}", case.id()) });
        }
        let (variant, reason) = (&case.variant, format!("{error:#}"));
        let measured = |one: &CaseRecord| one.case.variant == *variant && !one.samples.is_empty();
        let begun = self.in_a_row.contains_key(variant) || self.record.cases.iter().any(measured);
        let unanswered = has_no_answer(error);
        let reason = if unanswered { reason + &self.silence(case)? } else { reason };
        if preparing && !begun && !unanswered {
            if !self.record.is_skipped(variant) {
                self.record.skipped.push(Missing::variant(variant, reason));
            }
            return Ok(());
        }
        let failed = self.in_a_row.entry(variant.clone()).or_default();
        *failed += 1;
        let too_often = *failed >= FAILURES_MAX;
        let told = format!("{failed} cases failed one after the other, the last with: {reason}");
        self.record.skipped.push(Missing::case(case, reason));
        if too_often {
            self.record.skipped.push(Missing::variant(variant, told));
        }
        Ok(())
    }

    /// Tries smaller depths of a case that got no answer, and says where the silence begins.
    /// Samples of another depth are of another load and are dropped.
    fn silence(&mut self, case: &Case) -> Result<String> {
        let Some(depth) = depth(case) else { return Ok(String::new()) };
        let length = self.record.settings.length().min(WARM_UP_MAX);
        let found = Silence::find(depth, |depth| {
            if self.stopped() {
                return Ok(None);
            }
            let (case, turn) =
                (at_depth(case, depth), CaseTurn { length, warm_up: true, stop: self.watch.stop });
            self.announce(&case, RunPhase::Preparing, 0);
            let prepared = self.driver.prepare(&case, self.record);
            let error = match prepared.and_then(|()| self.driver.measure(&case, &turn)) {
                Ok(sample) => return Ok(sample.map(|_| true)),
                Err(error) => error,
            };
            self.driver.give_up(&case).with_context(|| case.id())?;
            Ok(has_no_answer(&error).then_some(false))
        })?;
        Ok(found.map_or(String::new(), Silence::words))
    }

    /// Measures once. A short warm-up in which no operation finished has warmed nothing up, so it
    /// is made again.
    fn take_turn(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        let attempts = if turn.warm_up { WARM_UP_ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            let sample = self.driver.measure(case, turn)?;
            if sample.is_some() || self.stopped() {
                return Ok(sample);
            }
        }
        self.driver.measure(case, turn)
    }

    fn measure(&mut self, case: &Case, repetition: Option<u32>, left: usize) -> Result<()> {
        if self.stopped() || self.is_out(case) {
            return Ok(());
        }
        self.announce(case, repetition.map_or(RunPhase::WarmUp, RunPhase::Repetition), left);
        let length = self.record.settings.length();
        let turn = CaseTurn {
            length: if repetition.is_some() { length } else { length.min(WARM_UP_MAX) },
            warm_up: repetition.is_none(),
            stop: self.watch.stop,
        };
        let sample = match self.take_turn(case, &turn) {
            Ok(sample) => sample,
            // An error after an interruption is not a failure.
            Err(_) if self.stopped() => return Ok(()),
            Err(error) => return self.skip(case, &error, false),
        };
        self.done += 1;
        if repetition.is_some_and(|number| number + 1 == self.record.settings.repetitions) {
            self.in_a_row.remove(&case.variant);
        }
        let place = self
            .record
            .cases
            .iter_mut()
            .find(|one| one.case.variant == case.variant && one.case.group == case.group);
        if let (Some(sample), Some(place)) = (sample, place) {
            let repetition = repetition.unwrap_or(0);
            place.samples.push(Sample { repetition, warm_up: turn.warm_up, ..sample });
        }
        Ok(())
    }

    fn announce(&mut self, case: &Case, phase: RunPhase, left: usize) {
        let left = left + self.to_come;
        let typical = match u32::try_from(self.done) {
            Ok(done) if done > 0 => self.begun.elapsed() / done,
            _ => self.record.settings.length(),
        };
        let remaining = typical.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX));
        let total = self.done + left;
        (self.watch.step)(&RunStep { case, phase, done: self.done, total, remaining });
    }

    fn stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }
}
