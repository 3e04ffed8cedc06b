//! The machine of an instance, which tells whether a former one can still be alive.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the name of the machine, its current boot, and the state folder.
///
/// Two instances with the same text have used one folder under one kernel. The folder is locked, so
/// the former one has ended.
pub(super) fn host(state_dir: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().replace(' ', "_");
    let folder = fs::metadata(state_dir).map(|folder| format!("{}:{}", folder.dev(), folder.ino()));
    let boot = read("/proc/sys/kernel/random/boot_id");
    match folder {
        Ok(folder) if !boot.is_empty() => format!("{name} {boot} {folder}"),
        // Nothing is known, so that nothing equals it.
        _ => name,
    }
}

/// Returns whether a text shows that an instance has ended: it is the own one, in all parts.
pub(super) fn has_ended(former: &str, own: &str) -> bool {
    former == own && own.split(' ').count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_instance_in_the_same_folder_under_the_same_kernel_has_ended() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [own, again, elsewhere] = [one.path(), one.path(), other.path()].map(host);
        assert!(has_ended(&again, &own));
        assert!(!has_ended(&elsewhere, &own));
        assert!(!has_ended("", "") && !has_ended("gw1", "gw1"));
    }
}
