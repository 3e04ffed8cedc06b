//! The folders that exports have had, and the keys that sign the handles of each, in the file
//! `roots` of the state folder.
//!
//! The number of an export comes from its pseudo path, so that handles would outlive a change of
//! its folder: files that the new folder does not have could be reached by old handles, and on
//! another file system a handle can name another file. So each folder of an export has a key of
//! its own, except for the first, which has the server's.

use super::state_dir::{self, REMEDY, replace};
use anyhow::{Context, bail};
use server::engine::{hex, unhex};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use vfs_local::{FolderId, LocalBackend};

/// Folders that are remembered of an export. One that is forgotten gets a new key.
const FOLDERS_MAX: usize = 16;
/// Folders that are remembered in all. Removed exports keep theirs, in case they come back; beyond
/// this, those that were served last the longest ago are forgotten.
const ROOTS_MAX: usize = 65_536;
/// Bytes of the file: far more than a server has exports.
const FILE_SIZE_MAX: u64 = 64 << 20;
/// Stands for the server's own key.
const OWN_KEY: &str = "-";

/// A folder of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    export: u32,
    folder: FolderId,
    /// `None`: the server's own.
    key: Option<[u8; 16]>,
}

/// The folders of all exports, the last used one of each export last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roots {
    /// `None`: nothing is kept.
    directory: Option<PathBuf>,
    roots: Vec<Root>,
}

/// The key of a folder.
pub(super) struct RootKey {
    pub(super) key: Option<[u8; 16]>,
    /// Whether the export had another folder before, whose handles are not good any more.
    pub(super) is_another: bool,
}

impl Roots {
    /// Reads the folders from a state folder.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("roots");
        let text = state_dir::read(&path, FILE_SIZE_MAX)?.unwrap_or_default();
        let Some(roots) = text.lines().map(parse).collect() else {
            bail!("{} is damaged: {REMEDY}", path.display());
        };
        Ok(Self { directory: Some(directory.to_owned()), roots })
    }

    /// Finds the key of the folder that an export has now, and makes it the last used one. A folder
    /// that has the last one in it takes over its key: all handles of before name files in it.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn enter(&mut self, export: u32, backend: &LocalBackend) -> anyhow::Result<RootKey> {
        let folder = backend.folder().id;
        let known = self.roots.iter().position(|root| root.export == export && root.folder == folder);
        let last = self.roots.iter().rposition(|root| root.export == export);
        let holds = |last: usize| self.roots.get(last).is_some_and(|last| backend.holds(&last.folder));
        let (root, is_another) = match (known, last) {
            (Some(known), last) => (self.roots.remove(known), last != Some(known)),
            // The export may be one that was forgotten, which had the server's own key then.
            (None, None) if self.roots.len() >= ROOTS_MAX => {
                (Root { export, folder, key: Some(random()?) }, false)
            }
            (None, None) => (Root { export, folder, key: None }, false),
            (None, Some(last)) if holds(last) => (Root { folder, ..self.roots.remove(last) }, false),
            (None, Some(_)) => (Root { export, folder, key: Some(random()?) }, true),
        };
        let key = root.key;
        self.roots.push(root);
        self.forget_oldest(export);
        Ok(RootKey { key, is_another })
    }

    fn forget_oldest(&mut self, export: u32) {
        let of_export = || self.roots.iter().filter(|root| root.export == export);
        if of_export().count() > FOLDERS_MAX
            && let Some(oldest) = self.roots.iter().position(|root| root.export == export)
        {
            self.roots.remove(oldest);
        }
    }

    /// Takes the place of `former`, and puts a difference on stable storage. So many exports are in
    /// use.
    ///
    /// # Errors
    /// The state folder cannot be written.
    pub(super) fn replace(mut self, former: &mut Self, in_use: usize) -> anyhow::Result<()> {
        let surplus = self.roots.len().saturating_sub(ROOTS_MAX.max(in_use));
        self.roots.drain(..surplus);
        if let Some(directory) = self.directory.as_ref().filter(|_| self.roots != former.roots) {
            // The thread may still have the identity of a caller.
            vfs_local::become_server();
            let text: String = self.roots.iter().map(Root::line).collect();
            replace(directory, "roots", text.as_bytes())
                .with_context(|| format!("{} cannot be written", directory.join("roots").display()))?;
        }
        *former = self;
        Ok(())
    }
}

