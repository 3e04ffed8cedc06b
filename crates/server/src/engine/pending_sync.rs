//! Changes of names and attributes that are not yet on stable storage.
//!
//! An operation makes its change and goes on without holding any lock. After all operations have
//! run, their changes are synced, once for each object, and only then is the COMPOUND answered: a
//! reply acknowledges nothing that a power cut could undo. The sync of the last object is left to
//! the caller ([`CompoundStatus::Deferred`](crate::compound::CompoundStatus::Deferred)), so that a
//! group commit can serve many COMPOUNDs without a thread for each.
//!
//! Others see a change before it is stable, as on any POSIX file system, and may make changes that
//! depend on it, such as files in a folder that is not stable itself. This is safe because the disk
//! keeps an order: file systems with a journal write changes of names in the order in which they
//! were made (ext4, xfs), or with the changes that they depend on (btrfs). Each COMPOUND is
//! answered after a sync that began after its own change, and so after the change that it depends
//! on.

use super::{
    Cause, Compound, CompoundPhase, CompoundState, Fh, FileKey, Nfs, Object, OpResult, WaitPolicy,
    vfs_status, write_failure,
};
use crate::engine::Call;
use nfs4::{NfsOpnum4, Nfsstat4, Stateid4};
use vfs::{FileType, HeldObject, VfsError, VfsResult};
use xdr::{Decoder, Encoder};

/// Objects that a COMPOUND leaves to be synced after its operations, and holds until then. An
/// operation that changes a further one syncs it at once.
const UNSYNCED_OBJECTS_MAX: usize = 8;

/// An object to be synced, and the part of the reply to undo if that fails.
#[derive(Debug)]
pub(crate) struct PendingSync {
    object: Object,
    /// The object itself: a later operation, or another client, may remove it.
    held: Option<HeldObject>,
    /// Index of the first operation that has changed it, and the offset of its result in the reply.
    index: u32,
    result_at: usize,
    /// The grants of an OPEN, to be undone: a client that does not learn of them cannot return
    /// them.
    opened: Option<UnsyncedOpen>,
}

#[derive(Clone, Copy, Debug)]
struct UnsyncedOpen {
    file: FileKey,
    stateid: Stateid4,
    delegation: Option<Stateid4>,
}

impl Compound<'_> {
    /// Marks an object to be synced before the reply, where the backend needs it. The caller must
    /// not hold a lock that others wait for.
    ///
    /// # Errors
    /// The backend's, where the operation syncs at once: in NFSv4.0, whose owners cache the reply
    /// when the operation ends, and beyond the objects that a COMPOUND may hold.
    pub fn sync_before_reply(&self, object: &Object) -> OpResult {
        let backend = &object.export.backend;
        if !backend.syncs_names(&object.handle) {
            return Ok(());
        }
        if self.progress.minor == 0 {
            return Ok(self.nfs.sync_object(object, None)?);
        }
        let mut pending_syncs = self.progress.pending_syncs.borrow_mut();
        if pending_syncs.iter().any(|other| other.object.key() == object.key()) {
            return Ok(());
        }
        if pending_syncs.len() >= UNSYNCED_OBJECTS_MAX {
            return Ok(self.nfs.sync_object(object, None)?);
        }
        pending_syncs.push(PendingSync {
            object: object.clone(),
            held: backend.hold(&object.handle),
            index: self.progress.position.index,
            result_at: self.progress.result_at,
            opened: None,
        });
        Ok(())
    }

    /// Records the open and delegation granted by an OPEN whose file is not yet on stable storage.
    pub fn note_unsynced_open(&self, object: &Object, stateid: Stateid4, delegation: Option<Stateid4>) {
        for pending in self.progress.pending_syncs.borrow_mut().iter_mut() {
            if pending.index == self.progress.position.index {
                pending.opened = Some(UnsyncedOpen { file: object.key(), stateid, delegation });
            }
        }
    }

    /// Syncs all but the last objects; there is rarely more than one. The order of the changes is
    /// kept, so that a moved name reaches its new place first.
    pub(crate) fn sync_all_but(&mut self, last: usize, status: Nfsstat4, reply: &mut Encoder) -> Nfsstat4 {
        let mut status = status;
        while self.progress.pending_syncs.get_mut().len() > last {
            let pending = self.progress.pending_syncs.get_mut().remove(0);
            let outcome = self.nfs.sync_object(&pending.object, pending.held.as_ref());
            status = self.end_sync(&pending, outcome, status, reply);
        }
        status
    }

    /// Records the outcome of a sync. After a failure the reply is as if its operation had failed
    /// and no later one had run. The change itself stays, as after a lost reply.
    pub(super) fn end_sync(
        &mut self,
        pending: &PendingSync,
        outcome: VfsResult<()>,
        status: Nfsstat4,
        reply: &mut Encoder,
    ) -> Nfsstat4 {
        let Err(error) = outcome else { return status };
        if let (Some(opened), Ok(client)) = (pending.opened, self.client()) {
            self.with_effects(|state, effects| {
                if let Some(delegation) = opened.delegation {
                    let _ = state.delegations().delegreturn(client, &delegation, &opened.file, effects);
                }
                // An open that the client had before stays, with its locks.
                if opened.stateid.seqid == 1 {
                    let _ = state.opens().close(client, &opened.stateid, &opened.file, effects);
                }
            });
        }
        // An earlier operation may have failed already.
        if pending.index >= self.progress.position.index {
            return status;
        }
        let at = reply.as_slice().get(pending.result_at..).unwrap_or_default();
        let opnum = Decoder::new(at).u32().ok().and_then(NfsOpnum4::from_u32);
        let opnum = opnum.unwrap_or(NfsOpnum4::OP_ILLEGAL);
        let fh = Fh::Object(pending.object.clone());
        self.nfs.note_cause(self.now(), opnum, Some(&fh), Cause::Backend(error));
        self.truncate(reply, pending.result_at);
        self.progress.position.index = pending.index + 1;
        write_failure(self.progress.minor, opnum, vfs_status(error), reply)
    }
}

