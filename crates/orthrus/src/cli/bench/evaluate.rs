//! The run that all evaluations have in common.

use super::arguments::{RunArguments, Selection, TargetArguments};
use super::keep::{self, Files};
use super::on_mounts;
use super::site::{Own, Store};
use crate::cli::LeftOut;
use crate::cli::stop::stop_flag;
use crate::output::outln;
use anyhow::{Context, bail};
use bench::evaluation::{ONTAP, Only};
use bench::link::Link;
use bench::measuring::{self, CaseDriver, Evaluation, Record, RunPhase, RunStep, RunWatch, Settings};
use bench::native::{BenchTarget, NativeDriver, ServerSet};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use terminal::shell_word;

/// A request to measure an evaluation.
pub(crate) struct RunRequest<'a> {
    /// Name of the evaluation, for files and titles.
    pub name: &'static str,
    /// Title of the report.
    pub title: &'a str,
    /// The method of measurement.
    pub settings: Settings,
    /// The cases and tables of the evaluation.
    pub evaluation: &'a mut dyn Evaluation,
    /// Files that a flavor has at once, at most.
    pub files: u64,
    /// Whether counters go into the samples.
    pub counting: bool,
}

/// Measures, on mounts or by the project's client, prints the tables, and writes the report. An
/// interrupted run keeps its measurements.
///
/// # Errors
/// When no flavor can be measured or the report cannot be written; and, after the report was
/// written, when the run was not complete.
pub(super) fn either(
    mounts: Option<on_mounts::Target>,
    target: &TargetArguments,
    arguments: &RunArguments,
    request: RunRequest<'_>,
) -> anyhow::Result<()> {
    if arguments.selection.list {
        return list(request);
    }
    let (output, resume) = (arguments.output.clone(), arguments.resume.clone());
    match mounts {
        Some(mounts) => mounts.measure(output, resume, request),
        None => start(target, output, resume, request),
    }
}

/// Measures by the project's client; as [`either`].
///
/// # Errors
/// As [`either`].
pub(crate) fn start(
    target: &TargetArguments,
    output: Option<PathBuf>,
    resume: Option<PathBuf>,
    request: RunRequest<'_>,
) -> anyhow::Result<()> {
    // Before there is anything to clean up.
    let stop = stop_flag()?;
    let mut record = Record::begin(request.name, request.title, request.settings.clone());
    let remote = target.remote()?.map(|found| BenchTarget { stop: Some(stop.clone()), ..found });
    // It is also how one that is none is found out before anything is started.
    let copies = request.evaluation.copies(&stop)?;
    let store = match target.folder() {
        Some(folder) => Store::Folder(folder.to_owned()),
        None => Store::Memory(memory(&request, copies)),
    };
    record.target = remote.as_ref().map_or_else(|| store.label(), |target| target.label.clone());
    let link = target.link()?;
    record.environment.link = link.as_ref().map(Link::spec);
    let files = begin(&mut record, output, resume.as_deref())?;
    let local = remote.as_ref().is_none_or(BenchTarget::is_local);
    let mut site: Box<dyn ServerSet + '_> = match remote {
        Some(target) => Box::new(target),
        None => Box::new(Own::start(store, link.as_ref())?),
    };
    by_client(&mut record, &mut *site, &files, &stop, request, local, link.as_ref())
}

/// Measures a server by the project's client, prints the tables, and writes the report; `local`
/// says whether the server is on this machine, `link` what lies between.
///
/// # Errors
/// As [`conduct`] and [`publish`].
pub(crate) fn by_client(
    record: &mut Record,
    site: &mut dyn ServerSet,
    files: &Files,
    stop: &AtomicBool,
    request: RunRequest<'_>,
    local: bool,
    link: Option<&Link>,
) -> anyhow::Result<()> {
    let folder = bench::folder_name(None);
    let mut driver = NativeDriver::new(site, &folder, stop);
    if request.counting {
        driver = driver.counting();
    }
    conduct(record, &mut driver, files, stop, request.evaluation, link)?;
    keep::note(record, local);
    publish(record, files)
}

