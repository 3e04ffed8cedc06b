//! One life of a repository: cloned, looked at, switched, committed to, packed, removed.

use super::Counters;
use super::shape::{Blob, RepositoryShape};
use crate::Tree;
use crate::workload::LoadTally;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::time::Instant;

/// Bytes of the index for each file of the working copy, about.
const INDEX_ENTRY: usize = 72;

/// Folders of an empty repository.
const SKELETON: [&str; 9] = [
    ".git",
    ".git/objects",
    ".git/objects/pack",
    ".git/objects/info",
    ".git/refs",
    ".git/refs/heads",
    ".git/refs/tags",
    ".git/info",
    ".git/hooks",
];

/// Small files that stay as a clone has written them.
const SMALL: [(&str, usize); 5] = [
    (".git/description", 73),
    (".git/info/exclude", 240),
    (".git/hooks/pre-commit.sample", 1643),
    (".git/hooks/update.sample", 3650),
    (".git/packed-refs", 112),
];

/// A tree under work.
pub(super) struct TreeWork<'a> {
    pub tree: &'a mut dyn Tree,
    pub tally: &'a mut LoadTally,
    pub counters: Counters,
}

impl TreeWork<'_> {
    /// Does all of it once.
    pub(super) fn turn(&mut self, repository: &RepositoryShape) -> Result<()> {
        self.clone(repository)?;
        self.status(repository)?;
        self.checkout(repository)?;
        let fans = self.commit(repository)?;
        self.status(repository)?;
        self.gc(repository, &fans)?;
        self.remove(repository)
    }

    fn timed<T>(
        &mut self,
        phase: &'static str,
        bytes: usize,
        operation: impl FnOnce(&mut dyn Tree) -> Result<T>,
    ) -> Result<T> {
        let start = Instant::now();
        let outcome = operation(self.tree)?;
        self.count(phase, bytes, start.elapsed());
        Ok(outcome)
    }

    fn write(&mut self, phase: &'static str, path: &str, data: &[u8]) -> Result<()> {
        self.timed(phase, data.len(), |tree| tree.write_file(path, data))
    }

    /// Writes under another name and renames, so that no reader sees a partial file.
    fn replace(&mut self, phase: &'static str, path: &str, made_as: &str, data: &[u8]) -> Result<()> {
        self.write(phase, made_as, data)?;
        self.timed(phase, 0, |tree| tree.move_file(made_as, path))
    }

    fn index(&mut self, phase: &'static str, repository: &RepositoryShape) -> Result<()> {
        let index = vec![0x44; repository.files.len() * INDEX_ENTRY];
        self.replace(phase, ".git/index", ".git/index.lock", &index)
    }

    fn head(&mut self, phase: &'static str) -> Result<()> {
        self.replace(phase, ".git/HEAD", ".git/HEAD.lock", b"ref: refs/heads/main\n")
    }

    fn pack(&mut self, phase: &'static str, path: &str, data: &[u8]) -> Result<()> {
        self.replace(phase, path, ".git/objects/pack/tmp_pack", data)?;
        let index = path.replace(".pack", ".idx");
        self.replace(
            phase,
            &index,
            ".git/objects/pack/tmp_idx",
            data.get(..data.len() / 16).unwrap_or_default(),
        )
    }

    fn clone(&mut self, repository: &RepositoryShape) -> Result<()> {
        for folder in SKELETON {
            self.timed("clone", 0, |tree| tree.make_folder(folder))?;
        }
        for (path, size) in SMALL {
            self.write("clone", path, &vec![0x23; size])?;
        }
        self.replace("clone", ".git/config", ".git/config.lock", &[0x63; 260])?;
        self.head("clone")?;
        self.pack("clone", &repository.pack.path, &repository.pack.content())?;
        for folder in &repository.folders {
            self.timed("clone", 0, |tree| tree.make_folder(folder))?;
        }
        for file in &repository.files {
            self.write("clone", &file.path, &file.content())?;
            self.timed("clone", 0, |tree| tree.look_at(&file.path))?;
        }
        self.index("clone", repository)
    }

    fn status(&mut self, repository: &RepositoryShape) -> Result<()> {
        for file in &repository.files {
            self.timed("status", 0, |tree| tree.look_at(&file.path))?;
        }
        for folder in &repository.folders {
            let entries = self.timed("status", 0, |tree| tree.list_folder(folder))?;
            ensure!(entries > 0, "{folder} is listed as empty");
        }
        self.index("status", repository)
    }

    /// Another branch, and back.
    fn checkout(&mut self, repository: &RepositoryShape) -> Result<()> {
        for _ in 0..2 {
            for file in repository.changed.iter().filter_map(|index| repository.files.get(*index)) {
                self.timed("checkout", 0, |tree| tree.remove_file(&file.path))?;
                self.write("checkout", &file.path, &file.content())?;
                self.timed("checkout", 0, |tree| tree.look_at(&file.path))?;
            }
            self.index("checkout", repository)?;
            self.head("checkout")?;
        }
        Ok(())
    }

    /// Returns the folders of objects that it made.
    fn commit(&mut self, repository: &RepositoryShape) -> Result<BTreeSet<String>> {
        let mut fans = BTreeSet::new();
        for object in &repository.loose {
            let fan = object.path.rsplit_once('/').map_or("", |(fan, _)| fan).to_owned();
            if fans.insert(fan.clone()) {
                self.timed("commit", 0, |tree| tree.make_folder(&fan))?;
            }
            self.replace("commit", &object.path, &format!("{fan}/tmp_obj"), &object.content())?;
        }
        self.replace("commit", ".git/refs/heads/main", ".git/refs/heads/main.lock", &[0x61; 41])?;
        self.index("commit", repository)?;
        Ok(fans)
    }

    fn gc(&mut self, repository: &RepositoryShape, fans: &BTreeSet<String>) -> Result<()> {
        let mut packed = Vec::new();
        for object in &repository.loose {
            packed.extend(self.read("gc", object)?);
        }
        self.pack("gc", ".git/objects/pack/pack-2.pack", &packed)?;
        for object in &repository.loose {
            self.timed("gc", 0, |tree| tree.remove_file(&object.path))?;
        }
        for fan in fans {
            self.timed("gc", 0, |tree| tree.list_folder(fan))?;
            self.timed("gc", 0, |tree| tree.remove_folder(fan))?;
        }
        self.replace("gc", ".git/packed-refs", ".git/packed-refs.lock", &[0x70; 112])
    }

    fn read(&mut self, phase: &'static str, blob: &Blob) -> Result<Vec<u8>> {
        let found = self.timed(phase, blob.size, |tree| tree.read_file(&blob.path))?;
        ensure!(found == blob.content(), "wrong data: {} is not what was written there", blob.path);
        Ok(found)
    }

    fn remove(&mut self, repository: &RepositoryShape) -> Result<()> {
        let small = SMALL.iter().map(|(path, _)| *path);
        let made = [
            ".git/config",
            ".git/HEAD",
            ".git/index",
            ".git/refs/heads/main",
            ".git/objects/pack/pack-1.pack",
            ".git/objects/pack/pack-1.idx",
            ".git/objects/pack/pack-2.pack",
            ".git/objects/pack/pack-2.idx",
        ];
        let files = repository.files.iter().map(|file| file.path.as_str());
        for path in small.chain(made).chain(files) {
            self.timed("remove", 0, |tree| tree.remove_file(path))?;
        }
        // Children stand behind their parents.
        let folders = repository.folders.iter().rev().map(String::as_str);
        for folder in folders.chain(SKELETON.into_iter().rev()) {
            self.timed("remove", 0, |tree| tree.remove_folder(folder))?;
        }
        Ok(())
    }
}