impl CompoundState {
    /// Returns the object to be synced before the reply to a COMPOUND whose operations have all
    /// run.
    pub fn pending_sync(&self) -> Option<FileKey> {
        let CompoundPhase::Executed(_) = self.phase else { return None };
        self.pending_syncs.borrow().first().map(|pending| pending.object.key())
    }
}

impl Nfs {
    /// Syncs the object of [`CompoundState::pending_sync`], for all changes made before this began,
    /// or writes the client records that the reply depends on.
    ///
    /// # Errors
    /// The backend's; then none of these changes may be acknowledged.
    pub fn sync(&self, state: &CompoundState) -> VfsResult<()> {
        if let CompoundPhase::Unrecorded(_) = state.phase {
            self.write_records(state.records.get());
        }
        let sync = |pending: &PendingSync| self.sync_object(&pending.object, pending.held.as_ref());
        state.pending_syncs.borrow().iter().try_for_each(sync)
    }

    /// Syncs the names or attributes of an object. A failure for a file changes the write verifier:
    /// the kernel has reported lost data here, and will not report it to a COMMIT.
    fn sync_object(&self, object: &Object, held: Option<&HeldObject>) -> VfsResult<()> {
        let backend = &object.export.backend;
        let outcome = backend.sync_names(&object.handle, held);
        let is_directory =
            || backend.getattr(&object.handle).is_ok_and(|found| found.file_type == FileType::Directory);
        match outcome {
            Err(_) if !is_directory() => self.synced(outcome),
            _ => outcome,
        }
    }

    /// Ends a COMPOUND whose operations have all run, after its changes have reached stable storage
    /// or failed to.
    pub fn complete(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        mut state: Box<CompoundState>,
        outcome: Result<(), VfsError>,
    ) -> super::CompoundOutcome {
        let status = match state.phase {
            CompoundPhase::Executed(status) | CompoundPhase::Unrecorded(status) => status,
            CompoundPhase::Running | CompoundPhase::Deferred(_) => Nfsstat4::NFS4ERR_SERVERFAULT,
        };
        let pending_syncs = state.pending_syncs.take();
        let mut compound = Compound::new(self, call, &mut state, WaitPolicy::Waits);
        let end = |status, pending: &PendingSync| compound.end_sync(pending, outcome, status, reply);
        let status = pending_syncs.iter().fold(status, end);
        compound.end(status, reply)
    }
}
