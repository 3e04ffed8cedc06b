//! COMPOUNDs that stop before an operation that would wait, and go on where they may.

use super::table::{Operation, Waits};
use super::unsettled::Unsettled;
use super::{Compound, DeferReason, Fh, FileKey, InSession, Nfs, Object, Of40, OpResult, Position};
use crate::dispatch::WaitsFor;
use crate::engine::Call;
use identity::LOOKUP_WAIT_MAX;
use nfs4::{Nfsstat4, Stateid4};
use state::GetattrWait;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use vfs::{ExportTable, VfsResult};

/// Whether operations may wait for a disk, for stable storage or for a directory of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// They may.
    Waits,
    /// They may not: the COMPOUND is suspended.
    Suspends,
}

/// A COMPOUND that stands before an operation that would wait, or whose operations have all run and whose changes are to be put on stable
/// storage; it owns what it has come to.
///
/// Its slot stays in use until [`Nfs::resume`], [`Nfs::give_up`] or [`Nfs::settled`] takes it.
#[must_use = "its slot stays busy until it is resumed or given up"]
#[derive(Debug)]
pub struct Suspended {
    exports: Arc<ExportTable>,
    minor: u32,
    position: Position,
    current: Option<Fh>,
    restricted: bool,
    saved: Option<Fh>,
    stateid: Option<Stateid4>,
    saved_stateid: Option<Stateid4>,
    session: Option<InSession>,
    v40: Of40,
    reply_end: usize,
    /// What it waits for.
    reason: DeferReason,
    /// What has been changed and is not on stable storage.
    pub(super) unsettled: Vec<Unsettled>,
    /// The last status, when all operations have run.
    pub(super) ended: Option<Nfsstat4>,
    /// Where in the reply COMPOUND4res begins.
    pub(super) start: usize,
    /// Where in the reply the number of results stands.
    pub(super) count_at: usize,
    /// Where in the arguments the operation begins.
    pub(super) args_at: usize,
}

impl WaitsFor for Box<Suspended> {
    fn lane(&self) -> u32 {
        match (self.reason, &self.current) {
            (DeferReason::Lane(lane), _) => lane,
            (_, Some(Fh::Object(object))) => object.export.id,
            _ => 0,
        }
    }

    fn answer(&self) -> Option<GetattrWait> {
        match self.reason {
            DeferReason::Holder(look) => Some(look),
            DeferReason::CurrentExport | DeferReason::Lane(_) => None,
        }
    }

    fn unsettled(&self) -> Option<FileKey> {
        Suspended::unsettled(self)
    }

    fn settle(&self) -> VfsResult<()> {
        Suspended::settle(self)
    }
}

impl<'c> Compound<'c> {
    /// Moves out what the COMPOUND has come to; the slot goes with it.
    pub(super) fn suspend(
        &mut self,
        reason: DeferReason,
        start: usize,
        count_at: usize,
        args_at: usize,
    ) -> Suspended {
        Suspended {
            exports: self.exports.clone(),
            minor: self.minor,
            position: self.position,
            current: self.current.take(),
            restricted: self.restricted,
            saved: self.saved.take(),
            stateid: self.stateid,
            saved_stateid: self.saved_stateid,
            session: self.session.take(),
            v40: self.v40.clone(),
            reply_end: self.reply_end,
            reason,
            unsettled: self.unsettled.take(),
            ended: None,
            start,
            count_at,
            args_at,
        }
    }

    /// Takes up a COMPOUND where it stands.
    pub(super) fn resumed(nfs: &'c Nfs, call: &'c Call<'c>, suspended: Suspended) -> Self {
        Self {
            nfs,
            call,
            exports: suspended.exports,
            minor: suspended.minor,
            position: suspended.position,
            current: suspended.current,
            restricted: suspended.restricted,
            saved: suspended.saved,
            stateid: suspended.stateid,
            saved_stateid: suspended.saved_stateid,
            session: suspended.session,
            v40: suspended.v40,
            replay: None,
            reply_start: suspended.start,
            reply_end: suspended.reply_end,
            changing: RefCell::default(),
            unsettled: RefCell::new(suspended.unsettled),
            result_at: suspended.start,
            names_wait_left: Cell::new(LOOKUP_WAIT_MAX),
            patience: Patience::Waits,
        }
    }

    /// Whether operations may wait here.
    pub fn may_wait(&self) -> bool {
        self.patience == Patience::Waits
    }

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
        match (operation.waits, &self.current) {
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
        for fh in [&self.current, &self.saved].into_iter().flatten() {
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
