//! The transfer of open files, leases and locks to the next process of the server.

use crate::{
    LocalBackend,
    change::Changes,
    descriptor::Descriptor,
    file::LocalFile,
    kind::Kind,
    leases::{self, LeaseImage, LocalLease},
    locks::SharedDescription,
    open_files::OpenFiles,
};
use foreign::{ForeignLocks, ForeignThread};
use minicbor::{Decode, Encode};
use std::{
    any::Any,
    sync::{Arc, OnceLock},
};
use vfs::{Broken, Caller, InboundFds, Lease, OpenFile, OutboundFds, RangeLocks, VfsError, VfsResult};

/// The image of an open file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct OpenFileImage {
    /// The number of the descriptor.
    #[n(0)]
    fd: u32,
    /// User, group and groups of the caller that opened it.
    #[n(1)]
    writer: Option<(u32, u32, Vec<u32>)>,
    #[n(2)]
    ino: u64,
    #[n(3)]
    kind: KindImage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
enum KindImage {
    #[n(0)]
    Memory,
    #[n(1)]
    LocalDisk,
    #[n(2)]
    Foreign,
}

impl From<Kind> for KindImage {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Memory => Self::Memory,
            Kind::LocalDisk => Self::LocalDisk,
            Kind::Foreign => Self::Foreign,
        }
    }
}

impl From<KindImage> for Kind {
    fn from(image: KindImage) -> Self {
        match image {
            KindImage::Memory => Self::Memory,
            KindImage::LocalDisk => Self::LocalDisk,
            KindImage::Foreign => Self::Foreign,
        }
    }
}

/// The description that holds the locks of a file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct LocksImage {
    /// The number of the descriptor.
    #[n(0)]
    fd: u32,
    #[n(1)]
    reads: bool,
    #[n(2)]
    writes: bool,
    /// First and last byte of each range, and whether it is locked for writing; only on a file
    /// system that may hang.
    #[n(3)]
    held: Option<Vec<(u64, u64, bool)>>,
}

/// The parts of a backend that its open files share.
#[derive(Clone, Debug)]
pub(crate) struct SharedFiles {
    changes: Arc<Changes>,
    open_files: Arc<OpenFiles>,
    foreign: Option<Arc<ForeignThread>>,
}

impl SharedFiles {
    fn adopt(&self, number: u32, fds: &mut InboundFds) -> Option<Arc<Descriptor>> {
        fds.adopt(number, |fd| Descriptor::new(fd, self.foreign.as_ref()))
    }

    pub(crate) fn file_in(&self, image: &[u8], fds: &mut InboundFds) -> VfsResult<Arc<dyn OpenFile>> {
        let OpenFileImage { fd, writer, ino, kind } = decode(image)?;
        Ok(Arc::new(LocalFile {
            fd: self.adopt(fd, fds).ok_or(VfsError::Inval)?,
            writer: writer.map(|(uid, gid, groups)| Caller { uid, gid, groups: groups.into() }),
            ino,
            changes: Arc::clone(&self.changes),
            kind: kind.into(),
            seeker: OnceLock::new(),
            counted: self.open_files.count(ino),
        }))
    }

    pub(crate) fn lease_in(
        &self,
        image: &[u8],
        fds: &mut InboundFds,
        broken: Broken,
    ) -> VfsResult<Arc<dyn Lease>> {
        let image: LeaseImage = decode(image)?;
        leases::inherit(&image, |number| self.adopt(number, fds), broken)
    }

    pub(crate) fn locks_in(&self, image: &[u8], fds: &mut InboundFds) -> VfsResult<Arc<dyn RangeLocks>> {
        let LocksImage { fd, reads, writes, held } = decode(image)?;
        let fd = self.adopt(fd, fds).ok_or(VfsError::Inval)?;
        let held = held.map(|held| ForeignLocks::from_image(&held));
        Ok(Arc::new(SharedDescription { fd, reads, writes, held }))
    }
}

fn decode<'b, T: Decode<'b, ()>>(image: &'b [u8]) -> VfsResult<T> {
    image::decode(image).map_err(|_| VfsError::Inval)
}

fn own<T: Any>(any: Option<&dyn Any>) -> Option<&T> {
    any?.downcast_ref()
}

pub(crate) fn file_out(file: &dyn OpenFile, fds: &mut OutboundFds) -> Option<Vec<u8>> {
    let LocalFile { fd, writer, ino, changes: _, kind, seeker: _, counted: _ } = own(file.as_any())?;
    let writer = writer.as_ref().map(|caller| (caller.uid, caller.gid, caller.groups.to_vec()));
    let fd = fds.add(Arc::clone(fd) as _);
    Some(image::encode_public(&OpenFileImage { fd, writer, ino: *ino, kind: (*kind).into() }))
}

