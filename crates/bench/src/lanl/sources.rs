//! The sources of copies: files of zeros, and folders of files with random contents, in a temporary
//! folder.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::Pattern;
use crate::mounted::ensure_room;
use rng::SplitMix64;

/// Bytes that are drawn and written at once.
const PIECE: usize = 1 << 20;

/// The kind of contents of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Zeros; the source is a hole and takes no room, its copies do.
    Zeros,
    /// Random bytes, from a seed.
    Random,
    /// The pattern that a reader checks.
    Checked(Pattern),
}

/// The temporary folder of the sources. Each source is made once; dropping the value removes all.
#[derive(Debug)]
pub struct Sources {
    folder: tempfile::TempDir,
}

impl Sources {
    /// Makes the folder in `parent`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn in_folder(parent: &Path) -> Result<Self> {
        let folder = private::temporary_in("orthrus-lanl-", parent);
        let folder = folder.with_context(|| format!("no folder can be made in {}", parent.display()))?;
        Ok(Self { folder })
    }

    /// Returns the folder's path.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the bytes of disk that the sources take until now.
    ///
    /// # Errors
    /// The file system's.
    pub fn made(&self) -> Result<u64> {
        let (mut folders, mut bytes) = (vec![self.folder().to_owned()], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let found = entry.metadata()?;
                if found.is_dir() {
                    folders.push(entry.path());
                } else {
                    bytes += found.blocks() * 512;
                }
            }
        }
        Ok(bytes)
    }

    /// Returns a file of this size, made now if it is not there; `None` when it was interrupted.
    ///
    /// # Errors
    /// No room, or the file system's.
    pub fn file(&self, size: u64, contents: Contents, stop: &AtomicBool) -> Result<Option<PathBuf>> {
        let path = self.folder().join(format!("{size}-{}", word(contents)));
        if path.exists() {
            return Ok(Some(path));
        }
        self.make(&path, stop, |part| {
            if contents != Contents::Zeros {
                ensure_room(self.folder(), size, "the files that are copied")?;
            }
            write(part, size, contents, 0, stop)
        })
    }

    /// Returns a folder of random files of this size; see [`Sources::file`].
    ///
    /// # Errors
    /// As [`Sources::file`].
    pub fn files(&self, count: u64, size: u64, stop: &AtomicBool) -> Result<Option<PathBuf>> {
        let path = self.folder().join(format!("{count}x{size}"));
        if path.exists() {
            return Ok(Some(path));
        }
        self.make(&path, stop, |part| {
            // A file takes whole blocks.
            ensure_room(self.folder(), count * size.next_multiple_of(4096), "the files that are copied")?;
            std::fs::create_dir(part)?;
            for number in 0..count {
                write(&part.join(format!("file-{number:05}")), size, Contents::Random, number + 1, stop)?;
            }
            Ok(())
        })
    }

    /// Makes a source under another name first, so that an interrupted one is never taken for
    /// complete.
    fn make(
        &self,
        path: &Path,
        stop: &AtomicBool,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Option<PathBuf>> {
        let part = path.with_extension("part");
        let made = make(&part);
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        made.with_context(|| format!("{} cannot be made", path.display()))?;
        std::fs::rename(&part, path)?;
        Ok(Some(path.to_owned()))
    }
}

fn word(contents: Contents) -> &'static str {
    match contents {
        Contents::Zeros => "zeros",
        Contents::Random => "random",
        Contents::Checked(_) => "checked",
    }
}

fn write(path: &Path, size: u64, contents: Contents, seed: u64, stop: &AtomicBool) -> Result<()> {
    let file = File::create_new(path)?;
    if contents == Contents::Zeros {
        return Ok(file.set_len(size)?);
    }
    let (mut file, mut offset) = (BufWriter::new(file), 0);
    let mut piece = vec![0; PIECE.min(usize::try_from(size.next_multiple_of(8)).unwrap_or(PIECE))];
    while offset < size {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        match contents {
            Contents::Checked(pattern) => pattern.fill(offset, &mut piece),
            _ => SplitMix64(seed << 40 | offset).fill(&mut piece),
        }
        let count = piece.len().min(usize::try_from(size - offset).unwrap_or(usize::MAX));
        file.write_all(piece.get(..count).unwrap_or_default())?;
        offset += count as u64;
    }
    Ok(file.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_their_size_and_are_made_once() {
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let sources = Sources::in_folder(dir.path()).unwrap();
        let zeros = sources.file(100_001, Contents::Zeros, &stop).unwrap().unwrap();
        assert_eq!(std::fs::read(&zeros).unwrap(), vec![0; 100_001]);
        let checked = sources.file(2_500_000, Contents::Checked(Pattern(7)), &stop).unwrap().unwrap();
        let data = std::fs::read(&checked).unwrap();
        assert_eq!((data.len(), Pattern(7).mismatch(0, &data)), (2_500_000, None));
        let folder = sources.files(3, 5000, &stop).unwrap().unwrap();
        let read = |number: u64| std::fs::read(folder.join(format!("file-{number:05}"))).unwrap();
        assert!(read(0).len() == 5000 && read(0) != read(1) && read(1) != read(2));
        // The zeros are a hole.
        assert!((2_500_000..2_700_000).contains(&sources.made().unwrap()), "{}", sources.made().unwrap());
        let before = std::fs::metadata(&folder).unwrap().modified().unwrap();
        assert_eq!(sources.files(3, 5000, &stop).unwrap().unwrap(), folder);
        assert_eq!(std::fs::metadata(&folder).unwrap().modified().unwrap(), before);
        drop(sources);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_interrupted_copy_is_not_used_as_a_source() {
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(true));
        let sources = Sources::in_folder(dir.path()).unwrap();
        assert!(sources.files(3, 5000, &stop).unwrap().is_none());
        assert!(!sources.folder().join("3x5000").exists());
    }

    #[test]
    fn more_than_the_disk_holds_is_refused_before_it_is_written() {
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let sources = Sources::in_folder(dir.path()).unwrap();
        let error = format!("{:#}", sources.files(1 << 30, 1 << 30, &stop).unwrap_err());
        assert!(error.contains("MB free") && error.contains("--scale"), "{error}");
    }
}
