//! Grants and the runs of jobs, as pure state: `now` and new identifiers are arguments, and a
//! change is planned, stored and then applied.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::names::{NameError, check_job, check_node, check_service, check_user};

/// Most NFS services of one grant.
pub const GRANT_SERVICES_MAX: usize = 16;
/// Most nodes of one grant or of one run of a job.
pub const GRANT_NODES_MAX: usize = 4096;

/// The limits of a grant service that its operator sets.
#[derive(Clone, Copy, Debug)]
pub struct GrantLimits {
    /// Most grants of one user.
    pub per_user: usize,
    /// Most grants of all users, and most runs of jobs that schedulers have announced.
    pub total: usize,
    /// Longest time from the submission of a grant to its deadline, in seconds.
    pub life: u64,
}

impl Default for GrantLimits {
    fn default() -> Self {
        Self { per_user: 1000, total: 100_000, life: 30 * 86_400 }
    }
}

/// The origin of the tickets of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TicketSource {
    /// Constrained delegation: S4U2Self and S4U2Proxy (MS-SFU).
    Delegation,
    /// A ticket-granting ticket of the user, renewable until this time (seconds since 1970).
    Renewal(u64),
}

/// The permission of a user for one job. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The user's principal with its realm.
    pub principal: String,
    /// The scheduler's name of the job; all tasks of an array job share it.
    pub job: String,
    /// The services that tickets are for: `nfs/HOST`.
    pub services: Vec<String>,
    /// Nodes that the user named, which count until the job has ended. A scheduler can add others
    /// by the runs of the job.
    pub nodes: Vec<String>,
    /// The time of the submission.
    pub created: u64,
    /// The time after which the grant is void.
    pub deadline: u64,
    /// The origin of its tickets.
    pub source: TicketSource,
    /// The end of the last run that a scheduler has announced, while none runs. The job can run
    /// again: it is requeued, or an array with more tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

/// A run of a job, announced by a scheduler: the job itself, a task of an array, or a requeued job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRun {
    /// The principal of the job's user.
    pub principal: String,
    /// The job that grants refer to.
    pub job: String,
    /// The scheduler's name of this run.
    pub run: String,
    /// The nodes on which it runs.
    pub nodes: Vec<String>,
    /// The time of the announcement, in seconds since 1970.
    pub since: u64,
}

/// An entry of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantRecord {
    /// The permission of a user.
    Grant(Grant),
    /// The nodes of a job.
    Run(JobRun),
}

impl GrantRecord {
    /// Returns the key of the record, which is also its file name.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Grant(grant) => grant_key(&grant.principal, &grant.job),
            Self::Run(run) => run_key(&run.principal, &run.run),
        }
    }
}

fn grant_key(principal: &str, job: &str) -> String {
    format!("grant-{}", digest(&[principal, job]))
}

fn run_key(principal: &str, run: &str) -> String {
    format!("run-{}", digest(&[principal, run]))
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A change of the table, to be stored before it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantChange {
    /// Adds or replaces a record.
    Put(GrantRecord),
    /// Removes the record with this key.
    Remove(String),
}

/// The reason why a request about grants is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantRefusal {
    /// A name in the request is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The request names too many or no services or nodes.
    #[error("{0}")]
    Request(String),
    /// The deadline has passed or is too far ahead.
    #[error("the deadline must be in the future, at most {0} seconds ahead")]
    Deadline(u64),
    /// The user has as many grants as the service allows, and no job of theirs has ended.
    #[error(
        "you have {0} grants of jobs that have not ended, the most that this service allows: end one (orthrus grants end JOB)"
    )]
    UserFull(usize),
    /// The service has as many records as it allows, and no job of a grant has ended.
    #[error("the grant service is full: its operator can raise `--total`")]
    Full,
    /// No such grant, or it does not include the node.
    #[error("no grant of {principal} for job {job} includes {asking}")]
    NoGrant {
        /// The principal of the job's user.
        principal: String,
        /// The job of the request.
        job: String,
        /// The node or the user of the request.
        asking: String,
    },
}

/// A submission as the user sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantSubmission {
    /// The scheduler's name of the job.
    pub job: String,
    /// The services that tickets are for; empty for all that the grant service offers.
    pub services: Vec<String>,
    /// Nodes that may get tickets, besides those that the scheduler names.
    pub nodes: Vec<String>,
    /// The time after which the grant is void, in seconds since 1970.
    pub deadline: u64,
    /// Whether the tickets come from a ticket-granting ticket that the user forwards with the
    /// submission; for a KDC that does not delegate.
    #[serde(default)]
    pub forwarded: bool,
}

