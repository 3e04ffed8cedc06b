//! The project's own client: no mount, no root. Small files as the Linux client writes them (OPEN, one stable WRITE, CLOSE),
//! large ones with several WRITEs at the server and a COMMIT.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use client::{
    CallOptions, Filesystem, Handle, IdentityId, OpenFile, OpenHow, Options, Ticket, read_result,
    write_result,
};
use nfs4::{FATTR4_MAXREAD, FATTR4_MAXWRITE, FATTR4_SPACE_AVAIL, Nfsstat4, StableHow4};

use super::carrier::{Carried, Carrier};
use crate::mount::enctype_name;
use crate::{Pattern, cpu};

/// Requests that are kept at the server.
const PIPELINE: usize = 16;

/// A session with a folder of its own in an export.
pub struct Native {
    filesystem: Option<Filesystem>,
    folder: String,
    handle: Handle,
    /// The export's folder on this machine, where it is known.
    beneath: Option<PathBuf>,
    server_pid: Option<u32>,
    read_size: u32,
    write_size: u32,
}

impl Native {
    /// Connects, and makes `folder` in the export. `beneath` is the folder that is exported, where it is of this machine.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses the flavor, or the user may not write there.
    pub fn connect(
        options: Options,
        export: &str,
        folder: &str,
        beneath: Option<PathBuf>,
        server_pid: Option<u32>,
    ) -> Result<Self> {
        let mut filesystem = Filesystem::mount(options, export)?;
        let made = filesystem.mkdir(folder);
        let handle = made.with_context(|| format!("no folder can be made in {export}"))?;
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
        Ok(Self { filesystem, folder, handle, beneath, server_pid, read_size, write_size })
    }

