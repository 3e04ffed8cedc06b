//! The standstill of the old process, and its image.

use super::COPIES_TIME_MAX;
use anyhow::{Context, bail};
use handover::{HandoverImage, write_image};
use net::Running;
use runtime::{Gate, NfsService};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use server::engine::OutboundObjects;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::{Exports, OutboundFds};
use vfs_local::Orphans;

/// The part of the standstill's time after which calls that no thread runs are declined.
const PATIENCE_PART: u32 = 2;
/// How long threads may take to reach a step that waits for no file system.
const STEP_TIME_MAX: Duration = Duration::from_secs(2);

/// A server at a standstill; it goes on when this is dropped, unless it has been left.
pub(super) struct Standstill<'u> {
    service: &'u NfsService,
    running: &'u Running,
    gate: &'u Gate,
    /// When clients began to wait.
    since: Instant,
    goes_on: bool,
}

/// The image of a server, with its descriptors.
pub(super) struct Frozen {
    pub(super) image: OwnedFd,
    /// The sockets of connections.
    pub(super) sockets: Vec<OwnedFd>,
    /// The descriptors of open files.
    pub(super) objects: OutboundFds,
}

impl Frozen {
    /// Returns all descriptors in the order in which they are sent.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd).chain(self.objects.iter()).collect()
    }
}

impl<'u> Standstill<'u> {
    /// Brings the server to a standstill within `time`.
    ///
    /// # Errors
    /// Names the work that does not end; the server goes on.
    pub(super) fn begin(
        service: &'u Arc<NfsService>,
        running: &'u Running,
        gate: &'u Gate,
        time: Duration,
    ) -> anyhow::Result<Self> {
        let mut still = Self { service, running, gate, since: Instant::now(), goes_on: true };
        service.pause_copies();
        if !service.wait_for_copies(Instant::now() + COPIES_TIME_MAX) {
            bail!("a background copy waits for a file system");
        }
        if !gate.close(Instant::now() + COPIES_TIME_MAX) {
            bail!("housekeeping waits for a file system");
        }
        let since = Instant::now();
        still.since = since;
        if !running.drain(since + STEP_TIME_MAX.min(time)) {
            bail!("a thread that serves connections is busy: {}", running.shards().unfinished().join(", "));
        }
        let (patience, until) = (since + time / PATIENCE_PART, since + time);
        if let Err(calls) = service.wait_for_calls(patience, until) {
            bail!(
                "{calls} call(s) have not ended within {} ms ({}); wait longer with --wait, or see to the file system \
                 that hangs",
                time.as_millis(),
                service.busy_with().join(", ")
            );
        }
        if !running.park(Instant::now() + STEP_TIME_MAX) {
            bail!("a thread that serves connections is busy: {}", running.shards().unfinished().join(", "));
        }
        Ok(still)
    }

    /// Returns how long clients have waited by now.
    pub(super) fn pause(&self) -> Duration {
        self.since.elapsed()
    }

    /// Makes the image.
    ///
    /// # Errors
    /// The reason why there is none; the server goes on.
    pub(super) fn image(&self, exports: &Exports) -> anyhow::Result<Frozen> {
        let (table, orphans) = (exports.snapshot(), Orphans::default());
        let mut objects = OutboundObjects::new(&table, &orphans);
        let server = self.service.image(&mut objects).context("the state cannot be handed over")?;
        let (objects, fds) = objects.finish().context("the state cannot be handed over")?;
        let connections = self.running.image(Instant::now() + STEP_TIME_MAX);
        let connections = connections.context("the connections cannot be handed over")?;
        let net_counters = self.running.stats().snapshot();
        let net_counters = net_counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        let image = HandoverImage {
            server,
            net: connections.image,
            objects,
            net_counters,
            #[cfg(feature = "next-version")]
            of_next_version: Some("unknown to the version before".to_owned()),
        };
        let image = write_image(&image).context("there is no memory for the image")?;
        Ok(Frozen { image, sockets: connections.sockets, objects: fds })
    }

    /// Leaves the server at a standstill for ever: another process serves its clients.
    pub(super) fn leave(mut self) {
        self.goes_on = false;
    }
}

impl Drop for Standstill<'_> {
    fn drop(&mut self) {
        if self.goes_on {
            self.running.thaw();
            self.gate.open();
            self.service.resume_copies();
        }
    }
}