/// All grants and runs of a service.
#[derive(Debug)]
pub struct GrantTable {
    limits: GrantLimits,
    grants: BTreeMap<String, Grant>,
    runs: BTreeMap<String, JobRun>,
    /// The keys of the runs of each job, by the key of the job's grant.
    runs_of_jobs: BTreeMap<String, BTreeSet<String>>,
}

impl GrantTable {
    /// Makes an empty table.
    pub fn new(limits: GrantLimits) -> Self {
        Self { limits, grants: BTreeMap::new(), runs: BTreeMap::new(), runs_of_jobs: BTreeMap::new() }
    }

    /// Applies a change that is stored.
    pub fn apply(&mut self, change: GrantChange) {
        match change {
            GrantChange::Put(record) => {
                let key = record.key();
                match record {
                    GrantRecord::Grant(grant) => drop(self.grants.insert(key, grant)),
                    GrantRecord::Run(run) => {
                        self.remove_run(&key);
                        let of_job =
                            self.runs_of_jobs.entry(grant_key(&run.principal, &run.job)).or_default();
                        of_job.insert(key.clone());
                        self.runs.insert(key, run);
                    }
                }
            }
            GrantChange::Remove(key) => {
                self.grants.remove(&key);
                self.remove_run(&key);
            }
        }
    }

    fn remove_run(&mut self, key: &str) {
        let Some(run) = self.runs.remove(key) else { return };
        let job = grant_key(&run.principal, &run.job);
        if let Some(of_job) = self.runs_of_jobs.get_mut(&job) {
            of_job.remove(key);
            if of_job.is_empty() {
                self.runs_of_jobs.remove(&job);
            }
        }
    }

    /// Plans a grant for `principal`. A second submission for a job replaces the first one.
    ///
    /// # Errors
    /// The rule or the limit that the submission breaks.
    pub fn submit(
        &self,
        now: u64,
        principal: &str,
        submission: GrantSubmission,
        source: TicketSource,
    ) -> Result<Grant, GrantRefusal> {
        let GrantSubmission { job, services, nodes, deadline, .. } = submission;
        check_user(principal)?;
        check_job(&job)?;
        services.iter().try_for_each(|service| check_service(service))?;
        check_nodes(&nodes)?;
        if services.is_empty() || services.len() > GRANT_SERVICES_MAX {
            let text = format!("a grant has 1 to {GRANT_SERVICES_MAX} services");
            return Err(GrantRefusal::Request(text));
        }
        if deadline <= now || deadline - now > self.limits.life {
            return Err(GrantRefusal::Deadline(self.limits.life));
        }
        self.room(principal, &job)?;
        let principal = principal.to_owned();
        Ok(Grant { principal, job, services, nodes, created: now, deadline, source, ended: None })
    }

    /// Plans the changes that store a grant: at a limit it takes the place of the grant whose job
    /// has ended first.
    ///
    /// # Errors
    /// `UserFull` or `Full` if no job has ended.
    pub fn put(&self, grant: Grant) -> Result<Vec<GrantChange>, GrantRefusal> {
        let mut changes = self.room(&grant.principal, &grant.job)?;
        changes.push(GrantChange::Put(GrantRecord::Grant(grant)));
        Ok(changes)
    }

    /// Plans the removal that a grant for this job needs, if any.
    fn room(&self, principal: &str, job: &str) -> Result<Vec<GrantChange>, GrantRefusal> {
        if self.of(principal, job).is_some() {
            return Ok(Vec::new());
        }
        let own = || self.grants.values().filter(|grant| grant.principal == principal);
        let count = own().count();
        let (first, refusal) = if count >= self.limits.per_user {
            (first_ended(own()), GrantRefusal::UserFull(count))
        } else if self.grants.len() >= self.limits.total {
            (first_ended(self.grants.values()), GrantRefusal::Full)
        } else {
            return Ok(Vec::new());
        };
        let first = first.ok_or(refusal)?;
        self.end(&first.principal, &first.job)
    }

