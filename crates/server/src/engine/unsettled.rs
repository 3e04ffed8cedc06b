//! Names and attributes that a COMPOUND has changed and that are not on stable storage yet.
//!
//! An operation makes its change and goes on; nothing is held by then. When all operations have
//! run, what they have changed is put on stable storage, once for each object, and only then the
//! COMPOUND is answered: a reply acknowledges nothing that a power cut could take. Of the last
//! object that is left to whoever runs the COMPOUND ([`CompoundStatus::Deferred`](super::Ran)), so
//! that one synchronisation can do for many COMPOUNDs and none of them needs a thread meanwhile.
//!
//! Others see a change before it is stable, as they do on any POSIX file system, and may change
//! things that depend on it: files of a folder that is not stable itself. They are no better off
//! without an order of the disk, and there is one: file systems with a journal write changes of
//! names down in the order in which they were made (ext4, xfs), or with what they depend on
//! (btrfs), and each COMPOUND is answered after a synchronisation that began after its own change,
//! and so after that of the other.

use super::{
    Cause, Compound, CompoundPhase, CompoundState, Fh, FileKey, Nfs, Object, OpResult, WaitPolicy,
    vfs_status, write_failure,
};
use crate::engine::Call;
use nfs4::{NfsOpnum4, Nfsstat4, Stateid4};
use vfs::{VfsError, VfsResult};
use xdr::{Decoder, Encoder};

/// An object that is to be put on stable storage, and where to take back what depends on it.
#[derive(Debug)]
pub(crate) struct PendingSync {
    object: Object,
    /// The first operation that has changed it: which, and where its result begins in the reply.
    index: u32,
    result_at: usize,
    /// What that has opened: a client that does not hear of it cannot close it.
    opened: Option<Opened>,
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    file: FileKey,
    stateid: Stateid4,
    delegation: Option<Stateid4>,
}

impl Compound<'_> {
    /// Has what the operation has changed of an object on stable storage before it is acknowledged,
    /// where the file system says so. Nothing must be held that others wait for.
    ///
    /// # Errors
    /// The backend's, in NFSv4.0: there the reply is kept with the owner when the operation ends,
    /// and so it waits by itself.
    pub fn settle(&self, object: &Object) -> OpResult {
        let backend = &object.export.backend;
        if !backend.settles(&object.handle) {
            return Ok(());
        }
        if self.progress.minor == 0 {
            return Ok(backend.settle(&object.handle)?);
        }
        let (index, mut unsettled) = (self.progress.position.index, self.progress.unsettled.borrow_mut());
        if unsettled.iter().all(|other| other.object.key() != object.key()) {
            let object = object.clone();
            unsettled.push(PendingSync { object, index, result_at: self.progress.result_at, opened: None });
        }
        Ok(())
    }

    /// Takes note of what an OPEN whose file is not on stable storage yet has given.
    pub fn opened_unsettled(&self, object: &Object, stateid: Stateid4, delegation: Option<Stateid4>) {
        for unsettled in self.progress.unsettled.borrow_mut().iter_mut() {
            if unsettled.index == self.progress.position.index {
                unsettled.opened = Some(Opened { file: object.key(), stateid, delegation });
            }
        }
    }

    /// Puts all but the last object on stable storage: hardly ever is there more than one. In their
    /// order, so that of a name that moves the new place comes first.
    pub(crate) fn settle_but_one(&mut self, status: Nfsstat4, reply: &mut Encoder) -> Nfsstat4 {
        let mut status = status;
        while self.progress.unsettled.get_mut().len() > 1 {
            let unsettled = self.progress.unsettled.get_mut().remove(0);
            let outcome = unsettled.object.export.backend.settle(&unsettled.object.handle);
            status = self.settled(&unsettled, outcome, status, reply);
        }
        status
    }

    /// Takes note of how it went; what could not be put down is as if its operation had failed and
    /// no other had been run. The change itself stays, as one does whose reply is lost.
    pub(super) fn settled(
        &mut self,
        unsettled: &PendingSync,
        outcome: VfsResult<()>,
        status: Nfsstat4,
        reply: &mut Encoder,
    ) -> Nfsstat4 {
        let Err(error) = outcome else { return status };
        if let (Some(opened), Ok(client)) = (unsettled.opened, self.client()) {
            self.with_effects(|state, effects| {
                if let Some(delegation) = opened.delegation {
                    let _ = state.delegations().delegreturn(client, &delegation, &opened.file, effects);
                }
                let _ = state.opens().close(client, &opened.stateid, &opened.file, effects);
            });
        }
        // An earlier one may have failed already.
        if unsettled.index >= self.progress.position.index {
            return status;
        }
        let at = reply.as_slice().get(unsettled.result_at..).unwrap_or_default();
        let opnum = Decoder::new(at).u32().ok().and_then(NfsOpnum4::from_u32);
        let opnum = opnum.unwrap_or(NfsOpnum4::OP_ILLEGAL);
        let fh = Fh::Object(unsettled.object.clone());
        self.nfs.note_cause(self.now(), opnum, Some(&fh), Cause::Backend(error));
        reply.truncate(unsettled.result_at);
        self.progress.position.index = unsettled.index + 1;
        write_failure(self.progress.minor, opnum, vfs_status(error), reply)
    }
}

impl CompoundState {
    /// Which object is to be put on stable storage before a COMPOUND is answered whose operations
    /// have all run.
    pub fn unsettled(&self) -> Option<FileKey> {
        let CompoundPhase::Executed(_) = self.phase else { return None };
        self.unsettled.borrow().first().map(|unsettled| unsettled.object.key())
    }

    /// Puts it there; for all whose changes were made before this began.
    ///
    /// # Errors
    /// The backend's: then none of them is to be acknowledged.
    pub fn settle(&self) -> VfsResult<()> {
        let settle =
            |unsettled: &PendingSync| unsettled.object.export.backend.settle(&unsettled.object.handle);
        self.unsettled.borrow().iter().try_for_each(settle)
    }
}

impl Nfs {
    /// Ends a COMPOUND whose operations have all run, now that what it has changed is on stable
    /// storage or cannot be put there.
    pub fn settled(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        mut state: Box<CompoundState>,
        outcome: Result<(), VfsError>,
    ) -> super::CompoundOutcome {
        let status = match state.phase {
            CompoundPhase::Executed(status) => status,
            CompoundPhase::Running | CompoundPhase::Deferred(_) => Nfsstat4::NFS4ERR_SERVERFAULT,
        };
        let unsettled = state.unsettled.take();
        let mut compound = Compound::new(self, call, &mut state, WaitPolicy::Waits);
        let settle = |status, unsettled: &PendingSync| compound.settled(unsettled, outcome, status, reply);
        let status = unsettled.iter().fold(status, settle);
        compound.end(status, reply)
    }
}
