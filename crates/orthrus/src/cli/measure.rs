//! Runs a plan against a server, with a progress bar, and leaves the report in three forms.

use anyhow::Context;
use bench::native::Target;
use bench::quick::{self, Progress, Setup, Watch};
use bench::{Flavor, Plan, Report, report};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What to run, from the command line.
#[derive(Clone, clap::Args)]
pub struct PlanArguments {
    /// Flavors to compare; ratios need sys among them.
    #[arg(long, value_delimiter = ',', value_name = "FLAVOR,…", default_value = "sys,krb5,krb5i,krb5p")]
    flavors: Vec<Flavor>,
    /// Repetitions of each pair of flavor and workload, interleaved.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one repetition in seconds.
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds)]
    seconds: f64,
    /// Size of the file that is read and written, in MiB.
    #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u64).range(2..=1_048_576))]
    file_size: u64,
    /// Connections of each session, as the mount option nconnect makes them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    connections: u32,
    /// Where the report goes: PREFIX.html and PREFIX.json.
    #[arg(long, value_name = "PREFIX", default_value = "orthrus-report")]
    output: PathBuf,
}

impl PlanArguments {
    fn plan(&self) -> Plan {
        Plan {
            flavors: self.flavors.clone(),
            rounds: self.rounds,
            seconds: self.seconds,
            file_size: self.file_size << 20,
            connections: self.connections,
            ..Plan::default()
        }
    }

    /// Returns a size for an export in memory that has room for the files of all flavors, in MiB.
    pub fn memory_mebibytes(&self) -> u64 {
        self.file_size * 5 + 64
    }
}

/// Becomes true at Ctrl-C or SIGTERM; a second signal then ends the program at once.
///
/// # Errors
/// When signals cannot be caught.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Measures, prints the table, and writes the page and the JSON. What was measured before an interruption is kept.
///
/// # Errors
/// When no flavor can be measured or the report cannot be written; and, after the report was written, when the run was
/// not complete.
pub fn run(target: &Target, arguments: &PlanArguments, stop: &AtomicBool) -> anyhow::Result<()> {
    let report = measure(target, arguments.plan(), stop)?;
    print!("\n{}\n{}\n", report::table(&report), report::headline(&report));
    for left_out in &report.left_out {
        println!("{} was left out: {}", left_out.flavor.name(), left_out.reason);
    }
    let page = write(&arguments.output, "html", &report::html(&report))?;
    let data = write(&arguments.output, "json", &report::json(&report)?)?;
    println!("\nreport to look at: {}\nfigures as JSON:   {}", page.display(), data.display());
    match &report.stopped_by {
        Some(reason) => anyhow::bail!("the run is not complete: {reason}; the report has what was measured"),
        None => Ok(()),
    }
}

fn measure(target: &Target, plan: Plan, stop: &AtomicBool) -> anyhow::Result<Report> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template(
        "{bar:32} {pos}/{len}  {elapsed} of about {duration}  {msg}",
    )?);
    let options = |flavor: Flavor| target.options(flavor);
    let setup = Setup {
        plan,
        path: &target.export,
        folder: &bench::folder_name(None),
        options: &options,
        target: target.label.clone(),
        command: command_line(),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
    };
    let watch = Watch {
        stop,
        server_cpu: &|| target.server_cpu(),
        progress: &mut |progress: &Progress| show(&bar, progress),
    };
    let report = quick::measure(setup, watch);
    bar.finish_and_clear();
    report
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_length(u64::from(progress.total));
    bar.set_position(u64::from(progress.done));
    let what = progress.workload.map_or("preparing", |workload| workload.title());
    bar.set_message(format!("{what}, {}", progress.flavor.name()));
}

fn write(prefix: &Path, extension: &str, content: &str) -> anyhow::Result<PathBuf> {
    let mut name = prefix.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    let path = PathBuf::from(name);
    std::fs::write(&path, content).with_context(|| {
        format!("the report cannot be written to {}; name another place with --output", path.display())
    })?;
    Ok(path)
}

/// Returns the command that repeats this run.
pub fn command_line() -> String {
    std::iter::once("orthrus".to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("allowed is 0.01 to 3600".to_owned()) }
}

/// Waits until the flag is set.
pub fn wait_for(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
}
