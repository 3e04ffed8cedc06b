//! Background copies, which go on after the reply to COPY (RFC 7862 sections 4.1 and 15.2).
//!
//! Dedicated threads copy piece by piece: calls that wait for a disk do not wait for copies, and
//! copies of one export take turns. Before each piece they check that the copy is still wanted,
//! that its access is not revoked, and that the exports in force allow it.

pub(super) mod image;

use super::{Compound, FileKey, Nfs, Object, vfs_status};
use nfs4::{Nfsstat4, Stateid4};
use state::{CopyKey, NewCopy};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use vfs::{Export, ExportTable, OpenFile, VfsError};

/// The source and target of a copy. The files act with the rights of the users that opened them.
pub(crate) struct CopyRange {
    pub(crate) source: Arc<dyn OpenFile>,
    pub(crate) target: Arc<dyn OpenFile>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The length of the range, in bytes.
    pub(crate) count: u64,
}

impl CopyRange {
    /// Copies up to `most` bytes behind the first `done` bytes. Returns 0 when none are left.
    ///
    /// # Errors
    /// The backend's, and `Nospc` where nothing could be written.
    pub(crate) fn copy(&self, done: u64, most: u64) -> Result<u64, VfsError> {
        let count = self.count.saturating_sub(done).min(most);
        let (from, to) = (self.from.saturating_add(done), self.to.saturating_add(done));
        let copied = if count == 0 { 0 } else { self.target.copy_range(&*self.source, from, to, count)? };
        if copied == 0 && count > 0 && self.source.getattr()?.size > from {
            return Err(VfsError::Nospc);
        }
        Ok(copied)
    }
}

/// Returns the status of a background copy that fails (RFC 7862 section 16.1.3).
///
/// Linux gives coa_status to the program as an error number of its own. NFS4ERR_NOSPC has the same
/// number there, but that of NFS4ERR_DQUOT is ESRMNT.
fn failure(error: VfsError) -> Nfsstat4 {
    match super::status::allowed(2, nfs4::NfsOpnum4::OP_COPY, vfs_status(error)) {
        Nfsstat4::NFS4ERR_DQUOT => Nfsstat4::NFS4ERR_NOSPC,
        status => status,
    }
}

/// A file of a background copy.
struct CopyFile {
    file: FileKey,
    /// The key of its export when the copy began.
    handle_key: Option<[u8; 16]>,
}

impl CopyFile {
    fn of(object: &Object) -> Self {
        Self { file: object.key(), handle_key: object.export.backend.handle_key() }
    }

    /// Returns the export of the file, if the file is still served.
    fn export<'t>(&self, table: &'t ExportTable) -> Option<&'t Arc<Export>> {
        let export = table.by_id(self.file.export)?;
        let backend = &export.backend;
        let is_same = self.handle_key == backend.handle_key()
            && self.file.is_identity(backend.identity(&self.file.handle));
        is_same.then_some(export)
    }
}

/// A background copy, for [`Nfs::copy_on`].
pub struct BackgroundCopy {
    key: CopyKey,
    source: CopyFile,
    /// No client gets a delegation on it meanwhile.
    target: CopyFile,
    range: CopyRange,
    done: u64,
}

impl fmt::Debug for BackgroundCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackgroundCopy({} of {} bytes)", self.done, self.range.count)
    }
}

/// Runs background copies on threads that may wait for disks.
pub trait CopyRunner: Send + Sync {
    /// Schedules one call of [`Nfs::copy_on`] for a copy on another thread. `export` is the number
    /// of the target's export.
    ///
    /// # Errors
    /// Returns the copy when there is no room for it.
    fn submit(&self, export: u32, copy: Box<BackgroundCopy>) -> Result<(), Box<BackgroundCopy>>;
}

/// Counts of background copies since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadCounts {
    /// COPYs that were answered with a stateid.
    pub begun: u64,
    /// Bytes copied in the background.
    pub bytes: u64,
    /// CB_OFFLOADs that clients have answered.
    pub answered: u64,
}

/// The runner and counters of background copies.
#[derive(Default)]
pub(crate) struct Offloads {
    runner: OnceLock<Box<dyn CopyRunner>>,
    begun: AtomicU64,
    bytes: AtomicU64,
    answered: AtomicU64,
}

