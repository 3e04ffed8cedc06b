//! Images of the files with locks that the file system holds as well.

use super::{LocalLocks, LockStripe, LockedFile};
use crate::engine::FileKey;
use crate::engine::fh::image::FileKeyImage;
use crate::engine::image::{ObjectsIn, ObjectsOut};
use image::{ImageError, ensure};
use state::LockRange;
use std::sync::atomic::Ordering::Relaxed;

/// Files, each with the caller's number of its locks.
pub(crate) type LocalLocksImage = Vec<(FileKeyImage, u32)>;

/// Files, each with the first and the last byte of a range that housekeeping is to update.
pub(crate) type LateRangesImage = Vec<(FileKeyImage, u64, u64)>;

impl LocalLocks {
    pub(crate) fn image(
        &self,
        objects: &mut dyn ObjectsOut,
    ) -> Result<(LocalLocksImage, LateRangesImage), ImageError> {
        // Queued again are the files with late ranges.
        let Self { stripes, files: _, late: _, stale: _, unsupported: _ } = self;
        let (mut image, mut late_ranges) = (Vec::new(), Vec::new());
        for LockStripe { held, freed: _ } in stripes {
            let held = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for (file, LockedFile { locks, busy, unlocked, late }) in &*held {
                if *busy || !unlocked.is_empty() {
                    return Err(ImageError::Busy("a lock of a file system"));
                }
                image.extend(locks.as_ref().map(|locks| (file.into(), objects.locks(file, locks))));
                late_ranges.extend(late.map(|late| (file.into(), late.offset(), late.last())));
            }
        }
        Ok((image, late_ranges))
    }

    pub(crate) fn restore(
        image: LocalLocksImage,
        late_ranges: LateRangesImage,
        objects: &mut dyn ObjectsIn,
    ) -> Result<Self, ImageError> {
        let all = Self::default();
        for (file, number) in image {
            let file = FileKey::try_from(file)?;
            let locks = Some(objects.locks(&file, number)?);
            let locked = LockedFile { locks, ..LockedFile::default() };
            let before = all.stripe(&file).lock().insert(file, locked);
            ensure(before.is_none(), "a file with locks is listed twice")?;
            all.files.fetch_add(1, Relaxed);
        }
        for (file, first, last) in late_ranges {
            let file = FileKey::try_from(file)?;
            let late = LockRange::of_bytes(first, last);
            let mut held = all.stripe(&file).lock();
            let locked = held.get_mut(&file).filter(|locked| locked.late.is_none() && late.is_some());
            locked.ok_or(ImageError::Inconsistent("an unlocked range of a file"))?.late = late;
            drop(held);
            all.late().push_back(file);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Object;
    use crate::engine::local_locks::turns::TurnEnd;
    use std::sync::Arc;
    use std::time::Duration;
    use vfs::{Backend, Broken, Export, Lease, LockKind, LockOutcome, OpenFile, RangeLocks, VfsResult};
    use vfs::{MemoryBackend, MemoryLimits};

    struct Locks;

    impl RangeLocks for Locks {
        fn can_write(&self) -> bool {
            true
        }
        fn set(&self, _: u64, _: u64, _: Option<LockKind>) -> VfsResult<LockOutcome> {
            Ok(LockOutcome::Done)
        }
        fn find(&self, _: u64, _: u64, _: LockKind) -> VfsResult<Option<vfs::LocalLock>> {
            Ok(None)
        }
        fn as_any(&self) -> Option<&dyn std::any::Any> {
            None
        }
    }

    struct LocksAlone;

    impl ObjectsOut for LocksAlone {
        fn file(&mut self, _: &FileKey, _: &Arc<dyn OpenFile>) -> u32 {
            panic!("no file is open")
        }
        fn lease(&mut self, _: &FileKey, _: &Arc<dyn Lease>) -> u32 {
            panic!("there is no lease")
        }
        fn locks(&mut self, _: &FileKey, _: &Arc<dyn RangeLocks>) -> u32 {
            0
        }
    }

    impl ObjectsIn for LocksAlone {
        fn file(&mut self, _: &FileKey, _: u32) -> Result<Arc<dyn OpenFile>, ImageError> {
            panic!("no file is open")
        }
        fn lease(&mut self, _: &FileKey, _: u32, _: Broken) -> Result<Arc<dyn Lease>, ImageError> {
            panic!("there is no lease")
        }
        fn locks(&mut self, _: &FileKey, _: u32) -> Result<Arc<dyn RangeLocks>, ImageError> {
            Ok(Arc::new(Locks))
        }
    }

    #[test]
    fn the_next_process_unlocks_the_ranges_that_are_late() // RFC 8881 section 18.12.3
    {
        let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
        let handle = backend.root();
        let export = Arc::new(Export::new("/export", backend).unwrap());
        let peer = vfs::ClientPeer { address: ([192, 0, 2, 1], 700).into(), now: Duration::ZERO };
        let file = Object::root_of(&export, peer).unwrap().unwrap().other(handle).key();
        let (locks, range) = (LocalLocks::default(), |first| LockRange::of_bytes(first, first + 9).unwrap());
        let mut turn = locks.turn(&file, false).unwrap();
        turn.put(Arc::new(Locks));
        [20, 40].into_iter().for_each(|first| turn.leave(range(first)));
        assert!(locks.image(&mut LocksAlone).is_err(), "the turn is taken");
        assert!(matches!(turn.end(|| true), TurnEnd::Ended));
        let (image, late) = locks.image(&mut LocksAlone).unwrap();
        let locks = LocalLocks::restore(image.clone(), late.clone(), &mut LocksAlone).unwrap();
        let mut turn = locks.late_turn().unwrap();
        assert!(!locks.has_late());
        let TurnEnd::Unlocked(ranges) = turn.end(|| true) else { panic!("it forgets the ranges") };
        assert_eq!(ranges, [LockRange::of_bytes(20, 49).unwrap()]);
        for late in [[late.clone(), late.clone()].concat(), vec![(late[0].0.clone(), 2, 1)]] {
            assert!(LocalLocks::restore(image.clone(), late, &mut LocksAlone).is_err());
        }
        assert!(LocalLocks::restore(vec![], late, &mut LocksAlone).is_err(), "a file without locks");
    }
}
