//! The trait, each operation handed to the file system that the object is on.

use super::{PREFIX, SubmountBackend, Whose, split};
use crate::attributes::stat_fd;
use std::{ops::ControlFlow, sync::Arc};
use vfs::{
    Acls, Attributes, Backend, Caller, DirEntry, Eof, Features, FoundObject, FsStat, Heir, HeldObject,
    Identity, NewObject, ObjectHandle, OpenAccess, OpenFile, Permissions, Quota, RenamedObjects,
    SetAttributes, VfsError, VfsResult, XattrHow,
};

/// Runs an operation on the file system of an object.
macro_rules! on {
    ($self:ident, $handle:ident, $backend:ident => $run:expr) => {
        match $self.whose($handle)? {
            Whose::Outer => {
                let $backend = &$self.outer;
                $run
            }
            Whose::Submount(inner, own) => {
                let ($backend, $handle) = (&inner.backend, &own);
                $run
            }
        }
    };
}

impl SubmountBackend {
    /// Goes on from a name that the folder itself does not have: something may be mounted there.
    fn or_mount(
        &self,
        found: VfsResult<ObjectHandle>,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<ObjectHandle> {
        match found {
            Err(VfsError::Noent) => self.cross(caller, directory, name),
            found => found,
        }
    }
}

impl SubmountBackend {
    /// Asks the file system that an object is on, if that can be found out without a wait; false if
    /// not. A change of mounts is first to be handled, which may wait.
    fn if_known(&self, object: &ObjectHandle, ask: impl Fn(&dyn Backend, &ObjectHandle) -> bool) -> bool {
        match self.known_whose(object) {
            Some(Whose::Outer) => ask(&self.outer, object),
            Some(Whose::Submount(inner, own)) => !self.mounts.has_changed() && ask(&inner.backend, &own),
            None => false,
        }
    }
}

impl Backend for SubmountBackend {
    fn root(&self) -> ObjectHandle {
        self.outer.root()
    }

    fn features(&self) -> Features {
        self.outer.features()
    }

    fn features_of(&self, object: &ObjectHandle) -> Features {
        match self.whose(object) {
            Ok(Whose::Submount(inner, own)) => inner.backend.features_of(&own),
            _ => self.outer.features(),
        }
    }

    fn part(&self, object: &ObjectHandle) -> u64 {
        let (mut at, mut part) = (Some(*object), 0);
        while let Some((number, own)) = at.as_ref().and_then(split) {
            // Parts of parts differ, too.
            part ^= number;
            at = own;
        }
        part
    }

    fn mounted_on(&self, object: &ObjectHandle) -> Option<u64> {
        match self.whose(object).ok()? {
            Whose::Outer => None,
            Whose::Submount(inner, own) if own == inner.backend.root() => Some(inner.covered),
            Whose::Submount(inner, own) => inner.backend.mounted_on(&own),
        }
    }

    fn has_mounts(&self, directory: &ObjectHandle) -> bool {
        match self.whose(directory) {
            Ok(Whose::Submount(inner, own)) => inner.backend.has_mounts(&own),
            Ok(Whose::Outer) => self.outer.has_mounts(directory),
            Err(_) => false,
        }
    }

    fn identity(&self, object: &ObjectHandle) -> Option<Identity> {
        // State asks often, and for files of unmounted file systems, too.
        match self.known_whose(object).or_else(|| self.whose(object).ok())? {
            Whose::Outer => self.outer.identity(object),
            Whose::Submount(inner, own) => inner
                .backend
                .identity(&own)
                .map(|identity| Identity { skip: identity.skip + PREFIX, ..identity }),
        }
    }

    fn may_wait(&self) -> bool {
        // File systems that will be mounted later are unknown, so expect them to block.
        true
    }

    fn answers_from_memory(&self, object: &ObjectHandle) -> bool {
        self.if_known(object, |backend, own| backend.answers_from_memory(own))
    }

    fn seldom_waits(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn is_cached(&self, object: &ObjectHandle) -> bool {
        self.if_known(object, |backend, own| backend.is_cached(own))
    }

    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        if !self.is_cached(directory) {
            return Ok(None);
        }
        match self.whose(directory)? {
            Whose::Outer => match self.outer.lookup_now(caller, directory, name) {
                // Something may be mounted there.
                Err(VfsError::Noent) => Ok(None),
                found => found,
            },
            Whose::Submount(inner, own) => {
                let found = inner.backend.lookup_now(caller, &own, name)?;
                found.map(|found| inner.wrap(&found)).transpose()
            }
        }
    }

    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes> {
        on!(self, object, backend => backend.getattr(object))
    }

    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        on!(self, object, backend => backend.setattr(caller, object, set))
    }

    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions> {
        on!(self, object, backend => backend.access(caller, object))
    }

    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle> {
        match self.whose(directory)? {
            Whose::Outer => {
                self.or_mount(self.outer.lookup(caller, directory, name), caller, directory, name)
            }
            Whose::Submount(inner, own) => inner.wrap(&inner.backend.lookup(caller, &own, name)?),
        }
    }

