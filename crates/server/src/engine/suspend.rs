//! COMPOUNDs that stop before an operation that would wait, and go on where they may.

use super::table::{Operation, Waits};
use super::{Compound, CompoundState, DeferReason, Fh, FileKey, Object, OpResult, Phase};
use crate::dispatch::WaitsFor;
use state::GetattrWait;
use vfs::VfsResult;

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
    /// Holds an operation's row against what it would wait for.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub(super) fn check_wait(&self, operation: &Operation) -> OpResult {
        if self.may_wait() {
            return Ok(());
        }
        if operation.needs_fh {
            self.check_foreign()?;
        }
        match (operation.waits, &self.progress.current) {
            (Waits::Object, Some(Fh::Object(object))) => self.check_at_hand(object),
            (Waits::Disk, Some(Fh::Object(object))) if object.export.backend.may_wait() => {
                Err(DeferReason::CurrentExport.into())
            }
            (Waits::Long, Some(Fh::Object(_))) => Err(DeferReason::CurrentExport.into()),
            (Waits::Records, _) if self.nfs.records_may_wait() => Err(DeferReason::CurrentExport.into()),
            _ => Ok(()),
        }
    }

    /// Checks that what filehandles stand for is on file systems that answer from memory.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    fn check_foreign(&self) -> OpResult {
        for fh in [&self.progress.current, &self.progress.saved].into_iter().flatten() {
            if let Fh::Object(object) = fh
                && object.export.backend.may_wait()
                && !object.export.backend.answers_from_memory(&object.handle)
            {
                return Err(DeferReason::Lane(object.export.id).into());
            }
        }
        Ok(())
    }

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
