//! Measures the cases: makes sources and variants as they are needed, copies, compares, removes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::carrier::{Carried, Carrier};
use super::on_mount::drop_cache;
use super::sources::{Contents, Sources};
use crate::MountFacts;
use crate::Pattern;
use crate::measuring::{Case, CaseDriver, CaseTurn, CopyLoad, Fetch, Load, Record, Sample};
use crate::mounted::ensure_room;
use crate::native::HANGS;

/// The contents of the file for reads.
const PATTERN: Pattern = Pattern(0x6c61_6e6c_0000_0001);

/// How much of a server's room is left to others, in bytes.
const SPARE: u64 = 64 << 20;

/// Writing to this file drops the kernel's clean caches (proc(5)).
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// A variant, ready to copy.
pub struct CopyWay {
    /// The program or client that copies.
    pub carrier: Box<dyn Carrier>,
    /// Encryption type of its Kerberos context or ticket.
    pub enctype: Option<String>,
    /// The properties of the mount, if it is one.
    pub facts: Option<MountFacts>,
}

/// The way to empty the server's cache of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerCache {
    /// The cache stays as the last copy left it.
    #[default]
    Unknown,
    /// Its file beneath the server is known: the system is asked to forget that one
    /// (POSIX_FADV_DONTNEED).
    File,
    /// The server is on this machine and we are root: all that is cached is forgotten
    /// (drop_caches).
    All,
}

/// Makes a variant, by its name.
pub type CopyWays<'a> = dyn FnMut(&str) -> Result<CopyWay> + 'a;

/// The driver of copies.
pub struct Copier<'a> {
    ways: &'a mut CopyWays<'a>,
    sources: Sources,
    stop: &'a AtomicBool,
    cache: ServerCache,
    /// Bytes of all sources, and the most that a variant has at its server at a time.
    room: (u64, u64),
    carriers: BTreeMap<String, Box<dyn Carrier>>,
    /// Files to read that are at the server already.
    there: BTreeSet<(String, u64)>,
    /// Variants whose folder could not be removed, after a failure or at the end.
    leftovers: BTreeSet<String>,
}

impl<'a> Copier<'a> {
    /// Makes variants with `ways` as they are needed. `room` is the result of [`super::room`]; the
    /// room for the sources is checked now, the room at each server before its first copy.
    ///
    /// # Errors
    /// No room for the sources.
    pub fn new(
        ways: &'a mut CopyWays<'a>,
        sources: Sources,
        room: (u64, u64),
        cache: ServerCache,
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        ensure_room(sources.folder(), room.0, "the files that are copied")?;
        let (carriers, there, leftovers) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Ok(Self { ways, sources, stop, cache, room, carriers, there, leftovers })
    }

    fn carrier(&mut self, variant: &str) -> Result<&mut Box<dyn Carrier>> {
        self.carriers.get_mut(variant).context("the side was not prepared")
    }

    fn connect(&mut self, variant: &str, record: &mut Record) -> Result<()> {
        if self.carriers.contains_key(variant) {
            return Ok(());
        }
        let mut way = (self.ways)(variant)?;
        let same = way.facts.map_or(Ok(()), |facts| facts.enter(record));
        if let Err(error) = same.and_then(|()| self.ensure_room(way.carrier.as_mut())) {
            let _ = way.carrier.finish();
            return Err(error);
        }
        let environment = &mut record.environment;
        environment.enctype = environment.enctype.take().or(way.enctype);
        self.carriers.insert(variant.to_owned(), way.carrier);
        Ok(())
    }

    /// Checks that there is room for a variant's copies, and for the sources that are still to be
    /// made where these are on the same file system.
    fn ensure_room(&self, carrier: &mut dyn Carrier) -> Result<()> {
        // A server that does not tell is found out when it is full.
        let Ok(Some(free)) = carrier.free() else { return Ok(()) };
        let (sources, copies) = self.room;
        let shared = carrier.beneath("").is_some_and(|path| same_file_system(&path, self.sources.folder()));
        let more = if shared { sources.saturating_sub(self.sources.made()?) } else { 0 };
        let needed = copies.saturating_add(more).saturating_add(SPARE);
        let beside = if more > 0 { " with the files that are copied" } else { "" };
        ensure!(
            free >= needed,
            "{} MB are free where the copies go, and they need {} MB{beside}; make them smaller with --scale",
            free / 1_000_000,
            needed.div_ceil(1_000_000)
        );
        Ok(())
    }

