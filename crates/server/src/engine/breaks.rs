//! Delegations that a file system wants back for somebody who is no client (RFC 8881 section 10.4:
//! "other than NFS").

use super::{FileKey, Nfs};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Files whose delegations are to be recalled. Its one lock is taken when that happens, and by who
/// waits for it.
#[derive(Debug, Default)]
pub(crate) struct Breaks {
    files: Mutex<Vec<(FileKey, Duration)>>,
    arrived: Condvar,
}

impl Breaks {
    fn files(&self) -> MutexGuard<'_, Vec<(FileKey, Duration)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a file; somebody waits for it, but not longer than so.
    pub(crate) fn push(&self, file: FileKey, break_time: Duration) {
        self.files().push((file, break_time));
        self.arrived.notify_all();
    }
}

impl Nfs {
    /// Waits until the file system wants delegations back, or so long; says whether it does. Then
    /// [`Nfs::recall_broken`] is to be called.
    pub fn wait_for_breaks(&self, longest: Duration) -> bool {
        let none = |files: &mut Vec<_>| files.is_empty();
        let waited = self.breaks.arrived.wait_timeout_while(self.breaks.files(), longest, none);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }

    /// Recalls the delegations that the file system wants back. They are revoked before it gives up
    /// waiting.
    pub fn recall_broken(&self, now: Duration) {
        let files = std::mem::take(&mut *self.breaks.files());
        for (file, break_time) in files {
            // A quarter is left for what is not done at once.
            let within = break_time / 4 * 3;
            self.with_effects(now, |state, effects| {
                state.delegations().recall_all(now, &file, within, effects)
            });
        }
    }
}
