//! The folder of an agent and the files of users: the attached runs, their tickets and statuses.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::files::{Occupant, occupant, read_bounded, read_cache, remove, set_aside, write_as};
use super::{AgentError, AttachedRun, RunStatus, io_error, not_followed, not_removed};
use crate::cache::TicketCache;
use crate::store::replace;

/// Time until a run is tried again if its tickets could not be placed.
const PLACE_PAUSE: Duration = Duration::from_secs(300);
/// Largest file of a run, in bytes.
const RUN_FILE_MAX: u64 = 4096;
pub(super) const RUNS: &str = "runs";
pub(super) const TICKETS: &str = "tickets";
pub(super) const STATUS: &str = "status";

/// A status as the agent writes it.
#[derive(Serialize, Deserialize)]
pub(super) struct StatusOfRun {
    /// Another run of this name may be attached by now.
    pub(super) run: AttachedRun,
    pub(super) status: RunStatus,
}

/// A run that the agent follows.
pub(super) struct RunState {
    pub(super) run: AttachedRun,
    pub(super) tickets: Option<TicketCache>,
    /// When its tickets are fetched next.
    pub(super) due: Instant,
    /// Failures since the last fetch that succeeded.
    pub(super) failures: u32,
    pub(super) fetching: bool,
    pub(super) status: RunStatus,
}

/// The attached runs by name, with an error in place of a file that cannot be read now.
type AttachedRuns = BTreeMap<String, Result<AttachedRun, AgentError>>;

/// The folder of an agent, which no other process has open, and the runs that it follows.
pub(super) struct TicketFolder {
    folder: PathBuf,
    /// The folder in which rpc.gssd looks for ticket caches.
    caches: PathBuf,
    pub(super) runs: BTreeMap<String, RunState>,
    _lock: File,
}

