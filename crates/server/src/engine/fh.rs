//! Objects behind filehandles, and filehandles of places in the namespace.

pub(super) mod image;

use super::{Compound, Nfs, OpResult};
use nfs4::{Filehandle, FilehandleError, FilehandleKey, Nfsstat4};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use vfs::{
    ClientPeer, Export, ExportRule, ExportTable, Identity, ObjectHandle, Place, RuleIndex, Unresolved,
};
use xdr::Encoder;

/// The key of a file in the state's tables of opens and locks. Two keys are equal if they name the
/// same file on this machine, through any export. Export and handle are the ones that the client
/// uses.
#[derive(Clone, Copy, Debug)]
pub struct FileKey {
    /// The number of the export.
    pub export: u32,
    /// The backend's handle of the object.
    pub handle: ObjectHandle,
    /// The identity that all exports of the file share, if the backend knows one.
    identity: Option<Identity>,
}

impl FileKey {
    /// Returns the key of an object without asking its backend. It equals only keys of this kind.
    pub(super) fn unidentified(object: &Object) -> Self {
        Self { export: object.export.id, handle: object.handle, identity: None }
    }

    /// Returns the key with the identity that its backend knows.
    pub(super) fn identified(self, exports: &ExportTable) -> Self {
        let export = exports.by_id(self.export);
        Self { identity: export.and_then(|export| export.backend.identity(&self.handle)), ..self }
    }

    /// Returns the parts that are compared: the identity, or export and handle.
    fn file(&self) -> (Option<u64>, u32, &[u8]) {
        let bytes = self.handle.as_bytes();
        match self.identity {
            Some(Identity { device, skip, .. }) => (Some(device), 0, bytes.get(skip..).unwrap_or(bytes)),
            None => (None, self.export, bytes),
        }
    }

    /// Returns whether the key has this identity.
    pub(super) fn is_identity(&self, identity: Option<Identity>) -> bool {
        self.identity == identity
    }

    /// Returns whether both files take their space from one file system.
    pub fn shares_space_with(&self, other: &Self) -> bool {
        match (self.identity, other.identity) {
            (Some(own), Some(other)) => own.device == other.device,
            _ => self.export == other.export,
        }
    }

    /// Returns whether other servers serve the file as well.
    pub fn is_shared(&self) -> bool {
        self.identity.is_some_and(|identity| identity.shared)
    }

    /// Returns the path by which the client has reached the file. To the client, each path leads to
    /// a different file, since fsid or filehandle differ.
    pub fn view(&self) -> u64 {
        let skipped = self.identity.map_or(0, |identity| identity.skip);
        let way = self.handle.as_bytes().get(..skipped).unwrap_or_default();
        // FNV-1a: equal paths have equal hashes, and different paths nearly always different ones.
        let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        u64::from(self.export) << 32 | u64::from(way.iter().fold(0x811c_9dc5, fold))
    }
}

impl PartialEq for FileKey {
    fn eq(&self, other: &Self) -> bool {
        self.file() == other.file()
    }
}

impl Eq for FileKey {}

impl Hash for FileKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.file().hash(state);
    }
}

/// An object of an export.
#[derive(Clone, Debug)]
pub struct Object {
    /// The export through which it was reached.
    pub export: Arc<Export>,
    /// The rule of the export that admits the client.
    pub rule: RuleIndex,
    /// The backend's handle of the object.
    pub handle: ObjectHandle,
}

impl Object {
    /// Returns the root of an export; `None` if the export does not admit the client.
    ///
    /// # Errors
    /// The name of the client that must be looked up first.
    pub fn root_of(export: &Arc<Export>, peer: ClientPeer) -> Result<Option<Self>, Unresolved> {
        let rule = export.rule_for(peer)?;
        Ok(rule.map(|rule| Self { export: Arc::clone(export), rule, handle: export.backend.root() }))
    }

    /// Returns another object of the same export.
    pub fn other(&self, handle: ObjectHandle) -> Self {
        Self { export: Arc::clone(&self.export), rule: self.rule, handle }
    }

    /// Returns the terms on which the client may use the export.
    pub fn rule(&self) -> &ExportRule {
        self.export.rule(self.rule)
    }

    /// Returns the key of the file in the state's tables.
    pub fn key(&self) -> FileKey {
        FileKey {
            export: self.export.id,
            handle: self.handle,
            identity: self.export.backend.identity(&self.handle),
        }
    }

    /// Returns whether the object is the root of its export.
    pub fn is_root(&self) -> bool {
        self.handle == self.export.backend.root()
    }
}

/// The object behind a filehandle.
#[derive(Clone, Debug)]
pub enum Fh {
    /// A directory of the pseudo file system, by fileid.
    Pseudo(u64),
    /// An object of an export.
    Object(Object),
}