    /// Plans the announcement of a run, or its end if it has no nodes.
    ///
    /// # Errors
    /// The rule or the limit that the announcement breaks.
    pub fn assign(&self, run: JobRun) -> Result<Vec<GrantChange>, GrantRefusal> {
        check_user(&run.principal)?;
        check_job(&run.job)?;
        check_job(&run.run)?;
        check_nodes(&run.nodes)?;
        let key = run_key(&run.principal, &run.run);
        let is_over = run.nodes.is_empty();
        if !is_over && !self.runs.contains_key(&key) && self.runs.len() >= self.limits.total {
            return Err(GrantRefusal::Full);
        }
        let was_last = self.runs_of(&run.principal, &run.job).all(|(other, _)| *other == key);
        let ended = (is_over && was_last).then_some(run.since);
        let grant = self.of(&run.principal, &run.job).filter(|grant| grant.ended != ended);
        let grant = grant.map(|grant| GrantRecord::Grant(Grant { ended, ..grant.clone() }));
        let of_run = if is_over { GrantChange::Remove(key) } else { GrantChange::Put(GrantRecord::Run(run)) };
        Ok(std::iter::once(of_run).chain(grant.map(GrantChange::Put)).collect())
    }

    /// Returns the grant of a job, or of the job that has a run of this name, if it is valid and
    /// includes `node`. A node may know only the name of the run, as Slurm's prolog does.
    ///
    /// # Errors
    /// `Name` for names that no grant has. `NoGrant` in all other cases, so that a node learns
    /// nothing about other nodes' jobs.
    pub fn release(&self, now: u64, principal: &str, job: &str, node: &str) -> Result<&Grant, GrantRefusal> {
        check_user(principal)?;
        check_job(job)?;
        let of_run = self.runs.get(&run_key(principal, job)).and_then(|run| self.of(principal, &run.job));
        let has = |nodes: &[String]| nodes.iter().any(|own| own == node);
        let included = |grant: &&Grant| {
            let mut runs = self.runs_of(principal, &grant.job).map(|(_, run)| run);
            let by_user = grant.ended.is_none() && has(&grant.nodes);
            grant.deadline > now && (by_user || runs.any(|run| has(&run.nodes)))
        };
        let grant = self.of(principal, job).or(of_run).filter(included);
        grant.ok_or_else(|| no_grant(principal, job, node))
    }

    /// Plans the end of a grant and of the runs of its job.
    ///
    /// # Errors
    /// `Name` for names that no grant has, `NoGrant` if the user has none for the job.
    pub fn end(&self, principal: &str, job: &str) -> Result<Vec<GrantChange>, GrantRefusal> {
        check_user(principal)?;
        check_job(job)?;
        let grant = self.of(principal, job).ok_or_else(|| no_grant(principal, job, principal))?;
        let keys = self.runs_of(principal, job).map(|(key, _)| key.clone());
        let own = GrantRecord::Grant(grant.clone()).key();
        Ok(std::iter::once(own).chain(keys).map(GrantChange::Remove).collect())
    }

    /// Plans the removal of at most `most` records that are over.
    pub fn expire(&self, now: u64, most: usize) -> Vec<GrantChange> {
        let grants = self.grants.iter().filter(|(_, grant)| grant.deadline <= now).map(|(key, _)| key);
        let over = |run: &JobRun| run.since.saturating_add(self.limits.life) <= now;
        let runs = self.runs.iter().filter(|(_, run)| over(run)).map(|(key, _)| key);
        grants.chain(runs).take(most).cloned().map(GrantChange::Remove).collect()
    }

    /// Returns the grants of a user, or of all users, with the nodes of their runs.
    pub fn list(&self, principal: Option<&str>) -> Vec<Grant> {
        let shown = |grant: &&Grant| principal.is_none_or(|principal| grant.principal == principal);
        let mut grants: Vec<Grant> = self.grants.values().filter(shown).cloned().collect();
        for grant in &mut grants {
            let more = self.runs_of(&grant.principal, &grant.job).flat_map(|(_, run)| &run.nodes);
            grant.nodes.extend(more.cloned());
            grant.nodes.sort();
            grant.nodes.dedup();
        }
        grants.sort_by(|a, b| (&a.principal, a.created, &a.job).cmp(&(&b.principal, b.created, &b.job)));
        grants
    }

    /// Returns the grants whose tickets come from a renewable one.
    pub fn renewals(&self) -> Vec<Grant> {
        self.grants.values().filter(|grant| grant.source != TicketSource::Delegation).cloned().collect()
    }

    /// Returns whether there is a grant for the same user and job.
    pub fn has(&self, grant: &Grant) -> bool {
        self.of(&grant.principal, &grant.job).is_some()
    }

    /// Returns the number of grants.
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Returns whether no user has a grant.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    fn of(&self, principal: &str, job: &str) -> Option<&Grant> {
        self.grants.get(&grant_key(principal, job))
    }

