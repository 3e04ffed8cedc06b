//! File data on its way to a socket, without a copy.
//!
//! A pipe takes references to the pages of a file, and a socket takes them over (splice(2)). The
//! data waits in the pipe and not in the file, so that sending never waits for a disk.

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read, retry_on_intr};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The capacity of a pipe in bytes, which the kernel counts in whole pages: it grants this to users
/// without privileges.
const PIPE_SIZE: usize = 1 << 20;
/// The smallest page of the machine in bytes.
const PAGE_SIZE: u64 = 4096;
/// The most pipes that exist at once. Each takes two descriptors. Without one, data is copied.
#[doc(hidden)]
pub const PIPES_MAX: usize = 128;
/// The most empty pipes that are kept. Making one costs more than a copy saves.
const SPARE_MAX: usize = 32;

static SPARE: Mutex<Vec<Pipe>> = Mutex::new(Vec::new());
static PIPES: AtomicUsize = AtomicUsize::new(0);

/// An empty pipe, unless [`FileData`] has it.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn take() -> Option<Self> {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.or_else(Self::make)
    }

    fn make() -> Option<Self> {
        PIPES.fetch_update(Relaxed, Relaxed, |count| (count < PIPES_MAX).then_some(count + 1)).ok()?;
        let Ok((read, write)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else {
            PIPES.fetch_sub(1, Relaxed);
            return None;
        };
        let pipe = Self { read, write };
        fcntl_setpipe_size(&pipe.write, PIPE_SIZE).ok()?;
        Some(pipe)
    }

    /// Keeps an empty pipe for the next use.
    fn give(self) {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(self);
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Relaxed);
    }
}

/// Bytes of a file in a pipe. They are the file's pages: a change of the file before they are sent
/// shows in them.
pub struct FileData {
    pipe: Option<Pipe>,
    len: usize,
}

impl FileData {
    /// Takes up to `count` bytes of a file from `offset`, fewer only at its end. Waits for the
    /// disk.
    ///
    /// Returns `None` if the data has to be copied: no pipe is free, the range covers more pages
    /// than a pipe holds, or the file system cannot.
    ///
    /// # Errors
    /// The file system's.
    pub fn of(file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<Option<Self>> {
        let Some(pipe) = Pipe::take() else { return Ok(None) };
        let (mut at, mut len) = (offset, 0);
        while len < count {
            match splice(file, Some(&mut at), &pipe.write, None, count - len, SpliceFlags::NONBLOCK) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::INVAL) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(Self { pipe: Some(pipe), len }))
    }

    /// Returns whether a pipe holds the pages of a range.
    pub fn fits(offset: u64, count: usize) -> bool {
        let before = offset % PAGE_SIZE;
        before.saturating_add(count as u64) <= PIPE_SIZE as u64
    }

    /// Returns the number of bytes that are left.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all bytes have left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sends up to `max` bytes to a non-blocking socket, and returns how many it took. `more` says
    /// that other bytes follow at once.
    ///
    /// # Errors
    /// `WouldBlock` if the socket takes none at the moment, and the socket's.
    pub fn send(&mut self, socket: BorrowedFd<'_>, max: usize, more: bool) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let count = self.len.min(max);
        let mut flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, more || count < self.len);
        let sent = splice(&pipe.read, None, socket, None, count, flags)?;
        self.len -= sent.min(self.len);
        Ok(sent)
    }

    /// Moves the bytes to the end of `into`, for a receiver that is no socket. Takes no descriptor,
    /// of which there may be none left.
    ///
    /// # Errors
    /// The pipe's; the bytes before it have moved.
    pub fn copy_to(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        into.reserve(self.len);
        while self.len > 0 {
            match retry_on_intr(|| read(&pipe.read, spare_capacity(into)))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.len -= count.min(self.len),
            }
        }
        Ok(())
    }
}

impl Drop for FileData {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take().filter(|_| self.len == 0) {
            pipe.give();
        }
    }
}

impl fmt::Debug for FileData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileData").field("len", &self.len).finish_non_exhaustive()
    }
}

/// File data at a place in a record: behind the first `at` bytes of the record's buffer.
#[derive(Debug)]
pub struct Attachment {
    /// The bytes of the buffer before the data.
    pub at: usize,
    /// Pages of a file, which follow those bytes.
    pub data: FileData,
}

impl Attachment {
    /// Returns the whole record in one buffer.
    ///
    /// # Errors
    /// The pipe's.
    pub fn insert_into(mut self, mut record: Vec<u8>) -> io::Result<Vec<u8>> {
        let tail = record.split_off(self.at.min(record.len()));
        self.data.copy_to(&mut record)?;
        record.extend_from_slice(&tail);
        Ok(record)
    }
}

#[cfg(test)]
mod tests;