impl Fh {
    /// Returns the object at a place of the pseudo file system; `None` for an export that does not
    /// exist for the client.
    ///
    /// # Errors
    /// The name of the client that must be looked up first.
    pub fn of_place(
        exports: &ExportTable,
        place: Place,
        peer: ClientPeer,
    ) -> Result<Option<Self>, Unresolved> {
        match place {
            Place::Node(fileid) => Ok(Some(Self::Pseudo(fileid))),
            Place::Export(id) => {
                let root = exports.by_id(id).map(|export| Object::root_of(export, peer)).transpose()?;
                Ok(root.flatten().map(Self::Object))
            }
        }
    }

    /// Returns the place in the pseudo file system: a pseudo directory or the root of an export.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Pseudo(fileid) => Some(Place::Node(*fileid)),
            Self::Object(object) => object.is_root().then_some(Place::Export(object.export.id)),
        }
    }

    /// Returns whether changes are refused: in the pseudo file system always, in an export if it is
    /// read-only.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Pseudo(_) => true,
            Self::Object(object) => object.rule().read_only,
        }
    }

    /// Returns whether the object is in an absent file system (RFC 8881 section 11.3).
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Object(object) if object.export.absent)
    }

    /// Returns the export of the object; `None` for a pseudo directory.
    pub fn export(&self) -> Option<&Arc<Export>> {
        match self {
            Self::Pseudo(_) => None,
            Self::Object(object) => Some(&object.export),
        }
    }

    /// Returns whether it is an object of an export.
    pub fn is_in(&self, export: &Export) -> bool {
        self.export().is_some_and(|own| own.id == export.id)
    }

    /// Returns whether both are the same object.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pseudo(a), Self::Pseudo(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a.key() == b.key(),
            _ => false,
        }
    }
}

impl Nfs {
    /// Runs a step with the key that signs the filehandles of an export: its own, if several
    /// servers share its file system or it has had another folder, or the server's.
    pub(crate) fn with_key_of<R>(
        &self,
        export: Option<&Arc<Export>>,
        step: impl FnOnce(&FilehandleKey) -> R,
    ) -> R {
        match export.and_then(|export| export.backend.handle_key()) {
            Some(shared) => step(&FilehandleKey::new(shared)),
            None => step(&self.filehandle_key),
        }
    }
}

/// The export number in filehandles of the pseudo file system. No export has it.
pub(crate) const PSEUDO_EXPORT: u32 = 0;

impl Compound<'_> {
    /// Decodes a filehandle from a client. Operations find out whether the object still exists.
    ///
    /// # Errors
    /// NFS4ERR_BADHANDLE for one that the server has not made, NFS4ERR_STALE when the export is
    /// gone or closed to this client or may have had another folder, and as
    /// [`Compound::await_client`].
    pub fn decode_fh(&self, bytes: &[u8]) -> OpResult<Fh> {
        let claimed = Filehandle::claimed_export(bytes).and_then(|id| self.progress.exports.by_id(id));
        let decoded = self.nfs.with_key_of(claimed, |key| Filehandle::decode(key, bytes));
        // A key of its own comes with the folder of an export: another one may have been there.
        let has_own_key = claimed.is_some_and(|export| export.backend.handle_key().is_some());
        let decoded = decoded.map_err(|error| match error {
            FilehandleError::Checksum if has_own_key => Nfsstat4::NFS4ERR_STALE,
            _ => Nfsstat4::NFS4ERR_BADHANDLE,
        })?;
        if decoded.export == PSEUDO_EXPORT {
            let fileid = decoded.object.try_into().map_err(|_| Nfsstat4::NFS4ERR_BADHANDLE)?;
            let fileid = u64::from_be_bytes(fileid);
            let there = self.await_client(|exports, peer| exports.pseudo().contains(fileid, peer))?;
            return if there { Ok(Fh::Pseudo(fileid)) } else { Err(Nfsstat4::NFS4ERR_STALE.into()) };
        }
        let export = self.progress.exports.by_id(decoded.export).ok_or(Nfsstat4::NFS4ERR_STALE)?;
        let rule = match export.rule_for(self.peer()) {
            Ok(rule) => rule,
            Err(_) => self.await_client(|_, peer| export.rule_for(peer))?,
        };
        let rule = rule.ok_or(Nfsstat4::NFS4ERR_STALE)?;
        let handle = ObjectHandle::new(decoded.object).ok_or(Nfsstat4::NFS4ERR_BADHANDLE)?;
        Ok(Fh::Object(Object { export: Arc::clone(export), rule, handle }))
    }

    /// Encodes a filehandle as nfs_fh4.
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
        let _ = self.nfs.with_key_of(fh.export(), |key| filehandle.append_to(key, reply.as_mut_vec()));
        let length = reply.len() - at - 4;
        reply.patch_u32(at, u32::try_from(length).unwrap_or(u32::MAX));
        reply.pad(length);
    }
}

const _: () = assert!(vfs::OBJECT_HANDLE_MAX <= nfs4::filehandle::OBJECT_HANDLE_MAX);
