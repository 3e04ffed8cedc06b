//! Checks an operation against the columns of its row before it runs.

use super::table::{Operation, Place, Remote, Waits};
use crate::engine::{Compound, DeferReason, Fh, OpError, OpResult};
use nfs4::{NfsOpnum4, Nfsstat4};
use xdr::Encoder;

impl Compound<'_> {
    /// Checks the columns of an operation's row.
    pub(super) fn check(&self, operation: &Operation, reply: &Encoder) -> OpResult {
        self.check_place(operation.place)?;
        let forbidden = self.progress.session.as_ref().map(|session| session.forbidden);
        if forbidden.is_some_and(|set| set.contains(operation.opnum as u32)) {
            return Err(Nfsstat4::NFS4ERR_WRONG_CRED.into());
        }
        if operation.needs_fh {
            let fh = self.fh()?;
            self.check_restricted(operation.opnum)?;
            if fh.is_absent() && !of_absent(operation.opnum) {
                return Err(Nfsstat4::NFS4ERR_MOVED.into());
            }
            match fh {
                Fh::Object(object) if operation.modifies => self.check_writable(object)?,
                Fh::Pseudo(_) if operation.modifies => return Err(Nfsstat4::NFS4ERR_ROFS.into()),
                Fh::Object(_) | Fh::Pseudo(_) => {}
            }
        }
        if operation.result_max > 0 && self.room(reply) < operation.result_max {
            return Err(self.too_big().into());
        }
        Ok(())
    }

    /// Checks the position of the operation relative to SEQUENCE.
    fn check_place(&self, place: Place) -> Result<(), OpError> {
        let alone = self.progress.position.count == 1;
        let status = match place {
            Place::First if self.progress.position.index > 0 => Nfsstat4::NFS4ERR_SEQUENCE_POS,
            Place::Alone if !alone => Nfsstat4::NFS4ERR_NOT_ONLY_OP,
            Place::AloneOrInSession if self.progress.session.is_none() && !alone => {
                Nfsstat4::NFS4ERR_NOT_ONLY_OP
            }
            Place::InSession if self.progress.session.is_none() => Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION,
            Place::Once => {
                self.progress.v40.once.set(true);
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(status.into())
    }

    /// Checks that an operation's row allows it to run on a thread that may not block.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub(super) fn check_wait(&self, operation: &Operation) -> OpResult {
        if self.may_wait() {
            return Ok(());
        }
        if operation.needs_fh && operation.remote != Remote::Untouched {
            self.check_foreign(operation)?;
        }
        if let Some(Fh::Object(object)) = self.progress.current.as_ref().filter(|_| operation.ranges) {
            self.check_few_ranges(object)?;
        }
        match (operation.waits, &self.progress.current) {
            (Waits::Object, Some(Fh::Object(object))) => self.check_cached(object),
            (Waits::Disk, Some(Fh::Object(object))) if object.export.backend.may_wait() => {
                Err(DeferReason::CurrentExport.into())
            }
            (Waits::Names, Some(Fh::Object(object))) => self.check_brief(object),
            (Waits::Long, Some(Fh::Object(_))) => Err(DeferReason::CurrentExport.into()),
            (Waits::Records, _) if self.nfs.records_may_wait() => Err(DeferReason::CurrentExport.into()),
            _ => Ok(()),
        }
    }

    /// Checks that the objects of both filehandles are on file systems that answer from memory.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    fn check_foreign(&self, operation: &Operation) -> OpResult {
        for fh in [&self.progress.current, &self.progress.saved].into_iter().flatten() {
            if let Fh::Object(object) = fh
                && object.export.backend.may_wait()
                && !object.export.backend.answers_from_memory(&object.handle)
            {
                let brief = operation.remote == Remote::OftenCached
                    && object.export.backend.seldom_waits(&object.handle)
                    && self.progress.current.as_ref().is_some_and(|current| current.is_in(&object.export));
                let lane = DeferReason::Lane(object.export.id);
                return Err(if brief { DeferReason::Brief } else { lane }.into());
            }
        }
        Ok(())
    }
}

/// Returns whether an operation decides by itself about a filehandle in an absent file system. All
/// others are not performed there (RFC 8881 section 11.3): GETATTR, VERIFY and NVERIFY work if they
/// name an attribute of locations (section 11.4.1). The last three do not depend on the file
/// system, and cannot return NFS4ERR_MOVED (section 15.2, RFC 7862 section 11.3).
fn of_absent(operation: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(
        operation,
        OP_GETATTR | OP_VERIFY | OP_NVERIFY | OP_GETDEVICELIST | OP_OFFLOAD_CANCEL | OP_OFFLOAD_STATUS
    )
}
