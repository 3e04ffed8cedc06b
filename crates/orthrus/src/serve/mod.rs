//! Wires the server together and runs it until a signal ends it.

mod accounts;
mod admission;
mod api;
mod changes;
mod clients;
mod drain;
mod ending;
mod exports;
mod http;
mod kerberos;
mod listening;
pub(crate) mod membership;
mod metrics;
mod preflight;
mod process;
mod records;
mod reload;
mod same_user;
mod sandbox;
mod state_dir;
mod storage;
mod store;

use crate::api::IdReport;
use crate::config::{ExportSettings, IdentitySettings, Limits, Settings, Storage};
use crate::logging;
use crate::output::{errln, outln};
use crate::service_manager::ServiceManager;
use anyhow::Context;
use api::ApiParts;
use clients::ClientRules;
use exports::Backends;
use http::HttpEndpoint;
use identity::{AccountSource, Mapper, Rules};
use kerberos::{Keys, NoKeys};
use net::{Listener, Running};
pub(crate) use preflight::{Preflight, check};
use runtime::{Builder, Callbacks, NfsService, Threads, housekeeping};
use server::dispatch::Environment;
use server::engine::{Delegations, NfsConfig, Start};
use server::rpcsec::{ContextAcceptor, RpcsecLimits};
use server::tenants::LimitedTenants;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use storage::StateStorage;
use store::Boot;
use vfs::{Caller, Exports, SecFlavor};

/// The part of the process's descriptors that the objects of all exports, or connections, may take.
const DESCRIPTORS_PART: usize = 4;
/// The part that opens may take in number; an open holds one descriptor, seldom two.
const DESCRIPTORS_OPENS_PART: usize = 4;
/// The part that delegations may take in number.
const DESCRIPTORS_DELEGATIONS_PART: usize = 8;

/// How long a member of a cluster may take to leave it, until the other members refuse new state
/// and its file systems are unmounted.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(8);
/// How long file systems of Ceph may take to write back their data and end their sessions.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(5);

/// Reads the settings again for a reload.
pub(crate) type ReadSettings = dyn Fn() -> anyhow::Result<Settings> + Send;

/// Serves until SIGTERM or SIGINT; SIGHUP applies the settings that `read` returns and looks up all
/// accounts again, SIGUSR1 logs all counters.
///
/// # Errors
/// The reason why the server cannot start, with the remedy.
pub(crate) fn run(
    settings: Settings,
    read: Option<Box<ReadSettings>>,
    end_with_input: bool,
) -> anyhow::Result<()> {
    let in_cluster = settings.cluster.is_some();
    let outcome = serve(settings, read, end_with_input);
    if in_cluster && let Err(error) = &outcome {
        errln!("orthrus: {error:#}");
        logging::flush();
        // The threads of Ceph's libraries would not survive the destructors.
        vfs_local::exit_at_once(1);
    }
    outcome
}

