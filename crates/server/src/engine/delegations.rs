//! Delegations that conflict with an operation (RFC 8881 section 10.4).
//!
//! An operation that changes a file, other than an open for writing, begins a change that lasts to
//! its end. First the delegations of other clients are returned, and no client gets a new one until
//! then.

use super::{Compound, DeferReason, Fh, FileKey, Object, OpResult};
use nfs4::{
    Bitmap4, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY,
    Nfsstat4,
};
use state::{ClientKey, HolderReply};
use std::str::FromStr;
use vfs::{Attributes, FileType, FoundObject, SetAttributes, SetTime, VfsError};

/// The kinds of delegations that the server grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delegations {
    /// None, except to reclaim delegations held before a restart.
    None,
    /// Read delegations, no write delegations.
    Read,
    /// Read and write delegations.
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

/// Attributes that the holder of a write delegation may have changed locally.
const CHANGED_BY_WRITING: Bitmap4 =
    Bitmap4::of(&[FATTR4_CHANGE, FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY]);

impl Compound<'_> {
    /// Begins a change of an object that lasts to the end of the operation.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while other clients have delegations; they are recalled.
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

    /// As [`Compound::begin_change`], for the object of a name that is held (see
    /// [`Compound::hold_names`]). Returns the object; a name without one is left to the operation
    /// itself.
    ///
    /// # Errors
    /// As [`Compound::begin_change`], and the backend's where the object stays unknown.
    pub fn begin_change_of_name(&self, directory: &Object, name: &[u8]) -> OpResult<Option<FoundObject>> {
        use VfsError::{Delay, Exhausted, Io, Os};
        let export = &directory.export;
        let found = export.backend.lookup_to_change(&self.caller(directory), &directory.handle, name);
        let found = match found {
            // There may be one, and its delegations would stay.
            Err(error @ (Delay | Exhausted | Io | Os(_))) => return Err(error.into()),
            found => found.ok(),
        };
        if let Some(found) = &found
            && self.may_be_delegated()
        {
            self.begin_change(&directory.other(found.handle))?;
        }
        Ok(found)
    }

    /// Checks that an operation may take the last name of a file. While clients may reclaim, one of
    /// them may have it open without the server's knowledge, and cannot reclaim a file without a
    /// name.
    ///
    /// # Errors
    /// NFS4ERR_GRACE, and the backend's.
    pub fn check_last_name(&self, directory: &Object, found: Option<&FoundObject>) -> OpResult {
        let Some(found) = found else { return Ok(()) };
        let object = directory.other(found.handle);
        if !self.state().leases().refuses_new(object.key().is_shared()) {
            return Ok(());
        }
        let attributes = match &found.attributes {
            Some(attributes) => attributes.clone(),
            None => object.export.backend.getattr(&object.handle)?,
        };
        match attributes.file_type == FileType::Regular && attributes.nlink == 1 {
            true => Err(Nfsstat4::NFS4ERR_GRACE.into()),
            false => Ok(()),
        }
    }

    /// Ends all changes that the operation has begun.
    pub fn end_changes(&self) {
        let changed: Vec<FileKey> = std::mem::take(&mut *self.changing.borrow_mut());
        changed.iter().for_each(|file| self.state().delegations().end_change(file));
    }

    /// Checks that no other client can hold unwritten data of a file.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while another client has a write delegation; it is recalled.
    pub fn check_unopened_read(&self, object: &Object) -> OpResult {
        let (client, file) = (self.client()?, object.key());
        self.past_expired(&file, || {
            self.with_effects(|state, effects| {
                state.delegations().check_unopened_read(self.now(), client, &file, effects)
            })
        })
    }

    /// Returns an object's attributes. If the request includes such that the holder of a write
    /// delegation may have changed, they include the holder's values (RFC 8881 section 10.4.3).
    ///
    /// # Errors
    /// NFS4ERR_DELAY until the holder has answered, and the backend's.
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
        // The attributes may have to be written to the file.
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

    /// Sends CB_GETATTR to the holder of a write delegation and suspends the COMPOUND until the
    /// answer, so that the caller need not retry. A thread that may block does not wait here, since
    /// a client's answer can take too long.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    fn await_holder(&self, client: ClientKey, file: &FileKey) -> OpResult {
        if self.may_wait() {
            return Ok(());
        }
        match self
            .with_effects(|state, effects| state.delegations().ask_holder(self.now(), client, file, effects))
        {
            Some(wait) => Err(DeferReason::Holder(wait).into()),
            None => Ok(()),
        }
    }

    /// Returns the attributes of a file that the holder of a delegation may have changed. If it
    /// has, the file's times are set to now: its change attribute must differ from the former
    /// value, and from the value after the holder has written its data back.
    fn attributes_held(&self, object: &Object, looked: HolderReply) -> OpResult<Attributes> {
        let (backend, HolderReply { held, granted }) = (&object.export.backend, looked);
        let attributes = backend.getattr(&object.handle)?;
        if held.change == granted && held.size == attributes.size {
            return Ok(attributes);
        }
        let now = SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() };
        // A server without root may not set the times of others' files. Then only the returned
        // number changes.
        if backend.setattr(&vfs::Caller::root(), &object.handle, &now).is_ok() {
            self.sync_before_reply(object)?;
        }
        let touched = backend.getattr(&object.handle)?;
        let change = touched.change.max(attributes.change.saturating_add(1));
        Ok(Attributes { size: held.size, change, ..touched })
    }
}
