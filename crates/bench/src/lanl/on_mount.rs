//! cp on a mounted folder, as the paper measured. The data is at the server when cp ends: an NFS
//! client flushes when a file is closed (RFC 8881 section 10.3.1).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::carrier::{Carried, Carrier};
use super::transfer::fill;
use crate::mounted::{MountPlace, free, remove};
use crate::tools::{CP, run};
use crate::{CpuWatch, Pattern, ServerProbe};

/// Bytes of one read.
const PIECE: usize = 1 << 20;

/// A mounted folder and its probe.
#[derive(Debug)]
pub struct OnMount {
    place: Option<MountPlace>,
    server: ServerProbe,
}

impl OnMount {
    /// Takes a place on a mount; `server` is looked at where it can be.
    ///
    /// # Errors
    /// When cp is missing.
    pub fn new(place: MountPlace, server: ServerProbe) -> Result<Self> {
        CP.find()?;
        Ok(Self { place: Some(place), server })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.place.as_ref().context("the folder is gone")?.folder().join(name))
    }

    /// Times `work`, which moves the data, with the processor time of both ends.
    fn timed(&self, work: impl FnOnce() -> Result<Option<Duration>>) -> Result<Option<Carried>> {
        let variant = self.place.as_ref().map_or("", |place| &place.facts().variant);
        let cpu = CpuWatch::of_machine(&self.server);
        let done = work()?;
        let used = cpu.since(variant);
        Ok(done.map(|time| Carried { time, used }))
    }
}

/// Drops the system's cache of a file after its dirty pages are written.
///
/// # Errors
/// The system's error.
pub fn drop_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}

/// Compares two files, or two folders with the same files.
///
/// # Errors
/// Names the differences.
pub(super) fn compare(source: &Path, copy: &Path, stop: &AtomicBool) -> Result<()> {
    if source.is_dir() {
        for entry in std::fs::read_dir(source)? {
            let name = entry?.file_name();
            compare(&source.join(&name), &copy.join(&name), stop)?;
        }
        return Ok(());
    }
    let differs = || format!("{} is not what was copied there", copy.display());
    let (mut one, mut other) = (File::open(source)?, File::open(copy).with_context(differs)?);
    ensure!(one.metadata()?.len() == other.metadata()?.len(), "{}", differs());
    let (mut expected, mut found) = (vec![0; PIECE], vec![0; PIECE]);
    while !stop.load(Ordering::Relaxed) {
        let count = one.read(&mut expected)?;
        if count == 0 {
            break;
        }
        let found = found.get_mut(..count).unwrap_or_default();
        other.read_exact(found).with_context(differs)?;
        ensure!(expected.get(..count) == Some(found), "{}", differs());
    }
    Ok(())
}

impl Carrier for OnMount {
    fn put(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<Option<Carried>> {
        let path = self.path(name)?;
        self.timed(|| {
            let mut command = CP.command()?;
            // Holes and shared blocks would be no transfer.
            command.args(["--recursive", "--sparse=never", "--reflink=never"]).arg(source).arg(&path);
            Ok(run(&mut command, stop)?.map(|ran| ran.time))
        })
    }

    fn compare(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<()> {
        compare(source, &self.path(name)?, stop)
    }

    fn get(&mut self, name: &str, pattern: Pattern, stop: &AtomicBool) -> Result<Option<Carried>> {
        let path = self.path(name)?;
        self.timed(|| {
            let start = Instant::now();
            let mut file = File::open(&path).with_context(|| path.display().to_string())?;
            let (mut buffer, mut offset) = (vec![0; PIECE], 0);
            loop {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let count = fill(&mut file, &mut buffer)?;
                if count == 0 {
                    return Ok(Some(start.elapsed()));
                }
                let wrong = pattern.mismatch(offset, buffer.get(..count).unwrap_or_default());
                ensure!(wrong.is_none(), "wrong data in {} at offset {offset}", path.display());
                offset += count as u64;
            }
        })
    }

    fn forget(&mut self, name: &str) -> Result<()> {
        drop_cache(&self.path(name)?)
    }

    fn free(&mut self) -> Result<Option<u64>> {
        self.place.as_ref().map(|place| free(place.folder())).transpose()
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        remove(&self.path(name)?)
    }

    fn finish(&mut self) -> Result<()> {
        self.place.take().map_or(Ok(()), MountPlace::remove)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Pattern = Pattern(9);

    #[test]
    fn copies_are_made_compared_read_and_removed() {
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let source = dir.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let mut data = vec![0; 3 << 20];
        PATTERN.fill(0, &mut data);
        std::fs::write(source.join("a"), &data).unwrap();
        let mount = dir.path().join("mount");
        std::fs::create_dir(&mount).unwrap();
        let mut carrier =
            OnMount::new(MountPlace::claim("sys", &mount, true).unwrap(), ServerProbe::default()).unwrap();
        let carried = carrier.put(&source, "copy", &stop).unwrap().unwrap();
        assert!(
            carried.time > Duration::ZERO && carried.used.client.is_some() && carried.used.server.is_none()
        );
        carrier.compare(&source, "copy", &stop).unwrap();
        carrier.forget("copy/a").unwrap();
        assert!(carrier.get("copy/a", PATTERN, &stop).unwrap().is_some());
        assert!(carrier.get("copy/a", Pattern(8), &stop).is_err(), "another pattern");
        std::fs::write(carrier.path("copy/a").unwrap(), b"damaged").unwrap();
        assert!(carrier.compare(&source, "copy", &stop).is_err(), "a damaged copy");
        carrier.remove("copy").unwrap();
        carrier.remove("copy").unwrap();
        assert!(carrier.compare(&source, "copy", &stop).is_err(), "a missing copy");
        carrier.finish().unwrap();
        assert_eq!(std::fs::read_dir(&mount).unwrap().count(), 0);
    }

    #[test]
    fn a_copy_that_is_stopped_is_none() {
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(true));
        let mut carrier =
            OnMount::new(MountPlace::claim("sys", dir.path(), true).unwrap(), ServerProbe::default())
                .unwrap();
        assert!(carrier.put(Path::new("/bin/sh"), "copy", &stop).unwrap().is_none());
    }
}