pub(crate) fn lease_out(lease: &dyn Lease, fds: &mut OutboundFds) -> Option<Vec<u8>> {
    let lease: &LocalLease = own(lease.as_any())?;
    Some(image::encode_public(&lease.image(fds)?))
}

pub(crate) fn locks_out(locks: &dyn RangeLocks, fds: &mut OutboundFds) -> Option<Vec<u8>> {
    let SharedDescription { fd, reads, writes, held } = own(locks.as_any())?;
    let fd = fds.add(Arc::clone(fd) as _);
    let held = held.as_ref().map(ForeignLocks::image);
    Some(image::encode_public(&LocksImage { fd, reads: *reads, writes: *writes, held }))
}

impl LocalBackend {
    pub(crate) fn shared(&self) -> SharedFiles {
        let (changes, open_files) = (Arc::clone(&self.changes), Arc::clone(&self.open_files));
        SharedFiles { changes, open_files, foreign: self.foreign.clone() }
    }
}

/// The heir of files whose folder is no longer exported, or not mounted any more: their opens last
/// until their clients give them up, as after a reload.
#[derive(Debug)]
pub struct Orphans(SharedFiles);

impl Default for Orphans {
    fn default() -> Self {
        // Closing one of their descriptors may hang.
        Self(SharedFiles {
            changes: Arc::default(),
            open_files: Arc::default(),
            foreign: Some(Arc::default()),
        })
    }
}

impl From<Orphans> for SharedFiles {
    fn from(Orphans(shared): Orphans) -> Self {
        shared
    }
}

/// Writes the methods of an heir of local files, given its memory and the parts of an object's
/// backend that open files share.
macro_rules! heir_of_local_files {
    ($heir:ty, $self:ident, $object:ident => $shared:expr) => {
        impl vfs::Heir for $heir {
            fn memory(&self) -> Vec<u8> {
                self.remembered()
            }

            fn remember(&self, memory: &[u8]) -> vfs::VfsResult<()> {
                self.recall(memory)
            }

            fn file_out(&self, file: &dyn vfs::OpenFile, fds: &mut vfs::OutboundFds) -> Option<Vec<u8>> {
                $crate::heir::file_out(file, fds)
            }

            fn file_in(
                &$self,
                $object: &vfs::ObjectHandle,
                image: &[u8],
                fds: &mut vfs::InboundFds,
            ) -> vfs::VfsResult<std::sync::Arc<dyn vfs::OpenFile>> {
                $shared.file_in(image, fds)
            }

            fn lease_out(&self, lease: &dyn vfs::Lease, fds: &mut vfs::OutboundFds) -> Option<Vec<u8>> {
                $crate::heir::lease_out(lease, fds)
            }

            fn lease_in(
                &$self,
                $object: &vfs::ObjectHandle,
                image: &[u8],
                fds: &mut vfs::InboundFds,
                broken: vfs::Broken,
            ) -> vfs::VfsResult<std::sync::Arc<dyn vfs::Lease>> {
                $shared.lease_in(image, fds, broken)
            }

            fn locks_out(&self, locks: &dyn vfs::RangeLocks, fds: &mut vfs::OutboundFds) -> Option<Vec<u8>> {
                $crate::heir::locks_out(locks, fds)
            }

            fn locks_in(
                &$self,
                $object: &vfs::ObjectHandle,
                image: &[u8],
                fds: &mut vfs::InboundFds,
            ) -> vfs::VfsResult<std::sync::Arc<dyn vfs::RangeLocks>> {
                $shared.locks_in(image, fds)
            }
        }
    };
}
pub(crate) use heir_of_local_files;

heir_of_local_files!(LocalBackend, self, _object => self.shared());
heir_of_local_files!(Orphans, self, _object => self.0);

impl LocalBackend {
    /// Encodes the changes that the backend has counted. It finds places again by itself.
    pub(crate) fn remembered(&self) -> Vec<u8> {
        image::encode(&self.changes.image()).to_vec()
    }

    pub(crate) fn recall(&self, memory: &[u8]) -> VfsResult<()> {
        self.changes.restore(decode(memory)?);
        Ok(())
    }
}

impl Orphans {
    fn remembered(&self) -> Vec<u8> {
        Vec::new()
    }

