//! The evaluations: the options of each, and the run that they have in common.

use super::arguments::{RunArguments, Selection, TargetArguments};
use super::keep::{self, Files};
use super::mounts::MountArguments;
use super::on_mounts;
use super::site::{Own, Store};
use crate::cli::LeftOut;
use crate::cli::stop::stop_flag;
use anyhow::{Context, bail};
use bench::evaluation::{self, ANF, NCONNECT, ONTAP, Only, PLAN, PlanFile, REPOSITORY, own_plan};
use bench::link::Link;
use bench::measuring::{self, CaseDriver, Evaluation, Record, RunPhase, RunStep, RunWatch, Settings};
use bench::native::{NativeDriver, ServerSet};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Repeat "Performance impact of Kerberos on NFSv4.1 volumes" (Azure NetApp Files): its two tables
/// with your figures.
///
/// The loads are random 4 KiB and sequential 1 MiB, each from pure read to pure write in five
/// steps, at low and high load, and the operations of git: 22 loads for each flavor. This takes
/// about 11 minutes with the default of 6 repetitions of 1 s, and a minute with --quick. With
/// --mount, fio and git measure mounts, as in the articles.
#[derive(clap::Args)]
pub(crate) struct Anf {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Number of connections per session, like the mount option nconnect.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    connections: u32,
    /// Git repository for the metadata load: cloned on mounts, and used for names and lengths of
    /// files without --mount [default: one generated from a seed].
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

impl Anf {
    /// Measures.
    ///
    /// # Errors
    /// As [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut settings = self.run.settings(6, 1.0, 22);
        settings.options.insert("connections".into(), json!(self.connections));
        if let Some(path) = &self.repository {
            let path = path.canonicalize().with_context(|| format!("the repository {}", path.display()))?;
            settings.options.insert(REPOSITORY.into(), json!(path));
        }
        let title = "What Kerberos costs: low and high load, from pure read to pure write";
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let evaluation = &mut evaluation::anf(&settings, self.connections);
        let request = RunRequest { name: ANF, title, settings, evaluation, files: 1, counting: false };
        either(mounts, &self.target, &self.run, request)
    }
}

/// Repeat "Encrypt your NFS packets end to end with krb5p" (ONTAP 9.2): latency against IOPS, one
/// curve per flavor.
///
/// Sequential reads and writes of 4 and 8 KiB run on a fixed schedule that climbs until each flavor
/// is saturated. Latency counts from the time when a request was due. A server that the bench
/// starts is also measured with portable code instead of the processor's AES instructions. This
/// takes about 18 minutes with the default of 3 repetitions of 0.5 s. With --mount, fio measures
/// the peak of a mount, and threads that read and write files run the schedule.
#[derive(clap::Args)]
pub(crate) struct Ontap {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Numbers of clients; the article has 12 [default: 1,12]. On a mount each client is a job with
    /// its own file.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,
    /// Further instruction sets (ORTHRUS_CPU) for the server that the bench starts [default:
    /// portable].
    #[arg(long, value_delimiter = ',', value_name = "CHOICE,…")]
    server_cpu: Vec<String>,
}

impl Ontap {
    /// Measures.
    ///
    /// # Errors
    /// As [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let own = self.target.remote()?.is_none() && !self.mount.any();
        if !own && !self.server_cpu.is_empty() {
            bail!("--server-cpu is for a server of one's own: leave HOST:/EXPORT and --mount out");
        }
        let clients = match (self.clients.is_empty(), self.run.quick) {
            (true, true) => vec![2],
            (true, false) => vec![1, 12],
            (false, _) => self.clients,
        };
        let choices = match (self.server_cpu.is_empty(), own && !self.run.quick) {
            (true, true) => vec!["portable".to_owned()],
            _ => self.server_cpu,
        };
        let curves = 4 * (clients.len() + choices.len());
        let mut settings = self.run.settings(3, 0.5, 10 * curves);
        settings.options.insert("clients".into(), json!(clients));
        settings.options.insert("server_cpu".into(), json!(choices));
        let title = "What Kerberos costs: latency against IOPS";
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let evaluation = &mut evaluation::OntapClimb::new(&clients, &choices);
        let request = RunRequest { name: ONTAP, title, settings, evaluation, files: 2, counting: false };
        either(mounts, &self.target, &self.run, request)
    }
}

