//! Wires the server together and runs it until a signal ends it.

mod accounts;
mod admission;
mod api;
mod changes;
mod clients;
mod clock;
mod drain;
mod ending;
mod exports;
mod http;
mod http_listeners;
mod kerberos;
mod listening;
pub(crate) mod membership;
mod metrics;
mod observe;
mod opened;
mod own_domain;
mod own_files;
mod preflight;
mod process;
mod records;
mod reload;
mod reserve;
mod roots;
mod same_user;
mod sandbox;
mod state_dir;
mod storage;
mod store;
mod upgrade;
mod web;
#[cfg(test)]
mod written_log;

use crate::api::IdReport;
use crate::config::{ExportSettings, IdentitySettings, Limits, Settings, Storage};
use crate::logging;
use crate::output::errln;
use crate::service_manager::ServiceManager;
use anyhow::Context;
use clients::ClientRules;
use identity::{AccountSource, Mapper, Rules};
use kerberos::Keys;
pub(crate) use kerberos::accepts_host;
use listening::OpenedSockets;
pub(crate) use preflight::{Preflight, check};
use process::{EndsFirst, ReadyMemory};
use server::engine::{Delegations, NfsConfig, Start};
use server::tenants::LimitedTenants;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use storage::StateStorage;
use store::Boot;
pub(crate) use upgrade::binary::started as started_program;
use upgrade::{Inherited, Predecessor, Starter};
pub(crate) use upgrade::{STANDSTILL_TIME, STANDSTILL_TIME_MAX, STARTER, obey, tell_predecessor};
use vfs::{Caller, SecFlavor};
use vfs_local::Prepared;

/// The part of the process's descriptors that connections may take. All parts together leave a
/// sixteenth, so that a connection within its part finds a descriptor.
const DESCRIPTORS_CONNECTIONS_PART: usize = 4;
/// The part that the objects of all exports may take in number; a directory holds two descriptors
/// at most.
const DESCRIPTORS_OBJECTS_PART: usize = 8;
/// The part that opens may take in number. An open holds three descriptors at most: for READ, for
/// WRITE, and one for the locks of its file.
const DESCRIPTORS_OPENS_PART: usize = 8;
/// The part that delegations may take in number. One can hold a descriptor long after the file was
/// closed.
const DESCRIPTORS_DELEGATIONS_PART: usize = 16;

/// How long a member of a cluster may take to leave it, until the other members refuse new state
/// and its file systems are unmounted.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(8);
/// How long file systems of Ceph may take to write back their data and end their sessions.
const UNMOUNT_TIME_MAX: Duration = Duration::from_secs(5);

/// Reads the settings again for a reload.
pub(crate) type ReadSettings = dyn Fn() -> anyhow::Result<Settings> + Send;

/// Serves until SIGTERM or SIGINT; SIGHUP applies the settings that `read` returns and looks up all
/// accounts again, SIGUSR1 logs all counters. A process that another one has started to take over
/// goes on with its clients.
///
/// # Errors
/// The reason why the server cannot start, with the remedy.
pub(crate) fn run(
    settings: Settings,
    read: Option<Box<ReadSettings>>,
    end_with_input: bool,
) -> anyhow::Result<()> {
    let (in_cluster, folder) = (settings.cluster.is_some(), state_dir(&settings).ok());
    let outcome = serve(settings, read, end_with_input);
    if in_cluster && let Err(error) = &outcome {
        errln!("orthrus: {error:#}");
        membership::end_failed_start(error, folder.as_deref());
    }
    outcome
}

fn serve(settings: Settings, read: Option<Box<ReadSettings>>, end_with_input: bool) -> anyhow::Result<()> {
    logging::set_filter(&settings.log);
    let Some(predecessor) = Predecessor::of_environment()? else {
        let process = OwnProcess::begin(&settings, None)?;
        let (opened, process) = opened::OpenedServer::open(settings, process, None)?;
        return opened.start()?.serve(process, read, end_with_input, None);
    };
    let taken_over = take_over(&predecessor, settings);
    let (server, process) = taken_over.unwrap_or_else(|error| {
        predecessor.refuse(&error);
        tracing::error!("not taking over: {error:#}");
        logging::flush();
        // Nothing is released: the old process goes on with it.
        vfs_local::exit_at_once(1)
    });
    server.serve(process, read, end_with_input, Some(predecessor))
}

