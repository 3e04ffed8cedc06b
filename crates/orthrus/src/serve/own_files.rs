//! The server's own files, which no export may show to clients.

use super::state_dir;
use crate::config::{AuditTarget, ExportSettings, Nested, Settings, Storage};
use anyhow::bail;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use std::path::Path;

/// Refuses exports through which clients reach the state folder of a server with the settings
/// `own`, and warns of other private files there. An export below the state folder is none of them:
/// all files of the server lie in the folder itself.
///
/// Permissions make no difference. A server without root acts as its own user for all callers, and
/// a reload may let a caller be root.
///
/// # Errors
/// Names the first such export, with the remedy.
pub(super) fn check<'e>(
    exports: impl IntoIterator<Item = &'e ExportSettings>,
    own: &Settings,
) -> anyhow::Result<()> {
    // Without a place for its state, a server does not start.
    let Ok(folder) = state_dir(own) else { return Ok(()) };
    let state = PrivatePlace::of(&folder);
    let audit = match &own.audit {
        Some(AuditTarget::File(file)) => Some(file),
        _ => None,
    };
    let others = [("keytab", own.keytab.as_ref()), ("web_key", own.web_key.as_ref()), ("audit", audit)];
    let others = others.into_iter().filter_map(|(key, file)| Some((key, file?)));
    let others: Vec<_> = others.map(|(key, file)| (key, file, PrivatePlace::of(file))).collect();
    for export in exports {
        let Storage::Folder(root) = &export.storage else { continue };
        if state.is_reached_from(root, export.nested) {
            bail!(
                "the state folder {} is inside of the export {} of {}, whose clients could read the server's secret; \
                 choose another with --state-dir",
                folder.display(),
                export.pseudo,
                root.display()
            );
        }
        for (key, file, _) in others.iter().filter(|(_, _, place)| place.is_reached_from(root, export.nested))
        {
            tracing::warn!(
                "export {}: {} is inside of it: clients may read or replace it; choose another place for `{key}`",
                export.pseudo,
                file.display()
            );
        }
    }
    Ok(())
}

/// A file or folder that exists or is to be made, as itself and the folders around it. Numbers
/// tell the same folder from another behind links and bind mounts, where paths do not.
struct PrivatePlace(Vec<Statx>);

impl PrivatePlace {
    fn of(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let existing = path.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
        Self(existing.ancestors().filter_map(numbers).collect())
    }

    /// Returns whether clients of an exported folder reach the place. They do not meet a mount that
    /// the export hides.
    fn is_reached_from(&self, root: &Path, nested: Nested) -> bool {
        let Some(root) = numbers(root) else { return false };
        let device = |stat: &Statx| (stat.stx_dev_major, stat.stx_dev_minor);
        // Subvolumes have other devices on one mount, and bind mounts have the same device.
        let is_beyond = |place: &Statx| place.stx_mnt_id != root.stx_mnt_id && device(place) != device(&root);
        let is_root = |folder: &Statx| (folder.stx_ino, device(folder)) == (root.stx_ino, device(&root));
        let is_hidden = nested == Nested::Hide && self.0.first().is_some_and(is_beyond);
        !is_hidden && self.0.iter().any(is_root)
    }
}

/// Returns the numbers by which the kernel knows a file; `None` if it cannot be found.
fn numbers(path: &Path) -> Option<Statx> {
    statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir;
    use std::os::unix::fs::symlink;

    /// Returns the fault of a server that exports `root`.
    fn fault(root: &Path, state: &Path) -> Option<String> {
        let export = ExportSettings::new(Storage::Folder(root.to_owned()), "/data");
        let own = Settings { state_dir: Some(state.to_owned()), ..Settings::default() };
        check([&export], &own).err().map(|error| error.to_string())
    }

    #[test]
    fn an_export_with_the_state_folder_inside_is_refused_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        create_dir(path("data")).unwrap();
        create_dir(path("data/inner")).unwrap();
        symlink(path("data"), path("link")).unwrap();
        for (root, state) in [
            ("data", "data"),
            ("data", "data/inner"),
            ("data", "data/not/made/yet"),
            ("data", "link/inner"),
            ("link", "data/inner"),
            ("data", "data/../data/inner"),
        ] {
            let said = fault(&path(root), &path(state)).unwrap_or_default();
            assert!(said.contains("--state-dir") && said.contains("/data"), "{root} {state}: {said}");
        }
        for (root, state) in [("data/inner", "data"), ("data", "database"), ("data", "data/../state")] {
            assert_eq!(fault(&path(root), &path(state)), None, "{root} {state}");
        }
    }

    #[test]
    fn a_state_folder_on_a_file_system_that_the_export_hides_is_not_reached() {
        let (root, proc) = (Path::new("/"), PrivatePlace::of(Path::new("/proc/self")));
        assert!(!proc.is_reached_from(root, Nested::Hide));
        assert!(proc.is_reached_from(root, Nested::Show));
    }
}
