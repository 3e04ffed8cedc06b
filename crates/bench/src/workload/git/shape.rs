//! The repository that a seed draws, or that has the files of another.

use crate::KnownRepository;
use rng::SplitMix64;
use std::collections::BTreeSet;

/// Folders of the working copy, and files of each.
const FOLDERS: usize = 12;
const FILES: usize = 10;

/// Bytes of the pack that a clone brings.
const PACK: usize = 384 << 10;

/// Part of the files that another branch has otherwise: one in so many.
const CHANGED: u64 = 5;

/// Maximum size of a file and of a pack, in bytes: larger ones of the repeated repository are cut.
const FILE_SIZE_MAX: u64 = 16 << 20;
const PACK_SIZE_MAX: u64 = 64 << 20;

/// The folder of the working copy.
const WORK: &str = "work";

/// Objects that commits leave before they are packed.
const LOOSE: usize = 24;

/// A file of the working copy or of the object store.
pub struct Blob {
    /// Path in the repository.
    pub path: String,
    /// Size of the file in bytes.
    pub size: usize,
    /// Seed of its contents.
    pub seed: u64,
}

/// The files that a clone makes and later commands change.
pub struct RepositoryShape {
    /// Folders of the working copy, parents first.
    pub folders: Vec<String>,
    /// Files of the working copy.
    pub files: Vec<Blob>,
    /// Indexes of the files that differ in the other branch.
    pub changed: Vec<usize>,
    /// The pack that the clone brings.
    pub pack: Blob,
    /// The objects that commits write, `objects/ab/…`.
    pub loose: Vec<Blob>,
}

/// Returns a size between 128 bytes and 32 KiB, each power of two as likely as another, as source
/// files are.
fn size(draw: &mut SplitMix64) -> usize {
    let power = 7 + draw.draw() % 8;
    (1usize << power) + (draw.draw() % (1 << power)) as usize
}

impl Blob {
    /// Returns its content: packed data looks like noise.
    pub fn content(&self) -> Vec<u8> {
        let mut draw = SplitMix64(self.seed);
        let words = (0..self.size.div_ceil(8)).flat_map(|_| draw.draw().to_le_bytes());
        words.take(self.size).collect()
    }
}

impl RepositoryShape {
    /// Makes a shape from a seed.
    pub fn draw(seed: u64) -> Self {
        let mut draw = SplitMix64(seed);
        let mut folders = vec![WORK.to_owned()];
        for index in 1..FOLDERS {
            // Half of the folders are below another one.
            let parent = if index % 2 == 0 { draw.draw() as usize % index } else { 0 };
            let parent = folders.get(parent).cloned().unwrap_or_default();
            folders.push(format!("{parent}/folder-{index}"));
        }
        let mut files = Vec::new();
        for folder in &folders {
            for index in 0..FILES {
                let path = format!("{folder}/source-{index}.c");
                files.push(Blob { path, size: size(&mut draw), seed: draw.draw() });
            }
        }
        let changed = (0..files.len()).filter(|_| draw.draw().is_multiple_of(CHANGED)).collect();
        Self::with(folders, files, changed, PACK, &mut draw)
    }

    /// Makes the shape of a repository: its files, with other contents of the same lengths.
    pub fn of(known: &KnownRepository, seed: u64) -> Self {
        let mut draw = SplitMix64(seed);
        let (mut folders, mut files) = (BTreeSet::from([WORK.to_owned()]), Vec::new());
        for file in &known.files {
            let path = format!("{WORK}/{}", file.path);
            folders.extend(path.match_indices('/').filter_map(|(at, _)| path.get(..at)).map(str::to_owned));
            files.push(Blob { path, size: file.size.min(FILE_SIZE_MAX) as usize, seed: draw.draw() });
        }
        let pack = known.pack.clamp(1, PACK_SIZE_MAX) as usize;
        Self::with(folders.into_iter().collect(), files, known.changed.clone(), pack, &mut draw)
    }

    fn with(
        folders: Vec<String>,
        files: Vec<Blob>,
        changed: Vec<usize>,
        pack: usize,
        draw: &mut SplitMix64,
    ) -> Self {
        let pack = Blob { path: ".git/objects/pack/pack-1.pack".into(), size: pack, seed: draw.draw() };
        let loose = (0..LOOSE).map(|_| {
            let name = draw.draw();
            let path = format!(".git/objects/{:02x}/{name:016x}", name >> 56 & 0x0f);
            Blob { path, size: size(draw), seed: draw.draw() }
        });
        let loose = loose.collect();
        Self { folders, files, changed, pack, loose }
    }
}