impl TicketFolder {
    /// Opens the folder, which is created if it is missing.
    ///
    /// # Errors
    /// `InUse` if an agent has it open, `NotPrivate` if other users could read it.
    pub(super) fn open(folder: &Path, caches: &Path) -> Result<Self, AgentError> {
        let lock = claim(folder)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| AgentError::InUse(folder.to_owned()))?;
        let (folder, caches) = (folder.to_owned(), caches.to_owned());
        Ok(Self { folder, caches, runs: BTreeMap::new(), _lock: lock })
    }

    /// Finds attached and detached runs.
    ///
    /// # Errors
    /// One of the failures; the next look tries again. A folder or a file that cannot be read now
    /// says nothing about a run: its tickets stay. No run keeps another from its begin or its end.
    pub(super) fn look(&mut self) -> Result<(), AgentError> {
        let attached = attached(&self.folder.join(RUNS))?;
        let ended = self.take_ended(&attached);
        let mut outcome = Ok(());
        // A user's file has the tickets of all runs of the user. So those of all live runs are
        // known before any are removed.
        for run in attached.values().flatten() {
            match self.runs.get(&run.run) {
                Some(known) => self.restore_status(known),
                None if ended.iter().any(|other| other.run == run.run) => {}
                None => outcome = self.begin(run).and(outcome),
            }
        }
        for run in &ended {
            tracing::info!("run {} of {} is over", run.run, run.principal);
            outcome = self.remove_tickets(run).map_err(not_removed(&run.run)).and(outcome);
        }
        outcome = self.forget_leftovers(&attached).and(outcome);
        // The tickets of earlier runs with these names are gone now.
        for run in attached.into_values() {
            outcome = run.and_then(|run| self.begin(&run)).and(outcome);
        }
        outcome
    }

    /// Writes the status of a run that is attached again without an end, as a requeued job can be.
    fn restore_status(&self, state: &RunState) {
        if !self.folder.join(STATUS).join(&state.run.run).exists() {
            self.write_status(&state.run, &state.status);
        }
    }

    /// Takes out the runs that are attached no more, also those of which another run has the name
    /// now, as after an end without an epilog.
    fn take_ended(&mut self, attached: &AttachedRuns) -> Vec<AttachedRun> {
        let is_over = |name: &String, state: &mut RunState| match attached.get(name) {
            Some(Ok(run)) => *run != state.run,
            Some(Err(_)) => false,
            None => true,
        };
        self.runs.extract_if(.., is_over).map(|(_, state)| state.run).collect()
    }

    /// Begins to follow a run, with the tickets that an agent has left for it, unless there are
    /// tickets of an earlier run with its name.
    ///
    /// # Errors
    /// `NotFollowed` if the stored tickets cannot be read.
    fn begin(&mut self, run: &AttachedRun) -> Result<(), AgentError> {
        if self.runs.contains_key(&run.run) {
            return Ok(());
        }
        let path = self.folder.join(TICKETS).join(&run.run);
        let stored = read_cache(&path).map_err(io_error(&path)).map_err(not_followed(&run.run))?;
        if stored.as_ref().is_some_and(|stored| !stored.is_of(run)) {
            return Ok(());
        }
        let tickets = stored.map(|stored| stored.cache);
        let status = RunStatus::Waiting("the grant service is not asked yet".to_owned());
        let (name, run) = (run.run.clone(), run.clone());
        let state = RunState { run, tickets, due: Instant::now(), failures: 0, fetching: false, status };
        self.runs.insert(name, state);
        Ok(())
    }

    /// Removes tickets that an agent has left when it was killed: those of runs that have ended,
    /// also of a run with the name that a run of another user has now. Also removes the statuses of
    /// ended runs.
    fn forget_leftovers(&self, attached: &AttachedRuns) -> Result<(), AgentError> {
        let mut outcome = Ok(());
        for (name, path) in files_of(&self.folder.join(TICKETS))? {
            let forgotten = match (self.runs.get(&name), attached.get(&name)) {
                (Some(RunState { tickets: Some(_), .. }), _) | (None, Some(Err(_))) => Ok(()),
                (Some(_), _) | (None, None) => self.adopt_and_forget(&path, &name, None),
                (None, Some(Ok(run))) => self.adopt_and_forget(&path, &name, Some(run)),
            };
            outcome = forgotten.map_err(not_removed(&name)).and(outcome);
        }
        for (name, path) in files_of(&self.folder.join(STATUS))? {
            if !attached.contains_key(&name) {
                outcome = remove(&path).and(outcome);
            }
        }
        outcome
    }

    /// Removes the tickets of a run that ended without an agent, but not those of `next`, the run
    /// that has its name now.
    fn adopt_and_forget(
        &self,
        path: &Path,
        name: &str,
        next: Option<&AttachedRun>,
    ) -> Result<(), AgentError> {
        let Some(stored) = read_cache(path).map_err(io_error(path))? else {
            remove(path)?;
            tracing::warn!("{} is damaged and removed", path.display());
            return Ok(());
        };
        if next.is_some_and(|next| stored.is_of(next)) {
            return Ok(());
        }
        let (run, job, principal) = (name.to_owned(), name.to_owned(), stored.cache.principal());
        self.remove_tickets(&AttachedRun { run, job, principal, uid: stored.uid, gid: stored.gid })
    }

    /// Removes the tickets of a run that has ended from the user's file, and then those in the
    /// agent's folder. After a failure these stay, so that the next look tries again.
    fn remove_tickets(&self, run: &AttachedRun) -> Result<(), AgentError> {
        match self.place(run) {
            // A file of the user has no tickets of the agent.
            Ok(_) | Err(AgentError::Foreign(_)) => {}
            Err(error) => return Err(error),
        }
        remove(&self.folder.join(TICKETS).join(&run.run))
    }

    /// Removes the files of users without a run, once all attached runs are known. A boot ends runs
    /// and empties the agent's folder, and can leave the files of users.
    pub(super) fn remove_orphans(&self) -> Result<(), AgentError> {
        let mut outcome = Ok(());
        for (name, path) in files_of(&self.caches)? {
            let uid = name.strip_prefix("krb5cc_").and_then(|rest| rest.strip_suffix("_orthrus"));
            let uid = uid.and_then(|uid| uid.parse().ok());
            let Some(uid) = uid.filter(|uid| self.runs.values().all(|state| state.run.uid != *uid)) else {
                continue;
            };
            if occupant(&path, uid)? == Occupant::Ours {
                tracing::info!("{} is of no run and removed", path.display());
                outcome = remove(&path).and(outcome);
            }
        }
        outcome
    }

    /// Stores the tickets of a run, places those of its user, and writes the status.
    pub(super) fn update(&mut self, run: &AttachedRun, failure: Option<String>) {
        let placed = match self.runs.get(&run.run).and_then(|state| state.tickets.as_ref()) {
            Some(cache) => self.store_tickets(run, cache).and_then(|()| self.place(run)),
            // In this order, as at the end of a run.
            None => self.place(run).and_then(|placed| {
                remove(&self.folder.join(TICKETS).join(&run.run))?;
                Ok(placed)
            }),
        };
        let status = match placed {
            Ok(Some((file, ends))) if self.has_tickets(run) => RunStatus::Ready { file, ends },
            Ok(_) => RunStatus::Waiting(failure.unwrap_or_default()),
            Err(error) => {
                tracing::error!("run {} of {}: {error}", run.run, run.principal);
                if let Some(state) = self.runs.get_mut(&run.run) {
                    state.due = state.due.min(Instant::now() + PLACE_PAUSE);
                }
                RunStatus::Waiting(error.to_string())
            }
        };
        self.write_status(run, &status);
        if let Some(state) = self.runs.get_mut(&run.run) {
            state.status = status;
        }
    }

    pub(super) fn write_status(&self, run: &AttachedRun, status: &RunStatus) {
        let path = self.folder.join(STATUS).join(&run.run);
        let written = StatusOfRun { run: run.clone(), status: status.clone() };
        let text = serde_json::to_vec(&written).unwrap_or_default();
        if let Err(error) = replace(&path, &text) {
            tracing::error!("{}: {error}", path.display());
        }
    }

    fn has_tickets(&self, run: &AttachedRun) -> bool {
        self.runs.get(&run.run).is_some_and(|state| state.tickets.is_some())
    }

    fn store_tickets(&self, run: &AttachedRun, cache: &TicketCache) -> Result<(), AgentError> {
        let path = self.folder.join(TICKETS).join(&run.run);
        // The owner of the tickets is in front of them.
        let owner = format!("{} {}\n", run.uid, run.gid);
        replace(&path, &[owner.as_bytes(), &cache.encode()].concat()).map_err(io_error(&path))
    }

    /// Writes the tickets of all runs of a user into the user's file, or removes the file. Returns
    /// the file and the end of its tickets.
    fn place(&self, run: &AttachedRun) -> Result<Option<(PathBuf, u64)>, AgentError> {
        let of_user = self.runs.values().filter(|state| state.run.uid == run.uid);
        let mut merged: Option<TicketCache> = None;
        for cache in of_user.filter_map(|state| state.tickets.as_ref()) {
            match &mut merged {
                Some(merged) if merged.client == cache.client && merged.realm == cache.realm => {
                    merged.merge(cache)
                }
                Some(_) => {}
                None => merged = Some(cache.clone()),
            }
        }
        let path = self.caches.join(format!("krb5cc_{}_orthrus", run.uid));
        let occupant = occupant(&path, run.uid)?;
        let Some(cache) = merged else {
            if occupant == Occupant::Ours {
                remove(&path)?;
            }
            return Ok(None);
        };
        match occupant {
            Occupant::OfUser => return Err(AgentError::Foreign(path)),
            Occupant::OfStranger => set_aside(&path).map_err(io_error(&path))?,
            Occupant::None | Occupant::Ours => {}
        }
        write_as(&path, run, &cache.encode()).map_err(io_error(&path))?;
        Ok(Some((path, cache.ends())))
    }
}

