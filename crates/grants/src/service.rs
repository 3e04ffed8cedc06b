//! The grant service: a listener with a thread for each exchange.

mod places;
mod refusals;
mod tickets;

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gss::{Acceptor, ForwardedTicket, GssError};

use self::places::{CountedPlace, PlaceCounts};
use self::refusals::{Answer, RefusedRequest};
use self::tickets::{SharedTickets, forwarded_ticket};
use crate::clock::unix_now;
use crate::mint::{MintError, TicketMint};
use crate::names::{check_service, node_of};
use crate::store::{GrantStore, GrantStoreError, replace};
use crate::table::{
    GrantChange, GrantLimits, GrantRecord, GrantRefusal, GrantSubmission, GrantTable, JobRun, TicketSource,
};
use crate::wire::{ExchangeError, GrantReply, GrantRequest, REQUEST_FRAME_MAX, SealedChannel, TimedStream};

/// Time that a peer has to prove its identity with a sealed request.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3);
/// Time that a peer has to take the reply.
const REPLY_TIME_MAX: Duration = Duration::from_secs(10);
/// Most grants in a list.
const GRANTS_LISTED_MAX: usize = 10_000;
/// Most nodes of each grant in a list.
const NODES_LISTED_MAX: usize = 100;
/// Interval of the removal of grants that are over.
const SWEEP: Duration = Duration::from_secs(10);
/// Grants that are removed before others may use the table.
const SWEEP_STEP: usize = 32;
/// Time that others have for the table between two such steps: a lock alone is not fair.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);
/// Interval at which an idle thread looks whether the service ends.
const STOP_LOOK: Duration = Duration::from_millis(200);
/// Shortest time between two reports of tickets that are not accepted: a stranger can send any
/// number.
const REPORT_PAUSE: Duration = Duration::from_secs(10);
/// The folder of temporary files in the store.
const TEMPORARY: &str = "tmp";

/// The settings of a grant service.
#[derive(Clone, Debug)]
pub struct ServiceSettings {
    /// The keytab with the key of `grants/HOST`. Its first such entry names the service's realm.
    pub keytab: PathBuf,
    /// The folder of the store.
    pub folder: PathBuf,
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The NFS services that grants may name: `nfs/HOST`. A grant that names none has all.
    pub services: Vec<String>,
    /// Principals that see and end all grants.
    pub admins: Vec<String>,
    /// Principals that announce the nodes of runs, and end grants.
    pub schedulers: Vec<String>,
    /// The lifetime of tickets in seconds.
    pub ticket_life: u64,
    /// The limits of users and of the store.
    pub limits: GrantLimits,
}

