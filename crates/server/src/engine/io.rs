//! Stateids of READ, WRITE and SETATTR, and the open files behind them (RFC 8881 section 9.1.2).

use super::{Compound, DeferReason, FileKey, Object, OpResult, OpenPayload};
use nfs4::{Nfsstat4, Stateid4};
use state::StateidKind;
use std::sync::Arc;
use vfs::{OpenAccess, OpenFile, VfsError};

/// The READ bit of share_access and share_deny.
pub const SHARE_READ: u32 = 1;
/// The WRITE bit of share_access and share_deny.
pub const SHARE_WRITE: u32 = 2;

impl Compound<'_> {
    /// Returns the file to READ with a stateid: the open's, or one opened for this call. An open
    /// for WRITE alone allows it to callers that may read the file, for clients that read ahead or
    /// look for holes in files that programs write (RFC 8881 section 9.1.2). Linux repeats a
    /// refused request for ever.
    ///
    /// # Errors
    /// NFS4ERR_ISDIR and its kin, the errors of stateids, NFS4ERR_ACCESS, NFS4ERR_LOCKED,
    /// NFS4ERR_GRACE, and the backend's.
    pub fn file_to_read(&self, stateid: Stateid4) -> OpResult<Arc<dyn OpenFile>> {
        let object = self.object(Nfsstat4::NFS4ERR_ISDIR)?;
        match self.file_of_to_read(object, self.resolve(stateid)?) {
            Err(stop) if stop.is(Nfsstat4::NFS4ERR_OPENMODE) => {
                self.file_of_to_read(object, Stateid4::ANONYMOUS)
            }
            file => file,
        }
    }

    /// As [`Compound::file_to_read`], for any object, a stateid that is already resolved, and opens
    /// for READ alone.
    ///
    /// # Errors
    /// As [`Compound::file_to_read`], and NFS4ERR_OPENMODE.
    pub fn file_of_to_read(&self, object: &Object, stateid: Stateid4) -> OpResult<Arc<dyn OpenFile>> {
        match StateidKind::of(&stateid) {
            StateidKind::Ordinary => {
                let (client, file) = (self.client_of(&stateid)?, object.key());
                let take = |payload: &OpenPayload| (payload.user, payload.read.clone());
                let (user, read) = self.state().opens().access(client, &stateid, &file, SHARE_READ, take)?;
                self.check_user(object, user, SHARE_READ)?;
                read.ok_or(Nfsstat4::NFS4ERR_OPENMODE.into())
            }
            kind => {
                // The bypass stateid reads past share reservations that deny it.
                if kind != StateidKind::Bypass {
                    self.check_anonymous(object, SHARE_READ)?;
                }
                self.check_unopened_read(object)?;
                self.open_once(object, OpenAccess { read: true, write: false })
            }
        }
    }

    /// Returns the file of a stateid, opened with any access.
    ///
    /// # Errors
    /// As [`Compound::file_to_read`], without NFS4ERR_OPENMODE.
    pub fn file_to_advise(&self, stateid: Stateid4) -> OpResult<Arc<dyn OpenFile>> {
        let object = self.object(Nfsstat4::NFS4ERR_ISDIR)?;
        let stateid = self.resolve(stateid)?;
        if StateidKind::of(&stateid) != StateidKind::Ordinary {
            return self.file_of_to_read(object, stateid);
        }
        let take = |payload: &OpenPayload| (payload.user, payload.any().cloned());
        let (user, file) =
            self.state().opens().access(self.client_of(&stateid)?, &stateid, &object.key(), 0, take)?;
        self.check_user(object, user, SHARE_READ)?;
        file.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID.into())
    }

    /// Returns the file to WRITE with a stateid: the open's, or one opened for this call.
    ///
    /// # Errors
    /// As [`Compound::file_to_read`].
    pub fn file_to_write(&self, stateid: Stateid4) -> OpResult<Arc<dyn OpenFile>> {
        let object = self.object(Nfsstat4::NFS4ERR_ISDIR)?;
        let stateid = self.resolve(stateid)?;
        match StateidKind::of(&stateid) {
            StateidKind::Ordinary => self.opened_for_write(object, &stateid),
            _ => {
                self.check_anonymous(object, SHARE_WRITE)?;
                self.begin_change(object)?;
                self.open_once(object, OpenAccess { read: false, write: true })
            }
        }
    }

    /// Returns the open files of all opens that the client holds on an object, or else of its
    /// delegation.
    pub fn opened(&self, object: &Object) -> Vec<Arc<dyn OpenFile>> {
        let Ok(client) = self.client() else { return Vec::new() };
        let opened = self.state().opens().opened_by(client, &object.key(), |payload| payload.any().cloned());
        opened.into_iter().flatten().collect()
    }

    /// Returns the file of an open with WRITE access.
    ///
    /// # Errors
    /// The errors of stateids, NFS4ERR_OPENMODE, NFS4ERR_ACCESS.
    pub fn opened_for_write(&self, object: &Object, stateid: &Stateid4) -> OpResult<Arc<dyn OpenFile>> {
        let (client, file) = (self.client_of(stateid)?, object.key());
        let take = |payload: &OpenPayload| (payload.user, payload.write.clone());
        let (user, write) = self.state().opens().access(client, stateid, &file, SHARE_WRITE, take)?;
        let file = write.ok_or(Nfsstat4::NFS4ERR_OPENMODE)?;
        if self.is_caller(object, user) {
            return Ok(file);
        }
        self.check_other_user(object, SHARE_WRITE)?;
        // A client sends the writes of all its users with the stateid of its delegation.
        Ok(file.written_by(&self.caller(object)).unwrap_or(file))
    }

    /// Says whether a user is the caller.
    fn is_caller(&self, object: &Object, user: Option<u32>) -> bool {
        user == Some(object.rule().squash_uid(self.call.security.caller.as_ref()))
    }

    /// Checks the file's mode for I/O unless the caller is the user of the open.
    ///
    /// # Errors
    /// As [`Compound::check_other_user`].
    fn check_user(&self, object: &Object, user: Option<u32>, access: u32) -> OpResult {
        if self.is_caller(object, user) { Ok(()) } else { self.check_other_user(object, access) }
    }

    /// Checks the file's mode for I/O by another user than the one of the open: a stateid alone is
    /// no permission.
    ///
    /// # Errors
    /// NFS4ERR_ACCESS, and the backend's.
    fn check_other_user(&self, object: &Object, access: u32) -> OpResult {
        self.check_cached(object)?;
        let caller = self.caller(object);
        let backend = &object.export.backend;
        let permissions = backend.access(&caller, &object.handle)?;
        let may = match access {
            SHARE_READ => permissions.read || permissions.execute,
            _ => permissions.write,
        };
        if may || backend.getattr(&object.handle)?.uid == caller.uid {
            return Ok(());
        }
        Err(Nfsstat4::NFS4ERR_ACCESS.into())
    }

    /// Checks I/O without an open against the share reservations of others.
    ///
    /// # Errors
    /// NFS4ERR_LOCKED, NFS4ERR_GRACE.
    pub fn check_anonymous(&self, object: &Object, access: u32) -> OpResult {
        let file = object.key();
        match self.state().opens().anonymous_access(&file, access) {
            Err(Nfsstat4::NFS4ERR_LOCKED) if self.expired_give_way(&file)? => {
                self.state().opens().anonymous_access(&file, access)?;
            }
            allowed => allowed?,
        }
        self.note_grant();
        Ok(())
    }

    /// Removes clients with expired leases that have the file open, because they block another
    /// client. Returns whether there were any (RFC 8881 section 8.4.3).
    ///
    /// # Errors
    /// [`OpStop::Deferred`], since their records are removed from stable storage.
    pub fn expired_give_way(&self, file: &FileKey) -> OpResult<bool> {
        if !self.state().leases().is_held_by_expired(self.now(), file) {
            return Ok(false);
        }
        if !self.may_wait() {
            return Err(DeferReason::CurrentExport.into());
        }
        Ok(self.with_effects(|state, effects| state.leases().free_expired(self.now(), file, effects)))
    }

    /// Runs a step that returns NFS4ERR_DELAY while delegations are recalled. It does not wait for
    /// clients with expired leases: they are removed first.
    pub(super) fn past_expired<R>(
        &self,
        file: &FileKey,
        run: impl Fn() -> Result<R, Nfsstat4>,
    ) -> OpResult<R> {
        match run() {
            Err(Nfsstat4::NFS4ERR_DELAY) if self.expired_give_way(file)? => Ok(run()?),
            done => Ok(done?),
        }
    }

    fn open_once(&self, object: &Object, access: OpenAccess) -> OpResult<Arc<dyn OpenFile>> {
        self.check_cached(object)?;
        Ok(object.export.backend.open(&self.caller(object), &object.handle, access)?)
    }

    /// Opens a file with access that its owner was granted before, even if its mode forbids it now:
    /// to reclaim after a restart, or for a second OPEN. Other callers get the access of the mode.
    ///
    /// # Errors
    /// The error of the backend.
    pub fn open_granted(&self, object: &Object, access: OpenAccess) -> OpResult<Arc<dyn OpenFile>> {
        let (backend, caller) = (&object.export.backend, self.caller(object));
        match backend.open(&caller, &object.handle, access) {
            Err(refused @ (VfsError::Access | VfsError::Perm)) => {
                match backend.open_own(&caller, &object.handle, access) {
                    Err(VfsError::Access) => Err(refused.into()),
                    opened => Ok(opened?),
                }
            }
            opened => Ok(opened?),
        }
    }
}
