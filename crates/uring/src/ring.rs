//! Operations in, completions out.

#![allow(unsafe_code)]

use crate::pool::{Chunk, GROUP, Pool};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

/// How often the end of cancelled operations is waited for when a ring is dropped, a hundredth of a second each.
const DRAIN_TRIES_MAX: u32 = 100;

const POLLIN: u32 = 1;
const POLLOUT: u32 = 4;

/// `recv` is not tried before the socket has something.
const IORING_RECVSEND_POLL_FIRST: u16 = 1;

/// The error of a wait that ended with its time.
const ETIME: i32 = 62;

/// Sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Operations that are told to the kernel at once; more are told in parts.
    pub entries: u32,
    /// Buffers to receive into, a power of two.
    pub buffers: u16,
    /// Bytes of each.
    pub buffer_size: usize,
}

/// What to wait for on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Something to read, or the end.
    Input,
    /// Room to write, or the end.
    Output,
}

/// An operation that has come to its end.
#[derive(Debug)]
pub struct Completion {
    /// The tag that it was started with.
    pub tag: u64,
    /// Its result: bytes for [`Ring::receive`].
    pub result: io::Result<usize>,
    /// What was received; to be given back.
    pub chunk: Option<Chunk>,
    /// Whether the socket has more to read.
    pub more: bool,
}

/// One io_uring instance for one thread, which runs its deferred work only while it waits.
pub struct Ring {
    ring: IoUring,
    /// Always there until the ring is dropped.
    pool: Option<Pool>,
    /// Files of operations that the kernel has yet to hear of; from then on it keeps them open itself.
    queued: Vec<Arc<dyn AsFd>>,
    /// Operations without their completion.
    under_way: usize,
    /// The kernel lets one thread alone use the ring.
    _thread: PhantomData<*const ()>,
}

impl Ring {
    /// Makes a ring for this thread.
    ///
    /// # Errors
    /// When the kernel has no io_uring, refuses it to this process, or is older than 6.1.
    pub fn new(options: &Options) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(options.entries.saturating_mul(4))
            .build(options.entries)?;
        let pool = Pool::register(&ring, options.buffers, options.buffer_size)?;
        Ok(Self { ring, pool: Some(pool), queued: Vec::new(), under_way: 0, _thread: PhantomData })
    }

    /// Waits once for a file to be ready.
    ///
    /// # Errors
    /// When the kernel takes no more operations.
    pub fn poll(&mut self, file: Arc<dyn AsFd>, events: Events, tag: u64) -> io::Result<()> {
        let events = match events {
            Events::Input => POLLIN,
            Events::Output => POLLOUT,
        };
        let entry = opcode::PollAdd::new(descriptor(&file), events).build();
        self.push(entry.user_data(tag), Some(file))
    }

    /// Receives once from a socket, into a buffer that is taken when something is there.
    ///
    /// # Errors
    /// When the kernel takes no more operations.
    pub fn receive(&mut self, socket: Arc<dyn AsFd>, tag: u64) -> io::Result<()> {
        let entry = opcode::Recv::new(descriptor(&socket), std::ptr::null_mut(), 0)
            .buf_group(GROUP)
            .ioprio(IORING_RECVSEND_POLL_FIRST)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.push(entry.user_data(tag), Some(socket))
    }

    /// Cancels the operation that was started with `of`; both complete.
    ///
    /// # Errors
    /// When the kernel takes no more operations.
    pub fn cancel(&mut self, of: u64, tag: u64) -> io::Result<()> {
        self.push(opcode::AsyncCancel::new(of).build().user_data(tag), None)
    }

    fn push(&mut self, entry: squeue::Entry, file: Option<Arc<dyn AsFd>>) -> io::Result<()> {
        if self.ring.submission().is_full() {
            self.ring.submit()?;
            self.let_go();
        }
        // SAFETY: the operations of this file name no memory of a caller. A receive writes into buffers of the pool,
        // which outlives it (see `drop`), and the file stays open until the kernel has its own hold on it.
        unsafe { self.ring.submission().push(&entry).map_err(|_| io::ErrorKind::OutOfMemory)? };
        self.queued.extend(file);
        self.under_way += 1;
        Ok(())
    }

    /// Lets go of the files of operations, once the kernel knows all of them.
    fn let_go(&mut self) {
        if self.ring.submission().is_empty() {
            self.queued.clear();
        }
    }

    /// Tells the kernel all operations, waits until one is complete or the time is over, and appends what is complete.
    ///
    /// With no time at all and nothing to tell it costs no system call unless something is complete.
    ///
    /// # Errors
    /// When the kernel refuses the wait; operations may be complete all the same.
    pub fn wait(&mut self, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()> {
        let waited = self.enter(timeout);
        self.let_go();
        let Self { ring, pool, under_way, .. } = self;
        for entry in ring.completion() {
            *under_way = under_way.saturating_sub(1);
            completions.push(completion(&entry, pool.as_mut()));
        }
        waited
    }

    fn enter(&mut self, timeout: Duration) -> io::Result<()> {
        let (told, has_work) = {
            let submission = self.ring.submission();
            (submission.is_empty(), submission.taskrun() || submission.cq_overflow())
        };
        let complete = !self.ring.completion().is_empty();
        let result = if timeout.is_zero() || complete {
            if told && !has_work {
                return Ok(());
            }
            self.ring.submit()
        } else {
            let time = Timespec::from(timeout);
            self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(ETIME) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The bytes that were received.
    pub fn bytes(&self, chunk: &Chunk) -> &[u8] {
        self.pool.as_ref().map_or(&[], |pool| pool.bytes(chunk))
    }

    /// Makes a buffer free again.
    pub fn give_back(&mut self, chunk: Chunk) {
        if let Some(pool) = &mut self.pool {
            pool.give_back(chunk);
        }
    }

    /// Bytes that one receive brings at most.
    pub fn buffer_size(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::size)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let _ = self.ring.submit();
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let mut completions = Vec::new();
        for _ in 0..DRAIN_TRIES_MAX {
            if self.under_way == 0 {
                return;
            }
            let _ = self.wait(Duration::from_millis(10), &mut completions);
        }
        // The kernel may still write into the buffers: they must stay.
        std::mem::forget(self.pool.take());
    }
}

fn descriptor(file: &Arc<dyn AsFd>) -> Fd {
    Fd(file.as_fd().as_raw_fd())
}

fn completion(entry: &cqueue::Entry, pool: Option<&mut Pool>) -> Completion {
    let result = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
    let length = *result.as_ref().unwrap_or(&0);
    let chunk =
        pool.zip(cqueue::buffer_select(entry.flags())).and_then(|(pool, index)| pool.take(index, length));
    Completion { tag: entry.user_data(), result, chunk, more: cqueue::sock_nonempty(entry.flags()) }
}
