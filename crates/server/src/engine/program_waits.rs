//! Clients that wait for a lock of a program on the server's machine (RFC 8881 section 18.10.4).
//!
//! The kernel reports no unlock, so housekeeping asks it about once a second and sends
//! CB_NOTIFY_LOCK. Without that, Linux clients ask again only after up to 30 seconds.

pub(super) mod image;

use super::{FileKey, Nfs};
use state::LockRange;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use vfs::{LockKind, RangeLocks};

/// Files that are polled, one open file each. Clients that wait for other files poll by themselves.
const PROGRAM_WAIT_FILES_MAX: usize = 1024;
/// Ranges of one file that are polled.
const PROGRAM_WAIT_RANGES_MAX: usize = 64;
/// How long a file is polled after the last refusal. A client that still waits asks again before.
const POLL_TIME: Duration = Duration::from_secs(90);

/// Files with a client that a program's lock refused. The mutex is a leaf and is not held across
/// system calls.
#[derive(Default)]
pub(crate) struct ProgramWaits(Mutex<HashMap<FileKey, FileWaits>>);

/// The refused ranges of one file.
#[derive(Clone)]
struct FileWaits {
    locks: Arc<dyn RangeLocks>,
    ranges: Vec<(LockRange, LockKind)>,
    /// When polling ends, by the server's clock.
    until: Duration,
}

impl FileWaits {
    /// Returns whether a refused range could be locked now. Errors count as no, since the client
    /// retries by itself.
    fn is_any_free(&self) -> bool {
        let is_free = |(range, kind): &(LockRange, LockKind)| {
            matches!(self.locks.find(range.offset(), range.last(), *kind), Ok(None))
        };
        self.ranges.iter().any(is_free)
    }
}

impl ProgramWaits {
    fn files(&self) -> MutexGuard<'_, HashMap<FileKey, FileWaits>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a refused range, to be polled through `locks`.
    pub(crate) fn add(
        &self,
        file: FileKey,
        range: LockRange,
        kind: LockKind,
        locks: &Arc<dyn RangeLocks>,
        now: Duration,
    ) {
        let mut files = self.files();
        if files.len() >= PROGRAM_WAIT_FILES_MAX && !files.contains_key(&file) {
            return;
        }
        let waits = files.entry(file).or_insert_with(|| FileWaits {
            locks: Arc::clone(locks),
            ranges: Vec::new(),
            until: now,
        });
        let former = std::mem::replace(&mut waits.locks, Arc::clone(locks));
        waits.until = now.saturating_add(POLL_TIME);
        if waits.ranges.len() < PROGRAM_WAIT_RANGES_MAX && !waits.ranges.contains(&(range, kind)) {
            waits.ranges.push((range, kind));
        }
        drop(files);
        // Its descriptor is closed without the mutex.
        drop(former);
    }

    /// Ends the polling of files with a free range or without a recent refusal, and returns the
    /// former.
    fn take_free(&self, now: Duration) -> Vec<FileKey> {
        let all: Vec<(FileKey, FileWaits)> =
            self.files().iter().map(|(file, waits)| (*file, waits.clone())).collect();
        let mut free = Vec::new();
        for (file, waits) in all {
            let is_free = waits.is_any_free();
            if is_free || now >= waits.until {
                let ended = self.files().remove(&file);
                drop(ended);
            }
            if is_free {
                free.push(file);
            }
        }
        free
    }
}

impl Nfs {
    /// Notifies the clients that wait for a lock that a program has released. Clients whose range
    /// is still locked are refused again, and polled again.
    pub(super) fn poll_program_waits(&self, now: Duration) {
        for file in self.program_waits.take_free(now) {
            self.with_effects(now, |state, effects| state.locks().notify_waits(&file, effects));
        }
    }
}