fn serve(
    mut settings: Settings,
    read: Option<Box<ReadSettings>>,
    end_with_input: bool,
) -> anyhow::Result<()> {
    logging::set_filter(&settings.log);
    // Before any thread: capabilities and the umask belong to threads, and children inherit them.
    let prepared = vfs_local::prepare_process(settings.device_nodes);
    process::check(&prepared)?;
    let (listener, watched) = bind(&settings)?;
    let manager = Arc::new(ServiceManager::from_environment());
    let sandbox = sandbox::enter(&settings, manager.is_abstract())?;
    logging::start_queue().context("the log has no thread")?;
    let watched_end = ending::Watched::default();
    ending::guard(watched_end.clone()).context("signals cannot be caught")?;
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1]).context("signals cannot be caught")?;
    let as_started = settings.clone();
    let descriptors = usize::try_from(prepared.descriptors_max).unwrap_or(usize::MAX);
    settings.limits = shared(&settings, descriptors);
    // Before the exports: the lock of the state folder says that no other server goes by its name,
    // and in a cluster the locks of a former instance end first.
    let began = Instant::now();
    let mut storage = StateStorage::open(&settings, &state_dir(&settings)?, began)?;
    let clients = ClientRules::new(&settings, began);
    let ceph = storage.ceph_node(&settings);
    let mut backends = Backends::new(clients, settings.limits.open_files_max, ceph);
    let exports = Arc::new(Exports::new(backends.table(&settings.exports, &settings.addresses)?));
    let keys = Keys::open(&settings)?.map(Arc::new);
    admission::check(&exports.snapshot(), keys.is_some())?;
    let (service, running, identity) =
        start(&settings, keys.clone(), exports.clone(), listener, &mut storage, descriptors)?;
    let member = storage.member.take();
    let state_dir = state_dir(&settings)?.canonicalize().context("the state folder")?;
    let shards = running.shards().clone();
    let serving = ending::Serving { shards, service: service.clone(), state_dir: state_dir.clone() };
    let _ = watched_end.set(serving);
    tracing::info!("{prepared}");
    sandbox.log();
    if end_with_input {
        end_when_input_ends()?;
    }
    let shards = running.shards().clone();
    manager.feed_watchdog(move |interval| shards.are_alive(interval)).context("threads cannot be started")?;
    let (listed, address) = (exports.clone(), running.address());
    let status = move || format!("{} exports at {address}", listed.snapshot().iter().count());
    let asked = identity.clone();
    let shards = running.shards().clone();
    let served =
        reload::Served { exports: exports.clone(), service: service.clone(), identity, shards, descriptors };
    let reload = reload::Reload::new(read, as_started, backends, keys, served);
    let reloads = Arc::new(reload::Reloads::new(reload, manager.clone(), status));
    let metrics = watched.as_ref().map(metrics::MetricsListener::address).transpose()?;
    let (stats, reloader, listed) = (running.stats().clone(), reloads.clone(), exports.clone());
    let parts = ApiParts {
        identity: asked,
        exports: listed,
        service: service.clone(),
        reloads: reloader,
        stats,
        membership: member.as_ref().map(membership::Member::membership),
    };
    start_http(watched, parts, &running, &state_dir)?;
    reloads.log_exports();
    announce(&running, metrics);
    reloads.ready();
    obey_signals(signals, &reloads, || housekeeping::report(&service, &running));
    manager.stopping();
    end(running, member, &state_dir);
    Ok(())
}

/// Serves the metrics and the admin API.
fn start_http(
    metrics: Option<metrics::MetricsListener>,
    parts: ApiParts,
    running: &Running,
    state_dir: &Path,
) -> anyhow::Result<()> {
    let (service, identity, member) =
        (parts.service.clone(), parts.identity.clone(), parts.membership.clone());
    let metrics = metrics.map(|listener| listener.endpoint(service, running, identity, member));
    let endpoints = metrics.into_iter().chain(admin_endpoint(state_dir, parts)).collect();
    http::start(endpoints).context("HTTP endpoints cannot be served")
}

/// Ends the service, and its membership in a cluster.
fn end(running: Running, member: Option<membership::Member>, state_dir: &Path) {
    tracing::info!("ending");
    running.stop();
    if let Some(member) = member {
        leave_cluster(member, state_dir);
    }
    leave(state_dir);
}

/// Binds the addresses for clients and for metrics.
fn bind(settings: &Settings) -> anyhow::Result<(Listener, Option<metrics::MetricsListener>)> {
    let mut listener = listening::listen(settings)?;
    let mut watched = settings.metrics.map(bind_metrics).transpose()?;
    if settings.same_user {
        listener.admit(same_user::admission());
        watched.iter_mut().for_each(|endpoint| endpoint.admit(same_user::admission()));
    }
    Ok((listener, watched))
}

/// Writes back the data of CephFS and ends its sessions, and lets a successor begin. With a cluster
/// that hangs, the process ends here.
fn leave(state_dir: &Path) {
    if !vfs_ceph::unmount_all(UNMOUNT_TIME_MAX) {
        tracing::warn!(
            "a file system of Ceph did not end in time: others wait for this server's session to expire"
        );
        logging::flush();
        vfs_local::release_to_successor(state_dir);
        // The threads of the library would not survive the destructors.
        vfs_local::exit_at_once(ending::HUNG_STATUS);
    }
    // Threads may still wait for a file system, and Linux may not be able to end them.
    vfs_local::release_to_successor(state_dir);
}

