//! Room for tickets: rpc.gssd writes those of the machine, and this command copies of caches.

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, statvfs};
use terminal::shell_word;

use super::outcome;
use crate::facts::Facts;
use crate::{CheckOutcome, HealthFinding};

pub(super) fn run(facts: &mut Facts) -> CheckOutcome {
    // The tickets of the machine are in the first folder.
    let of_gssd = facts.gssd.caches.first().map(|folder| facts.machine.path(folder));
    let own = facts.folder.path().parent().map(Path::to_owned);
    let mut folders: Vec<PathBuf> = of_gssd.into_iter().chain(own).collect();
    folders.dedup();
    let is_full = |folder: &&PathBuf| statvfs(folder.as_path()).is_ok_and(|found| is_full(&found));
    let findings = folders.iter().filter(is_full).map(|folder| {
        let word = shell_word(&folder.to_string_lossy());
        HealthFinding::error(
            format!("No room is left in {}, where new tickets are kept.", folder.display()),
            format!("df {word}; df -i {word}    # then remove files, or make the file system larger"),
        )
    });
    outcome(findings.collect(), "there is room for tickets")
}

/// Returns whether no file can be written. Root may use the blocks that ext4 reserves, as rpc.gssd
/// does.
fn is_full(found: &StatVfs) -> bool {
    // File systems such as that of /proc have neither.
    found.f_blocks > 0 && found.f_bfree == 0 || found.f_files > 0 && found.f_ffree == 0
}
