//! Deferral: the checks that stop a COMPOUND before an operation that would block.

use super::{Compound, CompoundPhase, CompoundState, DeferReason, Fh, FileKey, Object, OpResult};
use state::GetattrWait;

/// Deferrals of one operation, after which it waits on the thread that it has: it needs several
/// file systems, and would go from lane to lane for ever.
const DEFERRALS_MAX: u32 = 4;

/// Changes that one sync puts on stable storage for all calls that wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitKey {
    /// The names or attributes of an object.
    Object(FileKey),
    /// The client records that are removed.
    Removals,
    /// The client records that are put, and those that are removed. A full disk may keep them
    /// waiting.
    Puts,
}

impl CommitKey {
    /// Returns the lane of the sync: see [`WaitsFor::lane`].
    pub fn lane(&self) -> u32 {
        match self {
            Self::Object(file) => file.export,
            Self::Removals | Self::Puts => 0,
        }
    }
}

/// A deferred COMPOUND, and the event that it waits for.
pub trait WaitsFor {
    /// Returns the lane in which it waits: the number of the export whose file system it waits for,
    /// another number that no export has for the name service, and 0 for anything else. Lanes do
    /// not delay each other: an operation that waits for another file system goes to its lane.
    fn lane(&self) -> u32;

    /// Returns whether the next operation seldom blocks, because its file system answers from
    /// memory.
    fn is_brief(&self) -> bool {
        false
    }

    /// Returns the client's answer that must arrive before the COMPOUND is resumed.
    fn getattr_wait(&self) -> Option<GetattrWait> {
        None
    }

    /// Returns the changes that must be on stable storage before the reply, after all operations
    /// have run.
    fn pending_sync(&self) -> Option<CommitKey> {
        None
    }
}

/// An engine that never blocks defers nothing.
impl WaitsFor for std::convert::Infallible {
    fn lane(&self) -> u32 {
        match *self {}
    }
}

/// Whether operations may wait for a disk, for stable storage or for a directory of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// They may block on this thread.
    Waits,
    /// They may block on this thread for the file system of its lane; for anything else the
    /// COMPOUND is deferred again. See [`WaitsFor::lane`].
    WaitsIn(u32),
    /// They may not block: the COMPOUND is deferred.
    Suspends,
}

impl WaitsFor for Box<CompoundState> {
    fn lane(&self) -> u32 {
        CompoundState::lane(self)
    }

    fn is_brief(&self) -> bool {
        self.phase == CompoundPhase::Deferred(DeferReason::Brief)
    }

    fn getattr_wait(&self) -> Option<GetattrWait> {
        if let CompoundPhase::Deferred(DeferReason::Holder(wait)) = self.phase { Some(wait) } else { None }
    }

    fn pending_sync(&self) -> Option<CommitKey> {
        self.pending_records().or_else(|| CompoundState::pending_sync(self).map(CommitKey::Object))
    }
}

impl CompoundState {
    /// Returns the lane in which it waits: see [`WaitsFor::lane`].
    pub(crate) fn lane(&self) -> u32 {
        match self.phase {
            CompoundPhase::Deferred(DeferReason::Lane(lane)) => lane,
            CompoundPhase::Unrecorded(_) => 0,
            _ => self.current_lane(),
        }
    }

    /// Returns the lane of the current filehandle's file system; 0 for none.
    fn current_lane(&self) -> u32 {
        match &self.current {
            Some(Fh::Object(object)) => object.export.id,
            Some(Fh::Pseudo(_)) | None => 0,
        }
    }
}

impl Compound<'_> {
    /// Returns whether the operation may block on this thread, for the file system of the current
    /// filehandle or another disk of the server.
    pub fn may_wait(&self) -> bool {
        match self.policy {
            WaitPolicy::Waits => true,
            WaitPolicy::Suspends => false,
            WaitPolicy::WaitsIn(lane) => {
                lane == self.progress.current_lane() || self.progress.deferrals > DEFERRALS_MAX
            }
        }
    }

    /// Returns whether the operation may wait on this thread for the name service. That ends in
    /// time, so it may do so in every lane.
    pub(super) fn may_wait_for_names(&self) -> bool {
        self.policy != WaitPolicy::Suspends
    }

    /// Returns whether the operation may wait on this thread for the file system of an object.
    fn may_wait_for(&self, object: &Object) -> bool {
        self.may_wait() || self.policy == WaitPolicy::WaitsIn(object.export.id)
    }

    /// Checks that an object can be read and opened without blocking, where blocking is not
    /// allowed.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn check_cached(&self, object: &Object) -> OpResult {
        let backend = &object.export.backend;
        if self.may_wait_for(object) || !backend.may_wait() || backend.is_cached(&object.handle) {
            return Ok(());
        }
        Err(DeferReason::Lane(object.export.id).into())
    }

    /// Checks that the next steps may change names in a directory, which seldom waits for its file
    /// system.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn check_brief(&self, directory: &Object) -> OpResult {
        self.progress.expensive.set(true);
        if self.may_wait_for(directory) || !directory.export.backend.may_wait() {
            Ok(())
        } else {
            Err(DeferReason::Brief.into())
        }
    }

    /// Checks that the next steps may wait for the file system of an object.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn check_disk(&self, object: &Object) -> OpResult {
        if self.may_wait_for(object) || !object.export.backend.may_wait() {
            Ok(())
        } else {
            Err(DeferReason::Lane(object.export.id).into())
        }
    }
}
