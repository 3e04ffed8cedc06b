//! The transfer of a folder with its submounts.

use super::{Submount, SubmountBackend, Whose};
use crate::heir::{Orphans, SharedFiles, heir_of_local_files};
use image::SharedBytes;
use std::sync::{Arc, PoisonError};
use vfs::{ObjectHandle, VfsError, VfsResult};

heir_of_local_files!(SubmountBackend, self, object => self.shared_of(object));

/// The memory of a folder, and of its submounts by number.
type Memories = (SharedBytes, Vec<(u64, SharedBytes)>);

impl SubmountBackend {
    /// Returns the parts that open files of an object's file system share. A file system that is
    /// not mounted any more has open files all the same.
    fn shared_of(&self, object: &ObjectHandle) -> SharedFiles {
        match self.whose(object) {
            Ok(Whose::Outer) => self.outer.shared(),
            Ok(Whose::Submount(inner, own)) => inner.backend.shared_of(&own),
            Err(_) => Orphans::default().into(),
        }
    }

    pub(super) fn remembered(&self) -> Vec<u8> {
        let inner: Vec<Arc<Submount>> =
            self.inner.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let inner = inner.iter().map(|inner| (inner.number, SharedBytes::from(&*inner.backend.remembered())));
        let memories: Memories = (SharedBytes::from(&*self.outer.remembered()), inner.collect());
        image::encode(&memories).to_vec()
    }

    pub(super) fn recall(&self, memory: &[u8]) -> VfsResult<()> {
        let (outer, inner): Memories = image::decode(memory).map_err(|_| VfsError::Inval)?;
        self.outer.recall(&outer.0)?;
        for (number, memory) in inner {
            // One that is not mounted any more has nothing to remember.
            if let Ok(inner) = self.find_inner(number) {
                inner.backend.recall(&memory.0)?;
            }
        }
        Ok(())
    }
}