/// A failure to start a grant service.
#[derive(Debug, thiserror::Error)]
pub enum GrantServiceError {
    /// The keytab cannot be used.
    #[error(transparent)]
    Keytab(#[from] GssError),
    /// The keytab has no key of the service.
    #[error("{} has no key of grants/HOST: export one (kadmin: ktadd -k FILE grants/HOST)", .0.display())]
    NoKey(PathBuf),
    /// The keytab cannot be read.
    #[error("{} cannot be read; name the keytab of the service with --keytab", keytab.display())]
    Unreadable {
        /// The path of the keytab.
        keytab: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A setting is not allowed.
    #[error("{0}")]
    Setting(String),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] GrantStoreError),
    /// The address cannot be used, or no thread could start.
    #[error("{address}: {source}")]
    Listen {
        /// The address of the service.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// Grants and their store, which change together.
struct DurableTable {
    table: GrantTable,
    store: GrantStore,
}

impl DurableTable {
    /// Stores changes, then applies them.
    fn change(&mut self, changes: Vec<GrantChange>) -> Result<(), GrantStoreError> {
        for change in changes {
            self.store.write(&change)?;
            self.table.apply(change);
        }
        Ok(())
    }
}

struct GrantServiceInner {
    settings: ServiceSettings,
    realm: String,
    acceptor: Acceptor,
    mint: TicketMint,
    durable: Mutex<DurableTable>,
    shared: Mutex<HashMap<(String, String), SharedTickets>>,
    connections: Arc<PlaceCounts<()>>,
    strangers: Arc<PlaceCounts<IpAddr>>,
    exchanges: Arc<PlaceCounts<String>>,
    reported: Mutex<Option<Instant>>,
    stop: AtomicBool,
}

/// A running grant service; dropping it ends it.
pub struct GrantService {
    inner: Arc<GrantServiceInner>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl GrantService {
    /// Opens the store and starts to listen.
    ///
    /// # Errors
    /// [`GrantServiceError`] with the cause.
    pub fn start(settings: ServiceSettings) -> Result<Self, GrantServiceError> {
        for service in &settings.services {
            check_service(service).map_err(|error| GrantServiceError::Setting(error.to_string()))?;
        }
        if settings.services.is_empty() || settings.ticket_life == 0 {
            let text = "name at least one NFS service, and a lifetime of tickets above 0";
            return Err(GrantServiceError::Setting(text.to_owned()));
        }
        let (principal, realm) = own_principal(&settings.keytab)?;
        let acceptor = Acceptor::from_keytab(&settings.keytab)?;
        let (store, stored) = GrantStore::open(&settings.folder)?;
        for (path, why) in &stored.damaged {
            tracing::error!("{} is damaged and not used: {why}", path.display());
        }
        let mut table = GrantTable::new(settings.limits);
        stored.records.into_iter().for_each(|record| table.apply(GrantChange::Put(record)));
        let temporary = settings.folder.join(TEMPORARY);
        // A killed service leaves tickets in it.
        let _ = fs::remove_dir_all(&temporary);
        private::claim(&temporary).map_err(GrantStoreError::from)?;
        let failed = |source| GrantServiceError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!("{principal} serves {} grants at {address}", table.len());
        let mint = TicketMint::new(&settings.keytab, &principal, &temporary);
        let durable = Mutex::new(DurableTable { table, store });
        let inner = GrantServiceInner {
            settings: settings.clone(),
            realm,
            acceptor,
            mint,
            durable,
            shared: Mutex::default(),
            connections: Arc::default(),
            strangers: Arc::default(),
            exchanges: Arc::default(),
            reported: Mutex::default(),
            stop: AtomicBool::new(false),
        };
        let inner = Arc::new(inner);
        let (of_listener, of_sweep) = (inner.clone(), inner.clone());
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(failed)
        };
        let threads = vec![
            spawn("grants-accept", Box::new(move || listen(&of_listener, &listener)))?,
            spawn("grants-sweep", Box::new(move || sweep(&of_sweep)))?,
        ];
        Ok(Self { inner, address, threads })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for GrantService {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        // The listener then sees the flag.
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16])
            });
        }
        let _ = TcpStream::connect_timeout(&own, Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Returns the principal of the service and its realm, from the keytab.
fn own_principal(keytab: &Path) -> Result<(String, String), GrantServiceError> {
    let unreadable = |source| GrantServiceError::Unreadable { keytab: keytab.to_owned(), source };
    let entries = gss::keytab_entries(keytab).map_err(unreadable)?;
    let own = entries
        .into_iter()
        .find(|entry| matches!(entry.components.as_slice(), [service, _] if service == "grants"));
    let own = own.ok_or_else(|| GrantServiceError::NoKey(keytab.to_owned()))?;
    Ok((format!("{}@{}", own.components.join("/"), own.realm), own.realm))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(inner: &Arc<GrantServiceInner>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if inner.stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // No file descriptors: one may be free soon.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let connection = inner.connections.connection();
        let Ok(peer) = stream.peer_addr() else { continue };
        let Some(stranger) = inner.strangers.admit(peer.ip()) else { continue };
        let inner = inner.clone();
        let exchange = move || {
            let _connection = connection;
            if let Err(error) = inner.exchange(stream, stranger) {
                inner.report(peer, &error);
            }
        };
        // Without a thread the connection ends.
        let _ = std::thread::Builder::new().name("grants".to_owned()).spawn(exchange);
    }
}

fn sweep(inner: &GrantServiceInner) {
    while !inner.stop.load(Ordering::Relaxed) {
        let now = unix_now();
        let pause = || {
            std::thread::sleep(SWEEP_PAUSE);
            !inner.stop.load(Ordering::Relaxed)
        };
        if let Err(error) = expire(&inner.durable, now, pause) {
            tracing::error!("grants that are over cannot be removed: {error}");
        }
        inner.renew(now);
        locked(&inner.shared).retain(|_, shared| shared.cache.ends() > now);
        let next = Instant::now() + SWEEP;
        while Instant::now() < next && !inner.stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_LOOK);
        }
    }
}

/// Removes the grants that are over, in steps: after a long downtime there are thousands, and each
/// removal waits for the disk. Continues after a step for as long as `pause` returns true.
fn expire(
    durable: &Mutex<DurableTable>,
    now: u64,
    mut pause: impl FnMut() -> bool,
) -> Result<(), GrantStoreError> {
    loop {
        let mut durable = locked(durable);
        // Anew in each step: a user may have submitted such a grant again.
        let over = durable.table.expire(now, SWEEP_STEP);
        let is_last = over.len() < SWEEP_STEP;
        durable.change(over)?;
        drop(durable);
        if is_last || !pause() {
            return Ok(());
        }
    }
}

