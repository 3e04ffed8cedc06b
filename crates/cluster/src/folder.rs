//! The lab's folder: everything that it writes is in it.

use crate::network::LabMachine;
use crate::{LabOptions, processes};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a lab is made by default: only root can write there.
pub const DIR: &str = "/var/lib/orthrus-lab";

/// The file that makes a folder a lab's: only a folder with it is ever removed.
const MARKER: &str = "lab.json";

/// The places in a lab's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabFolder(PathBuf);

/// The folder's record of its lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabRecord {
    /// The options of the lab.
    pub options: LabOptions,
    /// The process that all others of the lab hang on.
    pub supervisor: Option<processes::ProcessIdentity>,
    /// Whether everything has been started.
    pub ready: bool,
}

impl LabFolder {
    /// Names a folder; it need not exist.
    pub fn at(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// Returns the folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a place in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the file that a machine's network namespace is bound to, inside the lab's view.
    pub fn net(&self, machine: LabMachine) -> PathBuf {
        self.file("net").join(machine.name())
    }

    /// Returns the folder that all nodes see as /lab.
    pub fn share(&self) -> PathBuf {
        self.file("share")
    }

    /// Returns the folder of the nodes' control sockets.
    pub fn uml(&self) -> PathBuf {
        self.file("uml")
    }

    /// Returns the pipe that a node takes requests from.
    pub fn ask(&self, node: &str) -> PathBuf {
        self.file(&format!("{node}.ask"))
    }

    /// Returns the log of a program.
    pub fn log(&self, name: &str) -> PathBuf {
        self.file(&format!("{name}.log"))
    }

    /// Makes the folder, or takes an empty one, so that no other user can enter it, and writes the
    /// record.
    ///
    /// # Errors
    /// When there is a lab already, or something else, or another user could exchange the folder.
    pub fn claim(&self, record: &LabRecord) -> anyhow::Result<()> {
        if self.file(MARKER).exists() {
            bail!("there is a lab in {} already: `orthrus lab down` ends it", self.0.display());
        }
        let is_empty = || fs::read_dir(&self.0).is_ok_and(|mut entries| entries.next().is_none());
        // Permissions of a folder with other things in it are not changed.
        if self.0.exists() && !is_empty() {
            bail!("{} exists and is no lab: give a new or an empty folder", self.0.display());
        }
        private::claim(&self.0)?;
        ensure!(is_empty(), "{} is not empty any more: give a new or an empty folder", self.0.display());
        self.write(record)
    }

    /// Writes the record; under its name it is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, record: &LabRecord) -> anyhow::Result<()> {
        let (file, new) = (self.file(MARKER), self.file("lab.json.new"));
        fs::write(&new, serde_json::to_vec_pretty(record)?)
            .and_then(|()| fs::rename(&new, &file))
            .with_context(|| file.display().to_string())
    }

    /// Reads the record; `None` where there is no lab.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn read(&self) -> anyhow::Result<Option<LabRecord>> {
        let file = self.file(MARKER);
        match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| file.display().to_string()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    /// Reads the record of a lab that must be up.
    ///
    /// # Errors
    /// A missing or incomplete record, with the remedy.
    pub fn open(&self) -> anyhow::Result<LabRecord> {
        let dir = self.0.display();
        match self.read()? {
            None => bail!("there is no lab in {dir}: `orthrus lab up` makes one"),
            Some(record) if !record.supervisor.is_some_and(|supervisor| supervisor.is_alive()) => {
                bail!("the lab in {dir} has ended: `orthrus lab down` removes what is left of it")
            }
            Some(record) if !record.ready => bail!("the lab in {dir} is not up yet"),
            Some(record) => Ok(record),
        }
    }

    /// Removes the folder with all that is in it, the record last.
    ///
    /// # Errors
    /// When somebody has mounted something in it, which would be emptied; when it cannot be
    /// removed.
    pub fn remove(&self) -> anyhow::Result<()> {
        let mut mounts = mounts::all().unwrap_or_default().into_iter();
        if let Some(mount) = mounts.find(|mount| mount.point.starts_with(&self.0)) {
            bail!("{} is mounted in the lab's folder: unmount it first", mount.point.display());
        }
        let entries = fs::read_dir(&self.0).with_context(|| self.0.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_name() == MARKER {
                continue;
            }
            let removed =
                if entry.file_type()?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| path.display().to_string())?;
        }
        fs::remove_dir_all(&self.0).with_context(|| self.0.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::options;

    fn record() -> LabRecord {
        LabRecord { options: options(), supervisor: None, ready: false }
    }

    #[test]
    fn a_folder_is_claimed_once_and_removed_whole() {
        let above = tempfile::tempdir().unwrap();
        let folder = LabFolder::at(&above.path().join("lab"));
        assert_eq!(folder.read().unwrap(), None);
        folder.claim(&record()).unwrap();
        assert_eq!(folder.read().unwrap(), Some(record()));
        private::check(folder.path()).unwrap();
        assert!(folder.claim(&record()).is_err());
        fs::create_dir_all(folder.file("share/a/b")).unwrap();
        folder.remove().unwrap();
        assert!(!folder.path().exists());
    }

    #[test]
    fn a_folder_with_something_else_is_left_alone() {
        let above = tempfile::tempdir().unwrap();
        fs::write(above.path().join("letter"), "dear").unwrap();
        assert!(LabFolder::at(above.path()).claim(&record()).is_err());
        assert!(above.path().join("letter").exists());
    }

    #[test]
    fn a_lab_without_its_first_process_is_not_up() {
        let above = tempfile::tempdir().unwrap();
        let folder = LabFolder::at(&above.path().join("lab"));
        assert!(folder.open().unwrap_err().to_string().contains("lab up"));
        folder.claim(&record()).unwrap();
        assert!(folder.open().unwrap_err().to_string().contains("lab down"));
    }
}
