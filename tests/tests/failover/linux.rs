//! Linux clients of gateways: one holds a lock and appends, another reads and wants the lock.

use crate::clients::HolderProgress;
use crate::guest::{GuestJob, GuestKernel, HOLDER, LinuxGuest, PAUSE, RIVAL};
use e2e::World;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Instant;

/// The file that they share, below the export.
pub(crate) const FILE: &str = "linux";
/// The export that they mount.
const EXPORT: &str = "/data";

/// A Linux client that appends to a file under a lock.
pub(crate) struct LinuxHolder {
    pub(crate) progress: Arc<HolderProgress>,
    ends: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    guest: LinuxGuest,
}

impl LinuxHolder {
    /// Boots it; `gateway` is the address that it mounts.
    pub(crate) fn start(world: &World, kernel: &GuestKernel, gateway: &str) -> Self {
        let settings = format!("EXPORT={EXPORT} FILE={FILE}");
        let guest = LinuxGuest::boot(world, kernel, HOLDER, &GuestJob { name: "append", gateway, settings });
        let (progress, ends) = (Arc::<HolderProgress>::default(), Arc::<AtomicBool>::default());
        let (shared, asked, path) = (Arc::clone(&progress), Arc::clone(&ends), guest.notes_file());
        let reader = std::thread::spawn(move || read_acknowledgements(&path, &shared, &asked));
        Self { progress, ends, reader: Some(reader), guest }
    }

    /// Returns the file of its notes, for the rival.
    fn notes_file(&self) -> PathBuf {
        self.guest.notes_file()
    }

    /// Lets it unlock and unmount, and waits for its end. Returns the acknowledged writes.
    pub(crate) fn stop(mut self) -> u64 {
        self.guest.show("stop");
        self.guest.wait();
        self.guest.noted(b'w') as u64
    }
}

impl Drop for LinuxHolder {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        self.reader.take().map(JoinHandle::join);
    }
}

/// Counts the acknowledgements that the guest notes.
fn read_acknowledgements(path: &Path, progress: &HolderProgress, ends: &AtomicBool) {
    let mut counted = 0;
    while !ends.load(SeqCst) {
        let all = fs::read(path).unwrap_or_default();
        for note in all.iter().skip(counted) {
            match note {
                b'w' => progress.note(&progress.written),
                b'm' => progress.note(&progress.made),
                _ => {}
            }
        }
        counted = all.len();
        std::thread::sleep(PAUSE);
    }
}

/// A Linux client of another gateway that wants the lock of a [`LinuxHolder`].
pub(crate) struct LinuxRival {
    guest: LinuxGuest,
    /// Denied locks before the failure.
    denied_before: usize,
}

/// The findings of a Linux rival.
pub(crate) struct LinuxRivalReport {
    /// Locks that were denied before and after the failure.
    pub(crate) denied: [usize; 2],
    /// When the lock was granted.
    pub(crate) granted: Instant,
}

impl LinuxRival {
    /// Boots it; `gateway` is the address that it mounts.
    pub(crate) fn start(world: &World, kernel: &GuestKernel, gateway: &str, holder: &LinuxHolder) -> Self {
        let notes = holder.notes_file();
        let witness = notes.parent().expect("it is in a folder").display();
        let settings = format!("EXPORT={EXPORT} FILE={FILE} WITNESS={witness}");
        let guest = LinuxGuest::boot(world, kernel, RIVAL, &GuestJob { name: "rival", gateway, settings });
        Self { guest, denied_before: 0 }
    }

    /// Waits until it was denied the lock; nothing has failed yet.
    pub(crate) fn wait_until_denied(&mut self) {
        self.guest.wait_for_note(b'd', 0);
    }

    /// Notes that something has failed.
    pub(crate) fn note_failure(&mut self) {
        self.denied_before = self.guest.noted(b'd');
    }

    /// Waits until it was denied the lock once more.
    pub(crate) fn wait_until_denied_again(&mut self) {
        self.guest.wait_for_note(b'd', self.guest.noted(b'd'));
    }

    /// Waits until it has had the lock and has ended.
    pub(crate) fn wait(mut self) -> LinuxRivalReport {
        let granted = self.guest.wait_for_note(b'g', 0);
        self.guest.wait();
        let denied = self.guest.noted(b'd');
        LinuxRivalReport { denied: [self.denied_before, denied - self.denied_before], granted }
    }
}
