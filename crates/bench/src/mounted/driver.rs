//! Loads on mounts: by fio and git, on a fixed schedule by threads of our own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::fio::{self, FioJob};
use super::git::BareRepository;
use super::{MountPlace, MountStats, ensure_room, scheduled};
use crate::counters::{Counters, add};
use crate::measuring::{Case, CaseDriver, CaseTurn, Load, Record, Sample, Transfer};
use crate::tools::{FIO, GIT, run};
use crate::workload::together;
use crate::{CpuWatch, ServerProbe};

/// Where the places of variants come from.
pub trait MountPlaces {
    /// Makes a folder on the mount of a variant, over `connections` connections if they are given.
    ///
    /// # Errors
    /// The message of mount, or the reason why the mount is unsuitable.
    fn place(&mut self, variant: &str, connections: Option<u32>) -> Result<MountPlace>;

    /// Ends the mounts that were made for a number of connections; no place is on them any more.
    ///
    /// # Errors
    /// When one is still in use.
    fn unmount(&mut self) -> Result<()>;
}

/// The driver of loads on Linux mounts.
pub struct OnMounts<'a> {
    places: &'a mut dyn MountPlaces,
    server: ServerProbe,
    stop: &'a AtomicBool,
    file_size: u64,
    held: BTreeMap<String, MountPlace>,
    /// Connections of the mounts that are held; none where it does not matter how many.
    connections: Option<u32>,
    /// Whether the number of connections matters even where it is one.
    by_connections: bool,
    repository: Option<(Load, BareRepository)>,
    /// Folders that could not be removed.
    leftovers: Vec<PathBuf>,
}

impl<'a> OnMounts<'a> {
    /// Makes places as they are needed; `file_size` is that of the files of all clients of a case
    /// together.
    pub fn new(
        places: &'a mut dyn MountPlaces,
        file_size: u64,
        server: ServerProbe,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            places,
            server,
            stop,
            file_size,
            held: BTreeMap::new(),
            connections: None,
            by_connections: false,
            repository: None,
            leftovers: Vec::new(),
        }
    }

    /// Also requests one connection explicitly, instead of taking the mount as it is.
    pub fn by_connections(mut self) -> Self {
        self.by_connections = true;
        self
    }

    fn wanted(&self, case: &Case) -> Option<u32> {
        let connections = case.load.layout().connections;
        (self.by_connections || connections > 1).then_some(connections)
    }

    fn folder(&self, variant: &str) -> Result<&MountPlace> {
        self.held.get(variant).context("the side was not prepared")
    }

    fn job(&self, transfer: &Transfer, length: Duration) -> FioJob {
        let clients = transfer.layout.clients.max(1);
        let each = self.file_size / u64::from(clients);
        FioJob {
            random: transfer.random,
            size: transfer.size,
            writes: transfer.writes,
            depth: transfer.depth.max(1),
            clients,
            // Whole requests, and at least as many as are in flight.
            file_size: each
                .max(transfer.size * u64::from(transfer.depth.max(1)))
                .next_multiple_of(transfer.size),
            length,
        }
    }

    fn transfer(&self, place: &MountPlace, transfer: &Transfer, length: Duration) -> Result<Option<Sample>> {
        // Answers of the client's cache would not measure the server.
        let direct = place.facts().is_nfs();
        let job = self.job(transfer, length);
        let before = direct.then(|| MountStats::of(place.mount_point())).transpose()?;
        let sample = match transfer.rate {
            Some(rate) => self.on_schedule(job, rate, place, direct),
            None => self.by_fio(job, place, direct),
        };
        let Some(mut sample) = sample? else { return Ok(None) };
        if let Some(before) = before {
            sample.counters.extend(MountStats::of(place.mount_point())?.since(&before));
        }
        Ok(Some(sample))
    }

    fn by_fio(&self, job: FioJob, place: &MountPlace, direct: bool) -> Result<Option<Sample>> {
        let mut command = job.command(place.folder(), direct)?;
        let cpu = CpuWatch::of_machine(&self.server);
        let Some(ran) = run(&mut command, self.stop)? else { return Ok(None) };
        let used = cpu.since(&place.facts().variant);
        let fio::Measured { sample, jobs_cpu } = fio::parse(&ran.stdout)?;
        // fio is at work for some tenths of a second before and after its jobs; the server is not.
        let used = used.without_client(ran.cpu.saturating_sub(jobs_cpu)).sample();
        let Sample { operations, bytes, seconds, latency, .. } = sample;
        Ok(Some(Sample { operations, bytes, seconds, latency, ..used }))
    }

    fn on_schedule(
        &self,
        job: FioJob,
        rate: f64,
        place: &MountPlace,
        direct: bool,
    ) -> Result<Option<Sample>> {
        let cpu = CpuWatch::of_machine(&self.server);
        let Some((tally, took)) = scheduled::run(job, rate, place.folder(), direct, self.stop)? else {
            return Ok(None);
        };
        let sample = tally.sample(took.as_secs_f64(), &cpu.since(&place.facts().variant));
        Ok(sample.map(|sample| Sample { offered: Some(rate), ..sample }))
    }

    fn git(&self, place: &MountPlace, clients: u32, length: Duration) -> Result<Option<Sample>> {
        let (_, repository) = self.repository.as_ref().context("there is no repository")?;
        let (cpu, start) = (CpuWatch::of_machine(&self.server), Instant::now());
        let work = |client: usize, ()| -> Result<Option<Counters>> {
            let copy = place.folder().join(format!("git-{client}"));
            let mut all = Counters::new();
            loop {
                let Some(counters) = repository.turn(&copy, self.stop)? else { return Ok(None) };
                add(&mut all, counters);
                if start.elapsed() >= length {
                    return Ok(Some(all));
                }
            }
        };
        let parts = together((0..clients.max(1)).map(drop), work);
        let (seconds, used) = (start.elapsed().as_secs_f64(), cpu.since(&place.facts().variant));
        let mut counters = Counters::new();
        for part in parts {
            let Some(part) = part? else { return Ok(None) };
            add(&mut counters, part);
        }
        let operations =
            counters.iter().filter(|(name, _)| name.ends_with("_operations")).map(|(_, count)| count).sum();
        Ok(Some(Sample { operations, seconds, counters, ..used.sample() }))
    }
}

