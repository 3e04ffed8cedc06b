//! Descriptors of file systems that may hang, closed by a thread of their own: close(2) flushes
//! data and drops locks.
#![allow(unsafe_code, reason = "closes raw descriptors")]

use crate::kind::Kind;
use foreign::ForeignThread;
use std::{
    mem::ManuallyDrop,
    ops::Deref,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// Returns a thread for a file system that may hang, and `None` for others.
pub(crate) fn thread_for(kind: Kind) -> Option<Arc<ForeignThread>> {
    (kind == Kind::Foreign).then(Arc::default)
}

/// A descriptor that its dropper closes, or the thread of a file system that may hang.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    thread: Option<Arc<ForeignThread>>,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, thread: Option<&Arc<ForeignThread>>) -> Self {
        Self { fd: ManuallyDrop::new(fd), thread: thread.cloned() }
    }

    /// Returns the thread that closes it.
    pub(crate) fn thread(&self) -> Option<&Arc<ForeignThread>> {
        self.thread.as_ref()
    }
}

impl Deref for Descriptor {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the value is being dropped, and nothing uses the field after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        match &self.thread {
            Some(thread) => thread.send(Box::new(move || drop(fd))),
            None => drop(fd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    #[test]
    fn a_descriptor_of_a_stuck_file_system_is_dropped_without_waiting() {
        let foreign = thread_for(Kind::Foreign).unwrap();
        let (release, released) = mpsc::channel::<()>();
        foreign.run(Duration::from_millis(1), move || released.recv().is_ok());
        let (mut end, kept) = std::io::pipe().unwrap();
        drop(Descriptor::new(kept.into(), Some(&foreign)));
        release.send(()).unwrap();
        // The pipe ends when its last writer is closed.
        assert_eq!(std::io::Read::read(&mut end, &mut [0]).unwrap(), 0);
    }
}
