//! Path traversal: pseudo directories, exports and the objects in them (RFC 8881 section 7).

use super::{Compound, DeferReason, Fh, Object, OpError, OpResult};
use nfs4::Nfsstat4;
use vfs::{Attributes, FileType, ObjectHandle, Place, VfsError, VfsResult};

impl Compound<'_> {
    /// Looks up a checked name in a directory, and crosses into an export mounted on the name.
    ///
    /// # Errors
    /// NFS4ERR_NOENT, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, and the backend's.
    pub fn lookup(&self, directory: &Fh, name: &[u8]) -> OpResult<Fh> {
        if let Some(child) = self.lookup_pseudo(directory, name)? {
            return Ok(child);
        }
        let error: OpError = match directory {
            Fh::Pseudo(_) => Nfsstat4::NFS4ERR_NOENT.into(),
            Fh::Object(object) => match self.find(object, name)? {
                // Below an export that hides another one, this can be the folder of that one.
                Ok(handle) => return Ok(Fh::Object(object.other(handle))),
                Err(VfsError::Notdir) => not_directory(object).into(),
                Err(error) => error.into(),
            },
        };
        if error.status == Nfsstat4::NFS4ERR_NOENT {
            self.note_if_hidden(directory, name);
        }
        Err(error.into())
    }

    /// Looks up a name in the backend; where blocking is not allowed, only in its cache.
    fn find(&self, directory: &Object, name: &[u8]) -> OpResult<VfsResult<ObjectHandle>> {
        self.progress.expensive.set(true);
        let backend = &directory.export.backend;
        let caller = self.caller(directory);
        if self.may_wait() {
            return Ok(backend.lookup(&caller, &directory.handle, name));
        }
        let found = backend.lookup_now(&caller, &directory.handle, name).transpose();
        found.ok_or(DeferReason::CurrentExport.into())
    }

    /// Looks up a name of the pseudo file system in a pseudo directory or on the root of an export.
    ///
    /// # Errors
    /// As [`Compound::await_client`].
    pub fn lookup_pseudo(&self, directory: &Fh, name: &[u8]) -> OpResult<Option<Fh>> {
        let Some(place) = directory.place() else { return Ok(None) };
        self.await_client(|exports, peer| match exports.pseudo().lookup(place, name, peer)? {
            Some(child) => Fh::of_place(exports, child, peer),
            None => Ok(None),
        })
    }

    /// Returns the parent of a directory.
    ///
    /// # Errors
    /// NFS4ERR_NOENT at the root, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, and the backend's.
    pub fn parent(&self, directory: &Fh) -> OpResult<Fh> {
        if let Some(place) = directory.place() {
            let parent =
                self.await_client(|exports, peer| match exports.pseudo().parent(place, peer)? {
                    Some(parent) => Fh::of_place(exports, parent, peer),
                    None => Ok(None),
                })?;
            return parent.ok_or(Nfsstat4::NFS4ERR_NOENT.into());
        }
        let Fh::Object(object) = directory else { return Err(Nfsstat4::NFS4ERR_NOENT.into()) };
        let caller = self.caller(object);
        match object.export.backend.lookup_parent(&caller, &object.handle) {
            Ok(handle) => Ok(Fh::Object(object.other(handle))),
            Err(VfsError::Notdir) => Err(not_directory(object).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the root of the namespace as the client sees it.
    ///
    /// # Errors
    /// NFS4ERR_SERVERFAULT when there is none, which is a defect of the server, and as
    /// [`Compound::await_client`].
    pub fn root(&self) -> OpResult<Fh> {
        let root = self.await_client(|exports, peer| {
            let place = exports.pseudo().root(peer)?;
            Fh::of_place(exports, place, peer)
        })?;
        root.ok_or(Nfsstat4::NFS4ERR_SERVERFAULT.into())
    }

    /// Returns an object's attributes from the backend or the pseudo file system. A file without
    /// names has attributes as long as the client has it open or delegated: CLOSE and DELEGRETURN
    /// may be in one COMPOUND with GETATTR.
    ///
    /// # Errors
    /// NFS4ERR_STALE and the backend's, [`OpStop::Deferred`].
    pub fn attributes(&self, fh: &Fh) -> OpResult<Attributes> {
        if let Fh::Object(object) = fh {
            self.check_cached(object)?;
        }
        match fh {
            Fh::Object(object) => match object.export.backend.getattr(&object.handle) {
                Err(VfsError::Stale) => match self.opened(object).first() {
                    Some(file) => Ok(file.getattr()?),
                    None => Err(Nfsstat4::NFS4ERR_STALE.into()),
                },
                known => Ok(known?),
            },
            Fh::Pseudo(fileid) => {
                let attributes = self.progress.exports.pseudo().attributes(*fileid, self.peer());
                attributes.ok_or(Nfsstat4::NFS4ERR_STALE.into())
            }
        }
    }

    /// Returns the fileid of the object below a mount. At the root of an export or of another file
    /// system it differs from the fileid (RFC 8881 section 5.8.2.23).
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

    /// Returns the current filehandle as a directory in which changes are allowed.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, NFS4ERR_ROFS.
    pub fn directory(&self) -> Result<Object, OpError> {
        self.object(Nfsstat4::NFS4ERR_ROFS).cloned()
    }
}

/// Returns the status for an object used as a directory that is none.
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
