//! The membership in a cluster of gateways: the shared grace period, the records of clients in
//! RADOS, and the end of a gateway that another one has replaced.
//!
//! A thread reads the grace database, performs the steps that [`grace::GraceMember`] decides about,
//! and gives signs of life. The main thread waits for it at the start, until the file systems may
//! be mounted, and at the end, until they are unmounted. docs/cluster.md describes the whole.

mod back_off;
mod driver;
mod ending;
mod fence;
mod identity;
mod records;
mod report;
mod session_log;

use ending::NotMember;
pub(super) use ending::{end_evicted, end_failed_start};
pub(super) use records::ClusterRecords;
pub(super) use report::Membership;
pub(super) use session_log::SessionLog;

use super::store::Boot;
use crate::config::{CephStorage, ClusterSettings, Settings, Storage, check_ceph_cluster};
use crate::service_manager::{START_INTERVAL, ServiceManager};
use anyhow::{Context, anyhow, bail};
use ceph::rados::RadosOptions;
use driver::{Driver, ToDriver};
use grace::{NodeId, Timing};
use grace_rados::{GraceStore, StoreOptions};
use runtime::NfsService;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The parts of a lease for which a gateway serves without contact to its cluster.
const CONTACT_PARTS: u32 = 4;
/// The least time for which it does.
const CONTACT_TIME_MIN: Duration = Duration::from_secs(5);
/// The longest time for which a gateway serves without contact to its cluster.
const CONTACT_TIME_MAX: Duration = Duration::from_secs(15);
/// Messages to the driver that wait.
const MESSAGES_MAX: usize = 64;

/// Returns the times of a cluster, and the length of its grace period.
///
/// A gateway that was cut off serves for `contact_max`, and a lease that it has renewed last in
/// that time must be over before another gateway grants the client's state to others.
pub(super) fn timing(settings: &Settings) -> (Timing, Duration) {
    let contact_max = (settings.lease_time / CONTACT_PARTS).clamp(CONTACT_TIME_MIN, CONTACT_TIME_MAX);
    let grace = settings.grace_time.max(settings.lease_time + contact_max);
    (Timing { contact_max, silence_max: 2 * contact_max, absence_max: grace }, grace)
}

/// Returns the place of the shared state.
pub(crate) fn store_options(settings: &ClusterSettings, timeout: Duration) -> StoreOptions {
    StoreOptions {
        cluster: RadosOptions {
            configuration: settings.ceph_conf.clone(),
            user: settings.ceph_user.clone(),
            keyring: settings.ceph_keyring.clone(),
            timeout,
        },
        pool: settings.pool.clone(),
        namespace: settings.namespace.clone(),
        object: settings.object.clone(),
    }
}

/// Reads the shared state as a start does, and changes nothing.
///
/// # Errors
/// The fault, with the remedy.
pub(super) fn examine(cluster: &ClusterSettings) -> anyhow::Result<()> {
    let node: NodeId = cluster.node.parse()?;
    let store = GraceStore::open(&store_options(cluster, CONTACT_TIME_MIN))?;
    let (_, database) = store.database()?;
    if database.flags(&node).is_none() {
        bail!(NotMember(node));
    }
    store.records(&node)?;
    store.secret()?;
    Ok(())
}

/// Refuses exports of a reload that are in another Ceph cluster than that of the start.
///
/// # Errors
/// Names the export.
pub(super) fn check_exports(start: &Settings, settings: &Settings) -> anyhow::Result<()> {
    let Some(cluster) = &start.cluster else { return Ok(()) };
    for export in &settings.exports {
        let checked = check_ceph_cluster(cluster, &export.storage).map_err(anyhow::Error::msg);
        checked.with_context(|| format!("export {}: another [cluster] needs a restart", export.pseudo))?;
    }
    Ok(())
}

/// The storage of the exports of CephFS: it has the keys with which sessions of other instances
/// are ended.
fn storages(settings: &Settings) -> Vec<CephStorage> {
    let ceph = settings.exports.iter().filter_map(|export| match &export.storage {
        Storage::Ceph(ceph) => Some(ceph.clone()),
        _ => None,
    });
    ceph.collect()
}

/// The server as a member of its cluster. The end of the process ends it like a crash.
pub(super) struct Member {
    driver: SyncSender<ToDriver>,
    ended: Receiver<bool>,
    membership: Arc<Membership>,
    state_dir: PathBuf,
}

