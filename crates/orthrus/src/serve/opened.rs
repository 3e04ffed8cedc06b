//! A server from its settings: opened, then started or taken over, then serving.

use super::api::{ApiParts, RecentEvents};
use super::clients::ClientRules;
use super::clock::ServerClock;
use super::exports::{Backends, CephNode};
use super::http::OwnNames;
use super::http_listeners::HttpListeners;
use super::kerberos::{Keys, NoKeys};
use super::listening::OpenedSockets;
use super::membership::{self, Member};
use super::observe::{AuditLog, Observers, Traces};
use super::reload::{self, Reloads};
use super::roots::Roots;
use super::storage::StateStorage;
use super::store::Store;
use super::upgrade::{Estate, Inherited, Predecessor, UpgradeParts, Upgrades, binary};
use super::{
    OwnProcess, ReadSettings, RunningProcess, admission, drain, end_when_input_ends, ending, identities,
    leave, leave_cluster, metrics, net_limits, nfs_config, nfs_start, obey_signals, own_files, recall_time,
    shared, spoken, state_dir,
};
use crate::config::{Settings, Storage};
use crate::logging;
use crate::output::outln;
use crate::service_manager::ServiceManager;
use anyhow::{Context, bail};
use identity::Mapper;
use net::{Listener, Running};
use runtime::{Builder, Callbacks, Gate, NfsService, Threads, housekeeping};
use server::dispatch::Environment;
use server::engine::InboundObjects;
use server::rpcsec::{ContextAcceptor, RpcsecLimits};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use vfs::{Exports, InboundFds};
use vfs_local::Orphans;

/// The parts that the settings describe.
struct ServerParts {
    settings: Settings,
    /// The settings before they were reduced to the descriptors of the process.
    as_started: Settings,
    backends: Backends,
    exports: Arc<Exports>,
    http: HttpListeners,
    audit: Option<AuditLog>,
    /// Whether the service manager passed the listening socket.
    passed: bool,
    keys: Option<Arc<Keys>>,
    identity: Arc<Mapper>,
    clock: ServerClock,
    /// Descriptors that the process may have.
    descriptors: usize,
}

/// A server with everything open that can fail for its settings.
pub(super) struct OpenedServer {
    parts: ServerParts,
    listener: Listener,
    /// The storage of the state; that of a process that is taken over is opened when that one is
    /// at a standstill.
    storage: Option<StateStorage>,
}

/// A server with its threads.
pub(super) struct StartedServer {
    parts: ServerParts,
    service: Arc<NfsService>,
    running: Arc<Running>,
    gate: Arc<Gate>,
    /// The state folder without symbolic links, and its lock.
    state_dir: PathBuf,
    lock: OwnedFd,
    store: Option<Arc<Store>>,
    /// The membership in a cluster.
    member: Option<Member>,
    /// The observer of all calls, connected before the first one.
    traces: Arc<Traces>,
    recent: RecentEvents,
}

impl OpenedServer {
    /// Opens everything that the settings name; of a process that is taken over it uses the
    /// sockets that they still name.
    ///
    /// # Errors
    /// The fault in the settings, the keytab, the folders or the port, with the remedy.
    pub(super) fn open(
        mut settings: Settings,
        process: OwnProcess,
        inherited: Option<&Inherited>,
    ) -> anyhow::Result<(Self, RunningProcess)> {
        let OwnProcess { prepared, sockets, running } = process;
        let OpenedSockets { listener, passed, http } = sockets;
        let as_started = settings.clone();
        let descriptors = usize::try_from(prepared.descriptors_max).unwrap_or(usize::MAX);
        settings.limits = shared(&settings, descriptors);
        let clock = match inherited {
            Some(inherited) => ServerClock::continued(inherited.hello.began),
            // Without a member that stands still, its cluster goes on.
            None => ServerClock::start(settings.cluster.is_none()),
        };
        let began = Instant::now().checked_sub(clock.peek()).unwrap_or_else(Instant::now);
        let clients = ClientRules::new(&settings, clock.clone());
        let keys = Keys::open(&settings)?.map(Arc::new);
        // Before the state folder: a refused start leaves none, and does not count.
        admission::check(&settings.exports, keys.is_some())?;
        own_files::check(&settings.exports, &settings)?;
        // Before the exports: the lock of the state folder says that no other server has its name,
        // and in a cluster the locks of a former instance end first.
        let storage = match inherited {
            None => Some(StateStorage::open(&settings, &state_dir(&settings)?, began, &running.manager)?),
            Some(_) => refuse_ceph(&settings).map(|()| None)?,
        };
        let alone = || CephNode { identity: None, sessions: None, recall_time: recall_time(&settings) };
        let ceph = storage.as_ref().map_or_else(alone, |storage| storage.ceph_node(&settings));
        let roots = Roots::read(&state_dir(&settings)?)?;
        let mut backends = Backends::new(clients, settings.limits.open_files_max, Some(roots), ceph);
        let prepared = backends.prepare(&settings.exports, &settings.addresses)?;
        let exports = Arc::new(Exports::new(backends.adopt(prepared)?));
        let audit = AuditLog::start(&settings)?;
        let (rules, sources) = identities(&settings, keys.as_deref())?;
        let identity = Arc::new(Mapper::with_sources(rules, sources));
        if let Some(inherited) = inherited {
            let folder = state_dir(&settings)?;
            Store::examine(&folder)?;
            inherited.check_folder(&folder.canonicalize().context("the state folder")?)?;
        }
        let parts = ServerParts {
            settings,
            as_started,
            backends,
            exports,
            http,
            audit,
            passed,
            keys,
            identity,
            clock,
            descriptors,
        };
        Ok((Self { parts, listener, storage }, running))
    }

