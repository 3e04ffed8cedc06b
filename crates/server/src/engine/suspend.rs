//! Deferral: the checks that stop a COMPOUND before an operation that would wait.

use super::{Compound, CompoundPhase, CompoundState, DeferReason, Fh, FileKey, Object, OpResult};
use state::GetattrWait;
use vfs::VfsResult;

/// A deferred COMPOUND, and what it waits for.
pub trait WaitsFor {
    /// The lane that it waits in: the number of the export whose file system it waits for, another
    /// number that no export has for the name service, and 0 for anything else. Lanes do not hold
    /// up each other.
    fn lane(&self) -> u32;

    /// The answer of a client that must arrive before the COMPOUND is resumed.
    fn answer(&self) -> Option<GetattrWait> {
        None
    }

    /// The object that must be on stable storage before the reply, after all operations have run.
    fn unsettled(&self) -> Option<FileKey> {
        None
    }

    /// Synchronises that object, for all calls that wait for the same.
    ///
    /// # Errors
    /// Those of its file system.
    fn settle(&self) -> VfsResult<()> {
        Ok(())
    }
}

/// An engine that never waits defers nothing.
impl WaitsFor for std::convert::Infallible {
    fn lane(&self) -> u32 {
        match *self {}
    }
}

/// Whether operations may wait for a disk, for stable storage or for a directory of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// They may wait on this thread.
    Waits,
    /// They may not: the COMPOUND is deferred.
    Suspends,
}

impl WaitsFor for Box<CompoundState> {
    fn lane(&self) -> u32 {
        match (self.phase, &self.current) {
            (CompoundPhase::Deferred(DeferReason::Lane(lane)), _) => lane,
            (_, Some(Fh::Object(object))) => object.export.id,
            _ => 0,
        }
    }

    fn answer(&self) -> Option<GetattrWait> {
        if let CompoundPhase::Deferred(DeferReason::Holder(wait)) = self.phase { Some(wait) } else { None }
    }

    fn unsettled(&self) -> Option<FileKey> {
        CompoundState::unsettled(self)
    }

    fn settle(&self) -> VfsResult<()> {
        CompoundState::settle(self)
    }
}

impl Compound<'_> {
    /// Checks that an object can be looked at and opened without a wait, where waiting is not
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

    /// Checks that what follows may wait for the file system of an object.
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