impl GrantServiceInner {
    fn exchange(&self, stream: TcpStream, stranger: CountedPlace<IpAddr>) -> Result<(), ExchangeError> {
        stream.set_nodelay(true)?;
        let mut channel =
            SealedChannel::accept(TimedStream::new(stream, HANDSHAKE_TIME_MAX), &self.acceptor)?;
        // A recorded AP-REQ is accepted as well. Only a request that opens proves the identity, and
        // the connection is a stranger's until then, in places and in time.
        let request: GrantRequest = channel.receive(REQUEST_FRAME_MAX)?;
        let peer = channel.peer().to_owned();
        let _place = match self.place(&peer) {
            Ok(place) => place,
            Err(refused) => return channel.send(&refused.reply(&peer)),
        };
        drop(stranger);
        let forwarded = channel.take_forwarded();
        let answer = self.answer(&peer, request, forwarded);
        let reply = answer.unwrap_or_else(|refused| refused.reply(&peer));
        channel.extend(REPLY_TIME_MAX);
        channel.send(&reply)
    }

    /// Logs a failed exchange. A ticket that is not accepted can be a fault of this service, as
    /// after a replacement of its key.
    fn report(&self, peer: SocketAddr, error: &ExchangeError) {
        if matches!(error, ExchangeError::Gss(_)) {
            let mut reported = locked(&self.reported);
            if reported.is_none_or(|at| at.elapsed() >= REPORT_PAUSE) {
                *reported = Some(Instant::now());
                return tracing::warn!("the ticket of {peer} is not accepted: {error}");
            }
        }
        tracing::debug!("exchange with {peer} failed: {error}");
    }

    /// Takes a place for an exchange of a principal; a scheduler needs none.
    fn place(&self, peer: &str) -> Result<Option<CountedPlace<String>>, RefusedRequest> {
        if self.settings.schedulers.iter().any(|scheduler| scheduler == peer) {
            return Ok(None);
        }
        let is_node = node_of(peer, &self.realm).is_some();
        self.exchanges.exchange(peer, is_node).map(Some).map_err(|most| {
            RefusedRequest::transient(format!(
                "{peer} has {most} requests at this grant service, the most at a time: wait for one"
            ))
        })
    }

    fn answer(&self, peer: &str, request: GrantRequest, forwarded: Option<ForwardedTicket>) -> Answer {
        match request {
            GrantRequest::Submit(submission) => self.submit(peer, submission, forwarded),
            GrantRequest::End { principal, job } => self.end(peer, principal, &job),
            GrantRequest::List => Ok(self.list(peer)),
            GrantRequest::Assign { principal, job, run, nodes } => {
                if !self.settings.schedulers.iter().any(|scheduler| scheduler == peer) {
                    return Err(RefusedRequest::permanent(format!("{peer} is no scheduler of this service")));
                }
                let mut durable = locked(&self.durable);
                let run = JobRun { principal, job, run, nodes, since: unix_now() };
                let changes = durable.table.assign(run)?;
                durable.change(changes)?;
                Ok(GrantReply::Done)
            }
            GrantRequest::Tickets { principal, job } => self.tickets(peer, &principal, &job),
        }
    }

    fn submit(
        &self,
        peer: &str,
        mut submission: GrantSubmission,
        forwarded: Option<ForwardedTicket>,
    ) -> Answer {
        if !peer.ends_with(&format!("@{}", self.realm)) {
            return Err(RefusedRequest::permanent(format!("{peer} is of another realm than {}", self.realm)));
        }
        submission
            .services
            .iter()
            .try_for_each(|service| check_service(service))
            .map_err(GrantRefusal::from)?;
        if submission.services.is_empty() {
            submission.services.clone_from(&self.settings.services);
        }
        if let Some(other) = submission.services.iter().find(|name| !self.settings.services.contains(name)) {
            let offered = self.settings.services.join(", ");
            return Err(RefusedRequest::permanent(format!(
                "{other} is not offered here: choose of {offered}"
            )));
        }
        let now = unix_now();
        let folder = &self.settings.folder.join(TEMPORARY);
        let renewable =
            submission.forwarded.then(|| forwarded_ticket(forwarded, peer, now, folder)).transpose()?;
        let source =
            renewable.as_ref().map_or(TicketSource::Delegation, |(_, until)| TicketSource::Renewal(*until));
        let plan = |durable: &DurableTable| durable.table.submit(now, peer, submission.clone(), source);
        let (grant, file) = {
            let durable = locked(&self.durable);
            let grant = plan(&durable)?;
            let file = durable.store.ticket(&GrantRecord::Grant(grant.clone()).key());
            (grant, file)
        };
        if let Some((bytes, _)) = renewable {
            replace(&file, &bytes).map_err(|error| {
                tracing::error!("{}: {error}", file.display());
                RefusedRequest::unwritable()
            })?;
        }
        // Users hear at submission, not in the job, that they cannot have tickets.
        let minted = self.mint(&grant, now);
        if minted.is_err() && !locked(&self.durable).table.has(&grant) {
            let _ = fs::remove_file(&file);
        }
        match minted {
            Err(error @ MintError::NoDelegation { .. }) => {
                return Ok(GrantReply::NoDelegation(error.to_string()));
            }
            minted => drop(minted?),
        }
        let mut durable = locked(&self.durable);
        let grant = plan(&durable)?;
        let changes = durable.table.put(grant.clone())?;
        durable.change(changes)?;
        drop(durable);
        locked(&self.shared).remove(&(grant.principal.clone(), grant.job.clone()));
        tracing::info!(
            "{peer} has a grant for job {} until {}: {:?}",
            grant.job,
            grant.deadline,
            grant.services
        );
        Ok(GrantReply::Submitted(grant))
    }

