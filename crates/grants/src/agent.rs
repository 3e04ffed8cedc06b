//! The agent of a node: fetches, places, renews and removes the tickets of the runs on it.
//!
//! The folder of an agent belongs to root. `runs/` has a file for each attached run, which the
//! scheduler's prolog writes and its epilog removes; `tickets/` has the tickets of each run, so
//! that a restarted agent continues; `status/` says for each run whether its tickets are in place.

mod commands;
mod files;
mod folder;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use gss::Credential;
use serde::{Deserialize, Serialize};

pub use self::commands::{attach, detach};
use self::folder::{RunState, TicketFolder};
use crate::cache::{TICKET_CACHE_MAX, TicketCache};
use crate::call::{GrantCallError, GrantServer};
use crate::clock::{chance, unix_now};
use crate::names::NameError;
use crate::wire::{GrantReply, GrantRequest, from_hex};

/// Most fetches at a time.
const FETCHES_MAX: usize = 8;
/// Interval at which the agent looks for attached and detached runs.
const LOOK: Duration = Duration::from_millis(50);
/// Shortest time between two fetches for a run.
const FETCH_PAUSE_MIN: Duration = Duration::from_millis(400);
/// Longest time between two fetches for a run after failures.
const FETCH_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Shortest time between two reports of failures to follow the runs.
const REPORT_PAUSE: Duration = Duration::from_secs(30);

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

type Fetched = (AttachedRun, Result<TicketCache, GrantCallError>);

/// The agent of one node.
pub struct NodeAgent {
    folder: TicketFolder,
    server: GrantServer,
    credential: Credential,
    /// The results of fetches, and their sender for further fetches.
    results: Receiver<Fetched>,
    results_sender: Sender<Fetched>,
    reported: Option<Instant>,
}

impl NodeAgent {
    /// Opens the agent's folder, which is created if it is missing.
    ///
    /// # Errors
    /// `InUse` if another agent has it open, `NotPrivate` if other users could read it.
    pub fn open(settings: AgentSettings) -> Result<Self, AgentError> {
        let AgentSettings { server, keytab, principal, folder, caches } = settings;
        let folder = TicketFolder::open(&folder, &caches)?;
        let credential = Credential::Keytab { path: keytab, principal };
        let (results_sender, results) = channel();
        Ok(Self { folder, server, credential, results, results_sender, reported: None })
    }

    /// Serves until `stop` is set. Tickets stay in place, for the next agent.
    pub fn serve(&mut self, stop: &AtomicBool) {
        let mut has_cleaned = false;
        while !stop.load(Ordering::Relaxed) {
            let looked = self.folder.look();
            let looked =
                looked.and_then(|()| if has_cleaned { Ok(()) } else { self.folder.remove_orphans() });
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

    fn take_results(&mut self) {
        while let Ok((run, result)) = self.results.try_recv() {
            let state = self.folder.runs.get_mut(&run.run).filter(|state| state.run == run);
            let Some(state) = state else { continue };
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
            self.folder.update(&run, failure);
        }
    }

    /// Removes expired tickets from memory and from the folders.
    fn expire(&mut self) {
        let now = unix_now();
        let over = |state: &&mut RunState| state.tickets.as_ref().is_some_and(|cache| cache.ends() <= now);
        let mut expired = Vec::new();
        for state in self.folder.runs.values_mut().filter(over) {
            state.tickets = None;
            // The clock may have jumped, or the machine slept.
            state.due = Instant::now();
            expired.push(state.run.clone());
        }
        for run in expired {
            self.folder.update(&run, Some("the tickets have expired".to_owned()));
        }
    }

    fn fetch_due(&mut self) {
        let mut fetching = self.folder.runs.values().filter(|state| state.fetching).count();
        for state in self.folder.runs.values_mut() {
            if state.fetching || state.due > Instant::now() || fetching >= FETCHES_MAX {
                continue;
            }
            let (run, results) = (state.run.clone(), self.results_sender.clone());
            let (server, credential) = (self.server.clone(), self.credential.clone());
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

#[cfg(test)]
mod tests;