    /// Starts a server without clients. It serves at once.
    ///
    /// # Errors
    /// The fault of the state folder, or the system has no threads left.
    pub(super) fn start(mut self) -> anyhow::Result<StartedServer> {
        let mut storage = self.storage.take().context("the state folder is not open")?;
        let service = self.builder(&mut storage)?.service(&Threads);
        match &storage.member {
            Some(member) => {
                service.server().engine().enforce_grace(true);
                member.attach(service.clone());
            }
            None => vfs_ceph::on_blocklisted(membership::end_evicted),
        }
        let (shards, limits) = (self.shards(), net_limits(&self.parts.settings));
        let traces = Observers::connect(&service, self.parts.audit.clone());
        let running = self.listener.start(service.clone(), shards, limits);
        let running = running.context("threads cannot be started")?;
        let server = StartedServer::new(self.parts, service, running, storage, traces)?;
        server.start_housekeeping()?;
        Ok(server)
    }

    /// Goes on with the clients of another process; it serves from [`StartedServer::begin`] on.
    ///
    /// # Errors
    /// The part of the image that is inconsistent, or the system has no threads left.
    pub(super) fn inherit(self, estate: Estate, inherited: Inherited) -> anyhow::Result<StartedServer> {
        let Estate { image, sockets, objects } = estate;
        let settings = &self.parts.settings;
        let mut storage = StateStorage::inherit(settings, &state_dir(settings)?, inherited.lock)?;
        let builder = self.builder(&mut storage)?;
        let (table, orphans) = (self.parts.exports.snapshot(), Orphans::default());
        let fds = InboundFds::new(objects);
        let mut objects = InboundObjects::new(&table, &orphans, image.objects, fds)?;
        let service = builder.inherit(&Threads, image.server, &mut objects)?;
        let connections = net::InheritedConnections { image: image.net, sockets };
        connections.check()?;
        let (shards, limits) = (self.shards(), net_limits(&self.parts.settings));
        let traces = Observers::connect(&service, self.parts.audit.clone());
        let running = self.listener.start_parked(service.clone(), shards, limits, connections);
        let running = running.context("threads cannot be started")?;
        let counters = image.net_counters.iter();
        running.stats().resume(counters.map(|(name, count)| (name.as_str(), *count)));
        let mut server = StartedServer::new(self.parts, service, running, storage, traces)?;
        server.recent = RecentEvents::inherit(image.recent_events.unwrap_or_default());
        // Nothing changes before it is decided which process serves.
        server.gate.close(std::time::Instant::now());
        server.start_housekeeping()?;
        Ok(server)
    }

    fn shards(&self) -> usize {
        match self.parts.settings.shards {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            shards => shards,
        }
    }