    fn source(&self, copy: &CopyLoad) -> Result<std::path::PathBuf> {
        let made = match (copy.files, copy.zeros) {
            (1, true) => self.sources.file(copy.size, Contents::Zeros, self.stop)?,
            (1, false) => self.sources.file(copy.size, Contents::Random, self.stop)?,
            (files, _) => self.sources.files(files, copy.size, self.stop)?,
        };
        made.context("interrupted")
    }

    /// Brings the file that is to be read to the server, once.
    fn bring(&mut self, variant: &str, fetch: &Fetch) -> Result<()> {
        let key = (variant.to_owned(), fetch.size);
        if self.there.contains(&key) {
            return Ok(());
        }
        let made = self.sources.file(fetch.size, Contents::Checked(PATTERN), self.stop)?;
        let source = made.context("interrupted")?;
        let stop = self.stop;
        let carrier = self.carrier(variant)?;
        carrier.put(&source, &name_of(fetch), stop)?.context("interrupted")?;
        self.there.insert(key);
        Ok(())
    }

    fn copy(&mut self, variant: &str, copy: &CopyLoad, warm_up: bool) -> Result<Option<Sample>> {
        let source = self.source(copy)?;
        let times = if warm_up { 1 } else { copy.times.max(1) };
        let stop = self.stop;
        let carrier = self.carrier(variant)?;
        let carried = put(carrier.as_mut(), &source, times, stop);
        let compared = match &carried {
            // The warm-up compares the copy, untimed, because a wrong copy may be fast.
            Ok(Some(_)) if warm_up => carrier.compare(&source, &copy_name(0), stop),
            _ => Ok(()),
        };
        let removed = (0..times).try_for_each(|number| carrier.remove(&copy_name(number)));
        // The first error is the one to report.
        let carried = carried?;
        compared?;
        removed?;
        let times = u64::from(times);
        Ok(carried.map(|carried| sample(carried, copy.files * times, copy.bytes() * times)))
    }

    fn fetch(&mut self, variant: &str, fetch: &Fetch) -> Result<Option<Sample>> {
        let (name, stop, cache) = (name_of(fetch), self.stop, self.cache);
        let carrier = self.carrier(variant)?;
        if fetch.client_cold {
            carrier.forget(&name)?;
        }
        if fetch.server_cold {
            make_cold(carrier.as_ref(), &name, cache)?;
        }
        let carried = carrier.get(&name, PATTERN, stop)?;
        Ok(carried.map(|carried| sample(carried, 1, fetch.size)))
    }
}

fn same_file_system(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    device(one).is_some_and(|one| Some(one) == device(other))
}

fn name_of(fetch: &Fetch) -> String {
    format!("read-{}", fetch.size)
}

fn copy_name(number: u32) -> String {
    format!("copy-{number}")
}