fn check(case: &Case) -> Result<()> {
    let layout = case.load.layout();
    ensure!(
        layout.lag_max.is_none() && layout.server_cpu.is_none() && layout.principals == 1,
        "this is measured by the project's client only"
    );
    ensure!(
        layout.slots.is_none() && layout.rsize.is_none() && layout.wsize.is_none() && !layout.exceeds_offer,
        "slots, rsize and wsize are those of the mount: take the mount options (--mount-options rsize=65536)"
    );
    match &case.load {
        Load::Transfer(_) => {
            // It also lays out the files of a schedule.
            FIO.find().map(drop)
        }
        Load::Git { .. } => GIT.find().map(drop),
        Load::Metadata { .. } => bail!("this is measured by the project's client only"),
        _ => bail!("this is measured by `bench lanl`"),
    }
}

/// Lays the files out where they are not there yet, so that the first repetition does not.
fn lay_out(job: FioJob, folder: &Path, stop: &AtomicBool) -> Result<()> {
    let whole = |client| fio::file(folder, client).metadata().is_ok_and(|file| file.len() >= job.file_size);
    if (0..job.clients).all(whole) {
        return Ok(());
    }
    ensure_room(folder, job.file_size * u64::from(job.clients), "the files of fio")?;
    let once = FioJob { writes: 0, length: Duration::from_millis(1), ..job };
    run(&mut once.command(folder, false)?, stop).map(drop)
}