/// Measure one security context over 1, 2, 4, 8 and 16 connections, in order and reordered, and
/// count lost calls.
///
/// The load is random reads of 4 KiB, 64 in flight, in nine cases per flavor. This takes about 3
/// minutes with the default of 6 repetitions of 0.5 s. With --mount SERVER:/EXPORT, as root, it
/// mounts with nconnect=1, 2, 4, 8 and 16 in turn and reads with fio; the kernel's client then
/// counts the losses.
#[derive(clap::Args)]
pub(crate) struct Nconnect {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    #[command(flatten)]
    run: RunArguments,
    /// Number of calls that may overtake a delayed connection. Orthrus has a window of 8192 calls,
    /// other servers 32 to 512. Not available on mounts: the kernel's client cannot delay a
    /// connection.
    #[arg(long, default_value_t = 4096, value_name = "CALLS", conflicts_with = "mounts", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    lag: u32,
}

impl Nconnect {
    /// Measures.
    ///
    /// # Errors
    /// As [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let title = "What several connections do to Kerberos";
        let lag = (!self.mount.any()).then_some(self.lag);
        let mut settings = self.run.settings(6, 0.5, if lag.is_some() { 9 } else { 5 });
        settings.options.extend(lag.map(|lag| ("lag".into(), json!(lag))));
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let mounts = mounts.map(on_mounts::Target::by_connections).transpose()?;
        let evaluation = &mut evaluation::nconnect(&settings, lag);
        let request = RunRequest { name: NCONNECT, title, settings, evaluation, files: 1, counting: true };
        either(mounts, &self.target, &self.run, request)
    }
}

/// Measure the cases of your own plan; docs/report.md has an example.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The plan, as TOML.
    plan: PathBuf,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    mount: MountArguments,
    /// Write the report to PREFIX.html, .json, .csv and .md [default: orthrus-plan].
    #[arg(long, value_name = "PREFIX")]
    output: Option<PathBuf>,
    /// Continue an interrupted run from its PREFIX.json.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

impl Run {
    /// Measures.
    ///
    /// # Errors
    /// A plan that cannot be used, and as [`either`].
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let name = self.plan.display();
        let text = std::fs::read_to_string(&self.plan).with_context(|| format!("{name} cannot be read"))?;
        let plan: PlanFile = toml::from_str(&text).with_context(|| format!("{name} is no plan"))?;
        plan.check().with_context(|| format!("{name} cannot be used"))?;
        let mut settings = plan.settings();
        settings.options.insert("plan".into(), json!(text));
        self.selection.select(&mut settings);
        let mounts = on_mounts::Target::find(&self.mount, &self.target, &mut settings)?;
        let evaluation = &mut own_plan(&plan);
        let request =
            RunRequest { name: PLAN, title: &plan.title, settings, evaluation, files: 2, counting: true };
        if self.selection.list {
            return list(request);
        }
        match mounts {
            Some(mounts) => mounts.measure(self.output, self.resume, request),
            None => start(&self.target, self.output, self.resume, request),
        }
    }
}

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
fn either(
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
    let mut record = Record::begin(request.name, request.title, request.settings.clone());
    let remote = target.remote()?;
    // It is also how one that is none is found out before anything is started.
    let copies = request.evaluation.copies(&AtomicBool::new(false))?;
    let store = match target.folder() {
        Some(folder) => Store::Folder(folder.to_owned()),
        None => Store::Memory(memory(&request, copies)),
    };
    record.target = remote.as_ref().map_or_else(|| store.label(), |target| target.label.clone());
    let link = target.link()?;
    record.environment.link = link.as_ref().map(Link::spec);
    let files = begin(&mut record, output, resume.as_deref())?;
    let local = remote.as_ref().is_none_or(|target| target.pid.is_some());
    let mut site: Box<dyn ServerSet + '_> = match remote {
        Some(target) => Box::new(target),
        None => Box::new(Own::start(store, link.as_ref())?),
    };
    by_client(&mut record, &mut *site, &files, &*stop_flag()?, request, local, link.as_ref())
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
    let arguments = std::env::args().skip(1).map(|argument| quoted(&argument));
    std::iter::once("orthrus".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Quotes an argument for a shell where it needs that.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
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
    names.iter().for_each(|name| println!("{name}"));
    // A lead-in and a warm-up take up to half of a repetition each.
    let each = settings.seconds * (1.5 * f64::from(settings.repetitions) + 0.5);
    let time = Duration::from_secs_f64(each * cases as f64);
    println!(
        "{} cases for each of {}: about {}",
        names.len(),
        settings.variants.join(", "),
        rounded(time.max(Duration::from_secs(1)))
    );
    if request.name == ONTAP {
        println!(
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
    if outcome.is_err() && !only.has_matched() && !text.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_command_can_be_repeated_in_a_shell() {
        assert_eq!(quoted("server:/export"), "server:/export");
        assert_eq!(quoted("Random read, 4 KiB"), "'Random read, 4 KiB'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