/// Returns the command that repeats this run.
fn command_line() -> String {
    let arguments = std::env::args().skip(1).map(|argument| shell_word(&argument));
    std::iter::once("orthrus".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Prints the names of the cases that are known before the run, and how long they take.
///
/// # Errors
/// When no case has a matching name.
pub(crate) fn list(request: RunRequest<'_>) -> anyhow::Result<()> {
    let record = Record::begin(request.name, request.title, request.settings);
    let settings = &record.settings;
    let mut only = Only::new(request.evaluation, selected(&record));
    let (mut names, mut cases): (Vec<String>, usize) = (Vec::new(), 0);
    while let Some(block) = only.next(&record) {
        names.extend(block.first().map(|case| case.group.clone()));
        cases += block.len();
    }
    if names.is_empty() {
        bail!("no case has {:?} in its name; --list without --only shows the names", selected(&record));
    }
    names.iter().for_each(|name| outln!("{name}"));
    // A lead-in and a warm-up take up to half of a repetition each.
    let each = settings.seconds * (1.5 * f64::from(settings.repetitions) + 0.5);
    let time = Duration::from_secs_f64(each * cases as f64);
    outln!(
        "{} cases for each of {}: about {}",
        names.len(),
        settings.variants.join(", "),
        rounded(time.max(Duration::from_secs(1)))
    );
    if request.name == ONTAP {
        outln!(
            "The steps of each curve follow from its peak and are not listed; they take most of the time."
        );
    }
    Ok(())
}

/// The text that the names of the measured cases contain; empty for all cases.
fn selected(record: &Record) -> &str {
    record.settings.options.get(Selection::ONLY).and_then(|only| only.as_str()).unwrap_or_default()
}

/// Finds out where the report goes, and takes up the run that is to go on, if one is.
///
/// # Errors
/// A run that was another one; a place that cannot be written to.
pub(crate) fn begin(
    record: &mut Record,
    output: Option<PathBuf>,
    resume: Option<&Path>,
) -> anyhow::Result<Files> {
    let beside = resume.map(|path| path.with_extension(""));
    let prefix = output.or(beside).unwrap_or_else(|| format!("orthrus-{}", record.evaluation).into());
    let files = Files::new(prefix);
    record.command = command_line();
    record.started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if let Some(path) = resume {
        let begun = keep::read(path)?;
        begun.continues(record).with_context(|| format!("{} cannot be gone on with", path.display()))?;
        *record = begun;
    }
    files.check()?;
    Ok(files)
}

/// Writes the report.
///
/// # Errors
/// When it cannot be written; and, after that, when the run was not complete, or has left something
/// out ([`LeftOut`]).
pub(crate) fn publish(record: &Record, files: &Files) -> anyhow::Result<()> {
    let data = files.publish(record)?;
    let again = format!("the same command with --resume {}", data.display());
    if let Some(reason) = &record.stopped_by {
        bail!("the run is not complete: {reason}; the report has what was measured, and {again} goes on");
    }
    let cases = record.skipped.iter().filter(|missing| missing.group.is_some()).count();
    let variants: Vec<&str> = record
        .skipped
        .iter()
        .filter(|missing| missing.group.is_none())
        .map(|missing| missing.variant.as_str())
        .collect();
    let told = [
        (!variants.is_empty()).then(|| format!("{} was left out", variants.join(", "))),
        (cases > 0).then(|| format!("{cases} cases failed")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    match told.is_empty() {
        true => Ok(()),
        false => bail!(LeftOut(format!(
            "{}; the report says why, and {again} tries again what is missing",
            told.join(", and ")
        ))),
    }
}

/// MiB of memory for the files of all flavors, and for what metadata loads make, `copies` bytes of
/// repositories of one's own.
fn memory(request: &RunRequest<'_>, copies: u64) -> u64 {
    let files = request.settings.variants.len() as u64 * request.files;
    // Each client's file is at least a MiB.
    ((request.settings.file_size >> 20) + 64) * files + 256 + (copies >> 20)
}

/// Measures the machine's limits, then what the evaluation asks for, with a progress bar.
///
/// # Errors
/// When nothing can be measured, or the record cannot be kept.
pub(crate) fn conduct(
    record: &mut Record,
    driver: &mut dyn CaseDriver,
    files: &Files,
    stop: &AtomicBool,
    evaluation: &mut dyn Evaluation,
    link: Option<&Link>,
) -> anyhow::Result<()> {
    if record.limits.is_empty() {
        record.limits = bench::machine_limits(link);
    }
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}")?);
    let watch = RunWatch { stop, step: &mut |step| show(&bar, step), save: &mut |record| files.save(record) };
    let text = selected(record).to_owned();
    let mut only = Only::new(evaluation, &text);
    let outcome = measuring::run(&mut only, driver, record, watch);
    bar.finish_and_clear();
    let is_whole = !stop.load(Ordering::Relaxed);
    if outcome.is_err() && is_whole && !only.has_matched() && !text.is_empty() {
        bail!("no case has {text:?} in its name; --list shows the names");
    }
    outcome
}

fn show(bar: &ProgressBar, step: &RunStep<'_>) {
    bar.set_length(step.total as u64);
    bar.set_position(step.done as u64);
    let what = match step.phase {
        RunPhase::Preparing => "preparing".to_owned(),
        RunPhase::WarmUp => "warming up".to_owned(),
        RunPhase::Repetition(number) => format!("repetition {}", number + 1),
    };
    let left =
        if step.done == 0 { String::new() } else { format!("about {} left  ", rounded(step.remaining)) };
    bar.set_message(format!("{left}{}, {what}", step.case.id()));
}

/// A time as people say it: `40 s`, `12 min`.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
