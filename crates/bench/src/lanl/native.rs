//! The project's own client: no mount, no root. Small files as the Linux client writes them (OPEN,
//! one stable WRITE, CLOSE), large ones with several WRITEs at the server and a COMMIT.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use client::{Attributes, Filesystem, Handle, OpenHow};
use nfs4::{FATTR4_MAXREAD, FATTR4_MAXWRITE, FATTR4_SPACE_AVAIL};

use super::carrier::{Carried, Carrier};
use super::transfer::{Check, read_through, write_through};
use crate::mount::enctype_name;
use crate::native::BenchTarget;
use crate::{CpuWatch, Flavor, Pattern};

/// A session with a folder of its own in an export.
pub struct NativeCarrier {
    filesystem: Option<Filesystem>,
    folder: String,
    handle: Handle,
    /// The export's folder on this machine, where it is known.
    beneath: Option<PathBuf>,
    target: BenchTarget,
    flavor: Flavor,
    read_size: u32,
    write_size: u32,
}

impl NativeCarrier {
    /// Connects to `target`, and makes `folder` in its export. `beneath` is the folder that is
    /// exported, where it is of this machine.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses the flavor, or the user may not write there.
    pub fn connect(
        target: &BenchTarget,
        flavor: Flavor,
        folder: &str,
        beneath: Option<PathBuf>,
    ) -> Result<Self> {
        Self::begin(target, flavor, folder, beneath).map_err(|error| target.explain(error))
    }

    fn begin(target: &BenchTarget, flavor: Flavor, folder: &str, beneath: Option<PathBuf>) -> Result<Self> {
        let mut filesystem = Filesystem::mount(target.options(flavor)?, &target.export)?;
        let made = filesystem.mkdir(folder);
        let handle = made.with_context(|| format!("no folder can be made in {}", target.export))?;
        let offered = nfs4::Bitmap4::of(&[FATTR4_MAXREAD, FATTR4_MAXWRITE]);
        let offered = filesystem.client().getattr(&handle, offered)?;
        let (read, write) = {
            let values = offered.values()?;
            (values.maxread, values.maxwrite)
        };
        let least = |offer: Option<u64>, session: u32| {
            u32::try_from(offer.unwrap_or(u64::MAX)).unwrap_or(u32::MAX).clamp(4096, session.max(4096))
        };
        let read_size = least(read, filesystem.client().read_size_max());
        let write_size = least(write, filesystem.client().write_size_max());
        let folder = folder.to_owned();
        let filesystem = Some(filesystem);
        Ok(Self {
            filesystem,
            folder,
            handle,
            beneath,
            target: target.clone(),
            flavor,
            read_size,
            write_size,
        })
    }

