//! The supervisor of a lab: the first process of a process namespace.
//!
//! The record in the folder tells it what the lab consists of. It reports its progress on standard
//! output (`step …`, `ready`, `failed …`), and ends, with everything, when standard input ends
//! before the command to stay: then `up` was killed.

use crate::plan::{LabAction, plan};
use crate::{LabFolder, LabStep, commands};
use anyhow::{Context, bail};
use bench::tools::fed;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::wait;
use nix::unistd::{Pid, getpid, mkfifo, pause, setsid};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often a sign is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How much of a failed program's log is repeated, in lines from its end.
const LOG_LINES_MAX: usize = 8;
/// How often an abandoned folder is removed while something still writes to it.
const REMOVALS_MAX: u32 = 5;

/// Runs the lab in `dir`: enters namespaces of its own, starts everything, and stays. Only `up`
/// calls it.
///
/// # Errors
/// When it is not the first process of a namespace, or has no record. Later errors go to standard
/// output.
pub fn hold(dir: &Path) -> anyhow::Result<()> {
    if getpid() != Pid::from_raw(1) {
        bail!("`orthrus lab up` starts this");
    }
    // Ctrl-C at the terminal of `up` is for `up`.
    setsid().context("no session")?;
    let folder = LabFolder::at(dir);
    let record = folder.read()?.context("no record")?;
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    )
    .context("no namespaces")?;
    let watched = folder.clone();
    std::thread::Builder::new().name("watch".into()).spawn(move || watch(&watched))?;
    let mut supervisor = Supervisor { folder, children: BTreeMap::new() };
    match supervisor.carry_out(&plan(&record.options)) {
        Ok(()) => say("ready"),
        Err(error) => {
            say(&format!("failed {}", format!("{error:#}").replace('\n', " | ")));
            std::process::exit(1);
        }
    }
    supervisor.stay()
}

/// The reader may have gone, which is no reason to end.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Ends everything when `up` ends without a word.
fn watch(folder: &LabFolder) {
    let mut word = [0];
    if matches!(std::io::stdin().read(&mut word), Ok(1)) {
        return;
    }
    // Everything but this process, which is the first.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    for _ in 0..REMOVALS_MAX {
        // Bound and mounted in this view only; the folder below is the machine's.
        let _ = Command::new("umount").args(["-l", "-R"]).arg(folder.file("export")).output();
        let _ = Command::new("umount").args(["-l", "-R"]).arg(folder.file("private")).output();
        for machine in crate::LabMachine::ALL {
            let _ = Command::new("umount").arg("-l").arg(folder.net(machine)).output();
        }
        if folder.remove().is_ok() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    std::process::exit(1);
}

struct Supervisor {
    folder: LabFolder,
    children: BTreeMap<String, Child>,
}

impl Supervisor {
    fn carry_out(&mut self, steps: &[LabStep]) -> anyhow::Result<()> {
        for step in steps {
            say(&format!("step {}", step.title));
            for action in &step.actions {
                self.act(action).with_context(|| step.title.clone())?;
            }
        }
        Ok(())
    }

    fn act(&mut self, action: &LabAction) -> anyhow::Result<()> {
        match action {
            LabAction::Folder(path) => fs::create_dir_all(path).with_context(|| path.display().to_string()),
            LabAction::Pipe(path) => {
                mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).with_context(|| path.display().to_string())
            }
            LabAction::Write(path, text) => fs::write(path, text).with_context(|| path.display().to_string()),
            LabAction::Extend { file, more, copy } => extend(file, more, copy),
            LabAction::Run(words, input) => run(words, input),
            LabAction::Start { name, command, input } => self.start(name, command, input.as_deref()),
            LabAction::Wait { name, file, text, limit } => self.wait(name, file, text, *limit),
        }
    }

    fn start(&mut self, name: &str, words: &[String], input: Option<&Path>) -> anyhow::Result<()> {
        let log = File::create(self.folder.log(name))?;
        let input = match input {
            // Open for writing too, so that it never ends.
            Some(pipe) => Stdio::from(File::options().read(true).write(true).open(pipe)?),
            None => Stdio::null(),
        };
        let mut command = command(words)?;
        command.stdin(input).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| words.join(" "))?;
        self.children.insert(name.to_owned(), child);
        Ok(())
    }

    fn wait(&mut self, name: &str, file: &Path, text: &str, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        let child = self.children.get_mut(name).with_context(|| format!("{name} was not started"))?;
        loop {
            let ended = child.try_wait()?;
            let said = fs::read(file).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            if let Some(said) = said.filter(|said| said.contains(text)) {
                let failures: Vec<&str> = said.lines().filter(|line| line.starts_with("FAIL")).collect();
                match failures.is_empty() {
                    true => return Ok(()),
                    false => bail!("{name}: {}", failures.join("; ")),
                }
            }
            let log = self.folder.log(name);
            if let Some(status) = ended {
                bail!("{name} ended ({status}): {}", tail(&log));
            }
            if Instant::now() > end {
                bail!("{name} was not ready in {} s: {}", limit.as_secs(), tail(&log));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for every process that ends, as the first process must, and reports those of the lab.
    fn stay(self) -> anyhow::Result<()> {
        let names: BTreeMap<u32, &str> =
            self.children.iter().map(|(name, child)| (child.id(), name.as_str())).collect();
        loop {
            match wait() {
                Ok(status) => {
                    let pid = status.pid().and_then(|pid| u32::try_from(pid.as_raw()).ok());
                    if let Some(name) = pid.and_then(|pid| names.get(&pid)) {
                        eprintln!("{name} ended: {status:?}");
                    }
                }
                Err(Errno::ECHILD) => pause(),
                Err(_) => {}
            }
        }
    }
}

/// Makes a command without the environment of the process that started the lab.
fn command(words: &[String]) -> anyhow::Result<Command> {
    let (program, arguments) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", commands::path()).env("HOME", "/").current_dir("/");
    Ok(command)
}

fn run(words: &[String], input: &str) -> anyhow::Result<()> {
    fed(&mut command(words)?, input).map(drop).with_context(|| words.join(" "))
}

fn extend(file: &Path, more: &str, copy: &Path) -> anyhow::Result<()> {
    let mut text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    fs::write(copy, text + more)?;
    let (copy, file) = (copy.display().to_string(), file.display().to_string());
    run(&commands::words(&["mount", "--bind", &copy, &file]), "")
}

/// Returns the end of a log in one line.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(LOG_LINES_MAX)).copied().collect::<Vec<_>>().join(" | ")
}
