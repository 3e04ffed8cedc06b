//! A running server and the mounts to load it, one repetition at a time.

use super::kerberos_site::KerberosSite;
use anyhow::Context;
use bench::measuring::Sample;
use bench::workload::{self, Conditions, TransferShape};
use bench::{Endpoint, ExportMount, Flavor, Pattern, ServerProbe, Unit};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Time that each repetition runs before it counts. Otherwise the first in a round would pay for
/// the caches and allocators that the last of the former round left behind at both ends.
const LEAD_IN: Duration = Duration::from_millis(50);

/// The same before the first round, when caches, slots and the allocators settle.
const WARM_UP: Duration = Duration::from_millis(250);

/// The load of a repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TargetLoad {
    /// Reads or writes of the file.
    Transfer(TransferShape),
    /// The metadata mix, one operation after the other.
    Metadata,
}

impl TargetLoad {
    /// Reads or writes of 4 KiB at random places.
    pub(crate) const fn random(write: bool, depth: usize) -> Self {
        Self::Transfer(TransferShape { writes: percentage(write), random: true, depth, size: 4096 })
    }

    /// Reads or writes of `size` bytes, one after the other through the file.
    pub(crate) const fn sequential(write: bool, depth: usize, size: usize) -> Self {
        Self::Transfer(TransferShape { writes: percentage(write), random: false, depth, size })
    }

    /// Returns the unit of the load's rate.
    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Transfer(TransferShape { random: false, .. }) => Unit::MegabytesPerSecond,
            _ => Unit::OperationsPerSecond,
        }
    }
}

/// The part of the requests that write.
const fn percentage(write: bool) -> u32 {
    if write { 100 } else { 0 }
}

/// A server, and the identity of its client.
pub(crate) struct LoadTarget<'a> {
    /// The realm and the ticket.
    pub site: &'a KerberosSite,
    /// The server's process ID.
    pub pid: u32,
    /// The address of the server.
    pub address: SocketAddr,
    /// Bytes of the file of each mount.
    pub file_size: u64,
    /// Ends a repetition early.
    pub stop: &'a AtomicBool,
}

impl LoadTarget<'_> {
    /// Makes a session over one connection, with 64 slots, a folder in `export`, and a file full of
    /// its pattern in it.
    pub(crate) fn mount(&self, export: &str, flavor: Flavor) -> anyhow::Result<ExportMount> {
        self.mount_with(export, flavor, 64)
    }

    /// As [`LoadTarget::mount`], with another number of slots.
    pub(crate) fn mount_with(
        &self,
        export: &str,
        flavor: Flavor,
        slots_max: u32,
    ) -> anyhow::Result<ExportMount> {
        let mut options = self.site.options(self.address, flavor);
        options.slots_max = slots_max;
        let folder = format!("bench-{}-{}", flavor.name(), unique());
        let mut mount = ExportMount::connect(options, export, &folder)?;
        mount.prepare()?;
        workload::fill(&mut mount, &self.conditions(WARM_UP)).context("preparing the file")?;
        Ok(mount)
    }

    /// Runs one repetition, and before it one that does not count. `None` when a signal has come.
    pub(crate) fn repeat(
        &self,
        mount: &mut dyn Endpoint,
        load: TargetLoad,
        round: u32,
        length: Duration,
    ) -> anyhow::Result<Option<Sample>> {
        let lead_in = if round == 0 { WARM_UP } else { LEAD_IN };
        self.plain(mount, load, lead_in)?;
        let server = ServerProbe { pid: Some(self.pid), metrics: None };
        let sample = self.once(mount, load, length, &server)?;
        Ok(sample.map(|sample| Sample { repetition: round, ..sample }))
    }

    /// Runs one repetition and nothing before it.
    pub(crate) fn plain(
        &self,
        mount: &mut dyn Endpoint,
        load: TargetLoad,
        length: Duration,
    ) -> anyhow::Result<Option<Sample>> {
        self.once(mount, load, length, &ServerProbe::default())
    }

    fn once(
        &self,
        mount: &mut dyn Endpoint,
        load: TargetLoad,
        length: Duration,
        server: &ServerProbe,
    ) -> anyhow::Result<Option<Sample>> {
        let conditions = self.conditions(length);
        workload::measure(self.stop, server, "", |tally| match load {
            TargetLoad::Transfer(shape) => workload::load(shape, None, mount, &conditions, tally),
            TargetLoad::Metadata => workload::metadata(mount, &conditions, tally),
        })
    }

    fn conditions(&self, length: Duration) -> Conditions<'_> {
        Conditions { file_size: self.file_size, pattern: Pattern(0x7061_7468), length, stop: self.stop }
    }
}

/// The unit of a rate.
pub(crate) const fn rate_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::MegabytesPerSecond => "MB/s",
        Unit::OperationsPerSecond => "1/s",
    }
}

/// A number for each folder: one that a failure left behind is not used again.
fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
