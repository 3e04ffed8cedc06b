//! Walking the namespace: pseudo directories, exports and what lies in them (RFC 8881 section 7).

use super::{Compound, DeferReason, Fh, Object, OpError, OpResult};
use nfs4::Nfsstat4;
use vfs::{Attributes, FileType, ObjectHandle, Place, VfsError, VfsResult};

impl Compound<'_> {
    /// Finds a checked name in a directory, crossing into an export where one lies on the name.
    ///
    /// # Errors
    /// NFS4ERR_NOENT, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, and the backend's.
    pub fn lookup(&self, directory: &Fh, name: &[u8]) -> OpResult<Fh> {
        if let Some(child) = self.lookup_pseudo(directory, name) {
            return Ok(child);
        }
        match directory {
            Fh::Pseudo(_) => Err(Nfsstat4::NFS4ERR_NOENT.into()),
            Fh::Object(object) => match self.find(object, name)? {
                Ok(handle) => Ok(Fh::of(&object.export, handle)),
                Err(VfsError::Notdir) => Err(not_directory(object).into()),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Asks the backend for a name; where waiting is not allowed, only as far as it knows without.
    fn find(&self, directory: &Object, name: &[u8]) -> OpResult<VfsResult<ObjectHandle>> {
        let backend = &directory.export.backend;
        let caller = self.caller(&directory.export);
        if self.may_wait() {
            return Ok(backend.lookup(&caller, &directory.handle, name));
        }
        let found = backend.lookup_now(&caller, &directory.handle, name).transpose();
        found.ok_or(DeferReason::CurrentExport.into())
    }

    /// Finds a name of the pseudo file system in a pseudo directory or on the root of an export.
    pub fn lookup_pseudo(&self, directory: &Fh, name: &[u8]) -> Option<Fh> {
        let place = directory.place()?;
        let child = self.progress.exports.pseudo().lookup(place, name, self.client_ip())?;
        Fh::of_place(&self.progress.exports, child)
    }

    /// Finds the directory above a directory.
    ///
    /// # Errors
    /// NFS4ERR_NOENT at the top, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, and the backend's.
    pub fn parent(&self, directory: &Fh) -> OpResult<Fh> {
        if let Some(place) = directory.place() {
            let parent = self.progress.exports.pseudo().parent(place, self.client_ip());
            let parent = parent.and_then(|parent| Fh::of_place(&self.progress.exports, parent));
            return parent.ok_or(Nfsstat4::NFS4ERR_NOENT.into());
        }
        let Fh::Object(object) = directory else { return Err(Nfsstat4::NFS4ERR_NOENT.into()) };
        let caller = self.caller(&object.export);
        match object.export.backend.lookup_parent(&caller, &object.handle) {
            Ok(handle) => Ok(Fh::of(&object.export, handle)),
            Err(VfsError::Notdir) => Err(not_directory(object).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the root of the namespace as the client sees it.
    ///
    /// # Errors
    /// NFS4ERR_SERVERFAULT when there is none, which is our fault.
    pub fn root(&self) -> Result<Fh, OpError> {
        let place = self.progress.exports.pseudo().root(self.client_ip());
        Fh::of_place(&self.progress.exports, place).ok_or(Nfsstat4::NFS4ERR_SERVERFAULT.into())
    }

    /// Returns an object's attributes as the backend or the pseudo file system has them. A file
    /// that has lost its last name has them as long as the client has it open: CLOSE may come in
    /// one COMPOUND with GETATTR.
    ///
    /// # Errors
    /// NFS4ERR_STALE and the backend's, [`OpStop::Deferred`].
    pub fn attributes(&self, fh: &Fh) -> OpResult<Attributes> {
        if let Fh::Object(object) = fh {
            self.check_at_hand(object)?;
        }
        match fh {
            Fh::Object(object) => match object.export.backend.getattr(&object.handle) {
                Err(VfsError::Stale) => match self.opened(object) {
                    Some(file) => Ok(file.getattr()?),
                    None => Err(Nfsstat4::NFS4ERR_STALE.into()),
                },
                known => Ok(known?),
            },
            Fh::Pseudo(fileid) => {
                let attributes = self.progress.exports.pseudo().attributes(*fileid, self.client_ip());
                attributes.ok_or(Nfsstat4::NFS4ERR_STALE.into())
            }
        }
    }

    /// Returns the fileid of what an object covers: another than its own at the root of an export
    /// or of another file system (RFC 8881 section 5.8.2.23).
    pub fn mounted_on_fileid(&self, fh: &Fh, attributes: &Attributes) -> u64 {
        let covered = match fh.place() {
            Some(place @ Place::Export(_)) => self.progress.exports.pseudo().fileid(place),
            _ => match fh {
                Fh::Object(object) => object.export.backend.mounted_on(&object.handle),
                Fh::Pseudo(_) => None,
            },
        };
        covered.unwrap_or(attributes.fileid)
    }

    /// Checks that the current filehandle is a directory that may be changed, and returns it.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, NFS4ERR_ROFS.
    pub fn directory(&self) -> Result<Object, OpError> {
        self.object(Nfsstat4::NFS4ERR_ROFS).cloned()
    }
}

/// The status for an object that is not the directory that it should be.
fn not_directory(object: &Object) -> Nfsstat4 {
    match object.export.backend.getattr(&object.handle) {
        Ok(attributes) if attributes.file_type == FileType::Symlink => Nfsstat4::NFS4ERR_SYMLINK,
        _ => Nfsstat4::NFS4ERR_NOTDIR,
    }
}

/// Checks that an object is a regular file (RFC 8881 section 15.1.4).
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE.
pub fn regular_file(file_type: FileType) -> Result<(), OpError> {
    match file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Nfsstat4::NFS4ERR_ISDIR.into()),
        FileType::Symlink => Err(Nfsstat4::NFS4ERR_SYMLINK.into()),
        _ => Err(Nfsstat4::NFS4ERR_WRONG_TYPE.into()),
    }
}
