//! Delegations that stand against an operation (RFC 8881 section 10.4).
//!
//! What changes a file other than by an open for writing begins a change, which lasts to the end of the operation: first
//! others' delegations have to be back, and meanwhile nobody gets one.

use super::{Compound, Failure, FileKey, Object, OpResult};
use nfs4::{
    Bitmap4, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY,
};
use std::str::FromStr;

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
        if self.nfs.config.delegations == Delegations::None && !self.state().has_delegations() {
            return Ok(());
        }
        let (client, file) = (self.client()?, object.key());
        self.with_effects(|state, effects| state.begin_change(self.now(), client, &file, effects))?;
        self.changing.borrow_mut().push(file);
        Ok(())
    }

    /// As [`Compound::begin_change`], of what a name stands for; the operation itself will say what is wrong with a name
    /// that stands for nothing.
    ///
    /// # Errors
    /// As [`Compound::begin_change`].
    pub fn begin_change_of_name(&self, directory: &Object, name: &[u8]) -> OpResult {
        if !self.state().has_delegations() {
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
        changed.iter().for_each(|file| self.state().end_change(file));
    }

    /// Checks that nobody may have changed a file's data without telling.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while another has a delegation for writing; it is recalled.
    pub fn check_look(&self, object: &Object) -> OpResult {
        let (client, file) = (self.client()?, object.key());
        Ok(self.with_effects(|state, effects| state.check_look(self.now(), client, &file, effects))?)
    }

    /// As [`Compound::check_look`], for these attributes.
    ///
    /// # Errors
    /// As [`Compound::check_look`].
    pub fn check_look_at(&self, object: &Object, wanted: &Bitmap4) -> Result<(), Failure> {
        if (*wanted & CHANGED_BY_WRITING).is_empty() { Ok(()) } else { self.check_look(object) }
    }
}