/// Creates the folder of an agent if it is missing, and opens it.
///
/// # Errors
/// `NotPrivate` if other users could read it.
pub(super) fn claim(folder: &Path) -> Result<File, AgentError> {
    private::claim(folder)?;
    for name in [RUNS, TICKETS, STATUS] {
        private::claim(&folder.join(name))?;
    }
    File::open(folder).map_err(io_error(folder))
}

/// Reads the attached runs. Damaged files are skipped: a prolog writes whole ones.
fn attached(folder: &Path) -> Result<AttachedRuns, AgentError> {
    let mut runs = BTreeMap::new();
    for (name, path) in files_of(folder)? {
        let run = match read_bounded(&path, RUN_FILE_MAX) {
            Ok(text) => Ok(text.and_then(|text| serde_json::from_slice::<AttachedRun>(&text).ok())),
            Err(error) => Err(not_followed(&name)(io_error(&path)(error))),
        };
        let run = run.map(|run| run.filter(|run| run.run == name));
        runs.extend(run.transpose().map(|run| (name, run)));
    }
    Ok(runs)
}

/// Returns the name and the path of each file in a folder.
fn files_of(folder: &Path) -> Result<Vec<(String, PathBuf)>, AgentError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(io_error(folder))?.into_iter();
    Ok(entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect())
}