/// Warns if clients get few of the delegations that they are to have.
fn warn_of_leases(settings: &Settings) {
    if settings.delegations != Delegations::None && !vfs_local::can_lease_for_others() {
        tracing::warn!(
            "without CAP_LEASE local programs could not be seen coming: delegations are granted only to the owners of files"
        );
    }
}

/// Leaves the cluster, and ends the process.
fn leave_cluster(member: membership::Member, state_dir: &Path) -> ! {
    if !member.leave(LEAVE_TIME_MAX) {
        tracing::warn!(
            "cluster: the file systems stay mounted as after a crash: the next start, here or elsewhere, reclaims \
             their locks"
        );
    }
    logging::flush();
    vfs_local::release_to_successor(state_dir);
    // The threads of Ceph's libraries would not survive the destructors.
    vfs_local::exit_at_once(0)
}

/// Reloads and reports as signals ask for it, until one ends the server.
fn obey_signals(mut signals: Signals, reloads: &reload::Reloads, report: impl Fn()) {
    for signal in signals.forever() {
        match signal {
            // The log has the fault.
            SIGHUP => drop(reloads.run("SIGHUP")),
            SIGUSR1 => report(),
            _ => break,
        }
    }
}

fn bind_metrics(address: SocketAddr) -> anyhow::Result<metrics::MetricsListener> {
    if !address.ip().is_loopback() {
        tracing::warn!(
            "metrics on {address}: whoever reaches it reads them, without a password or encryption"
        );
    }
    metrics::MetricsListener::bind(address).with_context(|| format!("metrics on {address}"))
}

/// Returns the limits within the descriptors of the process, so that no kind of use takes all of
/// them: objects of the exports, connections and (see [`nfs_config`]) opens.
fn shared(settings: &Settings, descriptors: usize) -> Limits {
    let part = descriptors / DESCRIPTORS_PART;
    let mut limits = settings.limits.clone();
    limits.open_files_max = limits.open_files_max.min(part / settings.exports.len().max(1));
    limits.connections_max = limits.connections_max.min(part);
    limits
}

/// Warns if the process may have too few descriptors for the connections that it is to admit.
fn warn_of_descriptors(asked: &Settings, descriptors: usize) {
    let part = descriptors / DESCRIPTORS_PART;
    if asked.limits.connections_max > part {
        tracing::warn!(
            "{part} connections at most: the process may open no more than {descriptors} files (ulimit -n)"
        );
    }
}

/// Sends this process SIGTERM when standard input ends: the program that started it is gone,
/// however it ended.
fn end_when_input_ends() -> anyhow::Result<()> {
    let wait = || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = signal_hook::low_level::raise(SIGTERM);
    };
    std::thread::Builder::new().name("input".into()).spawn(wait)?;
    Ok(())
}

/// Says on standard output where the server is: programs that start it wait for these lines.
fn announce(running: &Running, metrics: Option<SocketAddr>) {
    outln!("orthrus serves {}", running.address());
    if let Some(address) = metrics {
        outln!("orthrus metrics http://{address}{}", metrics::PATH);
    }
}

/// Makes the endpoint of the admin API. A server without it still serves.
fn admin_endpoint(state_dir: &Path, parts: ApiParts) -> Option<HttpEndpoint> {
    let endpoint = api::endpoint(state_dir, parts);
    let complain = |error| {
        tracing::warn!(
            "no socket for `orthrus status`, `orthrus clients` and others in {}: {error}",
            state_dir.display()
        );
    };
    endpoint.map_err(complain).ok()
}

/// Returns the flavors that the server speaks.
fn spoken(have_keys: bool) -> Vec<SecFlavor> {
    if have_keys { SecFlavor::ALL.to_vec() } else { vec![SecFlavor::Sys] }
}

