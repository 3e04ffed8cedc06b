//! The commands of the scheduler's prolog and epilog, which talk to the agent through its folder.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::folder::{self, RUNS, STATUS, StatusOfRun, TICKETS, TicketFolder};
use super::{AgentError, AttachedRun, LOOK, RunStatus, io_error};
use crate::names::{check_job, check_user};
use crate::store::replace;

/// Attaches a run to the agent of this node, and waits at most `wait` for its tickets.
///
/// # Errors
/// [`AgentError`] if the run cannot be attached. A run without tickets is no error: the agent
/// continues to ask for them.
pub fn attach(folder: &Path, run: &AttachedRun, wait: Duration) -> Result<RunStatus, AgentError> {
    check_job(&run.run)?;
    check_job(&run.job)?;
    check_user(&run.principal)?;
    folder::claim(folder)?;
    let path = folder.join(RUNS).join(&run.run);
    let status = folder.join(STATUS).join(&run.run);
    // Without an agent an earlier status of this run would stay.
    let _ = fs::remove_file(&status);
    let text = serde_json::to_vec(run).map_err(|error| io_error(&path)(error.into()))?;
    replace(&path, &text).map_err(io_error(&path))?;
    let end = Instant::now() + wait;
    loop {
        match status_of(&status, run) {
            Some(status @ RunStatus::Ready { .. }) => return Ok(status),
            Some(status) if Instant::now() >= end => return Ok(status),
            None if Instant::now() >= end => {
                let text = "no agent serves this folder (orthrus grants agent)".to_owned();
                return Ok(RunStatus::Waiting(text));
            }
            _ => std::thread::sleep(LOOK / 2),
        }
    }
}

/// Reads the status of a run. Until the agent sees this run, it can write the status of an earlier
/// one with the same name.
fn status_of(path: &Path, run: &AttachedRun) -> Option<RunStatus> {
    let found: StatusOfRun = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (found.run == *run).then_some(found.status)
}

/// Detaches a run, and waits at most `wait` until its tickets are gone. Without a running agent it
/// removes them itself, from the folder `caches`.
///
/// # Errors
/// `Silent` if an agent runs and did not act in time; without an agent the failure of the removal.
pub fn detach(folder: &Path, caches: &Path, run: &str, wait: Duration) -> Result<(), AgentError> {
    check_job(run)?;
    folder::claim(folder)?;
    let (path, status) = (folder.join(RUNS).join(run), folder.join(STATUS).join(run));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&path)(error)),
        _ => {}
    }
    let end = Instant::now() + wait;
    let tickets = folder.join(TICKETS).join(run);
    // A file that cannot be seen now may be there.
    let has_ended = || ![&status, &tickets].iter().any(|path| path.try_exists().unwrap_or(true));
    while !has_ended() {
        let looked = match TicketFolder::open(folder, caches) {
            Ok(mut folder) => folder.look(),
            Err(AgentError::InUse(_)) => Ok(()),
            Err(error) => return Err(error),
        };
        if has_ended() {
            break;
        }
        if Instant::now() >= end {
            return looked.and(Err(AgentError::Silent(wait.as_secs())));
        }
        std::thread::sleep(LOOK / 2);
    }
    Ok(())
}
