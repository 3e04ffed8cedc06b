//! Open files, leases and locks on their way between two processes.

use super::{ObjectsIn, ObjectsOut};
use crate::engine::FileKey;
use image::{ImageError, SharedBytes};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use std::collections::HashMap;
use std::sync::Arc;
use vfs::{Broken, ExportTable, Heir, InboundFds, Lease, OpenFile, OutboundFds, RangeLocks, VfsResult};

/// The images of all objects by their numbers, and the memories of the exports' backends.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ObjectsImage {
    #[n(0)]
    objects: Vec<ByteVec>,
    #[n(1)]
    memories: Vec<(u32, SharedBytes)>,
}

/// Keeps objects of the backends of exports for the next process.
pub struct OutboundObjects<'a> {
    exports: &'a ExportTable,
    orphans: &'a dyn Heir,
    fds: OutboundFds,
    objects: Vec<ByteVec>,
    numbers: HashMap<*const (), u32>,
    lost: bool,
}

impl<'a> OutboundObjects<'a> {
    /// Begins with nothing. `orphans` takes objects of exports that a reload has removed
    /// or made referrals.
    pub fn new(exports: &'a ExportTable, orphans: &'a dyn Heir) -> Self {
        let (fds, objects, numbers) = (OutboundFds::default(), Vec::new(), HashMap::new());
        Self { exports, orphans, fds, objects, numbers, lost: false }
    }

    fn add(
        &mut self,
        key: &FileKey,
        object: *const (),
        out: impl FnOnce(&dyn Heir, &mut OutboundFds) -> Option<Vec<u8>>,
    ) -> u32 {
        let next = self.objects.len() as u32;
        let number = *self.numbers.entry(object).or_insert(next);
        if number == next {
            let export = self.exports.by_id(key.export).filter(|export| !export.absent);
            let heir = export.map_or(Some(self.orphans), |export| export.backend.heir());
            let image = heir.and_then(|heir| out(heir, &mut self.fds));
            self.lost |= image.is_none();
            self.objects.push(image.unwrap_or_default().into());
        }
        number
    }

    /// Returns the images, and the descriptors that go with them.
    ///
    /// # Errors
    /// An object that no other process can have.
    pub fn finish(self) -> Result<(ObjectsImage, OutboundFds), ImageError> {
        if self.lost {
            return Err(ImageError::Inconsistent("an open file that cannot be handed over"));
        }
        let exports = self.exports.iter();
        let memories = exports.filter_map(|export| {
            let memory = export.backend.heir()?.memory();
            Some((export.id, SharedBytes::from(&*memory)))
        });
        Ok((ObjectsImage { objects: self.objects, memories: memories.collect() }, self.fds))
    }
}

impl ObjectsOut for OutboundObjects<'_> {
    fn file(&mut self, key: &FileKey, file: &Arc<dyn OpenFile>) -> u32 {
        self.add(key, Arc::as_ptr(file).cast(), |heir, fds| heir.file_out(&**file, fds))
    }

    fn lease(&mut self, key: &FileKey, lease: &Arc<dyn Lease>) -> u32 {
        self.add(key, Arc::as_ptr(lease).cast(), |heir, fds| heir.lease_out(&**lease, fds))
    }

    fn locks(&mut self, key: &FileKey, locks: &Arc<dyn RangeLocks>) -> u32 {
        self.add(key, Arc::as_ptr(locks).cast(), |heir, fds| heir.locks_out(&**locks, fds))
    }
}

/// Makes the objects that the previous process kept.
pub struct InboundObjects<'a> {
    exports: &'a ExportTable,
    orphans: &'a dyn Heir,
    fds: InboundFds,
    objects: Vec<ByteVec>,
    /// The files that were made, by number.
    files: Vec<Option<Arc<dyn OpenFile>>>,
    locks: HashMap<u32, Arc<dyn RangeLocks>>,
}

impl<'a> InboundObjects<'a> {
    /// Takes the images and descriptors, and gives the backends their memories. `orphans` takes
    /// objects of exports that are not in the configuration any more.
    ///
    /// # Errors
    /// [`ImageError::Inconsistent`] for a memory that is none.
    pub fn new(
        exports: &'a ExportTable,
        orphans: &'a dyn Heir,
        image: ObjectsImage,
        fds: InboundFds,
    ) -> Result<Self, ImageError> {
        let ObjectsImage { objects, memories } = image;
        for (export, memory) in memories {
            let heir = exports.by_id(export).and_then(|export| export.backend.heir());
            let remembered = heir.map_or(Ok(()), |heir| heir.remember(&memory.0));
            remembered.map_err(|_| ImageError::Inconsistent("the memory of a file system"))?;
        }
        let files = vec![None; objects.len()];
        Ok(Self { exports, orphans, fds, objects, files, locks: HashMap::new() })
    }

    fn make<T>(
        &mut self,
        key: &FileKey,
        number: u32,
        make: impl FnOnce(&dyn Heir, &[u8], &mut InboundFds) -> VfsResult<T>,
    ) -> Result<T, ImageError> {
        let wrong = || ImageError::Inconsistent("an open file");
        let heir = self.exports.by_id(key.export).and_then(|export| export.backend.heir());
        let image = self.objects.get(number as usize).ok_or_else(wrong)?;
        make(heir.unwrap_or(self.orphans), image, &mut self.fds).map_err(|_| wrong())
    }
}

impl ObjectsIn for InboundObjects<'_> {
    fn file(&mut self, key: &FileKey, number: u32) -> Result<Arc<dyn OpenFile>, ImageError> {
        if let Some(Some(file)) = self.files.get(number as usize) {
            return Ok(Arc::clone(file));
        }
        let file = self.make(key, number, |heir, image, fds| heir.file_in(&key.handle, image, fds))?;
        // The number stands for an object.
        self.files[number as usize] = Some(Arc::clone(&file));
        Ok(file)
    }

    fn lease(&mut self, key: &FileKey, number: u32, broken: Broken) -> Result<Arc<dyn Lease>, ImageError> {
        self.make(key, number, |heir, image, fds| heir.lease_in(&key.handle, image, fds, broken))
    }

    fn locks(&mut self, key: &FileKey, number: u32) -> Result<Arc<dyn RangeLocks>, ImageError> {
        if let Some(locks) = self.locks.get(&number) {
            return Ok(Arc::clone(locks));
        }
        let locks = self.make(key, number, |heir, image, fds| heir.locks_in(&key.handle, image, fds))?;
        self.locks.insert(number, Arc::clone(&locks));
        Ok(locks)
    }
}
