//! Recalls for accesses outside of NFS: delegations that a file system breaks on behalf of local
//! processes (RFC 8881 section 10.4: "other than NFS").

use super::fh::image::FileKeyImage;
use super::{FileKey, Nfs};
use image::ImageError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Queue of files whose delegations are to be recalled. Its one lock is taken to add to the queue
/// and to wait for it.
#[derive(Debug, Default)]
pub(crate) struct Breaks {
    files: Mutex<Vec<(FileKey, Duration)>>,
    arrived: Condvar,
}

impl Breaks {
    fn files(&self) -> MutexGuard<'_, Vec<(FileKey, Duration)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the queue for an image.
    pub(super) fn image(&self) -> Vec<(FileKeyImage, u64)> {
        let Self { files: _, arrived: _ } = self;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.files().iter().map(|(file, time)| (file.into(), nanoseconds(*time))).collect()
    }

    pub(super) fn restore(image: Vec<(FileKeyImage, u64)>) -> Result<Self, ImageError> {
        let file = |(file, time): (FileKeyImage, u64)| Ok((file.try_into()?, Duration::from_nanos(time)));
        let files = image.into_iter().map(file).collect::<Result<_, ImageError>>()?;
        Ok(Self { files: Mutex::new(files), arrived: Condvar::new() })
    }

    /// Queues a file. A process waits for it, at most for `break_time`.
    pub(crate) fn push(&self, file: FileKey, break_time: Duration) {
        self.files().push((file, break_time));
        self.arrived.notify_all();
    }
}

impl Nfs {
    /// Waits until the queue has a file, at most for `longest`. Returns whether it has; then
    /// [`Nfs::recall_broken`] is to be called.
    pub fn wait_for_breaks(&self, longest: Duration) -> bool {
        let none = |files: &mut Vec<_>| files.is_empty();
        let waited = self.breaks.arrived.wait_timeout_while(self.breaks.files(), longest, none);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }

    /// Recalls the delegations that the file system breaks, and revokes them before the process
    /// gives up waiting.
    pub fn recall_broken(&self, now: Duration) {
        let files = std::mem::take(&mut *self.breaks.files());
        for (file, break_time) in files {
            // The last quarter is a margin for work that is delayed.
            let within = break_time / 4 * 3;
            self.with_effects(now, |state, effects| {
                state.delegations().recall_all(now, &file, within, effects)
            });
        }
    }
}
