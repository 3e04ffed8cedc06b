//! The agent of a node: fetches, places, renews and removes the tickets of the runs on it.
//!
//! The folder of an agent belongs to root. `runs/` has a file for each attached run, which the
//! scheduler's prolog writes and its epilog removes; `tickets/` has the tickets of each run, so
//! that a restarted agent continues; `status/` says for each run whether its tickets are in place.

mod files;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use gss::Credential;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use self::files::{Occupant, occupant, read_bounded, read_cache, remove, set_aside, write_as};
use crate::cache::{TICKET_CACHE_MAX, TicketCache};
use crate::call::{GrantCallError, GrantServer};
use crate::names::{NameError, check_job, check_user};
use crate::service::unix_now;
use crate::store::replace;
use crate::wire::{GrantReply, GrantRequest, from_hex};

/// Most fetches at a time.
const FETCHES_MAX: usize = 8;
/// Interval at which the agent looks for attached and detached runs.
const LOOK: Duration = Duration::from_millis(50);
/// Shortest time between two fetches for a run.
const FETCH_PAUSE_MIN: Duration = Duration::from_millis(400);
/// Longest time between two fetches for a run after failures.
const FETCH_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time until a run whose tickets could not be placed is tried again.
const PLACE_PAUSE: Duration = Duration::from_secs(300);
/// Shortest time between two reports of failures to follow the runs.
const REPORT_PAUSE: Duration = Duration::from_secs(30);
/// Largest file of a run, in bytes.
const RUN_FILE_MAX: u64 = 4096;
const RUNS: &str = "runs";
const TICKETS: &str = "tickets";
const STATUS: &str = "status";

/// A failure of an agent, or of a command that talks to it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another user could read or replace the folder.
    #[error(transparent)]
    NotPrivate(#[from] private::PrivateError),
    /// A name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another agent uses the folder.
    #[error("{} is in use by another agent", .0.display())]
    InUse(PathBuf),
    /// A file of the user has the name that the agent needs.
    #[error("{} exists and is not of this agent: it is left alone", .0.display())]
    Foreign(PathBuf),
    /// A run is attached, but the agent cannot begin or end it now.
    #[error("run {run} is not followed for now: {source}")]
    NotFollowed {
        /// The scheduler's name of the run.
        run: String,
        /// The failure to read one of its files.
        source: Box<AgentError>,
    },
    /// The tickets of a run that has ended may still be in place.
    #[error("the tickets of the ended run {run} are not removed yet: {source}")]
    NotRemoved {
        /// The scheduler's name of the run.
        run: String,
        /// The failure of the removal.
        source: Box<AgentError>,
    },
    /// The agent did not act in time.
    #[error("the agent did not answer within {0} s")]
    Silent(u64),
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    move |source| AgentError::Io { path: path.to_owned(), source }
}

fn not_followed(run: &str) -> impl FnOnce(AgentError) -> AgentError {
    move |source| AgentError::NotFollowed { run: run.to_owned(), source: Box::new(source) }
}

fn not_removed(run: &str) -> impl FnOnce(AgentError) -> AgentError {
    move |source| AgentError::NotRemoved { run: run.to_owned(), source: Box::new(source) }
}

/// A run on this node, as its prolog attaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedRun {
    /// The scheduler's name of the run.
    pub run: String,
    /// The job that the grant refers to.
    pub job: String,
    /// The principal of the job's user.
    pub principal: String,
    /// The user's number on this node, which will own the tickets.
    pub uid: u32,
    /// The user's primary group.
    pub gid: u32,
}

/// The state of an attached run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Tickets are in this file until this time (seconds since 1970).
    Ready {
        /// The path of the ticket cache.
        file: PathBuf,
        /// The end of the tickets.
        ends: u64,
    },
    /// There are no tickets, for this reason.
    Waiting(String),
}

/// A status as the agent writes it.
#[derive(Serialize, Deserialize)]
struct StatusOfRun {
    /// Another run of this name may be attached by now.
    run: AttachedRun,
    status: RunStatus,
}

/// The settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The service that releases tickets.
    pub server: GrantServer,
    /// The keytab with the machine's key.
    pub keytab: PathBuf,
    /// The machine's principal in the keytab: `host/NODE@REALM`.
    pub principal: String,
    /// The agent's own folder.
    pub folder: PathBuf,
    /// The folder in which rpc.gssd looks for ticket caches.
    pub caches: PathBuf,
}

struct RunState {
    run: AttachedRun,
    tickets: Option<TicketCache>,
    due: Instant,
    failures: u32,
    fetching: bool,
    status: RunStatus,
}

/// The attached runs by name, with an error in place of a file that cannot be read now.
type AttachedRuns = BTreeMap<String, Result<AttachedRun, AgentError>>;
type Fetched = (AttachedRun, Result<TicketCache, GrantCallError>);

