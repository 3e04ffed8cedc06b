//! Images of the files with locks that the file system holds as well.

use super::{LocalLocks, LockStripe, LockedFile};
use crate::engine::FileKey;
use crate::engine::fh::image::FileKeyImage;
use crate::engine::image::{ObjectsIn, ObjectsOut};
use image::{ImageError, ensure};
use std::sync::atomic::Ordering::Relaxed;

/// Files, each with the caller's number of its locks.
pub(crate) type LocalLocksImage = Vec<(FileKeyImage, u32)>;

impl LocalLocks {
    pub(crate) fn image(&self, objects: &mut dyn ObjectsOut) -> Result<LocalLocksImage, ImageError> {
        let Self { stripes, files: _, stale: _, unsupported: _ } = self;
        let mut image = Vec::new();
        for LockStripe { held, freed: _ } in stripes {
            let held = held.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for (file, LockedFile { locks, busy, unlocked }) in &*held {
                if *busy || !unlocked.is_empty() {
                    return Err(ImageError::Busy("a lock of a file system"));
                }
                image.extend(locks.as_ref().map(|locks| (file.into(), objects.locks(file, locks))));
            }
        }
        Ok(image)
    }

    pub(crate) fn restore(image: LocalLocksImage, objects: &mut dyn ObjectsIn) -> Result<Self, ImageError> {
        let all = Self::default();
        for (file, number) in image {
            let file = FileKey::try_from(file)?;
            let locks = Some(objects.locks(&file, number)?);
            let locked = LockedFile { locks, busy: false, unlocked: Vec::new() };
            let before = all.stripe(&file).lock().insert(file, locked);
            ensure(before.is_none(), "a file with locks is listed twice")?;
            all.files.fetch_add(1, Relaxed);
        }
        Ok(all)
    }
}
