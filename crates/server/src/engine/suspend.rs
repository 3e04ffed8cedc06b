//! Deferral: the checks that stop a COMPOUND before an operation that would block.

use super::{Compound, CompoundPhase, CompoundState, DeferReason, Fh, FileKey, Object, OpResult};
use state::GetattrWait;

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
    /// not delay each other.
    fn lane(&self) -> u32;

    /// Returns whether the next operation seldom blocks, because its file system answers from
    /// memory.
    fn is_brief(&self) -> bool {
        false
    }

    /// Returns the client's answer that must arrive before the COMPOUND is resumed.
    fn answer(&self) -> Option<GetattrWait> {
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
    /// They may not block: the COMPOUND is deferred.
    Suspends,
}

impl WaitsFor for Box<CompoundState> {
    fn lane(&self) -> u32 {
        match (self.phase, &self.current) {
            (CompoundPhase::Deferred(DeferReason::Lane(lane)), _) => lane,
            (CompoundPhase::Unrecorded(_), _) => 0,
            (_, Some(Fh::Object(object))) => object.export.id,
            _ => 0,
        }
    }

    fn is_brief(&self) -> bool {
        self.phase == CompoundPhase::Deferred(DeferReason::Brief)
    }

    fn answer(&self) -> Option<GetattrWait> {
        if let CompoundPhase::Deferred(DeferReason::Holder(wait)) = self.phase { Some(wait) } else { None }
    }

    fn pending_sync(&self) -> Option<CommitKey> {
        self.pending_records().or_else(|| CompoundState::pending_sync(self).map(CommitKey::Object))
    }
}

impl Compound<'_> {
    /// Checks that an object can be read and opened without blocking, where blocking is not
    /// allowed.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn check_at_hand(&self, object: &Object) -> OpResult {
        let backend = &object.export.backend;
        if self.may_wait() || !backend.may_wait() || backend.is_at_hand(&object.handle) {
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
        if self.may_wait() || !directory.export.backend.may_wait() {
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
        if self.may_wait() || !object.export.backend.may_wait() {
            Ok(())
        } else {
            Err(DeferReason::Lane(object.export.id).into())
        }
    }
}
