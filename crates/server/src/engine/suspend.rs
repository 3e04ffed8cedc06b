//! COMPOUNDs that stop before an operation that would wait, and go on where they may.

use super::{Compound, CompoundState, DeferReason, Fh, FileKey, Object, OpResult, Phase};
use state::GetattrWait;
use vfs::VfsResult;

/// Something that stands before a wait.
pub trait WaitsFor {
    /// The lane that it waits in: the number of the export whose file system it waits for, another number that no export has
    /// for the name service, and 0 for anything else. Lanes do not hold up each other.
    fn lane(&self) -> u32;

    /// What a client has to answer first: until then it is of no use to carry it out.
    fn answer(&self) -> Option<GetattrWait> {
        None
    }

    /// What is to be put on stable storage before the call is answered, when there is nothing else to be done for it.
    fn unsettled(&self) -> Option<FileKey> {
        None
    }

    /// Puts it there, for all calls that wait for the same.
    ///
    /// # Errors
    /// Those of its file system.
    fn settle(&self) -> VfsResult<()> {
        Ok(())
    }
}

/// Of an engine that never waits.
impl WaitsFor for std::convert::Infallible {
    fn lane(&self) -> u32 {
        match *self {}
    }
}

/// Whether operations may wait for a disk, for stable storage or for a directory of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// They may.
    Waits,
    /// They may not: the COMPOUND is suspended.
    Suspends,
}

impl WaitsFor for Box<CompoundState> {
    fn lane(&self) -> u32 {
        match (self.phase, &self.current) {
            (Phase::Deferred(DeferReason::Lane(lane)), _) => lane,
            (_, Some(Fh::Object(object))) => object.export.id,
            _ => 0,
        }
    }

    fn answer(&self) -> Option<GetattrWait> {
        if let Phase::Deferred(DeferReason::Holder(wait)) = self.phase { Some(wait) } else { None }
    }

    fn unsettled(&self) -> Option<FileKey> {
        CompoundState::unsettled(self)
    }

    fn settle(&self) -> VfsResult<()> {
        CompoundState::settle(self)
    }
}

impl Compound<'_> {
    /// Checks that an object can be looked at and opened without a wait, where waiting is not allowed.
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
