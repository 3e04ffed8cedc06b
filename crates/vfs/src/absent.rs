//! Referrals: exports whose file system is on other servers (RFC 8881 section 11.5.6).

use crate::locations::{LOCATIONS_BYTES_MAX, locations_size};
use crate::{
    Acls, Attributes, Backend, Caller, DirEntry, Eof, Export, ExportTable, ExportsError, Features,
    FoundObject, FsStat, Heir, HeldObject, Identity, Location, LocationGroup, NewObject, ObjectHandle,
    OpenAccess, OpenFile, Permissions, Quota, RenamedObjects, ServerAddress, SetAttributes, VfsError,
    VfsResult, XattrHow, group_locations,
};
use std::{ops::ControlFlow, sync::Arc};

impl Export {
    /// Makes a referral for all clients with Kerberos; fields may be changed after.
    ///
    /// # Errors
    /// `ExportsError::Path` for a path that cannot be one.
    pub fn referral(pseudo_path: &str, locations: Vec<Location>) -> Result<Self, ExportsError> {
        let export = Self::new(pseudo_path, Arc::new(AbsentBackend))?;
        Ok(Self { locations, absent: true, ..export })
    }

    /// Returns the places of the file system as fs_locations has them, this server's first if the
    /// file system is present here.
    pub fn location_groups(&self, addresses: &[ServerAddress]) -> Vec<LocationGroup<'_>> {
        group_locations((!self.absent).then_some(&*self.pseudo_path), addresses, &self.locations)
    }
}

impl ExportTable {
    /// Checks that clients can read the locations of each export and follow each referral.
    pub(crate) fn check_locations(&self) -> Result<(), ExportsError> {
        for export in self.iter() {
            let path = &export.pseudo_path;
            let groups = export.location_groups(self.addresses());
            let bytes = locations_size(path, &groups);
            if !groups.is_empty() && bytes > LOCATIONS_BYTES_MAX {
                return Err(ExportsError::Locations { path: path.clone(), bytes });
            }
            if let Some(why) = export.absent.then(|| self.fault_of_referral(export)).flatten() {
                return Err(ExportsError::Referral { path: path.clone(), why });
            }
        }
        Ok(())
    }

    /// Returns the reason why clients cannot follow a referral, if there is one.
    fn fault_of_referral(&self, referral: &Export) -> Option<String> {
        let path = &referral.pseudo_path;
        let below = |other: &&Arc<Export>| {
            other.pseudo_path.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        if referral.locations.is_empty() {
            return Some("a referral needs a location".to_owned());
        }
        if path == "/" {
            return Some(
                "the root cannot be a referral: clients begin there; give it another `pseudo`".to_owned(),
            );
        }
        let below = self.iter().find(below)?;
        Some(format!("it is a referral, and clients do not reach {:?} below it", below.pseudo_path))
    }
}

/// An absent file system (RFC 8881 section 11.3). Only its root exists, and everything else about
/// it is `Moved`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsentBackend;

impl Backend for AbsentBackend {
    fn root(&self) -> ObjectHandle {
        ObjectHandle::empty()
    }

    fn features(&self) -> Features {
        Features::default()
    }

    fn features_of(&self, _: &ObjectHandle) -> Features {
        Features::default()
    }

    fn part(&self, _: &ObjectHandle) -> u64 {
        0
    }

    fn mounted_on(&self, _: &ObjectHandle) -> Option<u64> {
        None
    }

