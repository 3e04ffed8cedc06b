//! A fresh folder of our own on a file system that somebody mounted. Nothing else there is touched.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::statvfs::statvfs;

use super::mountinfo::read_ahead_kib;
use super::{Mount, kerberos};
use crate::measuring::Record;
use crate::mount_facts::NO_ENCTYPE;
use crate::{Flavor, MountFacts};

/// How much of a file system is left to others, in bytes.
const SPARE: u64 = 64 << 20;

/// A folder of our own on a mount; dropping it removes the folder with its contents.
#[derive(Debug)]
pub struct MountPlace {
    folder: PathBuf,
    mount_point: PathBuf,
    facts: MountFacts,
}

impl MountPlace {
    /// Reads the mount of `dir` and makes a folder in it. `variant` is the measured variant; if it
    /// is a flavor, the mount must have the same one.
    ///
    /// # Errors
    /// No folder, no NFS mount (unless any file system is permitted), another flavor, read-only,
    /// not writable.
    pub fn claim(variant: &str, dir: &Path, any_file_system: bool) -> Result<Self> {
        ensure!(dir.is_dir(), "{} is no folder", dir.display());
        let line = Mount::of(dir).with_context(|| dir.display().to_string())?;
        check(variant, dir, &line, any_file_system)?;
        let folder = dir.join(crate::folder_name(Some(variant)));
        std::fs::create_dir(&folder)
            .with_context(|| format!("no folder can be made in {}", dir.display()))?;
        let secure = line.value("sec").is_some_and(|sec| sec.starts_with("krb5"));
        let enctype = line.host().filter(|_| secure).and_then(kerberos::enctype);
        let facts = MountFacts {
            variant: variant.to_owned(),
            folder: dir.to_owned(),
            read_ahead_kib: read_ahead_kib(&line),
            enctype: if secure { enctype } else { Some(NO_ENCTYPE.to_owned()) },
            source: line.source,
            fs_type: line.fs_type,
            options: line.options,
        };
        Ok(Self { folder, mount_point: line.point, facts })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns where the file system is mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Returns the properties that decide the result.
    pub fn facts(&self) -> &MountFacts {
        &self.facts
    }

    /// Adds these properties to the environment of a run.
    ///
    /// # Errors
    /// When the run was begun with other options of this mount.
    pub fn tell(&self, record: &mut Record) -> Result<()> {
        self.facts.clone().enter(record)?;
        let environment = &mut record.environment;
        environment.enctype = environment.enctype.take().or(self.facts.kerberos());
        Ok(())
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove(self) -> Result<()> {
        remove(&self.folder)
    }
}

impl Drop for MountPlace {
    fn drop(&mut self) {
        // Nothing sensible can be done about a failure here; `remove` tells of it where it matters.
        let _ = remove(&self.folder);
    }
}

/// Removes a file, or a folder with all that is in it; one that is not there is no error.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

fn check(variant: &str, dir: &Path, line: &Mount, any_file_system: bool) -> Result<()> {
    let shown = dir.display();
    if !line.is_nfs() && !any_file_system {
        bail!(
            "{shown} is no NFS mount but {} ({}); mount one there, or say --any-file-system to measure it all the same",
            line.fs_type,
            line.source
        );
    }
    ensure!(!line.has("ro"), "{shown} is mounted read-only; mount it with -o rw");
    let Ok(flavor) = variant.parse::<Flavor>() else { return Ok(()) };
    match line.value("sec") {
        Some(sec) if line.is_nfs() && sec != flavor.name() => {
            bail!("{shown} is mounted with sec={sec}, not with sec={}", flavor.name())
        }
        _ => Ok(()),
    }
}

/// Returns how many bytes a folder's file system has left for this user.
///
/// # Errors
/// When the folder is not there.
pub fn free(folder: &Path) -> Result<u64> {
    let room = statvfs(folder).with_context(|| folder.display().to_string())?;
    Ok(room.blocks_available().saturating_mul(room.fragment_size()))
}

/// Checks that a folder's file system has room for `bytes`.
///
/// # Errors
/// Names the free and the needed room, and its purpose.
pub fn ensure_room(folder: &Path, bytes: u64, what: &str) -> Result<()> {
    let free = free(folder)?;
    ensure!(
        free >= bytes.saturating_add(SPARE),
        "{} has {} MB free, and {what} need {} MB there; free some, name another folder, or make them smaller with --scale",
        folder.display(),
        free / 1_000_000,
        bytes.saturating_add(SPARE).div_ceil(1_000_000)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measuring::Settings;
    use crate::mount_facts::ConnectionsFrom;

    fn line(text: &str) -> Mount {
        Mount::parse(format!("42 40 0:52 / /mnt {text}").as_bytes()).unwrap()
    }

    fn refusal(variant: &str, text: &str) -> String {
        check(variant, Path::new("/mnt"), &line(text), false).unwrap_err().to_string()
    }

    #[test]
    fn a_mount_that_does_not_fit_is_refused_with_the_reason() {
        let nfs = "rw - nfs4 server:/export rw,sec=krb5i";
        assert!(check("krb5i", Path::new("/mnt"), &line(nfs), false).is_ok());
        assert!(refusal("krb5p", nfs).contains("mounted with sec=krb5i, not with sec=krb5p"));
        assert!(refusal("sys", "rw - ext4 /dev/sda rw").contains("no NFS mount but ext4"));
        assert!(refusal("sys", "ro - nfs4 server:/export ro,sec=sys").contains("read-only"));
    }

    #[test]
    fn a_place_is_a_folder_of_its_own_and_is_removed_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(MountPlace::claim("sys", &dir.path().join("none"), true).is_err());
        let place = MountPlace::claim("sys", dir.path(), true).unwrap();
        std::fs::write(place.folder().join("file"), "x").unwrap();
        assert!(place.folder().starts_with(dir.path()) && place.facts().variant == "sys");
        assert!(MountPlace::claim("sys", dir.path(), true).is_err(), "two of a side would share a folder");
        drop(place);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_does_not_go_on_with_other_options_of_its_mounts() {
        let dir = tempfile::tempdir().unwrap();
        let place = MountPlace::claim("sys", dir.path(), true).unwrap();
        let mut record = Record::begin("anf", "", Settings::new(6, 1.0, 1, vec!["sys".to_owned()]));
        place.tell(&mut record).unwrap();
        place.tell(&mut record).unwrap();
        assert_eq!(record.environment.mounts, [place.facts().clone()]);
        record.environment.mounts[0].options.push("rsize=65536".to_owned());
        let error = place.tell(&mut record).unwrap_err().to_string();
        assert!(error.contains("rsize=65536") && error.contains("without --resume"), "{error}");
    }

    #[test]
    fn mounts_of_a_run_may_differ_in_the_connections_that_it_chooses() {
        let dir = tempfile::tempdir().unwrap();
        let place = MountPlace::claim("sys", dir.path(), true).unwrap();
        let (own, mut other) = (place.facts(), place.facts().clone());
        other.options.push("nconnect=8".to_owned());
        assert!(other.is_like(own, ConnectionsFrom::Run) && !other.is_like(own, ConnectionsFrom::Mount));
    }

    #[test]
    fn too_little_room_is_an_error_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ensure_room(dir.path(), 1, "copies").is_ok());
        let error = ensure_room(dir.path(), u64::MAX / 2, "copies").unwrap_err().to_string();
        assert!(error.contains("copies need") && error.contains("--scale"), "{error}");
    }
}