    fn recall(&self, _: &[u8]) -> VfsResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;
    use std::os::fd::AsFd;
    use vfs::ObjectHandle;
    use vfs::{Backend, Heir, LeaseKind, LockKind, LockOutcome, OpenAccess};

    /// The descriptors as another process would receive them.
    fn sent(fds: &OutboundFds) -> InboundFds {
        InboundFds::new(fds.iter().map(|fd| fd.as_fd().try_clone_to_owned().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn an_open_file_keeps_its_access_its_locks_and_its_lease() {
        // RFC 8881 section 9
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"data").unwrap();
        let open = || LocalBackend::open(folder.path(), &LocalOptions::default()).unwrap();
        let (before, after) = (open(), open());
        let caller = Caller::root();
        let object = before.lookup(&caller, &before.root(), b"file").unwrap();
        let file = before.open(&caller, &object, OpenAccess { read: true, write: true }).unwrap();
        let lease = file.lease(LeaseKind::Write, Arc::new(|_| ()));
        let locks = file.range_locks(LockKind::Write).unwrap().unwrap();
        assert_eq!(locks.set(0, 9, Some(LockKind::Write)), Ok(LockOutcome::Done));
        let (out, heir) = (&mut OutboundFds::default(), before.heir().unwrap());
        let file_image = heir.file_out(&*file, out).unwrap();
        let locks_image = heir.locks_out(&*locks, out).unwrap();
        let lease_image =
            lease.as_ref().ok().and_then(Option::as_ref).map(|lease| heir.lease_out(&**lease, out).unwrap());
        let (mut fds, heir) = (sent(out), after.heir().unwrap());
        let again = heir.file_in(&object, &file_image, &mut fds).unwrap();
        let locks_again = heir.locks_in(&object, &locks_image, &mut fds).unwrap();
        let lease_again =
            lease_image.map(|image| heir.lease_in(&object, &image, &mut fds, Arc::new(|_| ())).unwrap());
        // The previous process ends, without giving anything up.
        crate::leave_leases_alone();
        drop((file, locks, lease));
        crate::take_over_leases();
        let mut data = Vec::new();
        assert!(again.read_at(&mut data, 10, 0).unwrap().is_reached());
        assert_eq!((&*data, again.write_at(b"more", 4)), (&b"data"[..], Ok(4)));
        if let Some(lease) = &lease_again {
            assert!(!lease.is_broken());
        }
        drop(lease_again);
        let program = after.open(&caller, &object, OpenAccess { read: true, write: true }).unwrap();
        let program = program.range_locks(LockKind::Write).unwrap().unwrap();
        assert_eq!(program.set(5, 5, Some(LockKind::Write)), Ok(LockOutcome::Conflict));
        assert_eq!(locks_again.set(0, u64::MAX, None), Ok(LockOutcome::Done));
        assert_eq!(program.set(5, 5, Some(LockKind::Write)), Ok(LockOutcome::Done));
    }

    #[test]
    fn locks_on_a_file_system_that_may_hang_are_known_to_the_heir() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let orphans = Orphans::default();
        let fd = Descriptor::new(file.reopen().unwrap().into(), orphans.0.foreign.as_ref());
        let locks = SharedDescription::new(fd, true, true);
        for (first, kind) in [(5, LockKind::Write), (9, LockKind::Read)] {
            assert_eq!(locks.set(first, u64::MAX, Some(kind)), Ok(LockOutcome::Done));
        }
        let (out, object) = (&mut OutboundFds::default(), ObjectHandle::new(&[1]).unwrap());
        let image = locks_out(&locks, out).unwrap();
        let inherited = orphans.locks_in(&object, &image, &mut sent(out)).unwrap();
        let again = locks_out(&*inherited, &mut OutboundFds::default()).unwrap();
        let ranges = |image: &[u8]| decode::<LocksImage>(image).unwrap().held;
        assert_eq!(ranges(&again), Some(vec![(5, 8, true), (9, u64::MAX, false)]));
        assert_eq!(ranges(&again), ranges(&image));
    }

    #[test]
    fn bytes_that_are_no_image_are_refused() {
        let orphans = Orphans::default();
        let (object, fds) = (ObjectHandle::new(&[1]).unwrap(), &mut InboundFds::default());
        for image in [&[][..], &[0xff], &[0x80], b"\x84\x00\xf6\x00\x00"] {
            assert!(orphans.file_in(&object, image, fds).is_err());
            assert!(orphans.locks_in(&object, image, fds).is_err());
            assert!(orphans.lease_in(&object, image, fds, Arc::new(|_| ())).is_err());
        }
    }
}