/// The agent of one node.
pub struct NodeAgent {
    settings: AgentSettings,
    credential: Credential,
    runs: BTreeMap<String, RunState>,
    results: (Sender<Fetched>, Receiver<Fetched>),
    reported: Option<Instant>,
    _lock: File,
}

impl NodeAgent {
    /// Opens the agent's folder, which is created if it is missing.
    ///
    /// # Errors
    /// `InUse` if another agent has it open, `NotPrivate` if other users could read it.
    pub fn open(settings: AgentSettings) -> Result<Self, AgentError> {
        let lock = open_folder(&settings.folder)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| AgentError::InUse(settings.folder.clone()))?;
        let credential =
            Credential::Keytab { path: settings.keytab.clone(), principal: settings.principal.clone() };
        let (runs, results) = (BTreeMap::new(), channel());
        Ok(Self { settings, credential, runs, results, reported: None, _lock: lock })
    }

    /// Serves until `stop` is set. Tickets stay in place, for the next agent.
    pub fn serve(&mut self, stop: &AtomicBool) {
        let mut has_cleaned = false;
        while !stop.load(Ordering::Relaxed) {
            let looked = self.look();
            let looked = looked.and_then(|()| if has_cleaned { Ok(()) } else { self.remove_orphans() });
            has_cleaned |= looked.is_ok();
            if let Err(error) = looked {
                self.report(&error);
            }
            self.take_results();
            self.expire();
            self.fetch_due();
            std::thread::sleep(LOOK);
        }
    }

    /// Logs a failure that each look can repeat, at most once in [`REPORT_PAUSE`].
    fn report(&mut self, error: &AgentError) {
        if self.reported.is_none_or(|at| at.elapsed() >= REPORT_PAUSE) {
            tracing::error!("{error}; the agent tries again");
            self.reported = Some(Instant::now());
        }
    }

    /// Finds attached and detached runs.
    ///
    /// # Errors
    /// One of the failures; the next look tries again. A folder or a file that cannot be read now
    /// says nothing about a run: its tickets stay. No run keeps another from its begin or its end.
    fn look(&mut self) -> Result<(), AgentError> {
        let attached = attached(&self.settings.folder.join(RUNS))?;
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
        if !self.settings.folder.join(STATUS).join(&state.run.run).exists() {
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
        let path = self.settings.folder.join(TICKETS).join(&run.run);
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
        for (name, path) in files_of(&self.settings.folder.join(TICKETS))? {
            let forgotten = match (self.runs.get(&name), attached.get(&name)) {
                (Some(RunState { tickets: Some(_), .. }), _) | (None, Some(Err(_))) => Ok(()),
                (Some(_), _) | (None, None) => self.adopt_and_forget(&path, &name, None),
                (None, Some(Ok(run))) => self.adopt_and_forget(&path, &name, Some(run)),
            };
            outcome = forgotten.map_err(not_removed(&name)).and(outcome);
        }
        for (name, path) in files_of(&self.settings.folder.join(STATUS))? {
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
        remove(&self.settings.folder.join(TICKETS).join(&run.run))
    }

    /// Removes the files of users without a run, once all attached runs are known. A boot ends runs
    /// and empties the agent's folder, and can leave the files of users.
    fn remove_orphans(&self) -> Result<(), AgentError> {
        let mut outcome = Ok(());
        for (name, path) in files_of(&self.settings.caches)? {
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

    fn take_results(&mut self) {
        while let Ok((run, result)) = self.results.1.try_recv() {
            let Some(state) = self.runs.get_mut(&run.run).filter(|state| state.run == run) else { continue };
            state.fetching = false;
            let failure = match result {
                Ok(cache) => {
                    state.failures = 0;
                    state.due = Instant::now() + renewal(cache.ends().saturating_sub(unix_now()));
                    state.tickets = Some(cache);
                    None
                }
                Err(error) => {
                    state.failures += 1;
                    let left = state.tickets.as_ref().map(|cache| cache.ends().saturating_sub(unix_now()));
                    state.due = Instant::now() + backoff(state.failures, left);
                    if matches!(error, GrantCallError::Refused { transient: false, .. }) {
                        state.tickets = None;
                    }
                    Some(error.to_string())
                }
            };
            if let Some(why) = &failure {
                tracing::warn!("no new tickets for run {} of {}: {why}", run.run, run.principal);
            }
            self.update(&run, failure);
        }
    }

    /// Removes expired tickets from memory and from the folders.
    fn expire(&mut self) {
        let now = unix_now();
        let over = |state: &&mut RunState| state.tickets.as_ref().is_some_and(|cache| cache.ends() <= now);
        let mut expired = Vec::new();
        for state in self.runs.values_mut().filter(over) {
            state.tickets = None;
            // The clock may have jumped, or the machine slept.
            state.due = Instant::now();
            expired.push(state.run.clone());
        }
        for run in expired {
            self.update(&run, Some("the tickets have expired".to_owned()));
        }
    }

    fn fetch_due(&mut self) {
        let mut fetching = self.runs.values().filter(|state| state.fetching).count();
        for state in self.runs.values_mut() {
            if state.fetching || state.due > Instant::now() || fetching >= FETCHES_MAX {
                continue;
            }
            let (run, results) = (state.run.clone(), self.results.0.clone());
            let (server, credential) = (self.settings.server.clone(), self.credential.clone());
            let fetch = move || {
                let tickets = fetch(&server, &credential, &run);
                let _ = results.send((run, tickets));
            };
            if std::thread::Builder::new().name("fetch".to_owned()).spawn(fetch).is_ok() {
                state.fetching = true;
                fetching += 1;
            }
        }
    }

    /// Stores the tickets of a run, places those of its user, and writes the status.
    fn update(&mut self, run: &AttachedRun, failure: Option<String>) {
        let placed = match self.runs.get(&run.run).and_then(|state| state.tickets.as_ref()) {
            Some(cache) => self.store_tickets(run, cache).and_then(|()| self.place(run)),
            // In this order, as at the end of a run.
            None => self.place(run).and_then(|placed| {
                remove(&self.settings.folder.join(TICKETS).join(&run.run))?;
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

    fn write_status(&self, run: &AttachedRun, status: &RunStatus) {
        let path = self.settings.folder.join(STATUS).join(&run.run);
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
        let path = self.settings.folder.join(TICKETS).join(&run.run);
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
        let path = self.settings.caches.join(format!("krb5cc_{}_orthrus", run.uid));
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

fn open_folder(folder: &Path) -> Result<File, AgentError> {
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

fn fetch(
    server: &GrantServer,
    credential: &Credential,
    run: &AttachedRun,
) -> Result<TicketCache, GrantCallError> {
    let (principal, job) = (run.principal.clone(), run.job.clone());
    let wrong = |text: &str| GrantCallError::Refused { transient: true, text: text.to_owned() };
    let reply = server.call(credential, &GrantRequest::Tickets { principal, job })?;
    let GrantReply::Tickets(hex) = reply else { return Err(wrong("the service sent another reply")) };
    let bytes = from_hex(&hex).filter(|bytes| bytes.len() <= TICKET_CACHE_MAX);
    let mut cache =
        bytes.and_then(|bytes| TicketCache::parse(&bytes)).ok_or_else(|| wrong("damaged tickets"))?;
    // The entry without a key is made anew for all runs of the user.
    cache.tickets.retain(|ticket| ticket.server.first().is_some_and(|name| name == "nfs"));
    if cache.principal() != run.principal || cache.ends() <= unix_now() {
        return Err(wrong("the service sent tickets of another user, or expired ones"));
    }
    Ok(cache)
}

/// Returns the time until the renewal of tickets that end in `left` seconds: about half of it, so
/// that many nodes do not ask at once.
fn renewal(left: u64) -> Duration {
    Duration::from_secs(left).mul_f64(0.45 + 0.1 * chance()).max(FETCH_PAUSE_MIN)
}

/// Returns the time until the next fetch after a failure: doubled each time, and at most a quarter
/// of the time that is left.
fn backoff(failures: u32, left: Option<u64>) -> Duration {
    let left = left.map_or(FETCH_PAUSE_MAX, |left| Duration::from_secs(left) / 4);
    let pause = FETCH_PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(10));
    pause.min(FETCH_PAUSE_MAX).min(left).max(FETCH_PAUSE_MIN).mul_f64(0.75 + 0.5 * chance())
}

/// Returns a random number from 0 to 1; 0.5 without a source.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    if getrandom::fill(&mut bytes).is_err() {
        0.5
    } else {
        f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
    }
}

/// Attaches a run to the agent of this node, and waits at most `wait` for its tickets.
///
/// # Errors
/// [`AgentError`] if the run cannot be attached. A run without tickets is no error: the agent
/// continues to ask for them.
pub fn attach(folder: &Path, run: &AttachedRun, wait: Duration) -> Result<RunStatus, AgentError> {
    check_job(&run.run)?;
    check_job(&run.job)?;
    check_user(&run.principal)?;
    open_folder(folder)?;
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
    open_folder(folder)?;
    let (path, status) = (folder.join(RUNS).join(run), folder.join(STATUS).join(run));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(&path)(error)),
        _ => {}
    }
    // An agent that fetches nothing needs neither a service nor a key.
    let settings = AgentSettings {
        server: GrantServer { host: String::new(), port: 0 },
        keytab: PathBuf::new(),
        principal: String::new(),
        folder: folder.to_owned(),
        caches: caches.to_owned(),
    };
    let end = Instant::now() + wait;
    let tickets = folder.join(TICKETS).join(run);
    // A file that cannot be seen now may be there.
    let has_ended = || ![&status, &tickets].iter().any(|path| path.try_exists().unwrap_or(true));
    while !has_ended() {
        let looked = match NodeAgent::open(settings.clone()) {
            Ok(mut agent) => agent.look(),
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

#[cfg(test)]
mod tests;