    fn builder(&self, storage: &mut StateStorage) -> anyhow::Result<Builder> {
        let ServerParts { settings, exports, keys, identity, clock, .. } = &self.parts;
        let clock = clock.clone();
        let limits = RpcsecLimits {
            contexts_max: settings.limits.contexts_max,
            identity_refresh: settings.identity.refresh,
            ..RpcsecLimits::default()
        };
        let config = nfs_config(settings, spoken(keys.is_some()), storage, self.parts.descriptors);
        let acceptor: Box<dyn ContextAcceptor> = match keys.clone() {
            Some(keys) => Box::new(move |token: &[u8]| keys.accept(token)),
            None => Box::new(NoKeys),
        };
        let environment = Environment {
            clock: {
                let clock = clock.clone();
                Box::new(move || clock.now())
            },
            // Without randomness nothing here is safe, and there is no caller to report to.
            random: Box::new(|bytes| getrandom::fill(bytes).unwrap_or_else(|_| std::process::abort())),
        };
        let builder = Builder::new(exports.clone(), nfs_start(storage.boot.clone())?, environment)
            .config(config)
            .identity(identity.clone())
            .records(storage.take_records())
            .kerberos(acceptor, Box::new(identity.clone()), limits)
            .real_time();
        Ok(builder)
    }
}

impl StartedServer {
    fn new(
        parts: ServerParts,
        service: Arc<NfsService>,
        running: Running,
        storage: StateStorage,
        traces: Arc<Traces>,
    ) -> anyhow::Result<Self> {
        service.server().engine().connect_callbacks(Box::new(Callbacks(running.outgoing().clone())));
        let state_dir = state_dir(&parts.settings)?.canonicalize().context("the state folder")?;
        let (running, gate) = (Arc::new(running), Arc::default());
        let StateStorage { member, lock, store, .. } = storage;
        let recent = RecentEvents::default();
        Ok(Self { parts, service, running, gate, state_dir, lock, store, member, traces, recent })
    }

    fn start_housekeeping(&self) -> std::io::Result<()> {
        let (service, exports, gate) = (self.service.clone(), self.parts.exports.clone(), self.gate.clone());
        let stats = self.running.stats().clone();
        housekeeping::start(service, exports, stats, gate, vfs_local::release_memory)
    }

    /// Begins to serve the clients of the process before. That one has ended, or does nothing any
    /// more.
    pub(super) fn begin(&self) {
        // The predecessor may have made room in the file since this process opened it.
        self.parts.audit.iter().for_each(AuditLog::reopen);
        self.running.thaw();
        vfs_local::take_over_leases();
        self.service.resume_copies();
        self.gate.open();
        // The configuration may lack exports that the predecessor served, or serve other folders.
        let server = self.service.server();
        server.engine().revoke_foreign(server.now());
        // The sources of accounts may be others.
        server.rpcsec().iter().for_each(|rpcsec| rpcsec.contexts().refresh_all());
        self.warn_of_settings();
    }

    /// Warns of settings that would break promises of the process before.
    fn warn_of_settings(&self) {
        let (settings, engine) = (&self.parts.settings, self.service.server().engine());
        let (asked, known) = (settings.lease_time, engine.lease());
        if asked < known {
            tracing::warn!(
                "lease_time = {} takes effect with the next restart: clients know {} s",
                asked.as_secs(),
                known.as_secs()
            );
        }
        if settings.local_locks && !engine.locks_locally() {
            tracing::warn!(
                "local_locks = true takes effect with the next restart: clients hold locks that local programs do not see"
            );
        }
    }

    /// Returns a description of the server in a line.
    fn status(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let (exports, address) = (self.parts.exports.clone(), self.running.address());
        move || format!("{} exports at {address}", exports.snapshot().iter().count())
    }

