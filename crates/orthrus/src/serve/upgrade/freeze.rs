//! The standstill of the old process, and its image.

use super::{COPIES_TIME_MAX, LOOK_INTERVAL};
use anyhow::{Context, bail};
use handover::{HandoverImage, RecentEventsImage, write_image};
use net::Running;
use runtime::{Gate, NfsService};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use server::engine::OutboundObjects;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
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
    /// Brings the server to a standstill within `time`, unless it `ends`.
    ///
    /// # Errors
    /// Names the work that does not end; the server goes on.
    pub(super) fn begin(
        service: &'u Arc<NfsService>,
        running: &'u Running,
        gate: &'u Gate,
        ends: &AtomicBool,
        time: Duration,
    ) -> anyhow::Result<Self> {
        let mut still = Self { service, running, gate, since: Instant::now(), goes_on: true };
        service.pause_copies();
        if !wait(ends, Instant::now() + COPIES_TIME_MAX, |until| service.wait_for_copies(until))? {
            bail!("a background copy waits for a file system");
        }
        if !wait(ends, Instant::now() + COPIES_TIME_MAX, |until| gate.close(until))? {
            bail!("housekeeping waits for a file system");
        }
        let since = Instant::now();
        still.since = since;
        if !running.drain(since + STEP_TIME_MAX.min(time)) {
            bail!("a thread that serves connections is busy: {}", running.shards().unfinished().join(", "));
        }
        let (patience, until) = (since + time / PATIENCE_PART, since + time);
        let mut left = 0;
        let calls_end = |until| {
            left = service.wait_for_calls(patience, until).err().unwrap_or(0);
            left == 0
        };
        if !wait(ends, until, calls_end)? {
            bail!(
                "{left} call(s) have not ended within {} ms ({}); wait longer with --wait, or see to the file system \
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
    pub(super) fn image(&self, exports: &Exports, recent: RecentEventsImage) -> anyhow::Result<Frozen> {
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
            recent_events: Some(recent),
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

/// Waits in short steps, each until the time that `step` gets, so that the end of the server does
/// not wait. Returns whether a step was the last.
///
/// # Errors
/// The server ends.
pub(super) fn wait(
    ends: &AtomicBool,
    until: Instant,
    mut step: impl FnMut(Instant) -> bool,
) -> anyhow::Result<bool> {
    loop {
        if ends.load(Acquire) {
            bail!("the server is to end");
        }
        let now = Instant::now();
        if step(until.min(now + LOOK_INTERVAL)) {
            return Ok(true);
        }
        if now >= until {
            return Ok(false);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_goes_on_until_its_last_step_or_its_time_or_the_end_of_the_server() {
        let ends = AtomicBool::new(false);
        let (mut steps, hour) = (0, Duration::from_secs(3600));
        let third = |until: Instant| {
            steps += 1;
            assert!(until <= Instant::now() + LOOK_INTERVAL);
            steps == 3
        };
        assert!(wait(&ends, Instant::now() + hour, third).unwrap());
        assert!(!wait(&ends, Instant::now(), |_| false).unwrap());
        let end = |_| {
            ends.store(true, std::sync::atomic::Ordering::Release);
            false
        };
        assert!(wait(&ends, Instant::now() + hour, end).is_err());
        assert!(wait(&ends, Instant::now() + hour, |_| panic!("a step of a server that ends")).is_err());
    }
}
