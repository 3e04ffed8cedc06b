//! Delegations that stand against an operation (RFC 8881 section 10.4).
//!
//! What changes a file other than by an open for writing begins a change, which lasts to the end of
//! the operation: first others' delegations have to be back, and meanwhile nobody gets one.

use super::{Compound, DeferReason, Fh, FileKey, Object, OpResult};
use nfs4::{
    Bitmap4, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY,
};
use state::{ClientKey, HolderReply};
use std::str::FromStr;
use vfs::{Attributes, SetAttributes, SetTime};

/// Which delegations the server grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delegations {
    /// None, but what clients held before a restart.
    None,
    /// Those for reading.
    Read,
    /// Those for writing as well.
    #[default]
    All,
}

impl FromStr for Delegations {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "none" => Ok(Self::None),
            "read" => Ok(Self::Read),
            "all" => Ok(Self::All),
            other => Err(format!("{other:?} is no choice of delegations; there are none, read and all")),
        }
    }
}

/// Attributes that a holder of a delegation for writing may have changed without telling.
const CHANGED_BY_WRITING: Bitmap4 =
    Bitmap4::of(&[FATTR4_CHANGE, FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY]);

impl Compound<'_> {
    /// Begins a change of an object that lasts to the end of the operation.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while others have delegations; they are recalled.
    pub fn begin_change(&self, object: &Object) -> OpResult {
        if !self.may_be_delegated() {
            return Ok(());
        }
        let (client, file) = (self.client()?, object.key());
        self.past_expired(&file, || {
            self.with_effects(|state, effects| {
                state.delegations().begin_change(self.now(), client, &file, effects)
            })
        })?;
        self.changing.borrow_mut().push(file);
        Ok(())
    }

    /// As [`Compound::begin_change`], of what a name stands for, in a directory that is held (see
    /// [`Compound::hold_names`]); the operation itself will say what is wrong with a name that
    /// stands for nothing.
    ///
    /// # Errors
    /// As [`Compound::begin_change`].
    pub fn begin_change_of_name(&self, directory: &Object, name: &[u8]) -> OpResult {
        if !self.may_be_delegated() {
            return Ok(());
        }
        let export = &directory.export;
        match export.backend.lookup(&self.caller(export), &directory.handle, name) {
            Ok(handle) => self.begin_change(&Object { export: export.clone(), handle }),
            Err(_) => Ok(()),
        }
    }

    /// Ends the changes of an operation.
    pub fn end_changes(&self) {
        let changed: Vec<FileKey> = std::mem::take(&mut *self.changing.borrow_mut());
        changed.iter().for_each(|file| self.state().delegations().end_change(file));
    }

    /// Checks that nobody may have changed a file's data without telling.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while another has a delegation for writing; it is recalled.
    pub fn check_unopened_read(&self, object: &Object) -> OpResult {
        let (client, file) = (self.client()?, object.key());
        self.past_expired(&file, || {
            self.with_effects(|state, effects| {
                state.delegations().check_unopened_read(self.now(), client, &file, effects)
            })
        })
    }

    /// Returns an object's attributes with what the holder of a delegation for writing says of
    /// them, if it is asked for such (RFC 8881 section 10.4.3).
    ///
    /// # Errors
    /// NFS4ERR_DELAY until the holder has said it, and the backend's.
    pub fn attributes_with(&self, fh: &Fh, wanted: &Bitmap4) -> OpResult<Attributes> {
        let Fh::Object(object) = fh else { return self.attributes(fh) };
        if (*wanted & CHANGED_BY_WRITING).is_empty() {
            return self.attributes(fh);
        }
        let (client, file) = (self.client()?, object.key());
        if !self.state().delegations().others_write(client, &file) {
            return self.attributes(fh);
        }
        self.await_holder(client, &file)?;
        // What is found may have to be put down.
        self.check_disk(object)?;
        let look = || {
            self.with_effects(|state, effects| {
                state.delegations().holder_attributes(self.now(), client, &file, effects)
            })
        };
        match self.past_expired(&file, look)? {
            Some(looked) => self.attributes_held(object, looked),
            None => self.attributes(fh),
        }
    }

    /// Has the holder of a delegation for writing asked and the COMPOUND suspended until it has
    /// answered, so that whoever looks need not come again; but where this thread may wait it does
    /// not, since that is no time for one.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    fn await_holder(&self, client: ClientKey, file: &FileKey) -> OpResult {
        if self.may_wait() {
            return Ok(());
        }
        match self.with_effects(|state, effects| state.delegations().ask_holder(client, file, effects)) {
            Some(look) => Err(DeferReason::Holder(look).into()),
            None => Ok(()),
        }
    }

    /// Attributes of a file that the holder of a delegation may have changed by itself. If it has,
    /// the file's times are set to now: its change attribute has to be another than before, and
    /// than after the holder has written what it has.
    fn attributes_held(&self, object: &Object, looked: HolderReply) -> OpResult<Attributes> {
        let (backend, HolderReply { held, granted }) = (&object.export.backend, looked);
        let attributes = backend.getattr(&object.handle)?;
        if held.change == granted && held.size == attributes.size {
            return Ok(attributes);
        }
        let now = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
        // A server without root may not touch the files of others: then the number alone has to
        // tell.
        if backend.setattr(&vfs::Caller::root(), &object.handle, &now).is_ok() {
            self.settle(object)?;
        }
        let touched = backend.getattr(&object.handle)?;
        let change = touched.change.max(attributes.change.saturating_add(1));
        Ok(Attributes { size: held.size, change, ..touched })
    }
}
