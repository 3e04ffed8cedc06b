//! What a filehandle stands for, and how places of the namespace become filehandles.

use super::{Compound, Failure};
use nfs4::{Filehandle, Nfsstat4};
use std::sync::Arc;
use vfs::{Export, ExportTable, ObjectHandle, Place};
use xdr::Encoder;

/// A file as state knows it: opens and locks hang on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// The export's number.
    pub export: u32,
    /// The backend's handle.
    pub handle: ObjectHandle,
}

/// An object of an export.
#[derive(Clone, Debug)]
pub struct Object {
    /// The export that it was reached through.
    pub export: Arc<Export>,
    /// The backend's handle.
    pub handle: ObjectHandle,
}

impl Object {
    /// The file as state knows it.
    pub fn key(&self) -> FileKey {
        FileKey { export: self.export.id, handle: self.handle }
    }

    /// Whether it is the root of its export.
    pub fn is_root(&self) -> bool {
        self.handle == self.export.backend.root()
    }
}

/// What a filehandle stands for.
#[derive(Clone, Debug)]
pub enum Fh {
    /// A directory of the pseudo file system, by fileid.
    Pseudo(u64),
    /// An object of an export.
    Object(Object),
}

impl Fh {
    /// Returns what a place of the pseudo file system leads to; `None` for an export that is not there.
    pub fn of_place(exports: &ExportTable, place: Place) -> Option<Self> {
        match place {
            Place::Node(fileid) => Some(Self::Pseudo(fileid)),
            Place::Export(id) => exports.by_id(id).map(Self::root_of),
        }
    }

    /// Returns the root of an export.
    pub fn root_of(export: &Arc<Export>) -> Self {
        Self::Object(Object { export: Arc::clone(export), handle: export.backend.root() })
    }

    /// Returns the object of an export.
    pub fn of(export: &Arc<Export>, handle: ObjectHandle) -> Self {
        Self::Object(Object { export: Arc::clone(export), handle })
    }

    /// Returns the place in the pseudo file system: a pseudo directory or the root of an export.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Pseudo(fileid) => Some(Place::Node(*fileid)),
            Self::Object(object) => object.is_root().then_some(Place::Export(object.export.id)),
        }
    }

    /// Whether changes are refused: the pseudo file system never changes, an export may be read-only.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Pseudo(_) => true,
            Self::Object(object) => object.export.read_only,
        }
    }

    /// Whether both name the same object.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pseudo(a), Self::Pseudo(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a.key() == b.key(),
            _ => false,
        }
    }
}

/// The export number in filehandles of the pseudo file system; no export has it.
const PSEUDO_EXPORT: u32 = 0;

impl Compound<'_> {
    /// Reads a filehandle that a client sent; whether the object still exists is for the operations to find.
    ///
    /// # Errors
    /// NFS4ERR_BADHANDLE for one that the server has not made, NFS4ERR_STALE when the export is gone or closed
    /// to this client.
    pub fn decode_fh(&self, bytes: &[u8]) -> Result<Fh, Failure> {
        let decoded = Filehandle::decode(&self.nfs.filehandle_key, bytes);
        let decoded = decoded.map_err(|_| Nfsstat4::NFS4ERR_BADHANDLE)?;
        if decoded.export == PSEUDO_EXPORT {
            let fileid = decoded.object.try_into().map_err(|_| Nfsstat4::NFS4ERR_BADHANDLE)?;
            let fileid = u64::from_be_bytes(fileid);
            let there = self.exports.pseudo().contains(fileid, self.client_ip());
            return if there { Ok(Fh::Pseudo(fileid)) } else { Err(Nfsstat4::NFS4ERR_STALE.into()) };
        }
        let export = self.exports.by_id(decoded.export).filter(|export| export.admits(self.client_ip()));
        let export = export.ok_or(Nfsstat4::NFS4ERR_STALE)?;
        let handle = ObjectHandle::new(decoded.object).ok_or(Nfsstat4::NFS4ERR_BADHANDLE)?;
        Ok(Fh::of(export, handle))
    }

    /// Writes a filehandle as nfs_fh4.
    pub fn encode_fh(&self, fh: &Fh, reply: &mut Encoder) {
        let at = reply.len();
        reply.u32(0);
        let fileid;
        let filehandle = match fh {
            Fh::Object(object) => Filehandle { export: object.export.id, object: object.handle.as_bytes() },
            Fh::Pseudo(node) => {
                fileid = node.to_be_bytes();
                Filehandle { export: PSEUDO_EXPORT, object: &fileid }
            }
        };
        // Cannot fail: both crates bound a backend's handle by the same number, see below.
        let _ = filehandle.append_to(&self.nfs.filehandle_key, reply.as_mut_vec());
        let length = reply.len() - at - 4;
        reply.patch_u32(at, u32::try_from(length).unwrap_or(u32::MAX));
        reply.pad(length);
    }
}

const _: () = assert!(vfs::OBJECT_HANDLE_MAX <= nfs4::filehandle::OBJECT_HANDLE_MAX);