fn put(carrier: &mut dyn Carrier, source: &Path, times: u32, stop: &AtomicBool) -> Result<Option<Carried>> {
    let mut all = Carried::nothing();
    for number in 0..times {
        match carrier.put(source, &copy_name(number), stop)? {
            Some(carried) => all.add(carried),
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

fn make_cold(carrier: &dyn Carrier, name: &str, cache: ServerCache) -> Result<()> {
    match cache {
        ServerCache::File => drop_cache(&carrier.beneath(name).context("the server's file is not known")?),
        ServerCache::All => {
            nix::unistd::sync();
            std::fs::write(DROP_CACHES, "3").context(DROP_CACHES)
        }
        ServerCache::Unknown => bail!("the server's cache cannot be made cold"),
    }
}

fn sample(carried: Carried, operations: u64, bytes: u64) -> Sample {
    Sample {
        operations,
        bytes,
        // A clock that stood still would make a rate of infinity.
        seconds: carried.time.as_secs_f64().max(1e-9),
        ..carried.used.sample()
    }
}

impl CaseDriver for Copier<'_> {
    fn begin(&mut self, _cases: &[Case]) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, case: &Case, record: &mut Record) -> Result<()> {
        self.connect(&case.variant, record)?;
        match &case.load {
            Load::Copy(copy) => self.source(copy).map(drop),
            Load::Fetch(fetch) => self.bring(&case.variant, fetch),
            _ => bail!("files are copied here, nothing else"),
        }
    }

    fn measure(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        let measured = match &case.load {
            Load::Copy(copy) => self.copy(&case.variant, copy, turn.warm_up),
            Load::Fetch(fetch) => self.fetch(&case.variant, fetch),
            _ => bail!("files are copied here, nothing else"),
        };
        // An error after an interruption is not a failure.
        if turn.stop.load(Ordering::Relaxed) { Ok(None) } else { measured }
    }

    fn give_up(&mut self, case: &Case) -> Result<()> {
        self.there.retain(|(variant, _)| *variant != case.variant);
        let Some(mut carrier) = self.carriers.remove(&case.variant) else { return Ok(()) };
        if !carrier.give_up()? {
            self.leftovers.insert(case.variant.clone());
        }
        Ok(())
    }

    fn left_behind(&mut self) -> Vec<String> {
        let folders = self.leftovers.iter().map(|variant| crate::folder_name(Some(variant)));
        folders
            .map(|folder| format!("The folder {folder} could not be removed and stays at the server."))
            .collect()
    }

    fn finish(&mut self) -> Result<()> {
        let carriers = std::mem::take(&mut self.carriers);
        finish_all(carriers, &mut self.leftovers, HANGS)
    }
}

/// Finishes all variants and returns the first error; `leftovers` gets the variants that fail.
/// After one that takes `hangs` to fail, the others are given up, which asks first whether the
/// server is gone.
fn finish_all(
    carriers: BTreeMap<String, Box<dyn Carrier + '_>>,
    leftovers: &mut BTreeSet<String>,
    hangs: Duration,
) -> Result<()> {
    let (mut first, mut hung) = (Ok(()), false);
    for (variant, mut carrier) in carriers {
        let begun = Instant::now();
        let finished = if hung {
            carrier.give_up().and_then(|removed| removed.then_some(()).context("its folder stays"))
        } else {
            carrier.finish()
        };
        hung |= finished.is_err() && begun.elapsed() >= hangs;
        if finished.is_err() {
            leftovers.insert(variant.clone());
        }
        first = first.and(finished.context(variant));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A variant that ends or fails to, and the record of its calls.
    struct FakeCarrier<'a>(bool, &'a RefCell<Vec<&'static str>>);

    impl Carrier for FakeCarrier<'_> {
        fn put(&mut self, _: &Path, _: &str, _: &AtomicBool) -> Result<Option<Carried>> {
            bail!("not asked for")
        }

        fn compare(&mut self, _: &Path, _: &str, _: &AtomicBool) -> Result<()> {
            bail!("not asked for")
        }

        fn free(&mut self) -> Result<Option<u64>> {
            bail!("not asked for")
        }

        fn remove(&mut self, _: &str) -> Result<()> {
            bail!("not asked for")
        }

        fn give_up(&mut self) -> Result<bool> {
            self.1.borrow_mut().push("give_up");
            Ok(self.0)
        }

        fn finish(&mut self) -> Result<()> {
            self.1.borrow_mut().push("finish");
            ensure!(self.0, "NFS4ERR_ACCESS");
            Ok(())
        }
    }

    #[test]
    fn a_variant_that_cannot_be_removed_is_named_and_the_others_are_removed() {
        let second = Duration::from_secs(1);
        for (hangs, calls) in [(second, ["finish"; 3]), (Duration::ZERO, ["finish", "give_up", "give_up"])] {
            let (called, mut leftovers) = (RefCell::new(Vec::new()), BTreeSet::new());
            let ending = |variant: &str, ends| -> (String, Box<dyn Carrier + '_>) {
                (variant.to_owned(), Box::new(FakeCarrier(ends, &called)))
            };
            let all = [ending("krb5", false), ending("krb5p", true), ending("sys", false)];
            let error = finish_all(all.into(), &mut leftovers, hangs).unwrap_err();
            assert_eq!(format!("{error:#}"), "krb5: NFS4ERR_ACCESS");
            assert_eq!(called.take(), calls);
            assert!(leftovers.into_iter().eq(["krb5", "sys"]));
        }
    }
}