    /// Returns the encryption type of the session's Kerberos context; `None` with AUTH_SYS.
    pub fn enctype(&mut self) -> Option<&'static str> {
        let context = self.filesystem.as_mut()?.client().context()?;
        Some(enctype_name(context.keys().enctype()))
    }

    /// Makes the session anew if the server has given it up: others may have copied for longer than
    /// a lease. Files are closed between calls of the carrier, so nothing is lost with it.
    fn refresh(&mut self) -> Result<()> {
        self.filesystem()?;
        if self.space_avail().is_err() {
            // It is not closed: that would be answered in the same way.
            self.filesystem = None;
            let options = self.target.options(self.flavor)?;
            self.filesystem = Some(Filesystem::mount(options, &self.target.export)?);
        }
        Ok(())
    }

    fn filesystem(&mut self) -> Result<&mut Filesystem> {
        self.filesystem.as_mut().context("the session has ended")
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn timed(&mut self, work: impl FnOnce(&mut Self) -> Result<bool>) -> Result<Option<Carried>> {
        self.refresh().map_err(|error| self.target.explain(error))?;
        let probe = self.target.probe();
        let (cpu, start) = (CpuWatch::of_process(&probe), Instant::now());
        let whole = work(self).map_err(|error| self.target.explain(error))?;
        let (time, used) = (start.elapsed(), cpu.since(self.flavor.name()));
        Ok(whole.then_some(Carried { time, used }))
    }

    /// Returns false when it was stopped.
    fn put_all(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<bool> {
        let own = self.handle.clone();
        if !source.is_dir() {
            return self.put_file(source, &own, name, stop);
        }
        let folder = self.filesystem()?.client().mkdir(&own, name.as_bytes(), 0o755)?;
        for (file, name) in entries(source)? {
            if stop.load(Ordering::Relaxed) || !self.put_file(&file, &folder, &name, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put_file(&mut self, source: &Path, folder: &[u8], name: &str, stop: &AtomicBool) -> Result<bool> {
        let mut data = File::open(source).with_context(|| source.display().to_string())?;
        let size = self.write_size as usize;
        let filesystem = self.filesystem()?;
        let file = filesystem.client().open(folder, name.as_bytes(), &OpenHow::create(0o644))?;
        let outcome = write_through(filesystem, &file, &mut data, size, stop);
        self.filesystem()?.close(&file)?;
        outcome.with_context(|| name.to_owned())
    }

    fn get_file(&mut self, path: &str, stop: &AtomicBool, check: &mut Check<'_>) -> Result<bool> {
        let size = self.read_size;
        let filesystem = self.filesystem()?;
        let file = filesystem.open(path, &OpenHow::read())?;
        let outcome = read_through(filesystem, &file, size, stop, check);
        self.filesystem()?.close(&file)?;
        outcome.with_context(|| path.to_owned())
    }

    fn space_avail(&mut self) -> Result<Attributes> {
        let (handle, wanted) = (self.handle.clone(), nfs4::Bitmap4::of(&[FATTR4_SPACE_AVAIL]));
        Ok(self.filesystem()?.client().getattr(&handle, wanted)?)
    }
}

/// The files of a source, by name.
fn entries(source: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(source).with_context(|| source.display().to_string())? {
        let entry = entry?;
        found.push((entry.path(), entry.file_name().to_string_lossy().into_owned()));
    }
    found.sort();
    Ok(found)
}

impl Carrier for NativeCarrier {
    fn put(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<Option<Carried>> {
        self.timed(|own| own.put_all(source, name, stop))
    }

    fn compare(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<()> {
        self.refresh()?;
        let path = self.path(name);
        let files = if source.is_dir() {
            entries(source)?.into_iter().map(|(file, name)| (file, format!("{path}/{name}"))).collect()
        } else {
            vec![(source.to_owned(), path)]
        };
        for (source, path) in files {
            let (mut original, mut expected) = (File::open(&source)?, Vec::new());
            let length = original.metadata()?.len();
            let mut seen = 0;
            let whole = self.get_file(&path, stop, &mut |offset, data| {
                expected.resize(data.len(), 0);
                original.read_exact(&mut expected)?;
                ensure!(offset == seen && expected == data, "wrong data at offset {offset}");
                seen += data.len() as u64;
                Ok(())
            })?;
            ensure!(!whole || seen == length, "{path} has {seen} of {length} bytes");
        }
        Ok(())
    }

    fn get(&mut self, name: &str, pattern: Pattern, stop: &AtomicBool) -> Result<Option<Carried>> {
        let path = self.path(name);
        self.timed(|own| {
            own.get_file(&path, stop, &mut |offset, data| match pattern.mismatch(offset, data) {
                None => Ok(()),
                Some(at) => anyhow::bail!("wrong data: byte {at} of the file is not what was written there"),
            })
        })
    }

    fn beneath(&self, name: &str) -> Option<PathBuf> {
        Some(self.beneath.as_ref()?.join(&self.folder).join(name))
    }

    fn free(&mut self) -> Result<Option<u64>> {
        Ok(self.space_avail()?.values()?.space_avail)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.refresh()?;
        let folder = self.handle.clone();
        Ok(self.filesystem()?.client().remove_all(&folder, name.as_bytes())?)
    }

    fn give_up(&mut self) -> Result<bool> {
        // Dropped without a message: the server may not answer.
        self.filesystem = None;
        self.target.ping()?;
        let options = self.target.options(self.flavor)?;
        let Ok(filesystem) = Filesystem::mount(options, &self.target.export) else { return Ok(false) };
        self.filesystem = Some(filesystem);
        Ok(self.finish().is_ok())
    }

    fn finish(&mut self) -> Result<()> {
        if self.filesystem.is_none() {
            return Ok(());
        }
        self.refresh()?;
        let folder = self.folder.clone();
        let (export, _) = self.filesystem()?.lookup("")?;
        self.filesystem()?.client().remove_all(&export, folder.as_bytes())?;
        match self.filesystem.take() {
            Some(filesystem) => Ok(filesystem.unmount()?),
            None => Ok(()),
        }
    }
}