/// The facts with which the server starts when its file systems may be mounted.
pub(super) struct MemberStart {
    /// The number of the start, the secret of the cluster, and the clients that may reclaim.
    pub(super) boot: Boot,
    /// The number of the instance, for names of sessions.
    pub(super) instance: u64,
    pub(super) records: ClusterRecords,
    pub(super) sessions: Arc<SessionLog>,
}

impl Member {
    /// Joins the cluster, and waits until the file systems may be mounted. `began` is the start of
    /// the server's clock.
    ///
    /// # Errors
    /// The shared state cannot be used, the server is no member, or another instance has replaced
    /// it.
    pub(super) fn join(
        settings: &Settings,
        cluster: &ClusterSettings,
        state_dir: &Path,
        began: Instant,
        manager: &ServiceManager,
    ) -> anyhow::Result<(Self, MemberStart)> {
        back_off::wait(state_dir, manager);
        let node: NodeId = cluster.node.parse()?;
        let (timing, grace) = timing(settings);
        let store = GraceStore::open(&store_options(cluster, timing.contact_max / 3))
            .context("the shared state of the cluster")?;
        if grace > settings.grace_time {
            tracing::info!("cluster: the grace period is {} s, longer than a lease", grace.as_secs());
        }
        let (sender, receiver) = sync_channel(MESSAGES_MAX);
        let (start, started) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let membership = Arc::new(Membership::new(&node));
        let driver = Driver::new(driver::DriverParts {
            store,
            node,
            host: identity::host(state_dir),
            timing,
            storages: storages(settings),
            began,
            received: receiver,
            waker: sender.clone(),
            start,
            end,
            membership: Arc::clone(&membership),
        })?;
        let thread = std::thread::Builder::new().name("cluster".into());
        let run = move || {
            // Without this thread nothing is answered any more.
            if catch_unwind(AssertUnwindSafe(|| driver.run())).is_err() {
                ending::end_for(&anyhow!("a defect has ended the thread of the cluster"));
            }
        };
        thread.spawn(run).context("threads cannot be started")?;
        let started = manager
            .wait_for_start(&started, START_INTERVAL, || format!("waiting {}", membership.report().waits));
        let start = started.context("the thread of the cluster has ended")??;
        Ok((Self { driver: sender, ended, membership, state_dir: state_dir.to_owned() }, start))
    }

    /// Hands the server over, which refuses new state so far. It may answer from now on: the start
    /// has succeeded.
    pub(super) fn attach(&self, service: Arc<NfsService>) {
        back_off::forget(&self.state_dir);
        service.answer_until(Some(Duration::ZERO));
        let _ = self.driver.send(ToDriver::Attach(service));
    }

    /// Returns the membership, for reports.
    pub(super) fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.membership)
    }

    /// Leaves the file systems, after the server has ceased to answer. Returns whether they are
    /// unmounted.
    ///
    /// If clients are recorded, the other members refuse new state first. If they do not in time,
    /// the file systems stay mounted as after a crash, so that nobody gets the locks of these
    /// clients.
    pub(super) fn leave(self, within: Duration) -> bool {
        let until = Instant::now() + within;
        if self.driver.send(ToDriver::End(until)).is_err() {
            return false;
        }
        self.ended.recv_timeout(within).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ExportSettings;

    #[test]
    fn a_member_serves_no_export_of_another_ceph_cluster() {
        let alone = Settings::default();
        let ceph_conf = "/etc/ceph/one.conf".into();
        let member = ClusterSettings { ceph_conf, ..ClusterSettings::default() };
        let member = Settings { cluster: Some(member), ..Settings::default() };
        let of = |configuration: &str| {
            let storage = CephStorage { configuration: configuration.into(), ..CephStorage::default() };
            let exports = vec![ExportSettings::new(Storage::Ceph(storage), "/data")];
            Settings { exports, ..Settings::default() }
        };
        for (start, now, may) in [
            (&alone, of("/etc/ceph/other.conf"), true),
            (&member, of("/etc/ceph/one.conf"), true),
            (&member, of("/etc/ceph/other.conf"), false),
        ] {
            assert_eq!(check_exports(start, &now).is_ok(), may);
        }
    }
}