impl Root {
    fn line(&self) -> String {
        let key = self.key.map_or_else(|| OWN_KEY.to_owned(), |key| hex(&key));
        let mut line = String::new();
        let _ = writeln!(line, "{} {} {key}", self.export, hex(self.folder.as_bytes()));
        line
    }
}

fn parse(line: &str) -> Option<Root> {
    let mut words = line.split(' ');
    let (export, folder, key) = (words.next()?, words.next()?, words.next()?);
    let key = match key {
        OWN_KEY => None,
        key => Some(unhex(key)?.try_into().ok()?),
    };
    let root = Root { export: export.parse().ok()?, folder: FolderId::new(unhex(folder)?), key };
    words.next().is_none().then_some(root)
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).context("the system gives no random numbers")?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs_local::LocalOptions;

    const EXPORT: u32 = 7;

    fn key(roots: &mut Roots, folder: &Path) -> Option<[u8; 16]> {
        let backend = LocalBackend::open(folder, &LocalOptions::default()).unwrap();
        roots.enter(EXPORT, &backend).unwrap().key
    }

    #[test]
    fn another_folder_has_another_key_and_each_keeps_its_own() // RFC 8881 section 4.2.2
    {
        let (state, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, other) = (place.path().join("one"), place.path().join("other"));
        for folder in [&one, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        let mut roots = Roots::read(state.path()).unwrap();
        assert_eq!(key(&mut roots, &one), None, "the server's own");
        let second = key(&mut roots, &other);
        assert!(second.is_some());
        roots.clone().replace(&mut Roots::default(), 2).unwrap();
        let mut again = Roots::read(state.path()).unwrap();
        assert_eq!(again, roots);
        std::fs::rename(&one, place.path().join("renamed")).unwrap();
        assert_eq!(key(&mut again, &place.path().join("renamed")), None);
        assert_eq!(key(&mut again, &other), second);
    }

    #[test]
    fn a_folder_keeps_the_handles_of_one_in_it_and_not_the_reverse() {
        let place = tempfile::tempdir().unwrap();
        let narrow = place.path().join("a/narrow");
        std::fs::create_dir_all(&narrow).unwrap();
        let mut roots = Roots::default();
        let first = key(&mut roots, &narrow);
        assert_eq!(key(&mut roots, place.path()), first);
        let again = key(&mut roots, &narrow);
        assert_ne!(again, first, "the wide folder has given handles under that key");
        assert_eq!(key(&mut roots, place.path()), first);
        assert_eq!(key(&mut roots, &narrow), again);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let state = tempfile::tempdir().unwrap();
        for line in ["7 00", "7 00 -x", "7 0 -", "x 00 -", "7 00 00", "7 00 - -", ""] {
            let text = format!("{line}\n");
            state_dir::replace(state.path(), "roots", text.as_bytes()).unwrap();
            assert!(Roots::read(state.path()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn few_folders_of_an_export_are_remembered() {
        let place = tempfile::tempdir().unwrap();
        let mut roots = Roots::default();
        for n in 0..FOLDERS_MAX + 3 {
            let folder = place.path().join(n.to_string());
            std::fs::create_dir(&folder).unwrap();
            key(&mut roots, &folder);
        }
        assert_eq!(roots.roots.len(), FOLDERS_MAX);
    }

    #[test]
    fn removed_exports_are_forgotten_at_last_and_come_back_with_a_new_key() {
        let (state, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let of = |number: usize| Root {
            export: u32::try_from(1000 + number).unwrap(),
            folder: FolderId::new(number.to_be_bytes().to_vec()),
            key: None,
        };
        let roots = (0..ROOTS_MAX).map(of).collect();
        let mut roots = Roots { directory: Some(state.path().to_owned()), roots };
        let new = key(&mut roots, place.path());
        assert!(new.is_some(), "it may have been forgotten");
        roots.replace(&mut Roots::default(), 1).unwrap();
        let mut again = Roots::read(state.path()).unwrap();
        assert_eq!((again.roots.len(), again.roots.first()), (ROOTS_MAX, Some(&of(1))));
        assert_eq!(key(&mut again, place.path()), new);
        again.replace(&mut Roots::default(), ROOTS_MAX + 1).unwrap();
    }
}
