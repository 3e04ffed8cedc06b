//! Loads of the benchmarks as cases of the measuring core.

use super::stopped;
use anyhow::bail;
use bench::evaluation::Blocks;
use bench::measuring::{
    self, Axes, Case, CaseDriver, CaseRecord, CaseTurn, ClientLayout, Load, Record, RunWatch, Sample,
    Settings, Transfer,
};
use bench::native::{NativeDriver, ServerSet};
use bench::{Flavor, Unit};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Bytes of the files that the clients of a case read and write.
pub(crate) const FILE_SIZE: u64 = 64 << 20;

/// The longest time that a load runs before its first repetition, when caches, slots and the
/// allocators settle.
const WARM_UP: Duration = Duration::from_millis(250);

/// The kind of all requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferKind {
    /// Every request is a READ.
    Read,
    /// Every request is a WRITE.
    Write,
}

/// Requests of 4 KiB at random places.
pub(crate) const fn random(kind: TransferKind, depth: u32) -> Load {
    transfer(true, kind, depth, 4096)
}

/// Requests of `size` bytes, one after the other through the file.
pub(crate) const fn sequential(kind: TransferKind, depth: u32, size: u64) -> Load {
    transfer(false, kind, depth, size)
}

const fn transfer(random: bool, kind: TransferKind, depth: u32, size: u64) -> Load {
    let writes = match kind {
        TransferKind::Read => 0,
        TransferKind::Write => 100,
    };
    Load::Transfer(Transfer { random, size, writes, depth, rate: None, layout: ClientLayout::ONE })
}

/// The metadata mix, one operation after the other.
pub(crate) const METADATA: Load = Load::Metadata { layout: ClientLayout::ONE };

/// Makes the load by clients in another layout.
pub(crate) fn laid_out(load: Load, layout: ClientLayout) -> Load {
    match load {
        Load::Transfer(transfer) => Load::Transfer(Transfer { layout, ..transfer }),
        _ => Load::Metadata { layout },
    }
}

/// Returns the unit of a load's rate.
pub(crate) fn unit(load: &Load) -> Unit {
    match load {
        Load::Transfer(transfer) => transfer.unit(),
        _ => Unit::OperationsPerSecond,
    }
}

/// The unit of a rate.
pub(crate) const fn rate_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::MegabytesPerSecond => "MB/s",
        Unit::OperationsPerSecond => "1/s",
    }
}

/// Makes a case of a flavor, which the variants of its group share or differ in.
pub(crate) fn case(group: &str, variant: &str, flavor: Flavor, load: Load) -> Case {
    let axes = Axes::Flavor { flavor: flavor.name().to_owned() };
    Case { group: group.to_owned(), variant: variant.to_owned(), unit: unit(&load), axes, load }
}

/// Measures blocks of cases, those of a block in turns, and reports each block when it is done.
///
/// # Errors
/// The failures of all cases, after the others were measured.
pub(crate) fn measure(
    blocks: Vec<Vec<Case>>,
    mut driver: NativeDriver<'_>,
    settings: Settings,
    stop: &AtomicBool,
    mut report: impl FnMut(&[CaseRecord]),
) -> anyhow::Result<()> {
    let mut record = Record::begin("", "", settings);
    let mut reported = 0;
    let mut save = |record: &Record| {
        report(record.cases.get(reported..).unwrap_or_default());
        reported = record.cases.len();
        Ok(())
    };
    let watch = RunWatch { stop, step: &mut |_| {}, save: &mut save };
    measuring::run(&mut Blocks::new(blocks), &mut driver, &mut record, watch)?;
    if stopped(stop) {
        return Ok(());
    }
    let failures = record.skipped_sentences().into_iter().chain(record.stopped_by);
    match failures.reduce(|one, other| format!("{one} {other}")) {
        Some(failures) => bail!(failures),
        None => Ok(()),
    }
}

/// The number of the next folder: one that a failure left behind, or that another server of the
/// same export has, is not used again.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// One case on sessions of its own, for benchmarks that run something else in between or beside it.
pub(crate) struct LoadedSessions<'a> {
    driver: NativeDriver<'a>,
    case: Case,
    stop: &'a AtomicBool,
}

impl<'a> LoadedSessions<'a> {
    /// Connects to a server, and fills files of `file_size` bytes in all. `name` begins the folders
    /// in the export.
    pub(crate) fn prepare(
        server: &'a mut dyn ServerSet,
        name: &str,
        (flavor, load): (Flavor, Load),
        file_size: u64,
        stop: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        let folder = format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut driver = NativeDriver::new(server, &folder, stop);
        let case = case(name, flavor.name(), flavor, load);
        let mut record = Record::begin("", "", Settings::new(1, 1.0, file_size, Vec::new()));
        driver.prepare(&case, &mut record)?;
        Ok(Self { driver, case, stop })
    }

    /// Runs one repetition, and before the first one that does not count. `None` when a signal has
    /// come.
    pub(crate) fn repeat(&mut self, round: u32, length: Duration) -> anyhow::Result<Option<Sample>> {
        if round == 0 {
            self.plain(WARM_UP)?;
        }
        let sample = self.turn(length, false)?;
        Ok(sample.map(|sample| Sample { repetition: round, ..sample }))
    }

    /// Runs for `length` and nothing before it.
    pub(crate) fn plain(&mut self, length: Duration) -> anyhow::Result<Option<Sample>> {
        self.turn(length, true)
    }

    fn turn(&mut self, length: Duration, warm_up: bool) -> anyhow::Result<Option<Sample>> {
        self.driver.measure(&self.case, &CaseTurn { length, warm_up, stop: self.stop })
    }

    /// Returns the file of the first client, below the export.
    pub(crate) fn file(&self) -> PathBuf {
        self.files().next().unwrap_or_default()
    }

    /// Returns the files of all clients, below the export.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.driver.files()
    }

    /// Removes the files and ends the sessions.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.driver.finish()
    }
}
