//! Images of background copies between two pieces.

use super::{BackgroundCopy, CopyFile, CopyRange, Offloads};
use crate::engine::fh::image::FileKeyImage;
use crate::engine::former_exports::FormerKeys;
use crate::engine::image::{ObjectsIn, ObjectsOut};
use crate::engine::{FileKey, Nfs};
use image::ImageError;
use minicbor::{Decode, Encode};
use state::{CopyKey, KeyImage};
use std::sync::atomic::Ordering::Relaxed;
use vfs::ExportTable;

/// A background copy between two pieces.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct BackgroundCopyImage {
    #[n(0)]
    key: KeyImage,
    #[n(1)]
    file: FileKeyImage,
    /// The caller's numbers of both files.
    #[n(2)]
    source: u32,
    #[n(3)]
    target: u32,
    #[n(4)]
    from: u64,
    #[n(5)]
    to: u64,
    #[n(6)]
    count: u64,
    #[n(7)]
    done: u64,
    /// The source; that of a copy of before is taken to be served.
    #[n(8)]
    source_file: Option<FileKeyImage>,
}

/// The counts of copies begun, bytes copied and callbacks answered.
pub(crate) type OffloadsImage = [u64; 3];

impl BackgroundCopy {
    pub(crate) fn image(&self, objects: &mut dyn ObjectsOut) -> BackgroundCopyImage {
        let Self { key, source: CopyFile { file: source_file, .. }, target, range, done } = self;
        let file = &target.file;
        let CopyRange { source, target, from, to, count } = range;
        BackgroundCopyImage {
            key: (*key).into(),
            file: file.into(),
            // The source may be of another export, where nothing of it is needed but the bytes.
            source: objects.file(file, source),
            target: objects.file(file, target),
            from: *from,
            to: *to,
            count: *count,
            done: *done,
            source_file: Some(source_file.into()),
        }
    }

    fn restore(
        image: BackgroundCopyImage,
        objects: &mut dyn ObjectsIn,
        exports: &ExportTable,
        keys: &FormerKeys,
    ) -> Result<Self, ImageError> {
        let BackgroundCopyImage { key, file, source, target, from, to, count, done, source_file } = image;
        let file = FileKey::try_from(file)?;
        let source_file = source_file.map_or(Ok(file), FileKey::try_from)?;
        let in_export = |file: FileKey| {
            let export = exports.by_id(file.export);
            CopyFile { file, handle_key: export.and_then(|export| keys.of(export)) }
        };
        let (source, target) = (objects.file(&file, source)?, objects.file(&file, target)?);
        let range = CopyRange { source, target, from, to, count };
        let (source, target) = (in_export(source_file), in_export(file));
        Ok(Self { key: CopyKey::from(key), source, target, range, done })
    }
}

impl Nfs {
    /// Restores background copies, which are to be resumed by [`Nfs::resume_copies`].
    #[expect(clippy::vec_box, reason = "each goes to its thread as it is")]
    pub(crate) fn restore_copies(
        &self,
        images: Vec<BackgroundCopyImage>,
        objects: &mut dyn ObjectsIn,
        keys: &FormerKeys,
    ) -> Result<Vec<Box<BackgroundCopy>>, ImageError> {
        let (mut copies, exports) = (Vec::new(), self.exports.snapshot());
        for image in images {
            let copy = BackgroundCopy::restore(image, objects, &exports, keys)?;
            self.state.delegations().resume_change(&copy.target.file);
            copies.push(Box::new(copy));
        }
        Ok(copies)
    }
}

impl Offloads {
    pub(crate) fn image(&self) -> OffloadsImage {
        let Self { runner: _, begun, bytes, answered } = self;
        [begun, bytes, answered].map(|count| count.load(Relaxed))
    }

    pub(crate) fn restore([begun, bytes, answered]: OffloadsImage) -> Self {
        Self {
            runner: Default::default(),
            begun: begun.into(),
            bytes: bytes.into(),
            answered: answered.into(),
        }
    }
}