    fn end(&self, peer: &str, principal: Option<String>, job: &str) -> Answer {
        let principal = principal.unwrap_or_else(|| peer.to_owned());
        let privileged = self.settings.admins.iter().chain(&self.settings.schedulers);
        if principal != peer && !privileged.into_iter().any(|other| other == peer) {
            return Err(RefusedRequest::permanent(format!("{peer} may end only own grants")));
        }
        let mut durable = locked(&self.durable);
        let changes = durable.table.end(&principal, job)?;
        durable.change(changes)?;
        drop(durable);
        locked(&self.shared).remove(&(principal.clone(), job.to_owned()));
        tracing::info!("{peer} ends the grant of {principal} for job {job}");
        Ok(GrantReply::Done)
    }

    fn list(&self, peer: &str) -> GrantReply {
        let all = self.settings.admins.iter().any(|admin| admin == peer);
        let mut grants = locked(&self.durable).table.list(if all { None } else { Some(peer) });
        let more = grants.len() > GRANTS_LISTED_MAX;
        grants.truncate(GRANTS_LISTED_MAX);
        grants.iter_mut().for_each(|grant| grant.nodes.truncate(NODES_LISTED_MAX));
        GrantReply::Grants { grants, more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Grant;

    #[test]
    fn a_long_sweep_lets_others_use_the_table_and_keeps_grants_that_are_submitted_again() {
        let folder = private::temporary("grants-").unwrap();
        let (store, _) = GrantStore::open(folder.path()).unwrap();
        let durable = DurableTable { table: GrantTable::new(GrantLimits::default()), store };
        let durable = Mutex::new(durable);
        let put = |job: usize, deadline| {
            GrantChange::Put(GrantRecord::Grant(Grant {
                principal: "alice@R".into(),
                job: job.to_string(),
                services: vec!["nfs/s".into()],
                nodes: Vec::new(),
                created: 1,
                deadline,
                source: TicketSource::Delegation,
                ended: None,
            }))
        };
        let jobs = 3 * SWEEP_STEP;
        locked(&durable).change((0..jobs).map(|job| put(job, 100)).collect()).unwrap();
        let mut left = Vec::new();
        let pause = || {
            let mut durable = durable.try_lock().expect("the lock is free");
            left.push(durable.table.len());
            if left.len() == 1 {
                durable.change((0..jobs).map(|job| put(job, 200)).collect()).unwrap();
            }
            true
        };
        expire(&durable, 100, pause).unwrap();
        assert_eq!((left, locked(&durable).table.len()), (vec![jobs - SWEEP_STEP], jobs));
        let mut left = Vec::new();
        let pause = || {
            left.push(durable.try_lock().expect("the lock is free").table.len());
            left.len() < 2
        };
        expire(&durable, 200, pause).unwrap();
        assert_eq!(left, [jobs - SWEEP_STEP, jobs - 2 * SWEEP_STEP], "the service ends");
        expire(&durable, 200, || true).unwrap();
        assert!(locked(&durable).table.is_empty());
        let files = fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path().is_file());
        assert_eq!(files.count(), 0);
    }

    #[test]
    fn a_keytab_that_is_missing_is_not_one_without_the_key() {
        let missing = own_principal(Path::new("/no/such/keytab"));
        assert!(matches!(missing, Err(GrantServiceError::Unreadable { .. })), "{missing:?}");
    }
}
