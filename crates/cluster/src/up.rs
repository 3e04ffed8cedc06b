//! Starts a lab, from outside.

use crate::processes::ProcessIdentity;
use crate::{LabFolder, LabOptions, LabRecord, supervisor};
use anyhow::{Context, bail};
use nix::sched::{CloneFlags, unshare};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often it is looked whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The progress reports of `up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A description of the lab.
    Summary(&'a str),
    /// The step that begins.
    Step(&'a str),
}

/// The treatment of the folder of a lab that does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderOnFailure {
    /// Stays, with the logs.
    Keep,
    /// Is removed with everything in it.
    Remove,
}

/// Starts a lab that stays when this process ends.
///
/// When it fails, or `stop` becomes true, everything ends; `on_failure` decides on the folder.
///
/// # Errors
/// The failed step, with the end of its log; or that it was stopped.
pub fn up(
    options: &LabOptions,
    on_failure: FolderOnFailure,
    stop: &AtomicBool,
    say: &mut dyn FnMut(Progress),
) -> anyhow::Result<()> {
    options.check()?;
    let folder = LabFolder::at(&options.dir);
    let mut record = LabRecord { options: options.clone(), supervisor: None, ready: false };
    folder.claim(&record)?;
    say(Progress::Summary(&crate::plan::summary(options)));
    let started = spawn(&folder).and_then(|mut child| {
        let started = start(&folder, &mut record, &mut child, stop, say);
        if started.is_err() {
            end(&record, &mut child)?;
        }
        started
    });
    match (started, on_failure) {
        (Ok(()), _) => Ok(()),
        (Err(error), FolderOnFailure::Keep) => {
            Err(error).with_context(|| format!("kept {}", folder.path().display()))
        }
        (Err(error), FolderOnFailure::Remove) => {
            folder.remove()?;
            Err(error)
        }
    }
}

/// Ends the supervisor, and with it everything, and waits for that.
fn end(record: &LabRecord, child: &mut Child) -> anyhow::Result<()> {
    match record.supervisor {
        Some(supervisor) => drop(supervisor.kill()?),
        None => child.kill()?,
    }
    child.wait()?;
    Ok(())
}

fn start(
    folder: &LabFolder,
    record: &mut LabRecord,
    child: &mut Child,
    stop: &AtomicBool,
    say: &mut dyn FnMut(Progress),
) -> anyhow::Result<()> {
    record.supervisor = i32::try_from(child.id()).ok().and_then(ProcessIdentity::of);
    folder.write(record)?;
    let output = child.stdout.take().context("no pipe")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    follow(folder, &lines, stop, say)?;
    record.ready = true;
    folder.write(record)?;
    // From now on the lab does without us.
    child.stdin.take().context("no pipe")?.write_all(b"s").context("the lab has ended")
}

/// Starts the supervisor as the first process of a namespace. The namespace is for the children of
/// one thread, which has no others.
fn spawn(folder: &LabFolder) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("this program is not where it was")?;
    let log = File::create(folder.log("supervisor"))?;
    let mut command = Command::new(program);
    command.args(["lab", "hold"]).arg(folder.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).current_dir("/");
    let spawned = std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> anyhow::Result<Child> {
            unshare(CloneFlags::CLONE_NEWPID).context("no process namespace")?;
            Ok(command.spawn()?)
        });
        thread.join()
    });
    spawned.unwrap_or_else(|_| bail!("the thread that starts the lab has panicked"))
}

fn follow(
    folder: &LabFolder,
    lines: &Receiver<String>,
    stop: &AtomicBool,
    say: &mut dyn FnMut(Progress),
) -> anyhow::Result<()> {
    loop {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        match lines.recv_timeout(LOOK) {
            Ok(line) => match line.split_once(' ') {
                Some(("step", title)) => say(Progress::Step(title)),
                Some(("failed", why)) => bail!("{why}"),
                _ if line == "ready" => return Ok(()),
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the lab's first process has ended: {}", supervisor::tail(&folder.log("supervisor")))
            }
        }
    }
}