/// Takes over from another process: when this returns, this one serves.
fn take_over(
    predecessor: &Predecessor,
    settings: Settings,
) -> anyhow::Result<(opened::StartedServer, RunningProcess)> {
    vfs_local::leave_leases_alone();
    let mut inherited = predecessor.hello()?;
    let process = OwnProcess::begin(&settings, Some(&mut inherited))?;
    // Two processes and an image need more memory than one. The other one has the clients until
    // this one serves.
    let ends_first = EndsFirst::offer();
    let (opened, process) = opened::OpenedServer::open(settings, process, Some(&inherited))?;
    // Before the standstill, in which clients would wait for it.
    let memory = ReadyMemory::of(inherited.memory());
    let before = process::thread_time();
    let estate = predecessor.prepared()?;
    let server = opened.inherit(estate, inherited)?;
    let spent = process::thread_time().saturating_sub(before);
    predecessor.restored()?;
    predecessor.serving()?;
    if let Some(ends_first) = ends_first {
        ends_first.withdraw();
    }
    server.begin();
    tracing::info!("restoring the state took {:.1} ms of processor time", spent.as_secs_f64() * 1000.0);
    drop(memory);
    Ok((server, process))
}

/// A process before it opens what it serves: it has its sockets, and has given up the rest.
pub(super) struct OwnProcess {
    prepared: Prepared,
    sockets: OpenedSockets,
    running: RunningProcess,
}

/// The parts of a process that its server needs until its end.
pub(super) struct RunningProcess {
    prepared: String,
    sandbox: sandbox::InForce,
    starter: Option<Starter>,
    manager: Arc<ServiceManager>,
    watched_end: ending::Watched,
    signals: Signals,
}

impl OwnProcess {
    /// Begins a process: everything here comes before its first thread, since capabilities, the
    /// umask and the sandbox belong to threads.
    fn begin(settings: &Settings, inherited: Option<&mut Inherited>) -> anyhow::Result<Self> {
        // It starts later processes with the rights that this one has now.
        let starter = Starter::spawn(&upgrade::binary::started())
            .inspect_err(|error| tracing::warn!("`orthrus upgrade` will not work: {error:#}"))
            .ok();
        let prepared = vfs_local::prepare_process(settings.device_nodes);
        process::check(&prepared)?;
        let sockets = OpenedSockets::open(settings, inherited)?;
        let manager = Arc::new(ServiceManager::from_environment());
        let sandbox = sandbox::enter(settings, manager.is_abstract())?;
        logging::start_queue().context("the log has no thread")?;
        let watched_end = ending::Watched::default();
        ending::guard(watched_end.clone()).context("signals cannot be caught")?;
        let signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1]).context("signals cannot be caught")?;
        let said = prepared.to_string();
        let running = RunningProcess { prepared: said, sandbox, starter, manager, watched_end, signals };
        Ok(Self { prepared, sockets, running })
    }
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

/// Reloads and reports as signals ask for it, until one ends the server. A thread of its own
/// reloads, since that may wait, and an end must not.
///
/// # Errors
/// When the system gives no thread.
fn obey_signals(
    mut signals: Signals,
    reloads: Arc<reload::Reloads>,
    report: impl Fn(),
) -> anyhow::Result<()> {
    let (ask, asked) = sync_channel(1);
    let reload = move || {
        for () in asked {
            // The log has the fault.
            let _ = reloads.run(reload::Asker::Signal);
        }
    };
    std::thread::Builder::new().name("reload".into()).spawn(reload)?;
    for signal in signals.forever() {
        match signal {
            // One that waits already reads the file later than this.
            SIGHUP => _ = ask.try_send(()),
            SIGUSR1 => report(),
            _ => break,
        }
    }
    Ok(())
}

/// Returns the limits within the descriptors of the process, so that no kind of use takes all of
/// them: objects of the exports, connections and (see [`nfs_config`]) opens.
fn shared(settings: &Settings, descriptors: usize) -> Limits {
    let objects = descriptors / DESCRIPTORS_OBJECTS_PART;
    let mut limits = settings.limits.clone();
    limits.open_files_max = limits.open_files_max.min(objects / settings.exports.len().max(1));
    limits.connections_max = limits.connections_max.min(descriptors / DESCRIPTORS_CONNECTIONS_PART);
    limits
}

/// Warns if the process may have too few descriptors for the connections that it is to admit.
fn warn_of_descriptors(asked: &Settings, descriptors: usize) {
    let part = descriptors / DESCRIPTORS_CONNECTIONS_PART;
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

/// Returns the flavors that the server speaks.
fn spoken(have_keys: bool) -> Vec<SecFlavor> {
    if have_keys { SecFlavor::ALL.to_vec() } else { vec![SecFlavor::Sys] }
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
    let clients = ClientRules::new(settings, clock::ServerClock::start(false));
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
    let machine_realms = keys.map(Keys::realms).unwrap_or_default();
    Ok((Rules { machine_realms, ..rules(settings, &realms) }, accounts::sources(settings)?))
}

fn rules(settings: &Settings, realms: &[String]) -> Rules {
    let domain = match (settings.domain.as_str(), realms.first()) {
        ("", Some(realm)) => realm.to_lowercase(),
        ("", None) => own_domain::own_domain().unwrap_or(Rules::default().domain),
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