    fn runs_of(&self, principal: &str, job: &str) -> impl Iterator<Item = (&String, &JobRun)> {
        let keys = self.runs_of_jobs.get(&grant_key(principal, job));
        keys.into_iter().flatten().filter_map(|key| self.runs.get_key_value(key))
    }
}

/// Returns the grant whose job has ended first.
fn first_ended<'a>(grants: impl Iterator<Item = &'a Grant>) -> Option<&'a Grant> {
    grants.filter(|grant| grant.ended.is_some()).min_by_key(|grant| grant.ended)
}

fn no_grant(principal: &str, job: &str, asking: &str) -> GrantRefusal {
    GrantRefusal::NoGrant { principal: principal.into(), job: job.into(), asking: asking.into() }
}

fn check_nodes(nodes: &[String]) -> Result<(), GrantRefusal> {
    if nodes.len() > GRANT_NODES_MAX {
        return Err(GrantRefusal::Request(format!("at most {GRANT_NODES_MAX} nodes")));
    }
    Ok(nodes.iter().try_for_each(|node| check_node(node))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "alice@R";
    const LIMITS: GrantLimits = GrantLimits { per_user: 2, total: 3, life: 1000 };

    fn submission(job: &str, nodes: &[&str]) -> GrantSubmission {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        GrantSubmission {
            job: job.into(),
            services: vec!["nfs/s".into()],
            nodes,
            deadline: 1100,
            forwarded: false,
        }
    }

    fn granted(table: &mut GrantTable, user: &str, job: &str, nodes: &[&str]) -> Result<(), GrantRefusal> {
        let grant = table.submit(1000, user, submission(job, nodes), TicketSource::Delegation)?;
        table.put(grant)?.into_iter().for_each(|change| table.apply(change));
        Ok(())
    }

    fn assigned(table: &mut GrantTable, run: JobRun) {
        table.assign(run).unwrap().into_iter().for_each(|change| table.apply(change));
    }

    fn jobs_of(table: &GrantTable, user: &str) -> Vec<String> {
        table.list(Some(user)).into_iter().map(|grant| grant.job).collect()
    }

    fn run(job: &str, run: &str, nodes: &[&str]) -> JobRun {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        JobRun { principal: ALICE.into(), job: job.into(), run: run.into(), nodes, since: 1000 }
    }

    #[test]
    fn a_grant_is_released_only_to_its_nodes_and_until_its_deadline() {
        let mut table = GrantTable::new(LIMITS);
        granted(&mut table, ALICE, "7", &["n1", "n2"]).unwrap();
        for node in ["n1", "n2"] {
            assert_eq!(table.release(1099, ALICE, "7", node).unwrap().services, ["nfs/s"]);
        }
        assert!(table.release(1099, ALICE, "7", "n3").is_err());
        assert!(table.release(1099, ALICE, "8", "n1").is_err());
        assert!(table.release(1099, "bob@R", "7", "n1").is_err());
        assert!(table.release(1100, ALICE, "7", "n1").is_err(), "the deadline has come");
        assert_eq!(table.expire(1099, 9), []);
        assert_eq!(table.expire(1100, 9), [GrantChange::Remove(grant_key(ALICE, "7"))]);
    }

    #[test]
    fn the_nodes_that_a_user_named_get_nothing_after_the_end_of_the_job() {
        let mut table = GrantTable::new(LIMITS);
        granted(&mut table, ALICE, "7", &["n1"]).unwrap();
        // A scheduler may announce ends alone.
        assigned(&mut table, run("7", "7", &[]));
        assert!(table.release(1000, ALICE, "7", "n1").is_err());
        assigned(&mut table, run("7", "7", &["n2"]));
        assert!(table.release(1000, ALICE, "7", "n1").is_ok(), "it runs again");
    }

    #[test]
    fn a_scheduler_names_the_nodes_of_each_run_before_or_after_the_grant() {
        let mut table = GrantTable::new(LIMITS);
        assigned(&mut table, run("7", "7_1", &["n1"]));
        assert!(table.release(1000, ALICE, "7", "n1").is_err(), "a run is no grant");
        granted(&mut table, ALICE, "7", &[]).unwrap();
        assigned(&mut table, run("7", "7_2", &["n2"]));
        assert!(
            table.release(1000, ALICE, "7", "n1").is_ok() && table.release(1000, ALICE, "7", "n2").is_ok()
        );
        assert_eq!(table.list(None).first().unwrap().nodes, ["n1", "n2"]);
        // A requeued job gets other nodes under the same name.
        assigned(&mut table, run("7", "7_2", &["n3"]));
        assert!(
            table.release(1000, ALICE, "7", "n2").is_err() && table.release(1000, ALICE, "7", "n3").is_ok()
        );
        assigned(&mut table, run("7", "7_3", &["n4"]));
        assert_eq!(table.assign(run("7", "7_4", &["n1"])), Err(GrantRefusal::Full));
        assigned(&mut table, run("7", "7_1", &[]));
        assert!(table.release(1000, ALICE, "7", "n1").is_err(), "the run has ended");
        // By the name of the run, which no other user's run shares.
        assert_eq!(table.release(1000, ALICE, "7_2", "n3").unwrap().job, "7");
        assert!(table.release(1000, ALICE, "7_2", "n1").is_err());
        assert!(table.release(1000, "bob@R", "7_2", "n3").is_err());
    }

    #[test]
    fn each_user_and_all_together_have_a_limit_and_a_job_counts_once() {
        let mut table = GrantTable::new(LIMITS);
        granted(&mut table, ALICE, "1", &[]).unwrap();
        granted(&mut table, ALICE, "2", &[]).unwrap();
        granted(&mut table, ALICE, "2", &["n1"]).unwrap();
        assert_eq!(table.len(), 2, "the second submission replaces the first");
        assert_eq!(granted(&mut table, ALICE, "3", &[]), Err(GrantRefusal::UserFull(2)));
        granted(&mut table, "bob@R", "1", &[]).unwrap();
        assert_eq!(granted(&mut table, "carol@R", "1", &[]), Err(GrantRefusal::Full));
        for change in table.end(ALICE, "2").unwrap() {
            table.apply(change);
        }
        granted(&mut table, ALICE, "3", &[]).unwrap();
        assert_eq!(table.list(Some("bob@R")).len(), 1);
        assert!(table.end("bob@R", "3").is_err(), "the grant of another user");
    }

    #[test]
    fn at_a_limit_the_job_that_ended_first_gives_its_place_and_no_other_one() {
        let mut table = GrantTable::new(LIMITS);
        for job in ["1", "2"] {
            granted(&mut table, ALICE, job, &[]).unwrap();
            assigned(&mut table, run(job, &format!("{job}_1"), &["n1"]));
        }
        assigned(&mut table, run("1", "1_2", &["n1"]));
        assigned(&mut table, run("1", "1_1", &[]));
        assert_eq!(granted(&mut table, ALICE, "3", &[]), Err(GrantRefusal::UserFull(2)), "a task runs");
        assigned(&mut table, JobRun { since: 1002, ..run("1", "1_2", &[]) });
        assigned(&mut table, JobRun { since: 1001, ..run("2", "2_1", &[]) });
        granted(&mut table, ALICE, "3", &[]).unwrap();
        assert_eq!(jobs_of(&table, ALICE), ["1", "3"]);
        // A job that runs again has not ended.
        assigned(&mut table, run("1", "1_3", &["n1"]));
        assert_eq!(granted(&mut table, ALICE, "4", &[]), Err(GrantRefusal::UserFull(2)));
        // Among all users alike.
        granted(&mut table, "bob@R", "1", &[]).unwrap();
        assert_eq!(granted(&mut table, "carol@R", "1", &[]), Err(GrantRefusal::Full));
        assigned(&mut table, run("1", "1_3", &[]));
        granted(&mut table, "carol@R", "1", &[]).unwrap();
        assert_eq!((jobs_of(&table, ALICE), table.len()), (vec!["3".to_owned()], 3));
    }

    #[test]
    fn deadlines_and_names_outside_of_the_rules_are_refused() {
        let table = GrantTable::new(LIMITS);
        let refused = |user: &str, submission: GrantSubmission| {
            table.submit(1000, user, submission, TicketSource::Delegation).is_err()
        };
        let good = submission("7", &["n1"]);
        assert!(!refused(ALICE, good.clone()));
        for deadline in [0, 1000, 2001, u64::MAX] {
            assert!(refused(ALICE, GrantSubmission { deadline, ..good.clone() }), "{deadline}");
        }
        assert!(refused("host/n1@R", good.clone()));
        assert!(refused(ALICE, GrantSubmission { job: "../7".into(), ..good.clone() }));
        assert!(refused(ALICE, GrantSubmission { services: vec!["krbtgt/R".into()], ..good.clone() }));
        assert!(refused(ALICE, GrantSubmission { services: vec![], ..good.clone() }));
        assert!(refused(ALICE, GrantSubmission { nodes: vec!["n1".into(); GRANT_NODES_MAX + 1], ..good }));
    }
}
