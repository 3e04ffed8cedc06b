//! Descriptors that find the data and holes of open files.

use crate::descriptor::Descriptor;
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Files that keep a second descriptor for questions about their extents until they are closed.
/// Others are opened for each question, so that opens do not hold more descriptors than expected.
pub(crate) const SEEKERS_MAX: usize = 64;

/// The number of [`KeptSeeker`]s.
static SEEKERS: AtomicUsize = AtomicUsize::new(0);

/// A second descriptor of a file with a position of its own, kept for the next question.
#[derive(Debug)]
pub(crate) struct KeptSeeker(Descriptor);

impl KeptSeeker {
    /// Keeps a descriptor, or returns it while there are enough.
    pub(crate) fn new(seeker: Descriptor) -> Result<Self, Descriptor> {
        let more = |count| (count < SEEKERS_MAX).then_some(count + 1);
        if SEEKERS.fetch_update(Relaxed, Relaxed, more).is_ok() { Ok(Self(seeker)) } else { Err(seeker) }
    }
}

impl Drop for KeptSeeker {
    fn drop(&mut self) {
        SEEKERS.fetch_sub(1, Relaxed);
    }
}

impl AsFd for KeptSeeker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