    /// Returns the encryption type of the session's Kerberos context; `None` with AUTH_SYS.
    pub fn enctype(&mut self) -> Option<&'static str> {
        let context = self.filesystem.as_mut()?.client().context(IdentityId::USER)?;
        Some(enctype_name(context.keys().enctype()))
    }

    fn filesystem(&mut self) -> Result<&mut Filesystem> {
        self.filesystem.as_mut().context("the session has ended")
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn timed(&mut self, work: impl FnOnce(&mut Self) -> Result<bool>) -> Result<Option<Carried>> {
        let server = self.server_pid.and_then(cpu::of_process);
        let (client, start) = (cpu::of_this_process(), Instant::now());
        let whole = work(self)?;
        let time = start.elapsed();
        let client_cpu = Some(cpu::of_this_process().saturating_sub(client));
        let after = self.server_pid.and_then(cpu::of_process);
        let server_cpu = server.zip(after).map(|(from, to)| to.saturating_sub(from));
        Ok(whole.then_some(Carried { time, client_cpu, server_cpu }))
    }

    /// Returns false when it was stopped.
    fn put_all(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<bool> {
        let own = self.handle.clone();
        if !source.is_dir() {
            return self.put_file(source, &own, name, stop);
        }
        let folder = self.filesystem()?.client().mkdir(&own, name.as_bytes(), 0o755)?;
        for (file, name) in entries(source)? {
            if !self.put_file(&file, &folder, &name, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put_file(&mut self, source: &Path, folder: &[u8], name: &str, stop: &AtomicBool) -> Result<bool> {
        let mut data = File::open(source).with_context(|| source.display().to_string())?;
        let size = data.metadata()?.len();
        let piece = usize::try_from(size).unwrap_or(usize::MAX).min(self.write_size as usize);
        let filesystem = self.filesystem()?;
        let file = filesystem.client().open(folder, name.as_bytes(), &OpenHow::create(0o644))?;
        let mut writer = Writer { filesystem, file: &file, ahead: VecDeque::new(), verifier: None };
        let outcome = if size <= piece as u64 {
            writer.at_once(&mut data, piece).map(|()| true)
        } else {
            writer.all(&mut data, piece, stop)
        };
        for (_, ticket) in std::mem::take(&mut writer.ahead) {
            self.filesystem()?.client().abandon(ticket);
        }
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

    fn remove_path(&mut self, path: &str) -> Result<()> {
        let filesystem = self.filesystem()?;
        match filesystem.remove(path) {
            Err(error) if error.is(Nfsstat4::NFS4ERR_NOTEMPTY) => {}
            Err(error) if error.is(Nfsstat4::NFS4ERR_NOENT) => return Ok(()),
            other => return Ok(other?),
        }
        for name in filesystem.list(path)? {
            self.remove_path(&format!("{path}/{name}"))?;
        }
        Ok(self.filesystem()?.remove(path)?)
    }
}

/// What is done with data as it arrives: its offset, its bytes.
type Check<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

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

/// A file that is being written.
struct Writer<'a> {
    filesystem: &'a mut Filesystem,
    file: &'a OpenFile,
    ahead: VecDeque<(u32, Ticket)>,
    verifier: Option<[u8; 8]>,
}

impl Writer<'_> {
    /// A file that fits into one WRITE, which then is stable: no COMMIT.
    fn at_once(&mut self, data: &mut File, size: usize) -> Result<()> {
        let mut bytes = Vec::with_capacity(size);
        data.read_to_end(&mut bytes)?;
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            let (handle, stateid) = (&self.file.handle, self.file.stateid);
            let client = self.filesystem.client();
            let written = client.write(handle, stateid, offset as u64, StableHow4::FILE_SYNC4, rest)?;
            ensure!(written.count > 0, "the server takes nothing");
            offset += written.count as usize;
        }
        Ok(())
    }

    fn all(&mut self, data: &mut File, size: usize, stop: &AtomicBool) -> Result<bool> {
        let (mut piece, mut offset) = (vec![0; size], 0);
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let count = fill(data, &mut piece)?;
            if count == 0 {
                break;
            }
            if self.ahead.len() == PIPELINE {
                self.take()?;
            }
            let options = CallOptions::default();
            let (handle, stateid) = (&self.file.handle, self.file.stateid);
            let bytes = piece.get(..count).unwrap_or_default();
            let client = self.filesystem.client();
            let ticket =
                client.submit_write(handle, stateid, offset, StableHow4::UNSTABLE4, bytes, options)?;
            self.ahead.push_back((u32::try_from(count)?, ticket));
            offset += count as u64;
        }
        while !self.ahead.is_empty() {
            self.take()?;
        }
        let committed = self.filesystem.client().commit(&self.file.handle, 0, 0)?;
        ensure!(
            self.verifier.is_none_or(|verifier| verifier == committed),
            "the server was restarted meanwhile"
        );
        Ok(true)
    }

    /// Waits for the WRITE that has been at the server for longest.
    fn take(&mut self) -> Result<()> {
        let Some((count, ticket)) = self.ahead.pop_front() else { return Ok(()) };
        let reply = self.filesystem.client().wait(ticket)?;
        let written = write_result(&reply)?;
        self.filesystem.client().recycle(reply);
        ensure!(written.count == count, "{} of {count} bytes were written", written.count);
        let first = *self.verifier.get_or_insert(written.writeverf);
        ensure!(first == written.writeverf, "the server was restarted meanwhile");
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

/// Reads an open file with several requests at the server; false when it was stopped.
fn read_through(
    filesystem: &mut Filesystem,
    file: &OpenFile,
    size: u32,
    stop: &AtomicBool,
    check: &mut Check<'_>,
) -> Result<bool> {
    let end = file.attributes.values()?.size.context("a file without a size")?;
    let (mut next, mut ahead) = (0, VecDeque::new());
    let mut read = || -> Result<bool> {
        loop {
            while next < end && ahead.len() < PIPELINE {
                let options = CallOptions::default();
                let client = filesystem.client();
                ahead.push_back((next, client.submit_read(&file.handle, file.stateid, next, size, options)?));
                next += u64::from(size);
            }
            let Some((offset, ticket)) = ahead.pop_front() else { return Ok(true) };
            let reply = filesystem.client().wait(ticket)?;
            let result = read_result(&reply)?;
            let wanted = (end - offset).min(u64::from(size));
            ensure!(result.data.len() as u64 == wanted, "{} of {wanted} bytes were read", result.data.len());
            check(offset, &result.data)?;
            filesystem.client().recycle(reply);
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
    };
    let outcome = read();
    for (_, ticket) in ahead {
        filesystem.client().abandon(ticket);
    }
    outcome
}

impl Carrier for Native {
    fn put(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<Option<Carried>> {
        self.timed(|own| own.put_all(source, name, stop))
    }

    fn compare(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<()> {
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

    /// There is nothing that it would keep.
    fn forget(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn beneath(&self, name: &str) -> Option<PathBuf> {
        Some(self.beneath.as_ref()?.join(&self.folder).join(name))
    }

    fn free(&mut self) -> Result<Option<u64>> {
        let handle = self.handle.clone();
        let wanted = nfs4::Bitmap4::of(&[FATTR4_SPACE_AVAIL]);
        let attributes = self.filesystem()?.client().getattr(&handle, wanted)?;
        Ok(attributes.values()?.space_avail)
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.path(name);
        self.remove_path(&path)
    }

    fn finish(&mut self) -> Result<()> {
        if self.filesystem.is_none() {
            return Ok(());
        }
        let folder = self.folder.clone();
        self.remove_path(&folder)?;
        match self.filesystem.take() {
            Some(filesystem) => Ok(filesystem.unmount()?),
            None => Ok(()),
        }
    }
}