fn start(
    settings: &Settings,
    keys: Option<Arc<Keys>>,
    exports: Arc<Exports>,
    listener: Listener,
    storage: &mut StateStorage,
    descriptors: usize,
) -> anyhow::Result<(Arc<NfsService>, Running, Arc<Mapper>)> {
    let (rules, sources) = identities(settings, keys.as_deref())?;
    let identity = Arc::new(Mapper::with_sources(rules, sources));
    let began = storage.began;
    let limits = RpcsecLimits {
        contexts_max: settings.limits.contexts_max,
        identity_refresh: settings.identity.refresh,
        ..RpcsecLimits::default()
    };
    let config = nfs_config(settings, spoken(keys.is_some()), storage, descriptors);
    let acceptor: Box<dyn ContextAcceptor> = match keys {
        Some(keys) => Box::new(move |token: &[u8]| keys.accept(token)),
        None => Box::new(NoKeys),
    };
    let environment = Environment {
        clock: Box::new(move || began.elapsed()),
        // Without randomness nothing here is safe, and there is no caller to report to.
        random: Box::new(|bytes| getrandom::fill(bytes).unwrap_or_else(|_| std::process::abort())),
    };
    let service = Builder::new(exports.clone(), nfs_start(storage.boot.clone())?, environment)
        .config(config)
        .identity(identity.clone())
        .records(storage.take_records())
        .kerberos(acceptor, Box::new(identity.clone()), limits)
        .began(began)
        .service(&Threads);
    let shards = match settings.shards {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        shards => shards,
    };
    if let Some(member) = &storage.member {
        service.server().engine().enforce_grace(true);
        member.attach(service.clone());
    }
    let running =
        listener.start(service.clone(), shards, net_limits(settings)).context("threads cannot be started")?;
    service.server().engine().connect_callbacks(Box::new(Callbacks(running.outgoing().clone())));
    housekeeping::start(service.clone(), exports, running.stats().clone(), vfs_local::release_memory)?;
    Ok((service, running, identity))
}

/// Explains the account of a principal, and the caller that each export sees, by a lookup of this
/// process.
///
/// # Errors
/// The fault in the keytab or in a source of accounts.
pub(crate) fn explain(settings: &Settings, principal: &str) -> anyhow::Result<IdReport> {
    let realms = match settings.realms.as_slice() {
        [] => kerberos::realms(settings)?,
        realms => realms.to_vec(),
    };
    let mapper = Mapper::with_sources(rules(settings, &realms), accounts::sources(settings)?);
    let clients = ClientRules::new(settings, Instant::now());
    let seen = |caller: Option<&Caller>| {
        let seen = |export: &ExportSettings| {
            let rules: Vec<_> = export.terms().iter().map(|terms| clients.rule(terms)).collect();
            exports::seen(&export.pseudo, &rules, caller)
        };
        let present = |export: &&ExportSettings| !matches!(export.storage, Storage::Elsewhere(_));
        settings.exports.iter().filter(present).flat_map(seen).collect()
    };
    Ok(IdReport::new("configuration", principal.to_owned(), mapper.explain(principal), seen))
}

/// Returns the domain of owner names, as far as the keytab can be read.
pub(crate) fn owner_domain(settings: &Settings) -> String {
    let realms = match settings.realms.as_slice() {
        [] => kerberos::realms(settings).unwrap_or_default(),
        realms => realms.to_vec(),
    };
    rules(settings, &realms).domain
}

/// Returns the rules and the sources of the settings, with the realms of the keytab by default.
fn identities(settings: &Settings, keys: Option<&Keys>) -> anyhow::Result<(Rules, Vec<AccountSource>)> {
    let realms = match keys {
        Some(keys) if settings.realms.is_empty() => keys.realms(),
        _ => settings.realms.clone(),
    };
    Ok((rules(settings, &realms), accounts::sources(settings)?))
}

