//! The bytes of one file, with several requests at the server.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use client::{CallOptions, Filesystem, OpenFile, Ticket, write_result};
use nfs4::StableHow4;

/// Requests that are kept at the server.
const PIPELINE: usize = 16;

/// Checks data as it arrives: its offset, its bytes.
pub(super) type Check<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

/// Writes an open file, in pieces of `size` bytes; false when it was stopped.
///
/// # Errors
/// The server's, and a restart of it in the middle, after which a COMMIT says nothing of earlier
/// WRITEs (RFC 8881 section 18.3).
pub(super) fn write_through(
    filesystem: &mut Filesystem,
    file: &OpenFile,
    data: &mut File,
    size: usize,
    stop: &AtomicBool,
) -> Result<bool> {
    let length = data.metadata()?.len();
    let piece = usize::try_from(length).unwrap_or(usize::MAX).min(size);
    let mut writer = FileWriter { filesystem, file, ahead: VecDeque::new(), verifier: None };
    let outcome = if length <= piece as u64 {
        writer.at_once(data, piece).map(|()| true)
    } else {
        writer.all(data, piece, stop)
    };
    for (_, _, ticket) in std::mem::take(&mut writer.ahead) {
        writer.filesystem.client().abandon(ticket);
    }
    outcome
}

/// A file that is being written.
struct FileWriter<'a> {
    filesystem: &'a mut Filesystem,
    file: &'a OpenFile,
    /// Offsets and lengths of the WRITEs at the server.
    ahead: VecDeque<(u64, u32, Ticket)>,
    verifier: Option<[u8; 8]>,
}

impl FileWriter<'_> {
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
                self.take(data)?;
            }
            let options = CallOptions::default();
            let (handle, stateid) = (&self.file.handle, self.file.stateid);
            let bytes = piece.get(..count).unwrap_or_default();
            let client = self.filesystem.client();
            let ticket =
                client.submit_write(handle, stateid, offset, StableHow4::UNSTABLE4, bytes, options)?;
            self.ahead.push_back((offset, u32::try_from(count)?, ticket));
            offset += count as u64;
        }
        while !self.ahead.is_empty() {
            self.take(data)?;
        }
        let committed = self.filesystem.client().commit(&self.file.handle, 0, 0)?;
        ensure!(
            self.verifier.is_none_or(|verifier| verifier == committed),
            "the server was restarted meanwhile"
        );
        Ok(true)
    }

    /// Waits for the WRITE that has been at the server for longest. One that the server puts off is
    /// made again.
    fn take(&mut self, data: &File) -> Result<()> {
        let Some((offset, count, ticket)) = self.ahead.pop_front() else { return Ok(()) };
        let client = self.filesystem.client();
        let finished = client.wait(ticket).and_then(|reply| {
            let written = write_result(&reply);
            client.recycle(reply);
            written
        });
        let written = match finished {
            Err(error) if error.is_temporary() => {
                let mut bytes = vec![0; count as usize];
                data.read_exact_at(&mut bytes, offset)?;
                client.write(&self.file.handle, self.file.stateid, offset, StableHow4::UNSTABLE4, &bytes)?
            }
            finished => finished?,
        };
        ensure!(written.count == count, "{} of {count} bytes were written", written.count);
        let first = *self.verifier.get_or_insert(written.writeverf);
        ensure!(first == written.writeverf, "the server was restarted meanwhile");
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

/// Reads an open file with several requests in flight; returns false when it was stopped.
///
/// # Errors
/// The server's error, and the error of `check`.
pub(super) fn read_through(
    filesystem: &mut Filesystem,
    file: &OpenFile,
    size: u32,
    stop: &AtomicBool,
    check: &mut Check<'_>,
) -> Result<bool> {
    let end = file.attributes.values()?.size.context("a file without a size")?;
    let mut whole = true;
    filesystem.read_pieces(file, size, |offset, data| {
        let wanted = (end - offset).min(u64::from(size));
        ensure!(data.len() as u64 == wanted, "{} of {wanted} bytes were read", data.len());
        check(offset, data)?;
        whole = !stop.load(Ordering::Relaxed);
        Ok(if whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(whole)
}
