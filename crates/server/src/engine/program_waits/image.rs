//! Images of files with a client that a local program's lock refused.

use super::{FileWaits, PROGRAM_WAIT_FILES_MAX, PROGRAM_WAIT_RANGES_MAX, ProgramWaits};
use crate::engine::FileKey;
use crate::engine::fh::image::FileKeyImage;
use crate::engine::image::{ObjectsIn, ObjectsOut};
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};
use state::LockRange;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use vfs::LockKind;

/// The refused ranges of one file.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct FileWaitsImage {
    #[n(0)]
    file: FileKeyImage,
    /// The caller's number of the locks.
    #[n(1)]
    locks: u32,
    /// Offset, length, and whether it is for writing.
    #[n(2)]
    ranges: Vec<(u64, u64, bool)>,
    #[n(3)]
    until: u64,
}

impl ProgramWaits {
    pub(crate) fn image(&self, objects: &mut dyn ObjectsOut) -> Vec<FileWaitsImage> {
        let files = self.files();
        let image = |(file, waits): (&FileKey, &FileWaits)| {
            let FileWaits { locks, ranges, until } = waits;
            let range = |(range, kind): &(LockRange, LockKind)| {
                (range.offset(), range.length(), *kind == LockKind::Write)
            };
            FileWaitsImage {
                file: file.into(),
                locks: objects.locks(file, locks),
                ranges: ranges.iter().map(range).collect(),
                until: u64::try_from(until.as_nanos()).unwrap_or(u64::MAX),
            }
        };
        files.iter().map(image).collect()
    }

    pub(crate) fn restore(
        images: Vec<FileWaitsImage>,
        objects: &mut dyn ObjectsIn,
    ) -> Result<Self, ImageError> {
        ensure(images.len() <= PROGRAM_WAIT_FILES_MAX, "too many files with refused locks")?;
        let mut files = HashMap::new();
        for FileWaitsImage { file, locks, ranges, until } in images {
            ensure(ranges.len() <= PROGRAM_WAIT_RANGES_MAX, "too many refused locks of a file")?;
            let file = FileKey::try_from(file)?;
            let range = |(offset, length, write)| {
                let range = LockRange::new(offset, length);
                let range = range.map_err(|_| ImageError::Inconsistent("the range of a refused lock"))?;
                Ok((range, if write { LockKind::Write } else { LockKind::Read }))
            };
            let ranges = ranges.into_iter().map(range).collect::<Result<_, ImageError>>()?;
            let locks = objects.locks(&file, locks)?;
            files.insert(file, FileWaits { locks, ranges, until: Duration::from_nanos(until) });
        }
        Ok(Self(Mutex::new(files)))
    }
}
