//! Upgrades: the server goes on in another process, or fails to and goes on as before.

use crate::rng::Rng;
use image::ImageError;
use runtime::{Deterministic, NfsService, ServerImage};
use server::engine::{FileKey, ObjectsIn, ObjectsOut};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{Broken, Lease, OpenFile, RangeLocks};

/// The step at which the next process fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpgradeFault {
    /// It does not fail.
    None,
    /// It ends before the old process has made its image.
    Standstill,
    /// It ends with the image, before it has restored it.
    Image,
    /// It ends with a restored server that has not served.
    Restored,
}

impl UpgradeFault {
    /// Draws a fault; two in three upgrades have none.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        [Self::None, Self::None, Self::None, Self::None, Self::None, Self::None]
            .into_iter()
            .chain([Self::Standstill, Self::Image, Self::Restored])
            .nth(rng.below(9))
            .unwrap_or(Self::None)
    }
}

/// Open files on their way to the next process, as the kernel keeps them.
#[derive(Default)]
pub(crate) struct KeptFiles {
    files: Vec<Arc<dyn OpenFile>>,
    numbers: BTreeMap<usize, u32>,
}

impl ObjectsOut for KeptFiles {
    fn file(&mut self, _: &FileKey, file: &Arc<dyn OpenFile>) -> u32 {
        let (address, next) = (Arc::as_ptr(file).cast::<()>().addr(), self.files.len() as u32);
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.files.push(Arc::clone(file));
        }
        number
    }

    fn lease(&mut self, _: &FileKey, _: &Arc<dyn Lease>) -> u32 {
        unreachable!("files in memory have no leases")
    }

    fn locks(&mut self, _: &FileKey, _: &Arc<dyn RangeLocks>) -> u32 {
        unreachable!("files in memory have no locks of the kernel")
    }
}

impl ObjectsIn for KeptFiles {
    fn file(&mut self, _: &FileKey, number: u32) -> Result<Arc<dyn OpenFile>, ImageError> {
        self.files.get(number as usize).cloned().ok_or(ImageError::Inconsistent("an open file"))
    }

    fn lease(&mut self, _: &FileKey, _: u32, _: Broken) -> Result<Arc<dyn Lease>, ImageError> {
        Err(ImageError::Inconsistent("a lease"))
    }

    fn locks(&mut self, _: &FileKey, _: u32) -> Result<Arc<dyn RangeLocks>, ImageError> {
        Err(ImageError::Inconsistent("locks of the kernel"))
    }
}

/// Makes the image of a server at a standstill, encodes it and decodes it again.
pub(crate) fn image(
    service: &NfsService<Deterministic>,
    files: &mut KeptFiles,
) -> Result<ServerImage, ImageError> {
    service.server().engine().write_all_records();
    let image = service.image(files)?;
    let bytes = image::encode(&image);
    let decoded: ServerImage = image::decode(&bytes)?;
    assert_eq!(decoded, image, "the encoding loses nothing");
    Ok(decoded)
}