    /// Serves until a signal ends it. `predecessor` is the process that it was taken over from.
    ///
    /// # Errors
    /// The system has no threads left.
    pub(super) fn serve(
        self,
        process: RunningProcess,
        read: Option<Box<ReadSettings>>,
        end_with_input: bool,
        predecessor: Option<Predecessor>,
    ) -> anyhow::Result<()> {
        self.introduce(&process);
        let status = self.status();
        let Self { parts, service, running, gate, state_dir, lock, store, member, traces, recent } = self;
        let ServerParts { as_started, exports, http, audit, identity, keys, .. } = parts;
        let RunningProcess { starter, manager, signals, .. } = process;
        if end_with_input {
            end_when_input_ends()?;
        }
        let (listen, metrics, web) = (as_started.listen, as_started.metrics, as_started.web);
        let names = OwnNames::new(&as_started.addresses, keys.as_deref());
        let served = reload::Served {
            exports: exports.clone(),
            service: service.clone(),
            identity: identity.clone(),
            shards: running.shards().clone(),
            descriptors: parts.descriptors,
        };
        let reload = reload::Reload::new(read, as_started, parts.backends, keys.clone(), served);
        let reloads = Arc::new(Reloads::new(reload, manager.clone(), gate.clone(), audit.clone(), status));
        let upgrades = Arc::new(Upgrades::new(UpgradeParts {
            service: service.clone(),
            running: running.clone(),
            exports: exports.clone(),
            gate: gate.clone(),
            reloads: reloads.clone(),
            manager: manager.clone(),
            audit: audit.clone(),
            clock: parts.clock,
            listen,
            metrics,
            web,
            http_sockets: http.sockets()?,
            state_dir: state_dir.clone(),
            lock,
            store,
            passed: parts.passed,
            starter: starter.map(Arc::new),
            binary: binary::started(),
        }));
        drain::resume(&service, &gate)?;
        let parts = ApiParts {
            identity,
            exports: exports.clone(),
            service: service.clone(),
            reloads: reloads.clone(),
            stats: running.stats().clone(),
            upgrades: upgrades.clone(),
            gate,
            web: http.links(&names)?,
            traces,
            audit: audit.clone(),
            membership: member.as_ref().map(Member::membership),
            keys,
            recent,
        };
        let metrics_address = http.serve(&state_dir, parts, &running, &names)?;
        reloads.log_exports();
        let ready = tell_ready(manager.clone(), &running, reloads.clone());
        announce(&running, metrics_address, predecessor, ready);
        obey_signals(signals, reloads, || housekeeping::report(&service, &running))?;
        end(&upgrades, &manager, &running, (audit.as_ref(), member), &state_dir);
        Ok(())
    }

    /// Logs the rights of the process, and has its end by a signal find the server.
    fn introduce(&self, process: &RunningProcess) {
        let (shards, service) = (self.running.shards().clone(), self.service.clone());
        let serving = ending::Serving { shards, service, state_dir: self.state_dir.clone() };
        let _ = process.watched_end.set(serving);
        tracing::info!("{}", process.prepared);
        process.sandbox.log();
    }
}

/// Refuses exports of CephFS to a process that takes over: the cluster knows each process by a
/// session of its own, with all opens and locks.
fn refuse_ceph(settings: &Settings) -> anyhow::Result<()> {
    if settings.cluster.is_some() {
        bail!("a member of a cluster cannot be taken over; restart the server instead");
    }
    let export = settings.exports.iter().find(|export| matches!(export.storage, Storage::Ceph(_)));
    let Some(export) = export else { return Ok(()) };
    bail!(
        "the export {} is in CephFS, which a process that takes over cannot open yet; restart the server instead",
        export.pseudo
    )
}

/// Ends the server, unless the next process has taken it over.
fn end(
    upgrades: &Upgrades,
    manager: &ServiceManager,
    running: &Running,
    (audit, member): (Option<&AuditLog>, Option<Member>),
    state_dir: &Path,
) {
    if upgrades.end() {
        // Nothing is released: the next process serves with it.
        if let Some(audit) = audit {
            audit.flush();
        }
        logging::flush();
        vfs_local::exit_at_once(0);
    }
    manager.stopping();
    tracing::info!("ending");
    running.stop();
    if let Some(audit) = audit {
        audit.flush();
    }
    if let Some(member) = member {
        leave_cluster(member, state_dir);
    }
    leave(state_dir);
}

/// Returns a function that tells the service manager that the server is ready, and then that it is
/// alive as long as it is. The manager heeds its main process alone.
fn tell_ready(
    manager: Arc<ServiceManager>,
    running: &Running,
    reloads: Arc<Reloads>,
) -> impl FnOnce() + use<> {
    let shards = running.shards().clone();
    move || {
        reloads.ready();
        if let Err(error) = manager.feed_watchdog(move |interval| shards.are_alive(interval)) {
            tracing::error!("the watchdog of the service manager gets no thread: {error}");
        }
    }
}

/// Says on standard output where the server is: programs that start it wait for these lines. They
/// know it of a server that was taken over; there the process before learns that this one listens.
fn announce(
    running: &Running,
    metrics: Option<SocketAddr>,
    predecessor: Option<Predecessor>,
    ready: impl FnOnce() + Send + 'static,
) {
    if let Some(predecessor) = predecessor {
        tracing::info!("serving at {}", running.address());
        return predecessor.listening(ready);
    }
    outln!("orthrus serves {}", running.address());
    if let Some(address) = metrics {
        outln!("orthrus metrics http://{address}{}", metrics::PATH);
    }
    ready();
}