fn rules(settings: &Settings, realms: &[String]) -> Rules {
    let domain = match (settings.domain.as_str(), realms.first()) {
        ("", Some(realm)) => realm.to_lowercase(),
        ("", None) => Rules::default().domain,
        (domain, _) => domain.to_owned(),
    };
    let IdentitySettings { unknown, refresh, absent, stale, timeout, .. } = settings.identity;
    let local = settings.identity.rules.clone();
    Rules {
        domain,
        realms: realms.to_vec(),
        principals: settings.principals.clone(),
        local,
        unknown,
        // A refresh of a context finds no answer that is as old as the last refresh.
        expiry: refresh / 2,
        absence_expiry: absent,
        stale_expiry: stale,
        lookup_wait_max: timeout,
        ..Rules::default()
    }
}

/// The configured folder, or the usual place for this user.
pub(crate) fn state_dir(settings: &Settings) -> anyhow::Result<PathBuf> {
    if let Some(folder) = &settings.state_dir {
        return Ok(folder.clone());
    }
    if nix::unistd::geteuid().is_root() {
        return Ok("/var/lib/orthrus".into());
    }
    let home = |variable, below: &str| std::env::var_os(variable).map(|base| PathBuf::from(base).join(below));
    home("XDG_STATE_HOME", "orthrus").or_else(|| home("HOME", ".local/state/orthrus")).context(
        "no place for the server's state: neither XDG_STATE_HOME nor HOME is set; name one with --state-dir",
    )
}

/// The time in which a client returns a recalled delegation.
fn recall_time(settings: &Settings) -> Duration {
    settings.recall_time.unwrap_or(settings.lease_time)
}

fn nfs_config(
    settings: &Settings,
    flavors: Vec<SecFlavor>,
    storage: &StateStorage,
    descriptors: usize,
) -> NfsConfig {
    let usual = state::Limits::default();
    let opens_max = usual.opens_max.min(descriptors / DESCRIPTORS_OPENS_PART);
    // A delegation can hold a descriptor long after the file was closed.
    let delegations_max = usual.delegations_max.min(descriptors / DESCRIPTORS_DELEGATIONS_PART);
    let limits = state::Limits {
        opens_max,
        // No client takes all of them.
        opens_per_client_max: usual.opens_per_client_max.min(opens_max.div_ceil(2)),
        lease: settings.lease_time,
        grace: storage.grace,
        recall_time: recall_time(settings),
        delegations_max,
        delegations_per_client_max: usual.delegations_per_client_max.min(delegations_max.div_ceil(2)),
        clients_max: settings.limits.clients_max,
        slots_max: settings.limits.slots_max,
        ..usual
    };
    let tenants = Arc::<LimitedTenants>::default();
    tenants.apply(settings.limit_rules());
    let (nfs40, delegations, local_locks) = (settings.nfs40, settings.delegations, settings.local_locks);
    let numeric_owners = settings.numeric_owners;
    NfsConfig {
        server_owner: storage.owner.clone().into_bytes(),
        server_scope: Some(storage.scope.clone().into_bytes()),
        flavors,
        limits,
        nfs40,
        delegations,
        local_locks,
        numeric_owners,
        sys_groups: settings.identity.groups,
        tenants,
        ..NfsConfig::default()
    }
}

fn nfs_start(boot: Boot) -> anyhow::Result<Start> {
    let mut hash_key = [0; 16];
    getrandom::fill(&mut hash_key)
        .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    let mut filehandle_key = [0; 16];
    filehandle_key.copy_from_slice(&boot.secret[16..]);
    // Unlike the epoch alone, this differs even when the state folder was restored from a backup.
    let verifier = u64::from(boot.epoch) << 32 ^ wall_clock_nanoseconds();
    Ok(Start {
        boot: state::Boot {
            epoch: boot.epoch,
            hash_key,
            principal_key: boot.principal_key(),
            prior_clients: boot.prior_clients,
        },
        write_verifier: verifier.to_be_bytes(),
        filehandle_key,
    })
}

fn net_limits(settings: &Settings) -> net::Limits {
    net::Limits {
        connections_max: settings.limits.connections_max,
        input_bytes_max: settings.limits.input_bytes_max,
        ..net::Limits::default()
    }
}

fn wall_clock_nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