    fn lookup_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        match self.whose(directory)? {
            Whose::Outer => match self.outer.lookup_attributes(caller, directory, name) {
                Err(VfsError::Noent) => {
                    let object = self.cross(caller, directory, name)?;
                    Ok((object, self.getattr(&object)?))
                }
                found => found,
            },
            Whose::Submount(inner, own) => {
                let (object, attributes) = inner.backend.lookup_attributes(caller, &own, name)?;
                Ok((inner.wrap(&object)?, attributes))
            }
        }
    }

    fn lookup_to_change(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<FoundObject> {
        match self.whose(directory)? {
            Whose::Outer => match self.outer.lookup_to_change(caller, directory, name) {
                Err(VfsError::Noent) => {
                    let handle = self.cross(caller, directory, name)?;
                    Ok(FoundObject { handle, attributes: Some(self.getattr(&handle)?) })
                }
                found => found,
            },
            Whose::Submount(inner, own) => {
                let found = inner.backend.lookup_to_change(caller, &own, name)?;
                Ok(FoundObject { handle: inner.wrap(&found.handle)?, attributes: found.attributes })
            }
        }
    }

    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        match self.whose(directory)? {
            Whose::Outer => self.outer.lookup_parent(caller, directory),
            Whose::Submount(inner, own) if own == inner.backend.root() => {
                stat_fd(&*inner.backend.outer.root).map_err(|_| VfsError::Stale)?;
                self.outer.act_as(caller)?;
                self.parent_of(&inner.backend.outer.root.fd)
            }
            Whose::Submount(inner, own) => inner.wrap(&inner.backend.lookup_parent(caller, &own)?),
        }
    }

    fn readlink(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>> {
        on!(self, object, backend => backend.readlink(caller, object))
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        on!(self, object, backend => backend.open(caller, object, access))
    }

    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        on!(self, object, backend => backend.open_own(owner, object, access))
    }

    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        match self.whose(directory)? {
            Whose::Outer => self.outer.create_file(caller, directory, name, access, set),
            Whose::Submount(inner, own) => {
                let (made, file) = inner.backend.create_file(caller, &own, name, access, set)?;
                Ok((inner.wrap(&made)?, file))
            }
        }
    }

    fn create(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        match self.whose(directory)? {
            Whose::Outer => self.outer.create(caller, directory, name, object, set),
            Whose::Submount(inner, own) => {
                inner.wrap(&inner.backend.create(caller, &own, name, object, set)?)
            }
        }
    }

    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        match self.whose_both(object, directory)? {
            (Whose::Outer, _) => self.outer.link(caller, object, directory, name),
            (Whose::Submount(inner, object), directory) => {
                inner.backend.link(caller, &object, &directory, name)
            }
        }
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        found: Option<&FoundObject>,
    ) -> VfsResult<()> {
        match self.whose(directory)? {
            Whose::Outer => self.outer.remove(caller, directory, name, found),
            // The handle that the caller has found is not the submount's own.
            Whose::Submount(inner, own) => inner.backend.remove(caller, &own, name, None),
        }
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        found: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        match self.whose_both(from.0, to.0)? {
            (Whose::Outer, _) => self.outer.rename(caller, from, to, found),
            (Whose::Submount(inner, own), own_to) => {
                inner.backend.rename(caller, (&own, from.1), (&own_to, to.1), None)
            }
        }
    }

    fn rename_new(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        source: &FoundObject,
    ) -> VfsResult<bool> {
        match self.whose_both(from.0, to.0)? {
            (Whose::Outer, _) => self.outer.rename_new(caller, from, to, source),
            // The handle that the caller has found is not the submount's own.
            (Whose::Submount(..), _) => Ok(false),
        }
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        cookie: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof> {
        on!(self, directory, backend => backend.readdir(caller, directory, cookie, entry))
    }

    fn acls(&self, object: &ObjectHandle) -> VfsResult<Acls> {
        on!(self, object, backend => backend.acls(object))
    }

    fn quota(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        on!(self, object, backend => backend.quota(caller, object))
    }

    fn get_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<Vec<u8>> {
        on!(self, object, backend => backend.get_xattr(caller, object, name))
    }

    fn set_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
    ) -> VfsResult<()> {
        on!(self, object, backend => backend.set_xattr(caller, object, name, value, how))
    }

    fn list_xattrs(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>> {
        on!(self, object, backend => backend.list_xattrs(caller, object))
    }

    fn remove_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        on!(self, object, backend => backend.remove_xattr(caller, object, name))
    }

    fn syncs_names(&self, object: &ObjectHandle) -> bool {
        match self.whose(object) {
            Ok(Whose::Submount(inner, own)) => inner.backend.syncs_names(&own),
            Ok(Whose::Outer) => self.outer.syncs_names(object),
            Err(_) => false,
        }
    }

    fn hold(&self, object: &ObjectHandle) -> Option<HeldObject> {
        match self.known_whose(object)? {
            Whose::Outer => self.outer.hold(object),
            Whose::Submount(inner, own) => inner.backend.hold(&own),
        }
    }

    fn sync_names(&self, object: &ObjectHandle, held: Option<&HeldObject>) -> VfsResult<()> {
        on!(self, object, backend => backend.sync_names(object, held))
    }

    fn commit(&self, object: &ObjectHandle) -> VfsResult<()> {
        on!(self, object, backend => backend.commit(object))
    }

    fn sync_failures(&self) -> u64 {
        0
    }

    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat> {
        on!(self, object, backend => backend.statfs(object))
    }

    fn trim(&self) {
        self.outer.trim();
        self.trim_inner();
    }

    fn handle_key(&self) -> Option<[u8; 16]> {
        self.outer.handle_key()
    }

    fn heir(&self) -> Option<&dyn Heir> {
        Some(self)
    }
}
