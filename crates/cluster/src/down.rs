//! Ends a lab, from outside.

use crate::LabFolder;
use anyhow::bail;
use std::fs;

/// Ends the lab in a folder and removes the folder. Returns whether there was anything.
///
/// # Errors
/// When the folder is no lab's, or cannot be removed.
pub fn down(folder: &LabFolder) -> anyhow::Result<bool> {
    let Some(record) = folder.read()? else {
        if fs::read_dir(folder.path()).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{} is no lab", folder.path().display());
        }
        // One that `up` had made and not yet written to.
        return Ok(fs::remove_dir(folder.path()).is_ok());
    };
    if let Some(supervisor) = record.supervisor {
        supervisor.kill()?;
    }
    folder.remove()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_where_nothing_is_does_nothing() {
        let above = tempfile::tempdir().unwrap();
        assert!(!down(&LabFolder::at(&above.path().join("lab"))).unwrap());
        fs::write(above.path().join("letter"), "dear").unwrap();
        assert!(down(&LabFolder::at(above.path())).is_err());
        assert!(above.path().join("letter").exists());
    }
}