impl Offloads {
    pub(crate) fn count_answered(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    fn submit(&self, copy: Box<BackgroundCopy>) -> Result<(), Box<BackgroundCopy>> {
        match self.runner.get() {
            Some(runner) => runner.submit(copy.target.file.export, copy),
            None => Err(copy),
        }
    }
}

impl Compound<'_> {
    /// Starts a background copy between two files, which have these stateids, and returns its own.
    ///
    /// # Errors
    /// Returns the range if it must be copied at once: the client has no backchannel, too many
    /// copies are in progress, no thread has room, or the state of a stateid has just gone.
    pub(crate) fn copy_later(
        &self,
        (source, target): (&Object, &Object),
        stateids: [Stateid4; 2],
        range: CopyRange,
    ) -> Result<Stateid4, CopyRange> {
        let (nfs, file) = (self.nfs, target.key());
        let session = self.progress.session.as_ref();
        let Some((client, token)) = session.map(|session| (session.client, session.token.as_ref())) else {
            return Err(range);
        };
        if nfs.offloads.runner.get().is_none() {
            return Err(range);
        }
        let changes = self.with_effects(|state, effects| {
            state.delegations().begin_change(self.now(), client, &file, effects)
        });
        if changes.is_err() {
            return Err(range);
        }
        let verifier = nfs.write_verifier(&*target.export.backend);
        let new = NewCopy { file: &file, user: &self.call.security.sender, stateids, verifier };
        let Some((key, stateid)) = nfs.state.copies().begin_copy(client, &new, token) else {
            nfs.state.delegations().end_change(&file);
            return Err(range);
        };
        nfs.offloads.begun.fetch_add(1, Relaxed);
        let (source, target) = (CopyFile::of(source), CopyFile::of(target));
        match nfs.offloads.submit(Box::new(BackgroundCopy { key, source, target, range, done: 0 })) {
            Ok(()) => Ok(stateid),
            Err(copy) => {
                nfs.state.copies().offload_answered(client, key);
                nfs.state.delegations().end_change(&copy.target.file);
                Err(copy.range)
            }
        }
    }
}

impl Nfs {
    /// Sets the runner of background copies. Until then each COPY finishes before its reply.
    pub fn connect_copies(&self, runner: Box<dyn CopyRunner>) {
        let _ = self.offloads.runner.set(runner);
    }

    /// Returns the counts of background copies, for metrics.
    pub fn offload_counts(&self) -> OffloadCounts {
        let Offloads { begun, bytes, answered, .. } = &self.offloads;
        let [begun, bytes, answered] = [begun, bytes, answered].map(|count| count.load(Relaxed));
        OffloadCounts { begun, bytes, answered }
    }

    /// Copies the next piece on the calling thread, and submits the rest to the runner. `clock`
    /// returns the monotonic time.
    pub fn copy_on(&self, mut copy: Box<BackgroundCopy>, clock: &dyn Fn() -> Duration) {
        loop {
            if !self.state.copies().begin_copy_piece(copy.key) {
                return self.state.delegations().end_change(&copy.target.file);
            }
            let ended = self.refusal(&copy).or_else(|| self.copy_piece(&mut copy));
            if let Some(status) = ended {
                self.state.delegations().end_change(&copy.target.file);
                self.with_effects(clock(), |state, effects| {
                    state.copies().end_copy(copy.key, copy.done, status, effects);
                });
                return;
            }
            self.state.copies().end_copy_piece(copy.key, copy.done);
            match self.offloads.submit(copy) {
                Ok(()) => return,
                // Without room the copy continues on this thread: a copy that has begun is not
                // dropped.
                Err(rest) => copy = rest,
            }
        }
    }

    /// Continues a copy on a thread of the runner, or on this one.
    pub(crate) fn submit_copy(&self, copy: Box<BackgroundCopy>, clock: &dyn Fn() -> Duration) {
        if let Err(copy) = self.offloads.submit(copy) {
            self.copy_on(copy, clock);
        }
    }

    /// Returns the status that ends a copy with revoked access, or of files that the exports in
    /// force do not serve any more, or only for reading.
    fn refusal(&self, copy: &BackgroundCopy) -> Option<Nfsstat4> {
        if self.state.copies().is_revoked(copy.key) {
            return Some(Nfsstat4::NFS4ERR_ADMIN_REVOKED);
        }
        let table = self.exports.snapshot();
        let (source, target) = (copy.source.export(&table), copy.target.export(&table));
        let Some((_, target)) = source.zip(target) else { return Some(Nfsstat4::NFS4ERR_STALE) };
        target.rules.iter().all(|rule| rule.read_only).then_some(Nfsstat4::NFS4ERR_ROFS)
    }

    /// Copies the next piece, and returns the final status if the copy has ended. A panic ends it
    /// as well, so that the client learns of it.
    fn copy_piece(&self, copy: &mut BackgroundCopy) -> Option<Nfsstat4> {
        let (range, done) = (&copy.range, copy.done);
        let piece = catch_unwind(AssertUnwindSafe(|| range.copy(done, self.config.copy_piece_max.max(1))));
        match piece {
            Ok(Ok(copied)) => {
                copy.done = done.saturating_add(copied);
                self.offloads.bytes.fetch_add(copied, Relaxed);
                let whole = copied == 0 || copy.done >= copy.range.count;
                whole.then_some(Nfsstat4::NFS4_OK)
            }
            Ok(Err(error)) => Some(failure(error)),
            Err(_) => {
                tracing::error!("a defect of the server ends a copy");
                Some(Nfsstat4::NFS4ERR_SERVERFAULT)
            }
        }
    }
}