impl CaseDriver for OnMounts<'_> {
    fn begin(&mut self, cases: &[Case]) -> Result<()> {
        let wanted = cases.first().and_then(|case| self.wanted(case));
        if wanted != self.connections {
            // The kernel shares the connections of a server among its mounts: the others have to go
            // first.
            self.finish()?;
            self.places.unmount()?;
            self.connections = wanted;
        }
        Ok(())
    }

    fn prepare(&mut self, case: &Case, record: &mut Record) -> Result<()> {
        check(case)?;
        if !self.held.contains_key(&case.variant) {
            let place = self.places.place(&case.variant, self.connections)?;
            place.tell(record)?;
            self.held.insert(case.variant.clone(), place);
        }
        match &case.load {
            Load::Transfer(transfer) => {
                let job = self.job(transfer, Duration::ZERO);
                lay_out(job, self.folder(&case.variant)?.folder(), self.stop)
            }
            Load::Git { seed, repository, .. } => {
                if self.repository.as_ref().is_none_or(|(other, _)| *other != case.load) {
                    let made = match repository {
                        Some(path) => BareRepository::of(path, self.stop)?,
                        None => BareRepository::draw(*seed, self.stop)?,
                    };
                    self.repository = Some((case.load.clone(), made.context("interrupted")?));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn measure(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        let place = self.folder(&case.variant)?;
        let measured = match &case.load {
            Load::Transfer(transfer) => self.transfer(place, transfer, turn.length),
            Load::Git { layout, .. } => self.git(place, layout.clients, turn.length),
            _ => bail!("this is measured by `bench lanl`"),
        };
        // An error after an interruption is not a failure.
        if turn.stop.load(Ordering::Relaxed) { Ok(None) } else { measured }
    }

    fn finish(&mut self) -> Result<()> {
        let mut first = Ok(());
        for place in std::mem::take(&mut self.held).into_values() {
            let folder = place.folder().to_owned();
            let removed = place.remove();
            if removed.is_err() {
                self.leftovers.push(folder);
            }
            first = first.and(removed);
        }
        first
    }

    fn left_behind(&mut self) -> Vec<String> {
        let sentence = |folder: &PathBuf| {
            format!("The folder {} could not be removed and stays there.", folder.display())
        };
        self.leftovers.iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test holds its places itself.
    struct NoPlaces;

    impl MountPlaces for NoPlaces {
        fn place(&mut self, _variant: &str, _connections: Option<u32>) -> Result<MountPlace> {
            bail!("not asked for")
        }

        fn unmount(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_processor_time_of_a_server_counts_as_it_is_however_long_fio_takes_to_start() {
        if let Err(missing) = FIO.find() {
            return eprintln!("skipped: {missing}");
        }
        let (dir, stop, mut places) = (tempfile::tempdir().unwrap(), AtomicBool::new(false), NoPlaces);
        // This process stands for the server, and works for as long as fio runs.
        let own = std::process::id();
        let driver =
            OnMounts::new(&mut places, 1 << 20, ServerProbe { pid: Some(own), metrics: None }, &stop);
        let place = MountPlace::claim("sys", dir.path(), true).unwrap();
        let transfer = Transfer { random: true, size: 4096, depth: 4, ..Transfer::default() };
        let ended = AtomicBool::new(false);
        let (sample, used) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
            let before = crate::cpu::of_process(own).unwrap();
            let sample = driver.transfer(&place, &transfer, Duration::from_millis(30));
            let used = crate::cpu::of_process(own).unwrap() - before;
            ended.store(true, Ordering::Relaxed);
            (sample, used)
        });
        let server = sample.unwrap().unwrap().server_cpu_seconds.unwrap();
        assert!(server > used.as_secs_f64() / 2.0, "{server} s of {used:?}");
    }

    #[test]
    fn folders_that_cannot_be_removed_are_named_and_the_others_are_removed() {
        let (dir, stop, mut places) = (tempfile::tempdir().unwrap(), AtomicBool::new(false), NoPlaces);
        let mut driver = OnMounts::new(&mut places, 1 << 20, ServerProbe::default(), &stop);
        for variant in ["krb5", "krb5p", "sys"] {
            let mount = dir.path().join(variant);
            std::fs::create_dir(&mount).unwrap();
            driver.held.insert(variant.to_owned(), MountPlace::claim(variant, &mount, true).unwrap());
        }
        let folder = |driver: &OnMounts<'_>, variant: &str| driver.held[variant].folder().to_owned();
        let (stays, goes) = (folder(&driver, "krb5"), folder(&driver, "sys"));
        // A file in place of the mount lets no folder in it be removed.
        std::fs::remove_dir_all(dir.path().join("krb5")).unwrap();
        std::fs::write(dir.path().join("krb5"), "").unwrap();
        let error = driver.finish().unwrap_err();
        assert!(error.to_string().contains(&stays.display().to_string()), "{error}");
        assert!(!goes.exists() && driver.held.is_empty());
        assert_eq!(
            driver.left_behind(),
            [format!("The folder {} could not be removed and stays there.", stays.display())]
        );
    }
}