    fn has_mounts(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn identity(&self, _: &ObjectHandle) -> Option<Identity> {
        None
    }

    fn may_wait(&self) -> bool {
        false
    }

    fn answers_from_memory(&self, _: &ObjectHandle) -> bool {
        true
    }

    fn seldom_waits(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn is_cached(&self, _: &ObjectHandle) -> bool {
        true
    }

    fn lookup_now(&self, _: &Caller, _: &ObjectHandle, _: &[u8]) -> VfsResult<Option<ObjectHandle>> {
        Err(VfsError::Moved)
    }

    fn getattr(&self, _: &ObjectHandle) -> VfsResult<Attributes> {
        Err(VfsError::Moved)
    }

    fn setattr(&self, _: &Caller, _: &ObjectHandle, _: &SetAttributes) -> VfsResult<Attributes> {
        Err(VfsError::Moved)
    }

    fn access(&self, _: &Caller, _: &ObjectHandle) -> VfsResult<Permissions> {
        Err(VfsError::Moved)
    }

    fn lookup(&self, _: &Caller, _: &ObjectHandle, _: &[u8]) -> VfsResult<ObjectHandle> {
        Err(VfsError::Moved)
    }

    fn lookup_attributes(
        &self,
        _: &Caller,
        _: &ObjectHandle,
        _: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        Err(VfsError::Moved)
    }

    fn lookup_to_change(&self, _: &Caller, _: &ObjectHandle, _: &[u8]) -> VfsResult<FoundObject> {
        Err(VfsError::Moved)
    }

    fn lookup_parent(&self, _: &Caller, _: &ObjectHandle) -> VfsResult<ObjectHandle> {
        Err(VfsError::Moved)
    }

    fn readlink(&self, _: &Caller, _: &ObjectHandle) -> VfsResult<Vec<u8>> {
        Err(VfsError::Moved)
    }

    fn open(&self, _: &Caller, _: &ObjectHandle, _: OpenAccess) -> VfsResult<Arc<dyn OpenFile>> {
        Err(VfsError::Moved)
    }

    fn open_own(&self, _: &Caller, _: &ObjectHandle, _: OpenAccess) -> VfsResult<Arc<dyn OpenFile>> {
        Err(VfsError::Moved)
    }

    fn create_file(
        &self,
        _: &Caller,
        _: &ObjectHandle,
        _: &[u8],
        _: OpenAccess,
        _: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        Err(VfsError::Moved)
    }

    fn create(
        &self,
        _: &Caller,
        _: &ObjectHandle,
        _: &[u8],
        _: NewObject<'_>,
        _: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        Err(VfsError::Moved)
    }

    fn link(&self, _: &Caller, _: &ObjectHandle, _: &ObjectHandle, _: &[u8]) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn remove(&self, _: &Caller, _: &ObjectHandle, _: &[u8], _: Option<&FoundObject>) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn rename(
        &self,
        _: &Caller,
        _: (&ObjectHandle, &[u8]),
        _: (&ObjectHandle, &[u8]),
        _: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn rename_new(
        &self,
        _: &Caller,
        _: (&ObjectHandle, &[u8]),
        _: (&ObjectHandle, &[u8]),
        _: &FoundObject,
    ) -> VfsResult<bool> {
        Err(VfsError::Moved)
    }

    fn readdir(
        &self,
        _: &Caller,
        _: &ObjectHandle,
        _: u64,
        _: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof> {
        Err(VfsError::Moved)
    }

    fn acls(&self, _: &ObjectHandle) -> VfsResult<Acls> {
        Err(VfsError::Moved)
    }

    fn quota(&self, _: &Caller, _: &ObjectHandle) -> VfsResult<Option<Quota>> {
        Err(VfsError::Moved)
    }

    fn get_xattr(&self, _: &Caller, _: &ObjectHandle, _: &[u8]) -> VfsResult<Vec<u8>> {
        Err(VfsError::Moved)
    }

    fn set_xattr(&self, _: &Caller, _: &ObjectHandle, _: &[u8], _: &[u8], _: XattrHow) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn list_xattrs(&self, _: &Caller, _: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>> {
        Err(VfsError::Moved)
    }

    fn remove_xattr(&self, _: &Caller, _: &ObjectHandle, _: &[u8]) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn syncs_names(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn hold(&self, _: &ObjectHandle) -> Option<HeldObject> {
        None
    }

    fn sync_names(&self, _: &ObjectHandle, _: Option<&HeldObject>) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn commit(&self, _: &ObjectHandle) -> VfsResult<()> {
        Err(VfsError::Moved)
    }

    fn sync_failures(&self) -> u64 {
        0
    }

    fn statfs(&self, _: &ObjectHandle) -> VfsResult<FsStat> {
        Err(VfsError::Moved)
    }

    fn trim(&self) {}

    fn handle_key(&self) -> Option<[u8; 16]> {
        None
    }

    fn heir(&self) -> Option<&dyn Heir> {
        None
    }
}
